// Peers that die, stand still and flap, again and again, with transfers under way: nothing hangs, ends twice
// or is left behind. DUALPATH_SOAK_CYCLES sets how often, each transport and kind of memory.
#include "holdings.hpp"
#include "peer_process.hpp"

#include "net/ucx_fabric.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <malloc.h>
#include <sstream>
#include <thread>

using namespace dualpath;
using namespace dualpath::net;
using namespace dualpath::net::testing;

namespace {

constexpr std::uint64_t region_bytes = 4 << 20;
constexpr std::size_t transfers_per_cycle = 24;

unsigned cycles() {
  auto given = std::getenv("DUALPATH_SOAK_CYCLES");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 0)) : 5;
}

/// Of one cycle; completions keep it alive, so that one that comes twice or late is seen.
struct tally {
  std::array<std::atomic<unsigned>, transfers_per_cycle> ends{};
  std::atomic<unsigned> ended{0}, failed{0}, timed_out{0};

  bool each_once() const {
    return std::all_of(ends.begin(), ends.end(), [](auto& count) { return count == 1; });
  }
};

enum class fault : std::uint8_t { kill, stall, flap };

class soak {
public:
  soak(const std::string& world_name, const std::string& memory, std::uint64_t start)
      : around_{make_world(world_name)},
        transports_{transports_of(world_name)},
        memory_{memory},
        random_{start},
        here_{around_->open(engine(1))} {
    here_->on_peer_down([downs = downs_](peer_id, std::string why) mutable { downs.set(std::move(why)); });
    start_peer();
  }

  void cycle() { cycle(static_cast<fault>(random_() % 3)); }

  void cycle(fault what) {
    auto local = here_->allocate(region_bytes);
    REQUIRE(local);
    ++faults_[static_cast<std::size_t>(what)];
    auto submit_all = [&](auto count) { submit(*local, count, what == fault::stall); };
    counts_ = std::make_shared<tally>();
    submitted_ = 0;
    auto before = random_() % transfers_per_cycle;
    submit_all(before);
    if (what == fault::stall) peer_->stop();
    if (what == fault::kill) peer_->kill();
    if (what == fault::flap) here_->disconnect(id_);
    submit_all(transfers_per_cycle - before);
    auto ended = [&] { return counts_->ended == transfers_per_cycle; };
    if (what == fault::stall) {
      // At least what has the short deadline ends while the peer stands still.
      REQUIRE(wait_until([&] { return counts_->ended >= hasty_; }));
      peer_->signal(SIGCONT);
    }
    INFO("fault " << int(what) << ", ended " << counts_->ended << " of " << transfers_per_cycle);
    REQUIRE(wait_until(ended));
    check_ends(what);
    here_->release(local->id);
    if (what == fault::kill) {
      ++killed_;
      start_peer();
    }
    if (what == fault::flap) join();
    prove();
  }

  void check_ends(fault what) {
    CHECK(counts_->each_once());
    if (previous_) CHECK(previous_->each_once());
    previous_ = counts_;
    // Only where the peer stands still does a transfer wait for its deadline.
    if (what != fault::stall) CHECK(counts_->timed_out == 0);
    failed_ += counts_->failed;
    timed_out_ += counts_->timed_out;
    done_ += transfers_per_cycle - counts_->failed;
  }

  /// With a new peer, once what was closed before is gone: a worker that met a dead peer takes two seconds.
  holdings at_rest() {
    cycle(fault::kill);
    malloc_trim(0); // what is free is not held
    auto last = count_holdings();
    auto since = std::chrono::steady_clock::now();
    around_->let_run([&](std::chrono::milliseconds limit) {
      auto end = since + limit;
      for (auto now = since; now < end && now < since + 3s; now = std::chrono::steady_clock::now()) {
        std::this_thread::yield();
        auto next = count_holdings();
        if (next.descriptors != last.descriptors || next.shared_mappings != last.shared_mappings) since = now;
        last = next;
      }
      return true;
    });
    malloc_trim(0);
    return count_holdings();
  }

  std::string told() const {
    std::ostringstream text;
    text << faults_[0] << " kills, " << faults_[1] << " stalls, " << faults_[2] << " flaps; " << done_
         << " transfers done, " << failed_ << " failed, of those " << timed_out_ << " at their deadline";
    return text.str();
  }

private:
  void start_peer() {
    auto downs = downs_.count();
    peer_.reset();
    peer_ = std::make_unique<peer_process>(transports_, memory_, region_bytes);
    // The last one's death has been told by now, or the fabric still holds what it had of it.
    if (killed_ != 0) REQUIRE(downs_.wait_for(std::max<std::size_t>(downs, 1), 30s));
    join();
  }

