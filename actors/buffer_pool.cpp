#include "actors/buffer_pool.hpp"

namespace dualpath::actors {

using proto::granted_slots;

void buffer_pool_state::serve() {
  while (!waiting.empty()) {
    auto granted = slots.allocate(waiting.front().count);
    if (!granted) return;
    count();
    waiting.front().promise.deliver(granted_slots{std::move(*granted), {}});
    waiting.pop_front();
  }
}

void buffer_pool_state::count() { in_use.set(slots.capacity() - slots.free_slots()); }

proto::buffer_pool_actor::behavior_type
buffer_pool(proto::buffer_pool_actor::stateful_pointer<buffer_pool_state> self, std::uint32_t slots,
            core::usage_gauge* usage) {
  self->state.in_use = core::open_share(usage, core::resource::buffer_slots);
  self->state.slots = core::slot_allocator{slots};
  return {
      [self](const proto::grant_slots& ask) -> caf::result<granted_slots> {
        auto capacity = self->state.slots.capacity();
        if (ask.count > capacity) {
          return granted_slots{{},
                               proto::outcome::failure(core::errc::invalid_argument,
                                                       "request needs " + std::to_string(ask.count)
                                                           + " Full Blocks, the buffer pool has "
                                                           + std::to_string(capacity)
                                                           + "; give it more memory")};
        }
        auto promise = self->make_response_promise<granted_slots>();
        self->state.waiting.push_back({ask.count, promise});
        self->state.serve();
        return promise;
      },
      [self](const proto::release_slots& back) {
        self->state.slots.release(back.slots);
        self->state.count();
        self->state.serve();
      },
  };
}

} // namespace dualpath::actors
