#include "scenario_checks.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace dualpath::scenarios {

namespace {

struct check_input {
  const run_outcome& outcome;
  const std::vector<std::string>& values;
  std::span<const run_outcome> earlier;

  const core::run_summary& summary() const { return outcome.summary; }
  std::uint64_t whole() const { return std::stoull(values.front()); }
  double real(std::size_t index = 0) const { return std::stod(values.at(index)); }
  bool yes() const { return values.front() == "true"; }
  const run_outcome& run(const std::string& name) const {
    auto found =
        std::find_if(earlier.begin(), earlier.end(), [&](auto& outcome) { return outcome.name == name; });
    if (found == earlier.end()) FAIL("no earlier run is named '" << name << "'");
    return *found;
  }
};

std::uint64_t first_round_hits(const core::run_record& record) {
  std::uint64_t tokens = 0;
  for (auto& round : record.rounds)
    if (round.round == 0) tokens += round.hit_tokens;
  return tokens;
}

std::uint64_t requests_on(const core::run_summary& summary, const std::string& path) {
  return path == "prefill"  ? summary.path_prefill
         : path == "decode" ? summary.path_decode
         : path == "split"  ? summary.path_split
                            : summary.path_recompute;
}

void check_repaired(const run_outcome& outcome) {
  REQUIRE_FALSE(outcome.damaged.empty());
  for (auto& file : outcome.damaged) {
    INFO("damaged block " << file.path);
    auto now = read_file(file.path);
    REQUIRE(now.size() == file.before.size());
    // KV bytes follow from the tokens alone: what was computed again equals what was lost.
    CHECK(std::equal(now.begin(), now.end(), file.before.begin()));
  }
}

using check = std::function<void(const check_input&)>;

void add_counts(std::map<std::string, check>& checks) {
  checks["engine_restarts"] = [](auto& in) { CHECK(in.summary().engine_restarts == in.whole()); };
  checks["every_fault_happened"] = [](auto& in) {
    CHECK(in.outcome.faults_planned > 0);
    CHECK(in.summary().engine_restarts == in.outcome.faults_planned);
    CHECK(in.summary().rerouted > 0);
  };
  checks["faults_happened"] = [](auto& in) { CHECK(in.outcome.record.faults_happened == in.whole()); };
  checks["faults_happened_at_least"] = [](auto& in) {
    CHECK(in.outcome.record.faults_happened >= in.whole());
  };
  checks["rerouted_at_least"] = [](auto& in) { CHECK(in.summary().rerouted >= in.whole()); };
  checks["warns_of_store_only"] = [](auto& in) {
    for (auto& warning : in.outcome.record.warnings)
      CHECK_THAT(warning, Catch::StartsWith("the block store failed"));
  };
  checks["adopted_tokens"] = [](auto& in) { CHECK(in.summary().adopted_tokens == in.whole()); };
  checks["adopted_tokens_at_least"] = [](auto& in) { CHECK(in.summary().adopted_tokens >= in.whole()); };
  checks["hit_tokens"] = [](auto& in) { CHECK(in.summary().hit_tokens == in.whole()); };
  checks["hit_tokens_at_least"] = [](auto& in) { CHECK(in.summary().hit_tokens >= in.whole()); };
  checks["first_round_hits"] = [](auto& in) { CHECK((first_round_hits(in.outcome.record) > 0) == in.yes()); };
  checks["lost_tokens"] = [](auto& in) { CHECK(in.summary().lost_tokens == in.whole()); };
  checks["lost_tokens_at_least"] = [](auto& in) { CHECK(in.summary().lost_tokens >= in.whole()); };
  checks["corrupt_blocks_at_least"] = [](auto& in) { CHECK(in.summary().blocks_corrupt >= in.whole()); };
  checks["unreadable"] = [](auto& in) { CHECK(in.summary().blocks_unreadable == in.whole()); };
  checks["unreadable_at_least"] = [](auto& in) { CHECK(in.summary().blocks_unreadable >= in.whole()); };
  checks["read_errors"] = [](auto& in) { CHECK(in.summary().read_errors == in.whole()); };
  checks["blocks_written"] = [](auto& in) { CHECK(in.summary().blocks_written == in.whole()); };
  checks["blocks_written_at_least"] = [](auto& in) { CHECK(in.summary().blocks_written >= in.whole()); };
}

void add_judgements(std::map<std::string, check>& checks) {
  checks["uses"] = [](auto& in) {
    for (auto& path : in.values) {
      INFO("path " << path);
      CHECK(requests_on(in.summary(), path) > 0);
    }
  };
  checks["never_uses"] = [](auto& in) {
    for (auto& path : in.values) {
      INFO("path " << path);
      CHECK(requests_on(in.summary(), path) == 0);
    }
  };
  checks["storage_nic_max_over_avg_at_most"] = [](auto& in) {
    CHECK(in.summary().storage_nic_max_over_avg <= in.real());
  };
  checks["store_full"] = [](auto& in) { CHECK(in.summary().store_full == in.yes()); };
  checks["store_bytes_at_most"] = [](auto& in) {
    CHECK(in.outcome.store_bytes_after > 0);
    CHECK(in.outcome.store_bytes_after <= in.whole());
  };
  checks["warning"] = [](auto& in) {
    std::string all;
    for (auto& warning : in.summary().warnings) all += warning + "\n";
    CHECK_THAT(all, Catch::Contains(in.values.front()));
  };
  checks["warnings"] = [](auto& in) { CHECK(in.summary().warnings.size() == in.whole()); };
  checks["repaired"] = [](auto& in) { check_repaired(in.outcome); };
  checks["keeps_earlier_blocks"] = [](auto& in) {
    CHECK(in.outcome.blocks_before > 0);
    CHECK(in.outcome.blocks_after > in.outcome.blocks_before);
  };
}

std::uint64_t bytes_read(const core::run_summary& summary) {
  std::uint64_t bytes = 0;
  for (auto& node : summary.nodes) bytes += node.storage_read_bytes;
  return bytes;
}

void add_comparisons(std::map<std::string, check>& checks) {
  checks["reads_as_much_as"] = [](auto& in) {
    CHECK(bytes_read(in.summary()) > 0);
    CHECK(bytes_read(in.summary()) == bytes_read(in.run(in.values.front()).summary));
  };
  checks["hit_rate_above"] = [](auto& in) {
    CHECK(in.summary().hit_rate > in.run(in.values.front()).summary.hit_rate);
  };
  checks["storage_rate_over"] = [](auto& in) {
    auto& other = in.run(in.values.at(0)).summary;
    CHECK(in.summary().storage_bytes_per_s >= in.real(1) * other.storage_bytes_per_s);
  };
}

const std::map<std::string, check>& known_checks() {
  static const auto checks = [] {
    std::map<std::string, check> all;
    add_counts(all);
    add_judgements(all);
    add_comparisons(all);
    return all;
  }();
  return checks;
}

} // namespace

