#include "apps/logging.hpp"
#include "apps/temporary_folder.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace dualpath;
using namespace dualpath::apps;

namespace {

using fields = std::vector<core::log_field>;

std::string read(const std::filesystem::path& path) {
  std::ifstream in{path};
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// No test leaves its sink behind for the others.
struct silence {
  ~silence() { core::set_log_sink(nullptr, core::log_level::off); }
};

} // namespace

TEST_CASE("an event is one line of text, with quotes where a value needs them", "[logging]") {
  CHECK(
      text_line("engine_down", fields{{"node", core::node_id{2}},
                                      {"role", "decode"},
                                      {"why", "gone: \"a\nb\""},
                                      {"empty", ""},
                                      {"equals", "a=b"},
                                      {"back", -3},
                                      {"full", true},
                                      {"rate", 0.5}})
      == R"(engine_down node=2 role=decode why="gone: \"a\nb\"" empty="" equals="a=b" back=-3 full=true rate=0.5)");
}

TEST_CASE("an event is one JSON object whose fields keep their types", "[logging]") {
  std::chrono::system_clock::time_point time{std::chrono::milliseconds{1700000000007}};
  auto line = json_line(time, core::log_level::warn, "block_lost",
                        fields{{"request", core::request_id{7}},
                               {"block", 3U},
                               {"why", "a \"quoted\"\nline, \xff no UTF-8"},
                               {"dropped", false}});
  CHECK(line.find('\n') == std::string::npos);
  auto parsed = nlohmann::json::parse(line);
  CHECK(parsed["time"] == "2023-11-14T22:13:20.007Z");
  CHECK(parsed["level"] == "warn");
  CHECK(parsed["event"] == "block_lost");
  CHECK(parsed["request"] == 7);
  CHECK(parsed["block"] == 3);
  CHECK(parsed["why"] == "a \"quoted\"\nline, \xef\xbf\xbd no UTF-8");
  CHECK(parsed["dropped"] == false);
}

TEST_CASE("a log file is appended to, and holds what its level lets through", "[logging]") {
  silence afterwards;
  auto folder = temporary_folder::make("dualpath-test");
  REQUIRE(folder);
  auto file = folder->path() / "log";
  std::ofstream{file} << "{\"event\":\"earlier\"}\n";
  REQUIRE(set_up_logging({core::log_level::info, log_format::json, file}));
  core::log_event(core::log_level::debug, "unheard");
  core::log_event(core::log_level::info, "engine_up", {{"engine", core::engine_id{4}}});
  std::istringstream lines{read(file)};
  std::vector<std::string> events;
  for (std::string line; std::getline(lines, line);)
    events.push_back(nlohmann::json::parse(line)["event"].get<std::string>());
  CHECK(events == std::vector<std::string>{"earlier", "engine_up"});
}

TEST_CASE("a log file that cannot be written is refused by name", "[logging]") {
  silence afterwards;
  auto set = set_up_logging({core::log_level::info, log_format::text, "/proc/no_such_folder/log"});
  REQUIRE_FALSE(set);
  CHECK(set.error().code == core::errc::io);
  CHECK(set.error().text.find("/proc/no_such_folder/log") != std::string::npos);
}

TEST_CASE("log levels and formats are read by name", "[logging]") {
  CHECK(*parse_log_level("error") == core::log_level::error);
  CHECK(*parse_log_level("off") == core::log_level::off);
  CHECK(parse_log_level("loud").error().text.find("'loud' is not a log level") == 0);
  CHECK(*parse_log_format("json") == log_format::json);
  CHECK(parse_log_format("xml").error().text.find("'xml' is not a log format") == 0);
}
