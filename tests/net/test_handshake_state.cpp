// The rules of the handshake under every order of letters that connections allow: two lanes that ask, give up
// and leave at random, each letter delivered at its own time, and never overtaken on its own connection only.
#include "world.hpp"

#include "net/handshake_state.hpp"

#include <deque>
#include <map>

using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

struct letter {
  enum class kind : std::uint8_t { hello, reply, refusal, bye };
  kind what;
  handshake_state::greeting greeting; ///< of a hello
  std::uint64_t hello_generation = 0; ///< of a reply
  std::uint64_t generation = 0;       ///< of the end that replies or says bye
};

struct connection {
  std::size_t asker;
  std::deque<letter> to_asker, to_target;

  std::deque<letter>& towards(std::size_t side) { return side == asker ? to_asker : to_target; }
};

/// What a lane does with the decisions of its state.
struct side {
  handshake_state state;
  std::map<std::uint64_t, std::size_t> ends;    ///< connection of each end, by generation
  std::map<std::uint64_t, std::size_t> corpses; ///< closed before they were answered
  std::uint64_t asking = 0, answering = 0;      ///< generations
  bool answered = false;                        ///< the one asked for
};

class model {
public:
  explicit model(std::uint64_t start) : random_{start} {}

  void step() {
    auto who = random_() % 2;
    switch (random_() % 12) {
    case 0:
    case 1:
      ask(who);
      break;
    case 2:
      give_up(who);
      break;
    case 3:
      leave(who);
      break;
    default:
      deliver_one();
    }
  }

  void deliver_all() {
    while (deliver_one()) {
    }
  }

  bool deliver_one() {
    std::vector<std::pair<std::size_t, std::size_t>> waiting;
    for (std::size_t c = 0; c < connections_.size(); ++c) {
      for (std::size_t to : {0, 1})
        if (!connections_[c].towards(to).empty()) waiting.emplace_back(c, to);
    }
    if (waiting.empty()) return false;
    auto [which, to] = waiting[random_() % waiting.size()];
    auto& box = connections_[which].towards(to);
    auto next = box.front();
    box.pop_front();
    receive(to, which, next);
    return true;
  }

  void ask(std::size_t who) {
    auto& self = sides_[who];
    if (!self.state.empty()) return;
    auto greeting = self.state.ask();
    connections_.push_back({who, {}, {}});
    self.asking = greeting.generation;
    self.answered = false;
    self.ends[greeting.generation] = connections_.size() - 1;
    connections_.back().to_target.push_back({letter::kind::hello, greeting});
  }

  /// A transfer has timed out: everything is closed without a word, then asked for anew.
  void give_up(std::size_t who) {
    if (!sides_[who].state.open()) return;
    close_all(who);
    ask(who);
  }

  void leave(std::size_t who) {
    auto& self = sides_[who];
    if (self.asking != 0 && self.answered) say_bye(who, self.asking);
    if (self.answering != 0) say_bye(who, self.answering);
    close_all(who);
  }

  /// Nobody waits for an answer that will not come, and nobody holds a connection that the other has closed.
  void check_quiet() const {
    for (std::size_t who : {0, 1}) {
      auto& self = sides_[who];
      INFO("side " << who);
      CHECK((self.asking == 0 || self.answered));
      CHECK(self.corpses.empty());
      for (auto& [generation, which] : self.ends) {
        auto& other = sides_[1 - who].ends;
        INFO("end " << generation);
        CHECK(std::any_of(other.begin(), other.end(), [&](auto& end) { return end.second == which; }));
      }
    }
  }

