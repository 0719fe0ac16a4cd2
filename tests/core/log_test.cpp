#include "core/log.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace dualpath::core;

namespace {

struct recorder final : log_sink {
  struct event {
    log_level level;
    std::string name;
    std::vector<std::string> keys;
  };
  std::vector<event> seen;

  recorder(log_level least) { set_log_sink(this, least); }
  ~recorder() override { set_log_sink(nullptr, log_level::off); }
  void write(log_level level, std::string_view name, std::span<const log_field> fields) override {
    seen.push_back({level, std::string{name}, {}});
    for (const auto& field : fields) seen.back().keys.emplace_back(field.key);
  }
};

} // namespace

TEST_CASE("a sink is told of events of its level and above, fields in order", "[log]") {
  recorder sink{log_level::warn};
  log_event(log_level::info, "engine_up", {{"engine", engine_id{1}}});
  log_event(log_level::warn, "engine_down", {{"engine", engine_id{1}}, {"why", "test"}});
  log_event(log_level::error, "decode_step_failed");
  REQUIRE(sink.seen.size() == 2);
  CHECK(sink.seen[0].name == "engine_down");
  CHECK(sink.seen[0].keys == std::vector<std::string>{"engine", "why"});
  CHECK(sink.seen[1].level == log_level::error);
}

TEST_CASE("a sink that is switched off is told of nothing", "[log]") {
  recorder sink{log_level::off};
  log_event(log_level::error, "decode_step_failed");
  CHECK(sink.seen.empty());
  CHECK_FALSE(log_enabled(log_level::error));
  CHECK_FALSE(log_enabled(log_level::off));
}

TEST_CASE("events without a sink go nowhere", "[log]") {
  set_log_sink(nullptr, log_level::trace);
  log_event(log_level::error, "decode_step_failed");
  CHECK_FALSE(log_enabled(log_level::error));
}