void check_run(const run_spec& spec, const run_outcome& outcome, std::span<const run_outcome> earlier) {
  INFO("run '" << outcome.name << "', seed " << scenario_seed() << "\n  " << outcome.command_line);
  auto error = std::find_if(spec.expectations.begin(), spec.expectations.end(),
                            [](auto& expected) { return expected.name == "error"; });
  if (error != spec.expectations.end()) {
    REQUIRE(outcome.failure);
    CHECK_THAT(outcome.failure->text, Catch::Contains(error->values.front()));
    return;
  }
  if (outcome.failure) FAIL(outcome.failure->text);
  // Whatever else happens, no request is lost and each gets all of its tokens.
  CHECK(outcome.summary.requests == outcome.rounds_expected);
  CHECK(outcome.summary.generated_tokens == outcome.tokens_expected);
  // And nothing of it stays behind.
  for (std::size_t i = 0; i < core::resource_count; ++i) {
    INFO(to_string(static_cast<core::resource>(i)) << " still held");
    CHECK(outcome.record.left_behind[i] == 0);
  }
  for (auto& expected : spec.expectations) {
    INFO("expectation '" << expected.name << "'");
    auto found = known_checks().find(expected.name);
    REQUIRE(found != known_checks().end());
    found->second({outcome, expected.values, earlier});
  }
}

void check_tokens(const scenario& test, std::span<const run_outcome> outcomes) {
  std::map<std::string, const run_outcome*> first_of;
  std::set<std::string> digests;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].failure) continue;
    auto [first, is_new] = first_of.emplace(test.runs[i].tokens, &outcomes[i]);
    INFO("run '" << outcomes[i].name << "' against '" << first->second->name << "', seed " << scenario_seed()
                 << "\n  " << outcomes[i].command_line << "\n  " << first->second->command_line);
    CHECK(outcomes[i].summary.digest == first->second->summary.digest);
    digests.insert(outcomes[i].summary.digest);
  }
  if (test.distinct_tokens) CHECK(digests.size() == first_of.size());
}

} // namespace dualpath::scenarios