  bool open(std::size_t who) const { return sides_[who].state.open(); }
  std::size_t ends(std::size_t who) const { return sides_[who].ends.size(); }

private:
  void receive(std::size_t who, std::size_t on, const letter& got) {
    auto& self = sides_[who];
    auto& back = connections_[on].towards(1 - who);
    switch (got.what) {
    case letter::kind::hello: {
      auto response = self.state.on_hello(got.greeting);
      if (response.late) {
        back.push_back({letter::kind::refusal, {}, got.greeting.generation});
        return;
      }
      if (response.closes_asking) drop(who, std::exchange(self.asking, 0));
      if (response.closes_answering) drop(who, self.answering);
      self.answering = response.generation;
      self.ends[response.generation] = on;
      back.push_back({letter::kind::reply, {}, got.greeting.generation, response.generation});
      return;
    }
    case letter::kind::reply:
      if (self.state.on_reply(got.hello_generation, got.generation)) {
        CHECK(self.asking == got.hello_generation);
        self.answered = true;
      } else {
        CHECK(self.corpses.erase(got.hello_generation) == 1);
        back.push_back({letter::kind::bye, {}, 0, got.hello_generation});
      }
      return;
    case letter::kind::refusal:
      // Only what was given up is ever turned away.
      CHECK(self.corpses.erase(got.hello_generation) == 1);
      return;
    case letter::kind::bye:
      auto closed = self.state.on_bye(got.generation);
      if (!closed) return;
      drop(who, std::exchange(*closed == handshake_state::role::asking ? self.asking : self.answering, 0));
    }
  }

  void say_bye(std::size_t who, std::uint64_t generation) {
    connections_[sides_[who].ends.at(generation)].towards(1 - who).push_back(
        {letter::kind::bye, {}, 0, generation});
  }

  void close_all(std::size_t who) {
    auto& self = sides_[who];
    if (self.asking != 0) drop(who, std::exchange(self.asking, 0));
    if (self.answering != 0) drop(who, std::exchange(self.answering, 0));
  }

  void drop(std::size_t who, std::uint64_t generation) {
    auto& self = sides_[who];
    auto end = self.ends.extract(generation);
    REQUIRE(!end.empty());
    auto which = end.mapped();
    if (connections_[which].asker == who && !self.answered) self.corpses[generation] = which;
    self.state.closed(generation);
  }

  std::mt19937_64 random_;
  std::array<side, 2> sides_;
  std::vector<connection> connections_;
};

} // namespace

TEST_CASE("whatever the order of letters, every hello is answered and no end is left alone") {
  auto start = seed();
  for (std::uint64_t round = 0; round < 3000; ++round) {
    INFO("seed " << start << ", round " << round);
    model pair{start + round};
    for (std::size_t steps = 1 + round % 60; steps > 0; --steps) pair.step();
    pair.deliver_all();
    pair.check_quiet();
    // Whoever wants to can still connect.
    pair.ask(round % 2);
    pair.deliver_all();
    pair.check_quiet();
    CHECK(pair.open(0));
    CHECK(pair.open(1));
  }
}

TEST_CASE("hellos that cross make two connections, and both sides hold both") {
  for (std::uint64_t start = 0; start < 20; ++start) {
    model pair{start};
    pair.ask(0);
    pair.ask(1);
    pair.deliver_all();
    pair.check_quiet();
    CHECK(pair.ends(0) == 2);
    CHECK(pair.ends(1) == 2);
    pair.leave(0);
    pair.deliver_all();
    pair.check_quiet();
    CHECK(pair.ends(0) == 0);
    CHECK(pair.ends(1) == 0);
  }
}

TEST_CASE("a hello that a newer one has overtaken is turned away, and changes nothing") {
  handshake_state a, b;
  auto first = a.ask();
  a.closed(first.generation);
  auto second = a.ask();
  auto answer = b.on_hello(second);
  CHECK_FALSE(answer.late);
  CHECK(b.on_hello(first).late);
  CHECK(b.open());
  CHECK(a.on_reply(second.generation, answer.generation));
  CHECK(b.on_bye(first.generation) == std::nullopt);
  CHECK(b.on_bye(second.generation) == handshake_state::role::answering);
}
