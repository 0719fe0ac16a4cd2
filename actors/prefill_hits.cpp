// Hit blocks in the PE buffer: read for a request, kept when its attempt ends before its prefill has, adopted
// by the next.
#include "actors/deliver.hpp"
#include "actors/prefill_engine.hpp"
#include "core/log.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dualpath::actors {

namespace {

/// What of `wanted` no part has.
std::vector<core::block_range> missing_ranges(const core::block_range& wanted, const buffered_parts& parts) {
  if (parts.empty()) return {wanted};
  std::vector<core::block_range> missing;
  auto first = parts.front().blocks.first, end = parts.back().blocks.end();
  if (wanted.first < first) missing.push_back({wanted.first, first - wanted.first});
  if (end < wanted.end()) missing.push_back({end, wanted.end() - end});
  return missing;
}

std::uint32_t count_of(const std::vector<core::block_range>& ranges) {
  std::uint32_t count = 0;
  for (auto& range : ranges) count += range.count;
  return count;
}

bool belongs_to(const proto::request& request, const buffered_hits& part) {
  return request.hits.prefill_range().contains(part.blocks)
         && std::equal(part.keys.begin(), part.keys.end(), request.keys.begin() + part.blocks.first);
}

buffered_hits* find_part(buffered_parts& parts, core::epoch read_as, std::uint32_t first) {
  auto found = std::find_if(parts.begin(), parts.end(), [&](auto& part) {
    return part.read_as == read_as && part.blocks.first == first && !part.good;
  });
  return found == parts.end() ? nullptr : &*found;
}

} // namespace

std::uint64_t prefill_engine_state::pool_slots() const {
  return devices->pool.bytes.size() / settings->slot_bytes;
}

void prefill_engine_state::read_hits_here(prefill_job& job) {
  auto wanted = job.request.hits.prefill_range();
  auto missing = missing_ranges(wanted, job.parts);
  if (!job.parts.empty() && claimed_slots + count_of(missing) > pool_slots()) {
    // Whoever holds slots must not wait for more, else two could wait for each other: rather read it all.
    give_back(job.parts);
    missing = {wanted};
  }
  auto count = count_of(missing);
  if (count == 0) {
    hits_here_if_read(job);
    return;
  }
  claimed_slots += count;
  if (claimed_slots > pool_slots()) give_back_kept();
  auto id = job.request.id;
  auto epoch = job.request.epoch;
  self->request(pool, caf::infinite, proto::grant_slots{id, count})
      .then([this, id, epoch, count, missing](proto::granted_slots& granted) {
        auto* job = find_job(id, epoch);
        slots_flowed = settings->clock->now();
        if (!granted.status.ok) claimed_slots -= count;
        if (!job) {
          give_back(std::move(granted.slots));
        } else if (!granted.status.ok) {
          fail(*job, granted.status);
        } else {
          read_into(*job, missing, granted.slots);
        }
      });
}

/// The slots belong to the read until it has really ended, whatever becomes of the request meanwhile.
void prefill_engine_state::read_into(prefill_job& job, const std::vector<core::block_range>& ranges,
                                     const std::vector<std::uint32_t>& slots) {
  auto id = job.request.id;
  auto epoch = job.request.epoch;
  auto next_slot = slots.begin();
  for (auto& range : ranges) {
    buffered_hits part;
    part.blocks = range;
    part.read_as = epoch;
    part.keys = job.request.keys.part(range.first, range.count);
    std::vector<std::uint32_t> own(next_slot, next_slot + range.count);
    next_slot += range.count;
    self->request(storage_nic, caf::infinite, proto::read_blocks{id, epoch, devices->engine, part.keys, own})
        .then([this, id, epoch, first = range.first, own](const proto::blocks_read& result) mutable {
          part_loaded(id, epoch, first, std::move(own), result);
        });
    auto place = std::find_if(job.parts.begin(), job.parts.end(),
                              [&](auto& other) { return other.blocks.first > range.first; });
    job.parts.insert(place, std::move(part));
  }
}

void prefill_engine_state::part_loaded(core::request_id request, core::epoch read_as, std::uint32_t first,
                                       std::vector<std::uint32_t> slots, const proto::blocks_read& result) {
  auto read = [&](buffered_parts& parts) {
    auto* part = find_part(parts, read_as, first);
    if (!part) return false;
    part->slots = std::move(slots);
    part->good = result.good_blocks;
    part->unreadable = result.unreadable;
    return true;
  };
  auto job = jobs.find(request);
  if (job != jobs.end() && read(job->second.parts)) {
    hits_here_if_read(job->second);
    return;
  }
  auto waiting = kept.find(request);
  if (waiting == kept.end() || !read(waiting->second.parts)) give_back(std::move(slots));
}

