// One direction of a paced fabric: what waits, lane by lane, and what the link underneath has been given. The
// pacer says which lane may send; transfers go in parts of a quantum, so that they give way quickly.
// Thread-safe. Whoever makes room or brings work pumps; nobody waits for anybody, so a lane's thread is not
// held up by one of lower priority. Work of one lane is handed on in the order in which it came.
#pragma once

#include "core/policy/link_pacer.hpp"
#include "net/fabric.hpp"
#include "net/piece_cutter.hpp"

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace dualpath::net {

/// A transfer or message from its submission to its completion.
struct paced_job {
  enum class kind : std::uint8_t { put, get, send };

  kind what = kind::put;
  net::transfer transfer; ///< without its pieces once they are in `rest`
  piece_cutter rest;      ///< what the link has not been given; of puts and gets
  std::optional<message> letter;
  fabric::done on_done;
  std::uint64_t bytes = 0;
  bool admitted = false; ///< counted as in flight by the fabric
  core::instant submitted{};

  // The link's, under its lock.
  std::uint32_t parts_under_way = 0;
  bool issued = false; ///< wholly
  bool begun = false, ended = false;
  std::optional<core::error> failure;
};
using paced_job_ptr = std::shared_ptr<paced_job>;

class paced_link {
public:
  /// Arbiter lane of each lane of the fabric.
  using lane_numbers = std::array<core::lane_index, lane_count>;
  using report = std::function<void(paced_job&, core::result<void>)>;

  /// `ended` is called once for every job that was given to the fabric underneath, on a thread of it.
  paced_link(fabric& inner, core::clock& clock, core::link_pacer pacer, const lane_numbers& numbers,
             std::uint64_t quantum_bytes, report ended);

  /// True where the job, or a part of it, still waits here.
  bool submit(const paced_job_ptr& job);
  /// Gives the link what it has room for.
  void pump();

  using picked = std::function<bool(const paced_job&)>;
  /// Takes what waits of the jobs that `which` picks; they fail with `why`. Returns those nothing is under
  /// way of: the caller reports them, after which it pumps.
  std::vector<paced_job_ptr> withdraw(const picked& which,
                                      const std::function<core::error(const paced_job&)>& why);
  /// The nearest deadline of what waits, or nothing.
  std::optional<core::instant> next_deadline() const;

  /// Nothing is handed on from now on; returns when no thread is about to.
  void stop();
  /// Time from submission to being handed on, of all jobs of the lane together.
  core::duration waited(lane of) const;

private:
  struct part {
    paced_job_ptr job;
    std::vector<strided_piece> pieces;
    std::uint64_t bytes = 0; ///< as the pacer counts them
  };

  std::optional<lane> choose();
  std::uint64_t head_bytes(std::size_t lane) const;
  part take(std::size_t lane);
  void issue(part what);
  void part_done(const paced_job_ptr& job, std::uint64_t bytes, core::result<void> outcome);

  fabric& inner_;
  core::clock& clock_;
  const lane_numbers numbers_;
  const std::uint64_t quantum_bytes_;
  const report ended_;

  mutable std::mutex mutex_;
  core::link_pacer pacer_;
  std::vector<std::uint64_t> heads_; ///< by arbiter lane
  std::array<std::deque<paced_job_ptr>, lane_count> queues_;
  std::array<bool, lane_count> handing_on_{}; ///< a thread is; keeps the order of the lane
  std::array<core::duration, lane_count> waited_{};
  unsigned pumping_ = 0;
  bool stopped_ = false;
  std::condition_variable idle_;
};

} // namespace dualpath::net
