// Roles that no node has: before the first has joined, or since the last was lost for good. The scheduler
// says so at once, and what to do. Requests wait for a newcomer as long as core/policy/role_watch allows;
// then the clients are told that the run is over. An engine that crashed comes back, so its role is not
// missing.
#include "actors/request_scheduler.hpp"

#include "core/log.hpp"
#include "core/units.hpp"

#include <algorithm>
#include <utility>

namespace dualpath::actors {

namespace {

constexpr core::engine_role all_roles[] = {core::engine_role::prefill, core::engine_role::decode};
constexpr core::duration look_interval = std::chrono::seconds{1};

std::string listed(const std::vector<std::string>& texts, const char* between) {
  std::string all;
  for (auto& text : texts) all += (all.empty() ? "" : between) + text;
  return all;
}

std::string how_to_join(const cluster_settings& settings, const std::string& missing) {
  if (settings.join_address.empty()) return "none can join what a launcher has started";
  auto role = missing.find(' ') == std::string::npos ? missing : std::string{"ROLE"};
  return "join one: dualpath node --join " + settings.join_address + " --secret-file FILE --role " + role;
}

} // namespace

/// By an engine that is there to stay, be it on its way back from a crash.
bool request_scheduler_state::role_is_served(core::engine_role role) const {
  return std::any_of(engines.begin(), engines.end(), [role](auto& entry) {
    auto& engine = entry.second;
    return engine.info.role == role && !engine.lost && !engine.draining;
  });
}

bool request_scheduler_state::role_is_live(core::engine_role role) const {
  return std::any_of(engines.begin(), engines.end(),
                     [role](auto& entry) { return entry.second.info.role == role && entry.second.alive; });
}

bool request_scheduler_state::ready_for(const waiter& w) const {
  auto up = std::count_if(engines.begin(), engines.end(), [](auto& e) { return e.second.alive; });
  return up >= static_cast<std::ptrdiff_t>(w.count)
         && std::all_of(std::begin(all_roles), std::end(all_roles),
                        [this](auto r) { return role_is_live(r); });
}

void request_scheduler_state::answer_waiters() {
  std::erase_if(waiters, [this](waiter& w) {
    if (!ready_for(w)) return false;
    w.answer.deliver(static_cast<std::uint32_t>(engines.size()));
    return true;
  });
}

/// A request in decode needs nobody but its engine.
std::uint64_t request_scheduler_state::requests_waiting() const {
  return static_cast<std::uint64_t>(std::count_if(requests.begin(), requests.end(), [this](auto& entry) {
    return ledger.find(entry.first)->stage != core::stage::decode;
  }));
}

/// Of those that requests, or the run itself, wait for and nobody is about to bring; "": none.
std::string request_scheduler_state::missing_roles() const {
  auto starts_empty = std::any_of(waiters.begin(), waiters.end(), [](auto& w) { return w.count == 0; });
  std::vector<std::string> missing;
  for (auto role : all_roles) {
    auto wanted = starts_empty || !requests.empty() || !entry_of(role).lost_nodes.empty();
    if (wanted && !role_is_served(role)) missing.emplace_back(to_string(role));
  }
  return listed(missing, " and ");
}

void request_scheduler_state::say_what_is_missing() {
  auto missing = missing_roles();
  if (missing == std::exchange(told_missing, missing)) return;
  if (missing.empty()) {
    core::log_event(core::log_level::info, "nodes_complete", {{"requests_waiting", requests_waiting()}});
    return;
  }
  auto lost = lost_nodes();
  if (lost.empty()) {
    core::log_event(core::log_level::warn, "waiting_for_nodes",
                    {{"missing", missing}, {"requests_waiting", requests_waiting()}});
    return;
  }
  core::log_event(core::log_level::warn, "waiting_for_nodes",
                  {{"missing", missing},
                   {"requests_waiting", requests_waiting()},
                   {"why", lost},
                   {"given_up_after", core::format_duration(settings->role_patience)},
                   {"help", how_to_join(*settings, missing)}});
}

/// Of the roles that are missing, and how.
std::string request_scheduler_state::lost_nodes() const {
  std::vector<std::string> lost;
  for (auto role : all_roles)
    if (!role_is_served(role))
      lost.insert(lost.end(), entry_of(role).lost_nodes.begin(), entry_of(role).lost_nodes.end());
  return listed(lost, "; ");
}

/// At every change of who serves, and again and again while a role is lost.
void request_scheduler_state::watch_roles() {
  auto waiting = requests_waiting();
  auto lost = false, awaited = false;
  for (auto role : all_roles) {
    auto& entry = entry_of(role);
    auto is_lost = !role_is_served(role) && !entry.lost_nodes.empty();
    auto verdict = entry.watch.observe(is_lost, waiting, settings->clock->now());
    if (verdict == core::role_watch::verdict::given_up) {
      give_up_for_want_of(role);
      return;
    }
    lost |= is_lost;
    awaited |= verdict == core::role_watch::verdict::awaited;
  }
  if (awaited) tell_clients({"requests wait for nodes: " + told_missing});
  if (!lost || std::exchange(looks_for_nodes, true)) return;
  auto patience = settings->role_patience;
  self->delayed_send(self, patience.count() > 0 ? std::min(look_interval, patience / 4) : look_interval,
                     proto::tick{roles_tick});
}

void request_scheduler_state::give_up_for_want_of(core::engine_role role) {
  auto why = "no " + std::string{to_string(role)} + " node is left, and "
             + (settings->join_address.empty()
                    ? "none can join what a launcher has started"
                    : "none has joined within " + core::format_duration(settings->role_patience)
                          + " (--wait-for-role)")
             + ": " + listed(entry_of(role).lost_nodes, "; ") + "; " + std::to_string(requests.size())
             + " requests are unfinished";
  core::log_event(core::log_level::error, "run_given_up", {{"why", why}});
  tell_clients({why, true});
}

void request_scheduler_state::tell_clients(const proto::nodes_awaited& news) {
  for (auto& [address, alive] : clients)
    if (auto client = caf::actor_cast<caf::strong_actor_ptr>(address); alive && client)
      self->send(caf::actor_cast<proto::client_actor>(client), news);
}

} // namespace dualpath::actors