void prefill_engine_state::hits_here_if_read(prefill_job& job) {
  if (job.waits_for == prefill_job::wait::landing) return; // which decides what is read here
  auto& parts = job.parts;
  if (!std::all_of(parts.begin(), parts.end(), [](auto& part) { return part.good.has_value(); })) return;
  if (!missing_ranges(job.request.hits.prefill_range(), parts).empty()) return;
  auto usable = usable_blocks(parts);
  auto unreadable = ends_unreadable(parts);
  if (unreadable && other_side_may_read(job, core::engine_role::prefill)) {
    read_failed(job, core::engine_role::prefill, usable.count);
    return;
  }
  job.buffer_slots.clear();
  for (auto& part : parts) {
    job.buffer_slots.insert(job.buffer_slots.end(), part.slots.begin(), part.slots.end());
    auto used = std::min(part.blocks.end(), usable.end()) - std::min(part.blocks.first, usable.end());
    if (part.adopted) counters->adopted_tokens += std::uint64_t{used} * settings->layout.block_tokens;
  }
  part_read(job, core::engine_role::prefill, usable.count, unreadable);
}

/// What an earlier attempt left here for this one, as far as it is of use to it.
void prefill_engine_state::adopt_kept(prefill_job& job) {
  auto node = kept.extract(job.request.id);
  if (node.empty()) return;
  auto& parts = node.mapped().parts;
  auto useful =
      std::all_of(parts.begin(), parts.end(), [&](auto& part) { return belongs_to(job.request, part); });
  if (!useful) {
    give_back(parts);
    return;
  }
  for (auto& part : parts) part.adopted = true;
  job.parts = std::move(parts);
}

/// Keeps the hit blocks of a request whose attempt is over, and tells which; none where others wait for their
/// slots.
core::block_range prefill_engine_state::keep_hits(prefill_job& job) {
  auto usable = usable_blocks(job.parts);
  // A bad block on the other side ends the hit before ours.
  auto cut_off = job.good_decode_blocks && job.request.hits.prefill_blocks == 0;
  if (usable.count == 0 || cut_off || claimed_slots > pool_slots()) return {};
  drop_kept(job.request.id);
  auto& attempt = kept[job.request.id];
  attempt.epoch = job.request.epoch;
  for (auto& part : std::exchange(job.parts, {})) {
    if (part.blocks.first >= usable.end()) {
      give_back(std::move(part.slots));
      continue;
    }
    part.blocks.count = part.usable();
    part.keys = part.keys.first(part.blocks.count);
    part.unreadable = false; // what it lacks now the next attempt reads
    if (part.good) {
      give_back({part.slots.begin() + part.blocks.count, part.slots.end()});
      part.slots.resize(part.blocks.count);
    }
    attempt.parts.push_back(std::move(part));
  }
  core::log_event(core::log_level::info, "hits_kept",
                  {{"engine", devices->engine},
                   {"request", job.request.id},
                   {"epoch", attempt.epoch},
                   {"first", usable.first},
                   {"blocks", usable.count}});
  return usable;
}

/// Of a request that is here no more, asked again.
core::block_range prefill_engine_state::still_kept(const proto::abandon& order) {
  auto found = kept.find(order.request);
  if (found == kept.end() || found->second.epoch > order.epoch) return {};
  if (!order.keep_hits) {
    drop_kept(order.request);
    return {};
  }
  found->second.epoch = order.epoch;
  return usable_blocks(found->second.parts);
}

void prefill_engine_state::drop_kept(core::request_id request) {
  auto node = kept.extract(request);
  if (!node.empty()) give_back(node.mapped().parts);
}

/// Somebody waits for slots.
void prefill_engine_state::give_back_kept() {
  for (auto& [id, attempt] : std::exchange(kept, {})) give_back(attempt.parts);
  for (auto& [id, job] : jobs)
    if (job.waits_for == prefill_job::wait::landing) give_back(job.parts);
}

/// Of what is still being read, the slots come back with the end of the read, which then finds nobody.
void prefill_engine_state::give_back(buffered_parts& parts) {
  for (auto& part : std::exchange(parts, {})) give_back(std::move(part.slots));
}

void prefill_engine_state::give_back(std::vector<std::uint32_t> slots) {
  if (slots.empty()) return;
  claimed_slots -= slots.size();
  self->send(pool, proto::release_slots{std::move(slots)});
}

} // namespace dualpath::actors
