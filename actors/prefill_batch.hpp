// What a prefill engine knows of a request and of the forward batch on its device.
#pragma once

#include "actors/buffered_hits.hpp"
#include "core/policy/layer_pipeline.hpp"
#include "kernels/compute.hpp"
#include "proto/messages.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace dualpath::actors {

struct prefill_job {
  proto::request request;
  std::shared_ptr<kernels::sequence> sequence; ///< the device may still read it after we are gone
  std::vector<std::uint32_t>
      landing_slots;                       ///< in the decode engine's pool, one for each block of the context
  buffered_parts parts;                    ///< of the hit blocks of our side, as far as slots were granted
  std::vector<std::uint32_t> buffer_slots; ///< of all parts, once they have been read
  /// Leading blocks of each side's part that verified, once it has been read.
  std::optional<std::uint32_t> good_decode_blocks, good_prefill_blocks;
  core::failed_reads unreadable;       ///< sides whose next block after those met an I/O error
  std::uint32_t landed_hit_tokens = 0; ///< of the hit, the first ones: read into the landing, not our pool
  std::uint32_t hit_tokens = 0;
  std::uint32_t cached_tokens = 0; ///< hit, or computed by earlier chunks
  enum class wait : std::uint8_t { landing, hits, nothing };
  wait waits_for = wait::landing; ///< from the decode engine; hits are those that it reads
  core::instant asked{0};         ///< last, for what it waits for
  bool in_batch = false;
  bool abandoned = false; ///< given up, but something is still in flight
  bool keep_hits = false; ///< of what is abandoned, the hits are for the next attempt

  std::uint32_t remaining_tokens() const { return request.context_tokens() - cached_tokens; }
};

/// One request's share of a forward batch.
struct batch_part {
  core::request_id request;
  std::uint32_t first_token = 0, token_count = 0;
  std::uint64_t staging_block = 0; ///< its first Layer Block in a staging slot
  std::uint64_t blocks = 0;
  bool last_chunk = false;
  bool failed = false; ///< a transfer of its KV failed
};

/// What the device reads and writes; shared with its completions, so that it outlives a crash of the engine.
struct batch_memory {
  std::vector<std::shared_ptr<kernels::sequence>> sequences;
  std::unique_ptr<kernels::forward_pass> pass;
};

struct prefill_batch {
  std::uint64_t id = 0;
  std::vector<batch_part> parts;
  std::uint64_t staging_blocks = 0;
  std::shared_ptr<batch_memory> memory = std::make_shared<batch_memory>();
  core::layer_pipeline pipeline;
  std::map<std::uint32_t, std::uint32_t> loads_pending, stores_pending; ///< by layer
  std::vector<core::token_id> sampled;
  bool sampling_done = false;
  std::uint32_t in_flight = 0; ///< transfers and computations
  std::uint32_t computing = 0; ///< of these, computations
  core::instant computing_since{0};
  bool failed = false; ///< nothing new is started; over once nothing is in flight
  std::string failure;

  prefill_batch(std::uint64_t batch_id, std::uint32_t layers, std::uint32_t slots)
      : id{batch_id}, pipeline{layers, slots} {}
};

} // namespace dualpath::actors
