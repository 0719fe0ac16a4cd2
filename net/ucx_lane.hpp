// One lane: a UCX worker and the only thread that touches it. Callers hand over jobs and actions under a
// short lock, completions that start the next transfer without one; the thread progresses UCX until it is
// quiet, arms its event descriptor, progresses once more (an event may have slipped in before arming took
// effect) and sleeps. It wakes for commands, network events and the nearest deadline, so an idle lane costs
// nothing.
#pragma once

#include "net/handshake_state.hpp"
#include "net/lane_regions.hpp"
#include "net/ucx_context.hpp"
#include "net/ucx_endpoint.hpp"

#include <poll.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <variant>
#include <vector>

namespace dualpath::net {

/// What a lane asks of its fabric; called on the lane's thread, concurrently by different lanes.
class ucx_lane_host {
public:
  virtual ~ucx_lane_host() = default;
  virtual const wire::address& own_address() const = 0;
  virtual wire::bytes prove(const wire::hello& hello) const = 0;
  /// The peer that says hello. Errors: refused.
  virtual core::result<std::shared_ptr<ucx_peer>> accept(lane on, const wire::hello& hello) = 0;
  virtual std::shared_ptr<ucx_peer> find_peer(std::uint64_t instance) const = 0;
  /// The registered region a peer names, if there still is one.
  virtual std::shared_ptr<ucx_region> find_memory(std::uint64_t base, std::uint64_t size) const = 0;
  /// The region of that number, if it has not been released.
  virtual std::shared_ptr<ucx_region> find_memory(core::region_id id) const = 0;
  /// A handshake on the control lane is done: other lanes may open.
  virtual void hands_shaken(const std::shared_ptr<ucx_peer>& peer) = 0;
  /// No handshake on the control lane is under way any more.
  virtual void handshake_over(const std::shared_ptr<ucx_peer>& peer) = 0;
  /// The peer gave up its connection and made another: what the other lanes have in flight with it is void.
  virtual void reconnected(const std::shared_ptr<ucx_peer>& peer) = 0;
  /// The peer is gone: its control lane failed, or it said bye.
  virtual void lost(const std::shared_ptr<ucx_peer>& peer, const std::string& why) = 0;
  virtual void deliver(const ucx_peer& from, lane on, message m) = 0;
  /// A put, get or message of a caller has ended.
  virtual void report(lane on, ucx_job& job, core::result<void> outcome) = 0;
};

struct ucx_lane_options {
  std::string transports;
  ucx_settings settings;
  core::duration busy_poll{0};
  int niceness = 0;          ///< of the lane's thread
  unsigned copy_helpers = 0; ///< threads beside it
  ucx_endpoint_limits limits;
};

class ucx_lane final : private ucx_endpoint_owner {
public:
  using action = std::function<void(ucx_lane&)>;

  static core::result<std::unique_ptr<ucx_lane>> open(lane which, ucx_lane_options options,
                                                      core::clock& clock, ucx_lane_host& host);
  ~ucx_lane() override;

  // From any thread.
  void start();
  void post(std::unique_ptr<ucx_job> job);
  /// Runs on the lane's thread.
  void post(action act);
  /// Says bye, closes every endpoint, ends every job as closed; stop() returns when the thread is gone.
  void begin_stop();
  void stop();
  /// After stop(): ends, as closed, what was posted since. True if there was anything.
  bool drain();
  ucp_context_h context() const { return context_->handle(); }
  /// Where peers reach the lane.
  const wire::bytes& address() const { return worker_->address(); }
  /// Times the thread slept and woke; for tests and diagnosis.
  std::uint64_t wake_ups() const { return wake_ups_; }

