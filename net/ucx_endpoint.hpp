// One connection of one lane to one peer, with everything in flight on it. UCX may lose operations of a dead
// peer, so the endpoint keeps its own list and ends each job exactly once: by its completion, or, after the
// endpoint is closed, once UCX has let go of its memory. Closing is the fence: nothing issued here touches
// memory after it has settled. All calls on the lane's thread.
#pragma once

#include "net/ucx_job.hpp"

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

namespace dualpath::net {

/// What an endpoint asks of its lane.
class ucx_endpoint_owner {
public:
  virtual ~ucx_endpoint_owner() = default;
  /// The job has ended; called once for each job.
  virtual void report(ucx_job& job, core::result<void> outcome) = 0;
  /// pump() has something to do.
  virtual void wants_pump(ucx_endpoint& endpoint) = 0;
  /// UCX gave up on the endpoint: close it soon, outside UCX callbacks.
  virtual void broke(ucx_endpoint& endpoint) = 0;
};

struct ucx_endpoint_limits {
  std::uint32_t window_operations = 128;                ///< in flight at once
  std::uint64_t max_operation_bytes = 4ULL << 20;       ///< longer pieces are cut
  std::uint64_t pump_bytes = 16ULL << 20;               ///< issued before the lane looks at anything else
  core::duration fence_grace = std::chrono::seconds{2}; ///< for operations that UCX lost when its peer died
};

class ucx_endpoint {
public:
  enum class state : std::uint8_t { connecting, ready, closing };

  ucx_endpoint(ucx_endpoint_owner& owner, ucp_worker_h worker, const ucx_endpoint_limits& limits, lane which,
               std::shared_ptr<ucx_peer> peer, std::uint64_t generation);
  ~ucx_endpoint();
  ucx_endpoint(const ucx_endpoint&) = delete;
  ucx_endpoint& operator=(const ucx_endpoint&) = delete;

  /// Errors: disconnected.
  core::result<void> open(const wire::bytes& address);
  /// Takes a job; it is issued once the endpoint is ready, an internal one at once.
  void add(std::unique_ptr<ucx_job> job);
  /// The handshake is done.
  void become_ready();
  /// Issues what the window allows; true when there is more to do right now.
  bool pump();
  /// Fails every job, those that failed already excepted, and fences them. The cause is told by the first
  /// call.
  void close(const core::error& why, core::instant now);
  /// Ends what has passed its deadline. True when only closing the endpoint can fence it.
  bool expire(core::instant now);
  /// When expire() or reap() should be called next.
  core::instant next_deadline() const;
  /// After close(): true once nothing is left and the endpoint may be deleted.
  bool reap(core::instant now);

  state status() const { return state_; }
  const std::shared_ptr<ucx_peer>& peer() const { return peer_; }
  std::uint64_t generation() const { return generation_; }
  bool idle() const { return jobs_.empty(); }
  /// After close(): some job still waits for its fence.
  bool unsettled() const { return unreported_ != 0; }
  /// Why UCX gave up.
  ucs_status_t break_status() const { return break_status_; }

  std::uint64_t peer_generation = 0; ///< of the peer's endpoint that leads here; 0: not known
  bool pump_queued = false;          ///< for the owner
  bool leaving = false;              ///< says bye and closes

  struct waiter {
    core::instant deadline;
    fabric::connected on_done;
  };
  std::vector<waiter> waiters; ///< for the handshake; the owner's

private:
  struct flush;

  bool issue(ucx_job& job);
  void issue_send(ucx_job& job);
  core::result<ucp_rkey_h> key_of(const ucx_job& job);
  void start_flush();
  void started(ucx_job& job, ucs_status_ptr_t request);
  void failed(ucx_job& job, ucs_status_t status);
  void break_down(ucs_status_t status);
  void settle(ucx_job& job);
  void remove(ucx_job& job);
  void drop_queued(const ucx_job& job);

  static void on_operation(void* request, ucs_status_t status, void* job);
  static void on_flushed(void* request, ucs_status_t status, void* record);
  static void on_error(void* endpoint, ucp_ep_h, ucs_status_t status);

  ucx_endpoint_owner& owner_;
  ucp_worker_h worker_;
  const ucx_endpoint_limits& limits_;
  lane lane_;
  std::shared_ptr<ucx_peer> peer_;
  std::uint64_t generation_;
  state state_ = state::connecting;
  ucp_ep_h ep_ = nullptr;
  void* close_request_ = nullptr;
  core::instant fence_until_ = no_deadline;
  ucs_status_t break_status_ = UCS_OK;
  std::vector<std::unique_ptr<ucx_job>> jobs_; ///< every job that has not ended, or that UCX still holds
  std::size_t unreported_ = 0;
  std::deque<ucx_job*> queue_;      ///< not wholly issued, first come first served
  std::vector<ucx_job*> unflushed_; ///< issued, not covered by a flush
  std::uint32_t outstanding_ = 0, flushes_ = 0;
  std::unordered_map<const ucx_remote_region*,
                     std::pair<ucp_rkey_h, std::shared_ptr<const ucx_remote_region>>>
      keys_;
};

} // namespace dualpath::net