  void join() {
    auto connected = connect(*around_, *here_, peer_->address);
    if (!connected) FAIL(connected.error().text);
    id_ = *connected;
    auto imported = here_->import_region(id_, peer_->region);
    REQUIRE(imported);
    remote_ = *imported;
  }

  void submit(const memory_region& local, std::size_t count, bool stalls) {
    if (submitted_ == 0) hasty_ = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto bytes = 1 + random_() % (region_bytes / 8);
      auto offset = random_() % (region_bytes - bytes);
      transfer t{id_,
                 random_() % 4 == 0 ? lane::collective : lane::kv,
                 local.id,
                 remote_,
                 {{offset, 0, offset, 0, bytes, 1}},
                 around_->soon()};
      if (stalls && random_() % 2 == 0) {
        t.deadline = around_->clock().now() + 30ms;
        ++hasty_;
      }
      auto on_done = [counts = counts_, number = submitted_++](core::result<void> end) {
        ++counts->ends[number];
        if (!end) ++counts->failed;
        if (!end && end.error().code == core::errc::timed_out) ++counts->timed_out;
        ++counts->ended;
        counts->ended.notify_all();
      };
      if (random_() % 2 == 0) {
        here_->put(std::move(t), on_done);
      } else {
        here_->get(std::move(t), on_done);
      }
    }
  }

  /// The connection carries bytes again.
  void prove() {
    auto local = here_->allocate(4096);
    REQUIRE(local);
    local->bytes[0] = std::byte{7};
    for (auto on : {lane::kv, lane::collective}) {
      ending last;
      // A lane that was closed by a stall may still be saying so to the peer.
      for (int attempt = 0; attempt < 20; ++attempt) {
        last = put(*around_, *here_, {id_, on, local->id, remote_, {{0, 0, 0, 0, 4096, 1}}, around_->soon()});
        if (!last) break;
        CHECK(last->code == core::errc::disconnected);
      }
      INFO((last ? last->text : "done"));
      REQUIRE_FALSE(last);
    }
    here_->release(local->id);
  }

  template <class Reached>
  bool wait_until(Reached reached) {
    auto counts = counts_;
    return around_->let_run([&](std::chrono::milliseconds limit) {
      auto end = std::chrono::steady_clock::now() + limit;
      while (!reached() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      return reached();
    });
  }

  std::unique_ptr<world> around_;
  std::string transports_, memory_;
  std::mt19937_64 random_;
  outcome<std::string> downs_;
  std::unique_ptr<peer_process> peer_;
  std::unique_ptr<fabric> here_;
  peer_id id_;
  remote_region_id remote_;
  std::shared_ptr<tally> counts_, previous_;
  std::size_t submitted_ = 0, hasty_ = 0;
  std::array<unsigned, 3> faults_{};
  std::uint64_t killed_ = 0, done_ = 0, failed_ = 0, timed_out_ = 0;
};

void print(const std::string& when, const holdings& now) {
  std::printf("  %-12s resident %6.1f MB, heap in use %6.2f MB, %3zu descriptors, %3zu shared mappings\n",
              when.c_str(), static_cast<double>(now.resident_bytes) * 1e-6,
              static_cast<double>(now.heap_bytes) * 1e-6, now.descriptors, now.shared_mappings);
  std::fflush(stdout);
}

} // namespace

TEST_CASE("peers that die, stand still and flap leave no buffer, descriptor or transfer behind", "[soak]") {
  mallopt(M_MMAP_THRESHOLD, 1 << 20); // a constant one: large blocks go back when they are freed
  auto transport = GENERATE(as<std::string>{}, "tcp", "shared memory");
  auto memory = GENERATE(as<std::string>{}, "allocated", "attached");
  auto start = seed();
  INFO(transport << ", " << memory << ", seed " << start);
  std::printf("soak over %s, %s memory, seed %llu\n", transport.c_str(), memory.c_str(),
              static_cast<unsigned long long>(start));
  soak test{transport, memory, start};
  auto count = std::max(1u, cycles());
  for (unsigned i = 0; i < std::max(count / 5, 10u); ++i) test.cycle(); // until buffers have their size
  auto before = test.at_rest();
  print("start", before);
  for (unsigned i = 0; i < count; ++i) {
    INFO("cycle " << i);
    test.cycle();
    if ((i + 1) % 100 == 0) print(std::to_string(i + 1) + " cycles", count_holdings());
  }
  auto after = test.at_rest();
  print("end", after);
  std::printf("  %u cycles: %s\n", count, test.told().c_str());
  std::fflush(stdout);
  // A pool of UCX's that is used for the first time takes a chunk of 2 MiB and keeps it: on three lanes, to
  // send and to receive.
  CHECK(after.resident_bytes < before.resident_bytes * 11 / 10 + (12 << 20));
  CHECK(after.descriptors <= before.descriptors + 4);
  CHECK(after.shared_mappings <= before.shared_mappings + 2);
}
