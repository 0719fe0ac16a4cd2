#include "actors/membership.hpp"

#include "core/log.hpp"

#include <algorithm>

namespace dualpath::actors {

using proto::outcome;
using phase = member::phase;

namespace {

std::string title(const member& m) {
  return "node " + std::to_string(m.node.value) + " (" + to_string(m.role) + ", on " + m.machine + ")";
}

} // namespace

std::string mismatch(const proto::node_ready& own, const proto::node_ready& theirs) {
  auto differs = [](const std::string& what, auto theirs_value, auto own_value) {
    return what + " " + std::to_string(theirs_value) + ", the cluster " + std::to_string(own_value);
  };
  if (!theirs.status.ok) return theirs.status.text;
  if (theirs.model != own.model)
    return "it has the model '" + theirs.model + "', the cluster '" + own.model + "'";
  if (theirs.block_tokens != own.block_tokens)
    return "it has " + differs("a block size of", theirs.block_tokens, own.block_tokens);
  if (theirs.layers != own.layers) return "its model has " + differs("layers:", theirs.layers, own.layers);
  if (theirs.token_bytes != own.token_bytes)
    return "its KV has " + differs("bytes per layer and token:", theirs.token_bytes, own.token_bytes)
           + " (--kv-dtype)";
  if (theirs.fingerprint != own.fingerprint)
    return "its weights of '" + theirs.model + "' are not those of the cluster (another fingerprint)";
  return {};
}

std::optional<core::node_id> membership_state::place_for(const proto::join_cluster& ask) const {
  if (ask.rank != 0 && ask.rank < taken.size() && !taken[ask.rank]) return core::node_id{ask.rank};
  for (std::uint32_t place = 1; place < taken.size(); ++place) {
    auto decode = place >= first_decode_place();
    auto fits = ask.role == proto::wanted_role::any || (ask.role == proto::wanted_role::decode) == decode;
    if (!taken[place] && fits) return core::node_id{place};
  }
  return std::nullopt;
}

core::engine_role membership_state::role_of(core::node_id place, const proto::join_cluster& ask) const {
  if (place.value < taken.size())
    return place.value < first_decode_place() ? core::engine_role::prefill : core::engine_role::decode;
  return ask.role == proto::wanted_role::prefill ? core::engine_role::prefill : core::engine_role::decode;
}

/// Whether a node of that role, other than `without`, is there and stays.
bool membership_state::serves(core::engine_role role, core::node_id without) const {
  if (role == core::engine_role::prefill && plan.head_serves) return true;
  return std::any_of(members.begin(), members.end(), [&](auto& entry) {
    auto& m = entry.second;
    return m.node != without && m.role == role && m.now != phase::draining && m.now != phase::leaving;
  });
}

/// What a cluster cannot serve without.
std::optional<core::engine_role> membership_state::lacking_role() const {
  for (auto role : {core::engine_role::prefill, core::engine_role::decode})
    if (!serves(role, core::node_id{0})) return role;
  return std::nullopt;
}

proto::absent_nodes membership_state::absent() const {
  proto::absent_nodes missing;
  for (std::uint32_t place = 1; place < taken.size(); ++place) {
    if (taken[place]) continue;
    missing.nodes.push_back(core::node_id{place});
    missing.roles.push_back(role_of(core::node_id{place}, {}));
  }
  return missing;
}

proto::joined membership_state::join(proto::join_cluster ask) {
  if (auto role = plan.roles.find(ask.host);
      ask.role == proto::wanted_role::any && role != plan.roles.end()) {
    ask.role =
        role->second == core::engine_role::decode ? proto::wanted_role::decode : proto::wanted_role::prefill;
    ask.rank = 0;
  }
  auto refuse = [&](std::string why) {
    core::log_event(core::log_level::warn, "node_refused", {{"machine", ask.host}, {"why", why}});
    return proto::joined{{}, std::move(why)};
  };
  if (ask.version != proto::control_protocol_version)
    return refuse("it speaks version " + std::to_string(ask.version) + " of the control protocol ("
                  + ask.program + "), the cluster version "
                  + std::to_string(proto::control_protocol_version));
  if (!ask.agent) return refuse("it sent no agent to answer to");
  auto place = place_for(ask);
  if (auto lacking = lacking_role(); !place && ask.role == proto::wanted_role::any && lacking)
    ask.role =
        *lacking == core::engine_role::decode ? proto::wanted_role::decode : proto::wanted_role::prefill;
  if (!place && ask.role == proto::wanted_role::any)
    return refuse("all nodes of the cluster are there; say --role prefill or --role decode to add one");
  member m;
  m.node = place ? *place : core::node_id{next_extra++};
  if (place) taken[place->value] = true;
  m.expected = place.has_value();
  m.role = role_of(m.node, ask);
  m.machine = ask.host;
  m.address = ask.address;
  m.agent = caf::actor_cast<caf::actor>(ask.agent);
  self->monitor(m.agent);
  by_agent[m.agent.address()] = m.node;
  auto& kept = members[m.node] = m;
  core::log_event(core::log_level::info, "node_joined",
                  {{"node", m.node}, {"role", to_string(m.role)}, {"machine", m.machine}});
  introduce(kept);
  std::erase_if(waiters, [this](waiter& w) {
    auto there = static_cast<std::uint32_t>(members.size() + 1);
    if (there < w.nodes) return false;
    w.answer.deliver(there);
    return true;
  });
  // While a run starts, only nodes of the plan: they are all there, so this one is an addition.
  if (run && !run->ending) order(kept);
  return {kept.node, {}};
}

void membership_state::introduce(const member& newcomer) {
  for (auto& [node, other] : members)
    if (node != newcomer.node && other.address.port != 0)
      caf::anon_send(newcomer.agent, proto::meet_node{node, other.address});
}

void membership_state::agent_down(const caf::down_msg& down) {
  auto known = by_agent.extract(down.source);
  if (known.empty()) return;
  auto gone = members.extract(known.mapped());
  auto& m = gone.mapped();
  if (m.now != phase::leaving) {
    auto why = title(m) + " is lost: " + self->home_system().render(down.reason);
    core::log_event(core::log_level::warn, "node_lost", {{"node", m.node}, {"why", why}});
    if (run) {
      run->reports.warnings.push_back(why);
      self->send(caf::actor_cast<proto::scheduler_actor>(run->wanted.serve.scheduler),
                 proto::node_lost{m.node, why});
      if (m.expected && !run->all_started) fail_start(why);
    }
  }
  if (!run) free_places();
  end_if_all_reported();
  answer_if_all_gone();
}

void membership_state::begin(proto::begin_run wanted, caf::typed_response_promise<outcome> started) {
  run.emplace();
  run->wanted = std::move(wanted);
  run->started = started;
  if (auto missing = std::find(taken.begin(), taken.end(), false); missing != taken.end()) {
    fail_start(
        "node " + std::to_string(missing - taken.begin())
        + " of the cluster is missing since its process was lost; the next run cannot start without it");
    return;
  }
  for (auto& [node, m] : members) order(m);
  started_if_all_serve();
}

/// Places of nodes that are gone may be filled again: numbers are used once a run, and none is under way.
void membership_state::free_places() {
  for (std::uint32_t place = 1; place < taken.size(); ++place)
    taken[place] = members.contains(core::node_id{place});
}

void membership_state::order(member& m) {
  if (m.now != phase::idle) return;
  m.now = phase::preparing;
  auto order = run->wanted.order;
  auto gpus = run->wanted.gpus_per_node;
  order.node = m.node;
  order.role = m.role;
  order.first_engine = core::engine_id{m.node.value * gpus};
  auto count = [&](const std::string& machine, core::engine_role role) {
    (role == core::engine_role::prefill ? order.prefill_engines_here : order.decode_engines_here) +=
        machine == m.machine ? gpus : 0;
  };
  if (plan.head_serves) count(plan.machine, core::engine_role::prefill);
  for (auto& [node, other] : members) count(other.machine, other.role);
  caf::anon_send(m.agent, std::move(order));
}

void membership_state::ready(const proto::node_ready& facts) {
  auto found = members.find(facts.node);
  if (!run || facts.run != run->wanted.order.run || found == members.end()) return;
  auto& m = found->second;
  auto why = mismatch(run->wanted.own, facts);
  if (why.empty()) {
    serve(m);
    return;
  }
  why = title(m) + " cannot serve: " + why;
  core::log_event(core::log_level::warn, "node_refused", {{"node", m.node}, {"why", why}});
  if (m.expected && !run->all_started) fail_start(why);
  m.now = phase::leaving;
  caf::anon_send(m.agent, proto::leave_cluster{why, true});
}

void membership_state::serve(member& m) {
  m.now = phase::serving;
  run->unreported.insert(m.node);
  caf::anon_send(m.agent, run->wanted.serve);
  started_if_all_serve();
}

void membership_state::started_if_all_serve() {
  if (run->all_started) return;
  auto all = std::all_of(members.begin(), members.end(), [](auto& entry) {
    return !entry.second.expected || entry.second.now == phase::serving;
  });
  if (!all) return;
  run->all_started = true;
  run->started.deliver(outcome{});
}

void membership_state::fail_start(const std::string& why) {
  run->all_started = true;
  run->started.deliver(outcome::failure(core::errc::refused, why));
}

void membership_state::report(const proto::node_report& counted) {
  auto found = members.find(counted.node);
  if (!run || counted.run != run->wanted.order.run || found == members.end()) return;
  run->reports.reports.push_back(counted);
  run->unreported.erase(counted.node);
  auto& m = found->second;
  if (m.now == phase::draining) dismiss(m, "drained");
  if (m.now != phase::leaving) m.now = phase::idle;
  end_if_all_reported();
}

void membership_state::end(const proto::end_run& order,
                           caf::typed_response_promise<proto::node_reports> ended) {
  run->ending = true;
  run->ended = ended;
  for (auto& [node, m] : members)
    if (m.now != phase::idle)
      caf::anon_send(m.agent, proto::run_over{run->wanted.order.run, order.settle_ms});
  auto deadline = plan.report_deadline + std::chrono::milliseconds{order.settle_ms};
  self->delayed_send(self, deadline, proto::tick{run->wanted.order.run});
  end_if_all_reported();
}

void membership_state::end_if_all_reported() {
  if (!run || !run->ending) return;
  // One that leaves reports first, and is gone from the table afterwards.
  auto all = std::all_of(members.begin(), members.end(),
                         [](auto& entry) { return entry.second.now == phase::idle; });
  if (!all) return;
  run->reports.silent.assign(run->unreported.begin(), run->unreported.end());
  run->ended->deliver(std::move(run->reports));
  run.reset();
  free_places();
}

outcome membership_state::drain(core::node_id node) {
  auto found = members.find(node);
  if (found == members.end()) {
    std::string there;
    for (auto& [id, m] : members) there += (there.empty() ? "" : ", ") + std::to_string(id.value);
    return outcome::failure(core::errc::invalid_argument,
                            "there is no node " + std::to_string(node.value) + " to drain; there are "
                                + (there.empty() ? "none" : there)
                                + (node.value == 0 ? " (node 0 is the head, which cannot leave)" : ""));
  }
  auto& m = found->second;
  if (!serves(m.role, node))
    return outcome::failure(core::errc::invalid_argument,
                            title(m) + " is the only " + to_string(m.role)
                                + " node left; add another before it is drained");
  if (m.now == phase::draining || m.now == phase::leaving) return {};
  core::log_event(core::log_level::info, "node_draining", {{"node", node}});
  if (run && m.now == phase::serving) {
    m.now = phase::draining;
    self->send(caf::actor_cast<proto::scheduler_actor>(run->wanted.serve.scheduler), proto::drain_node{node});
  } else {
    dismiss(m, "drained");
  }
  return {};
}

void membership_state::drained(core::node_id node) {
  auto found = members.find(node);
  if (found != members.end() && found->second.now == phase::draining) dismiss(found->second, "drained");
}

void membership_state::dismiss(member& m, const std::string& why) {
  m.now = phase::leaving;
  caf::anon_send(m.agent, proto::leave_cluster{why, false});
}

void membership_state::dismiss_all(const std::string& why) {
  for (auto& [node, m] : members) dismiss(m, why);
  answer_if_all_gone();
}

void membership_state::answer_if_all_gone() {
  if (!all_gone || !members.empty()) return;
  all_gone->deliver(outcome{});
  all_gone.reset();
}

proto::membership_actor::behavior_type membership(membership_state::self_pointer self, membership_plan plan) {
  auto& state = self->state;
  state.self = self;
  state.next_extra = plan.prefill_nodes + plan.decode_nodes + (plan.head_serves ? 0 : 1);
  state.taken.assign(state.next_extra, false);
  state.taken[0] = true;
  state.plan = std::move(plan);
  self->set_down_handler([self](caf::down_msg& down) { self->state.agent_down(down); });
  return {
      [self](const proto::join_cluster& ask) { return self->state.join(ask); },
      [self](const proto::node_ready& facts) { self->state.ready(facts); },
      [self](const proto::node_report& counted) { self->state.report(counted); },
      [self](const proto::drain_node& ask) { return self->state.drain(ask.node); },
      [self](const proto::node_drained& event) { self->state.drained(event.node); },
      [self](const proto::await_nodes& ask) -> caf::result<std::uint32_t> {
        auto answer = self->make_response_promise<std::uint32_t>();
        auto there = static_cast<std::uint32_t>(self->state.members.size() + 1);
        if (there >= ask.nodes) {
          answer.deliver(there);
        } else {
          self->state.waiters.push_back({ask.nodes, answer});
        }
        return answer;
      },
      [self](const proto::name_absent&) { return self->state.absent(); },
      [self](proto::begin_run& wanted) -> caf::result<outcome> {
        auto answer = self->make_response_promise<outcome>();
        self->state.begin(std::move(wanted), answer);
        return answer;
      },
      [self](const proto::end_run& order) -> caf::result<proto::node_reports> {
        auto answer = self->make_response_promise<proto::node_reports>();
        self->state.end(order, answer);
        return answer;
      },
      [self](const proto::leave_cluster& order) -> caf::result<outcome> {
        auto answer = self->make_response_promise<outcome>();
        self->state.all_gone = answer;
        self->state.dismiss_all(order.why);
        return answer;
      },
      [self](const proto::tick& deadline) {
        auto& run = self->state.run;
        if (!run || !run->ending || run->wanted.order.run != deadline.id) return;
        run->reports.warnings.push_back("not every node reported what it counted in time");
        for (auto& [node, m] : self->state.members) m.now = phase::idle;
        self->state.end_if_all_reported();
      },
  };
}

} // namespace dualpath::actors
