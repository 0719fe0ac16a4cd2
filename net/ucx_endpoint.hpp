// One connection of one lane to one peer, with everything in flight on it. UCX may lose operations of a dead
// peer, so the endpoint keeps its own list and ends each job exactly once: by its completion, or, after the
// endpoint is closed, once UCX has let go of its memory. Closing is the fence: nothing issued here touches
// memory after it has settled.
//
// UCX 1.13 aborts the process, this one or the peer's, when a connection ends while its wire-up is under way.
// So close() ends the jobs at once, but leaves the connection to reap() until both sides are wired up or UCX
// has given up on it. Once our part of the wire-up is sent there is a limit to that. Before, there is none:
// over RDMA, where it may wait for a peer that has gone, UCX 1.13 has no way to end it (1.14 has). All calls
// on the lane's thread.
#pragma once

#include "net/copy_crew.hpp"
#include "net/ucx_context.hpp"
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
  /// Of this process.
  virtual std::uint64_t own_instance() const = 0;
  /// A number no other copy of this lane has.
  virtual std::uint64_t next_chunk() = 0;
  /// Helps with long copies.
  virtual copy_crew& crew() = 0;
};

struct ucx_endpoint_limits {
  std::uint32_t window_operations = 128;                ///< in flight at once
  std::uint64_t max_operation_bytes = 4ULL << 20;       ///< longer pieces are cut
  std::uint32_t window_chunks = 16;                     ///< in flight at once, where messages carry the bytes
  std::uint64_t chunk_bytes = tcp_segment_bytes - 1024; ///< with its headers, one segment
  std::uint64_t pump_bytes = 16ULL << 20;               ///< issued before the lane looks at anything else
  /// Issued before its jobs are told that they are over. Telling takes locks, and a lock waits until all that
  /// was copied before it has left the core.
  std::uint64_t settle_bytes = 512ULL << 10;
  core::duration patience = std::chrono::seconds{3};    ///< with a handshake, before it is begun anew
  core::duration fence_grace = std::chrono::seconds{2}; ///< for operations that UCX lost when its peer died
  /// The same where the NIC itself writes: it may until it has given up, after its retries of 1 to 4 s each.
  core::duration network_grace = std::chrono::seconds{40};
  /// How long a closed endpoint waits for the end of its wire-up.
  core::duration wire_up_patience = std::chrono::seconds{5};
  core::duration alive_interval = std::chrono::seconds{1}; ///< see ucx_endpoint::wants_alive()
};

class ucx_endpoint {
public:
  enum class state : std::uint8_t { connecting, ready, closing };

  ucx_endpoint(ucx_endpoint_owner& owner, const ucx_endpoint_limits& limits, lane which,
               std::shared_ptr<ucx_peer> peer, std::uint64_t generation);
  ~ucx_endpoint();
  ucx_endpoint(const ucx_endpoint&) = delete;
  ucx_endpoint& operator=(const ucx_endpoint&) = delete;

  /// `kept`: a worker that stays as long as this endpoint, or null where it stays anyway. Errors:
  /// disconnected.
  core::result<void> open(ucp_worker_h worker, std::shared_ptr<ucx_worker> kept, const wire::bytes& address,
                          core::instant now);
  /// Takes a job; it is issued once the endpoint is ready, an internal one at once.
  void add(std::unique_ptr<ucx_job> job);
  /// The handshake is done.
  void become_ready(core::instant now);
  /// True once an interval where only a letter shows whether the peer lives, on the control lane over RDMA:
  /// UCX 1.13 asks an idle connection for that through its wire-up, which must not be given up (UD_TIMEOUT in
  /// ucx_context.cpp). A letter goes through the connection itself, which breaks after the NIC's retries.
  bool wants_alive(core::instant now);
  /// The peer's side is wired up: something came that it sent on the connection.
  void heard() { heard_ = true; }
  /// After close(), while the connection is still there: a last message, which reap() waits for.
  void say_late(letter_kind kind, wire::bytes data);
  /// The jobs of callers that have not been started, taken back.
  std::vector<std::unique_ptr<ucx_job>> take_waiting();
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

  /// The peer has done, or refused, chunks of puts.
  void put_done(const wire::copy_reply& reply);
  /// The bytes of a chunk of a get.
  void get_data(const wire::copy_reply& reply, wire::view bytes);

