#include "core/held_completions.hpp"

#include <utility>

namespace dualpath::core {

std::optional<std::uint64_t> held_completions::keep(std::function<void()>& end) {
  std::lock_guard lock{state_->mutex};
  if (state_->over) return std::nullopt;
  auto id = state_->next++;
  state_->held.emplace(id, std::move(end));
  return id;
}

void held_completions::hold(core::clock& clock, duration after, std::function<void()> end) {
  auto id = keep(end);
  if (!id) {
    end();
    return;
  }
  clock.call_at(clock.now() + after, [state = state_, id = *id] {
    std::function<void()> end;
    {
      std::lock_guard lock{state->mutex};
      auto node = state->held.extract(id);
      if (node.empty()) return;
      end = std::move(node.mapped());
    }
    end();
  });
}

void held_completions::hold(std::function<void()> end) {
  if (!keep(end)) end();
}

void held_completions::end_all() {
  std::map<std::uint64_t, std::function<void()>> held;
  {
    std::lock_guard lock{state_->mutex};
    state_->over = true;
    held = std::exchange(state_->held, {});
  }
  for (auto& [id, end] : held) end();
}

std::size_t held_completions::size() const {
  std::lock_guard lock{state_->mutex};
  return state_->held.size();
}

} // namespace dualpath::core