  // On the lane's thread, from actions.
  /// Reads the hello that came before the control lane's handshake was done, if there is one.
  void admit(const ucx_peer& peer);
  void connect(const std::shared_ptr<ucx_peer>& peer, core::instant deadline, fabric::connected on_done);
  void close_peer(const std::shared_ptr<ucx_peer>& peer, const core::error& why);
  /// Opens a lane anew that was closed on this side only: its hello makes the peer give up what it waits for
  /// here.
  void renew(const std::shared_ptr<ucx_peer>& peer);
  /// Tells the peer first.
  void leave_peer(ucx_peer& peer, const std::string& reason);
  /// Refuses transfers from now on, and calls back once none is in flight.
  void close_gate(std::function<void()> on_idle);
  /// Once for each close_gate().
  void open_gate() { --gates_closed_; }
  /// Lets go of a region once no transfer uses it.
  void release(core::region_id region) { regions_.release(region); }

private:
  using command = std::variant<std::unique_ptr<ucx_job>, action>;
  struct letter {
    letter_kind kind;
    wire::bytes header, data;
  };
  struct waiter {
    core::instant deadline;
    fabric::connected on_done;
  };
  /// What leads to one peer: an end each of the connection asked for here and of the one asked for there.
  struct slot {
    handshake_state handshake;
    std::unique_ptr<ucx_endpoint> asking, answering;
    std::vector<waiter> waiters; ///< for a connection
    std::optional<letter> early; ///< a hello that waits for the control lane

    bool holds(const ucx_endpoint& end) const { return asking.get() == &end || answering.get() == &end; }
    /// What jobs take: the same end as long as it is there, so that messages keep their order.
    ucx_endpoint* current() const { return asking ? asking.get() : answering.get(); }
  };
  /// Out of its slot, with a last letter: a refusal or a bye.
  struct courier {
    std::unique_ptr<ucx_endpoint> endpoint;
    core::instant until;
  };

  ucx_lane(lane which, ucx_lane_options options, core::clock& clock, ucx_lane_host& host);

  static core::error closed_error();
  void run();
  bool take_commands();
  void carry_out(std::vector<command>& commands);
  void add_job(std::unique_ptr<ucx_job> job);
  /// Finds and checks what the transfer needs here. Errors: those of its caller.
  core::result<void> prepare(ucx_job& job);
  bool pump_endpoints();
  bool has_work() const;
  bool progress();
  bool retire_broken();
  void check_deadlines(core::instant now);
  void reap(core::instant now);
  core::error parting(const ucx_endpoint& endpoint) const;
  void step_stop();
  void release_all();
  template <class Visit>
  void for_each_worker(Visit visit);
  void sleep();
  void enqueue(command c);

  slot& slot_of(const ucx_peer& peer);
  /// Opens a connection; there must be none.
  core::result<ucx_endpoint*> ask(const std::shared_ptr<ucx_peer>& peer);
  /// Takes the peer's end of the connection that its hello came on.
  core::result<ucx_endpoint*> answer(const std::shared_ptr<ucx_peer>& peer, const wire::hello& hello,
                                     std::uint64_t generation);
  core::result<std::shared_ptr<ucx_worker>> open_worker();
  /// The worker that says hello to that address.
  core::result<std::shared_ptr<ucx_worker>> worker_towards(const wire::bytes& address);
  /// `worker` null: the published one.
  core::result<std::unique_ptr<ucx_endpoint>> make_endpoint(const std::shared_ptr<ucx_peer>& peer,
                                                            std::uint64_t generation,
                                                            const wire::bytes& address,
                                                            std::shared_ptr<ucx_worker> worker);
  /// Closes the endpoint. What waits goes over to the slot's other end, and fails where there is none.
  void retire(ucx_endpoint& endpoint, const core::error& why);
  std::unique_ptr<ucx_endpoint> take_out(ucx_endpoint& endpoint);
  void close_slot(slot& place, const core::error& why);
  /// The peer closed that end, or it broke: all of it, if that was the last one.
  void lost_end(const std::shared_ptr<ucx_peer>& peer, const std::string& why);
  void check_slot(slot& place, core::instant now);
  void send_internal(ucx_endpoint& endpoint, letter_kind kind, wire::bytes data, bool flushed,
                     core::instant deadline);
  void set_deadline(core::instant deadline) { next_deadline_ = std::min(next_deadline_, deadline); }