  state status() const { return state_; }
  const std::shared_ptr<ucx_peer>& peer() const { return peer_; }
  std::uint64_t generation() const { return generation_; }
  const std::shared_ptr<ucx_worker>& kept_worker() const { return worker_; }
  /// Destroys what belongs to the worker. A worker that goes still completes what UCX has not let go of, so
  /// this must outlive it.
  std::shared_ptr<ucx_worker> let_go_of_worker();
  /// After close(): ends the jobs that UCX will not complete. They stay here in case it still does.
  void give_up();
  /// The worker is here for this endpoint alone.
  bool owns_worker() const { return worker_.use_count() == 1; }
  bool idle() const { return jobs_.empty(); }
  /// After close(): some job still waits for its fence.
  bool unsettled() const { return unreported_ != 0 && !stuck(); }
  /// After close(): UCX has not sent its part of the wire-up and must not be made to drop it. No job of a
  /// caller has been started.
  bool stuck() const { return lingers_ && !heard_ && wire_up_flushes_ != 0 && break_status_ == UCS_OK; }
  /// Why UCX gave up.
  ucs_status_t break_status() const { return break_status_; }

  // The owner's.
  bool pump_queued = false;
  bool leaving = false; ///< says bye, then closes
  bool said_bye = false;

private:
  struct flush;

  struct chunk;
  struct carrier;
  /// How a region of the peer is reached: through a mapping of the same memory, by the network's own puts and
  /// gets, or by messages. UCX's emulation of the last is not used: it aborts the target when the initiator
  /// has died.
  enum class reach : std::uint8_t { mapped, native, messages };
  struct remote_access {
    reach how;
    ucp_rkey_h key;
    std::byte* mapped; ///< the region's base here
  };

  bool issue(ucx_job& job);
  bool issue_native(ucx_job& job, ucp_rkey_h key);
  bool issue_mapped(ucx_job& job, std::byte* remote);
  void copy_past_caches(ucx_job& job, std::byte* remote);
  bool issue_messages(ucx_job& job);
  chunk& take_chunk(ucx_job& job, std::size_t row_limit, wire::copy_chunk& described);
  void put_chunk(ucx_job& job);
  void ask_for_chunk(ucx_job& job);
  void send_requests();
  void send_carrier(std::shared_ptr<carrier> message, letter_kind kind, wire::view payload);
  chunk* find_chunk(std::uint64_t number);
  void settle_chunk(chunk& which);
  bool network_has_puts();
  void issue_send(ucx_job& job);
  const remote_access& access_of(const ucx_job& job);
  remote_access reach_for(const ucx_job& job);
  void start_flush();
  void watch_wire_up();
  bool wired_up() const;
  void cut(core::instant now);
  void settle_all();
  void started(ucx_job& job, ucs_status_ptr_t request);
  void failed(ucx_job& job, ucs_status_t status);
  void break_down(ucs_status_t status);
  void settle(ucx_job& job);
  void settle_issued();
  void remove(ucx_job& job);
  void drop_queued(const ucx_job& job);

  static void on_operation(void* request, ucs_status_t status, void* job);
  static void on_carrier_sent(void* request, ucs_status_t status, void* message);
  static void on_flushed(void* request, ucs_status_t status, void* record);
  static void on_wired_up(void* request, ucs_status_t status, void* endpoint);
  static void on_error(void* endpoint, ucp_ep_h, ucs_status_t status);

  ucx_endpoint_owner& owner_;
  const ucx_endpoint_limits& limits_;
  lane lane_;
  std::shared_ptr<ucx_peer> peer_;
  std::uint64_t generation_;
  state state_ = state::connecting;
  std::shared_ptr<ucx_worker> worker_; ///< outlives every handle below
  ucp_ep_h ep_ = nullptr;
  void* close_request_ = nullptr;
  core::instant opened_at_{0}, fence_until_ = no_deadline, alive_at_ = no_deadline;
  bool watches_wire_up_ = false, heard_ = false, lingers_ = false;
  bool network_writes_ = false; ///< puts and gets of its own have been started
  std::uint32_t wire_up_flushes_ = 0;
  wire::bytes late_message_;
  ucs_status_t break_status_ = UCS_OK;
  std::vector<std::unique_ptr<ucx_job>> jobs_; ///< every job that has not ended, or that UCX still holds
  std::size_t unreported_ = 0;
  std::deque<ucx_job*> queue_;      ///< not wholly issued, first come first served
  std::vector<ucx_job*> issued_;    ///< by pump(), not looked at since
  std::vector<ucx_job*> unflushed_; ///< issued, not covered by a flush
  std::uint32_t outstanding_ = 0, flushes_ = 0;
  std::unordered_map<const ucx_remote_region*, remote_access> access_;
  /// The last one looked up: mostly it is the next as well.
  std::pair<const ucx_remote_region*, const remote_access*> last_access_{};
  std::unordered_map<std::uint64_t, std::unique_ptr<chunk>> chunks_;
  std::vector<wire::copy_chunk> requests_; ///< of gets, sent at the end of pump()
  std::shared_ptr<carrier> asking_;        ///< those requests' message
  int network_has_puts_ = -1;              ///< not known yet
};

} // namespace dualpath::net
