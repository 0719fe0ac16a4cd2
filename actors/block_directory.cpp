#include "actors/block_directory.hpp"

#include <algorithm>

namespace dualpath::actors {

void block_directory_state::unpin(core::request_id request) {
  auto node = pinned.extract(request);
  if (!node.empty()) trie.unpin(node.mapped());
  in_use.set(pinned.size());
}

proto::directory_actor::behavior_type
block_directory(proto::directory_actor::stateful_pointer<block_directory_state> self,
                std::shared_ptr<const std::vector<storage::block_name>> stored, core::usage_gauge* usage) {
  self->state.in_use = core::open_share(usage, core::resource::pinned_prefixes);
  for (auto& name : *stored) self->state.trie.insert(name);
  return {
      [self](const proto::find_prefix& ask) -> proto::prefix_found {
        auto& state = self->state;
        state.unpin(ask.request);
        auto blocks = state.trie.longest_prefix(ask.keys);
        // Its last block keeps the whole prefix: those before it have children, so none of them is given up.
        auto last = ask.keys.first(blocks).from(blocks - std::min<std::size_t>(blocks, 1));
        state.trie.pin(last);
        state.pinned.emplace(ask.request, std::move(last));
        state.in_use.set(state.pinned.size());
        return {ask.request, static_cast<std::uint32_t>(blocks)};
      },
      [self](const proto::unpin_prefix& ask) { self->state.unpin(ask.request); },
      [self](const proto::block_stored& block) {
        self->state.trie.insert({block.key, block.parent, block.depth});
      },
      [self](const proto::block_lost& block) { self->state.trie.erase(block.key); },
  };
}

} // namespace dualpath::actors