  // The handshake (ucx_lane_wire.cpp).
  void register_letters(ucp_worker_h worker);
  bool read_letters();
  void on_hello(letter& from);
  void wait_for_control(slot& place, letter& hello);
  void on_hello_reply(const letter& from);
  void on_late_reply(const ucx_peer& peer, const wire::hello_reply& reply);
  void on_bye(const letter& from);
  void on_message(letter& from);
  void welcome(slot& place, ucx_endpoint& endpoint);
  void turn_away(const wire::hello& hello, const std::string& refusal);
  static ucs_status_t on_letter(void* box, const void* header, std::size_t header_bytes, void* data,
                                std::size_t bytes, const ucp_am_recv_param_t* param);

  // Puts and gets by messages, the target's side (ucx_lane_copies.cpp).
  struct copy_question {
    std::shared_ptr<ucx_peer> peer;
    std::vector<wire::copy_chunk> chunks;
  };
  struct copy_answer {
    wire::copy_chunk chunk;
    std::shared_ptr<ucx_peer> peer;
    std::string refusal; ///< empty: done
    std::shared_ptr<ucx_region> memory;
    bool get;
    std::uint64_t total;
  };
  bool on_copy_letter(letter_kind kind, wire::view header, wire::view bytes);
  std::optional<copy_question> read_question(wire::view header) const;
  copy_answer check_chunk(std::shared_ptr<ucx_peer> peer, wire::copy_chunk chunk) const;
  void on_put_data(wire::view header, wire::view bytes);
  void on_get_request(wire::view header);
  void on_copy_reply(letter_kind kind, wire::view header, wire::view bytes);
  bool send_answers();
  void send_answer(copy_answer& answer, std::vector<std::uint64_t> chunks);

  void report(ucx_job& job, core::result<void> outcome) override;
  void wants_pump(ucx_endpoint& endpoint) override;
  void broke(ucx_endpoint& endpoint) override;
  std::uint64_t own_instance() const override { return host_.own_address().sender.who.instance; }
  std::uint64_t next_chunk() override { return ++last_chunk_; }
  copy_crew& crew() override { return crew_; }

  static thread_local ucx_lane* running_; ///< the lane whose thread this is

  const lane lane_;
  const ucx_lane_options options_;
  core::clock& clock_;
  ucx_lane_host& host_;
  std::unique_ptr<ucx_context> context_;
  /// The published one: peers say hello to it, and are answered from it. Over shared memory UCX 1.13 keeps
  /// what a worker had mapped of a process that died with its queue full, and lets go only with the worker:
  /// here that is when the lane closes.
  std::shared_ptr<ucx_worker> worker_;
  /// Says hello to peers, once to each, until the first of these connections closes, for the same reason.
  std::shared_ptr<ucx_worker> outgoing_;
  std::vector<std::shared_ptr<ucx_worker>> spent_; ///< were outgoing_, go with their last endpoint
  int wake_fd_ = -1;
  std::thread thread_;

  std::mutex mutex_;
  std::vector<command> commands_;
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> posted_{false}; ///< there are commands
  std::atomic<std::uint64_t> wake_ups_{0};

  // Of the lane's thread.
  std::vector<command> taken_, carried_out_;
  /// Posted by this thread when nothing else was waiting: they come before what is.
  std::vector<command> own_;
  lane_regions regions_;
  std::uint64_t transfers_ = 0; ///< in flight
  unsigned gates_closed_ = 0;
  std::vector<std::function<void()>> when_idle_;
  std::vector<slot> slots_; ///< by peer id
  std::vector<courier> couriers_;
  std::vector<std::unique_ptr<ucx_endpoint>> corpses_; ///< closed, not yet let go by UCX
  std::vector<ucx_endpoint*> to_pump_, pumping_, broken_;
  std::unordered_set<std::string> met_; ///< addresses that some outgoing_ has had an endpoint with
  struct letter_box {
    ucx_lane* lane;
    letter_kind kind;
  };
  std::array<letter_box, letter_kinds> boxes_{};
  std::vector<letter> letters_;
  std::vector<copy_answer> answers_;
  std::vector<pollfd> descriptors_;
  std::uint64_t last_chunk_ = 0;
  copy_crew crew_;
  core::instant next_deadline_ = no_deadline;
  core::instant last_busy_{0}, stopped_at_{0}, retired_at_{0};
  std::vector<void*> flushes_; ///< of whole workers, before they go
  bool untidy_ = false, stopping_ = false, flushing_ = false, finished_ = false;
};

} // namespace dualpath::net
