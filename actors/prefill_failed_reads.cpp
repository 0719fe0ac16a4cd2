// What a prefill engine does when the storage of one side fails to read its part of the hits with an I/O
// error, or does not answer: the attempt fails, so that the next one reads the part through the other side.
#include "actors/prefill_engine.hpp"

#include <algorithm>
#include <string>

namespace dualpath::actors {

namespace {

/// An attempt may wait for what was read for an earlier one.
bool waits_for_read(const buffered_parts& parts, core::epoch read_as) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](auto& part) { return part.read_as == read_as && !part.good; });
}

/// Hit blocks that the decode side has or is reading.
std::uint32_t landing_hits(const prefill_job& job) {
  return job.waits_for == prefill_job::wait::landing ? 0 : job.request.hits.decode_blocks;
}

} // namespace

/// Once: with either side failed before, computing is surer than a third read, as it is in the last attempt.
bool prefill_engine_state::other_side_may_read(const prefill_job& job, core::engine_role side) const {
  if (job.request.failed_reads.any() || job.request.attempt >= proto::max_attempts) return false;
  // A bad block on the decode side ends the hit before ours.
  return side == core::engine_role::decode
         || job.good_decode_blocks.value_or(job.request.hits.decode_blocks) == job.request.hits.decode_blocks;
}

void prefill_engine_state::read_failed(prefill_job& job, core::engine_role side, std::uint32_t good_blocks) {
  auto decode = side == core::engine_role::decode;
  auto block = good_blocks + (decode ? 0 : job.request.hits.decode_blocks);
  auto why = proto::outcome::failure(core::errc::io, "the store failed to read block " + std::to_string(block)
                                                         + " on the " + to_string(side) + " side");
  fail(job, why, {.prefill = !decode, .decode = decode}, decode ? good_blocks : landing_hits(job));
}

void prefill_engine_state::read_overdue(const proto::read_overdue& notice) {
  auto waiting = kept.find(notice.request);
  if (waiting != kept.end() && waits_for_read(waiting->second.parts, notice.epoch)) drop_kept(notice.request);
  auto found = jobs.find(notice.request);
  if (found == jobs.end() || found->second.abandoned || !waits_for_read(found->second.parts, notice.epoch))
    return;
  auto& job = found->second;
  auto why = proto::outcome::failure(core::errc::timed_out, "the store did not answer in time");
  fail(job, why, {.prefill = true}, landing_hits(job));
}

/// `good`: what is left of the hits.
void prefill_engine_state::count_unreadable(const prefill_job& job, const core::read_split& good) {
  auto& hits = job.request.hits;
  auto ends_in_landing = good.decode_blocks < hits.decode_blocks;
  if (ends_in_landing ? job.unreadable.decode : job.unreadable.prefill)
    counters->blocks_unreadable += hits.blocks() - good.blocks();
}

} // namespace dualpath::actors
