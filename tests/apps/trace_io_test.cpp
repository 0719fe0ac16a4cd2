#include "apps/trace_io.hpp"
#include "core/workload/prompt_builder.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>

using namespace dualpath;
using namespace dualpath::apps;

namespace {

core::result<core::trace> read(const std::string& text, const trace_options& options = {}) {
  std::istringstream in{text};
  return read_trace(in, "t.jsonl", options);
}

std::string error_of(const std::string& text, const trace_options& options = {}) {
  auto t = read(text, options);
  if (t) return "no error";
  CHECK(t.error().code == core::errc::invalid_argument);
  return t.error().text;
}

const std::string bundled = DUALPATH_SOURCE_DIR "/traces/swe_agent.jsonl";

} // namespace

TEST_CASE("the native format is read") {
  auto t = read(
      R"({"session":"a","arrival_ms":5,"rounds":[{"append":3,"generate":2},{"append":[7,8],"generate":1,"tool_ms":40}]}

{"session":9,"rounds":[{"prompt":70,"hash_ids":[1,2],"hash_block":64,"generate":4}]}
)");
  REQUIRE(t);
  REQUIRE(t->trajectories.size() == 2);
  const auto& a = t->trajectories[0];
  CHECK(a.session == "a");
  CHECK(a.arrival_ms == 5);
  REQUIRE(a.rounds.size() == 2);
  CHECK(a.rounds[0].append_tokens == 3);
  CHECK(a.rounds[0].append_ids.empty());
  CHECK(a.rounds[1].append_ids == std::vector<core::token_id>{7, 8});
  CHECK(a.rounds[1].append_tokens == 2);
  CHECK(a.rounds[1].tool_ms == 40);
  const auto& b = t->trajectories[1];
  CHECK(b.session == "9");
  CHECK(b.rounds[0].absolute());
  CHECK(b.rounds[0].prompt_tokens == 70);
}

TEST_CASE("what is written in the native format reads back the same") {
  auto text = std::string{
      R"({"session":"a","arrival_ms":5.5,"rounds":[{"append":3,"generate":2},{"append":[7,8],"generate":1,"tool_ms":40.5}]}
{"session":"b","arrival_ms":0.0,"rounds":[{"generate":4,"hash_block":64,"hash_ids":[1,2],"prompt":70}]}
)"};
  auto t = read(text);
  REQUIRE(t);
  std::ostringstream out;
  write_trace(out, *t);
  CHECK(out.str() == text);
}

TEST_CASE("Mooncake requests with a session are its rounds in order, without one each is a session") {
  auto with = read(R"({"timestamp":10,"input_length":100,"output_length":10,"hash_ids":[1,2],"session_id":4}
{"timestamp":0,"input_length":64,"output_length":5,"hash_ids":[1],"session_id":"x"}
{"timestamp":510,"input_length":130,"output_length":3,"hash_ids":[1,2,3],"session_id":4})");
  REQUIRE(with);
  REQUIRE(with->trajectories.size() == 2);
  CHECK(with->trajectories[0].session == "4");
  CHECK(with->trajectories[0].arrival_ms == 10);
  REQUIRE(with->trajectories[0].rounds.size() == 2);
  CHECK(with->trajectories[0].rounds[1].prompt_hash_block_tokens == 64);
  CHECK(with->trajectories[1].session == "x");

  auto without = read(R"({"timestamp":10,"input_length":600,"output_length":10,"hash_ids":[1,2]}
{"timestamp":30,"input_length":600,"output_length":5,"hash_ids":[1,5]})");
  REQUIRE(without);
  REQUIRE(without->trajectories.size() == 2);
  CHECK(without->trajectories[1].arrival_ms == 30);
  CHECK(without->trajectories[1].rounds.size() == 1);
  CHECK(without->trajectories[1].rounds[0].prompt_hash_block_tokens == 512);
}

TEST_CASE("the tool delay is the gap less the service time the trace shows") {
  // The fastest service is 10 tokens in 100 ms; the second round of the other session waited 900 ms for 20
  // tokens.
  auto t = read(R"({"timestamp":0,"input_length":64,"output_length":10,"hash_ids":[1],"session_id":1}
{"timestamp":100,"input_length":128,"output_length":10,"hash_ids":[1,2],"session_id":1}
{"timestamp":0,"input_length":64,"output_length":20,"hash_ids":[1],"session_id":2}
{"timestamp":900,"input_length":128,"output_length":10,"hash_ids":[1,2],"session_id":2}
{"timestamp":900,"input_length":128,"output_length":10,"hash_ids":[1,2],"session_id":2})");
  REQUIRE(t);
  CHECK(t->trajectories[0].rounds[0].tool_ms == 0);
  CHECK(t->trajectories[0].rounds[1].tool_ms == Approx(0).margin(1e-9));
  CHECK(t->trajectories[1].rounds[1].tool_ms == Approx(700));
  CHECK(t->trajectories[1].rounds[2].tool_ms == 0);
}

TEST_CASE("the block size follows from lengths and ids, and can be given") {
  auto block = [](const std::string& text, std::uint32_t given) {
    trace_options options;
    options.hash_block_tokens = given;
    auto t = read(text, options);
    return t ? t->trajectories[0].rounds[0].prompt_hash_block_tokens : 0;
  };
  auto line = [](int length, const std::string& ids) {
    return R"({"timestamp":0,"output_length":1,"input_length":)" + std::to_string(length) + R"(,"hash_ids":[)"
           + ids + "]}\n";
  };
  CHECK(block(line(100, "1"), 0) == 512);            // any block of 100 or more: the usual one
  CHECK(block(line(700, "1"), 0) == 1024);           // the next power of two
  CHECK(block(line(100, "1,2"), 0) == 64);           // 50 to 99
  CHECK(block(line(100, "1,2,3,4,5,6,7"), 0) == 16); // 15 or 16
  CHECK(block(line(34, "1,2,3"), 0) == 16);          // 12 to 16
  CHECK(block(line(30, "1,2,3"), 0) == 10);          // 10 to 14: no power of two
  CHECK(block(line(100, "1,2"), 80) == 80);
}

TEST_CASE("a bad line is named by file, line and reason") {
  const std::string good = R"({"timestamp":0,"input_length":100,"output_length":1,"hash_ids":[1,2]})"
                           "\n\n";
  CHECK(error_of("") == "trace 't.jsonl' is empty");
  CHECK(error_of("\n \n") == "trace 't.jsonl' is empty");
  CHECK(error_of(good + "{\"timestamp\":") == "t.jsonl:3: not valid JSON");
  CHECK(error_of(good + "[1]") == "t.jsonl:3: not a JSON object");
  CHECK(error_of(R"({"a":1})").find("t.jsonl:1: neither a trajectory") == 0);
  CHECK(error_of(good + R"({"input_length":100,"output_length":1,"hash_ids":[1,2]})")
        == "t.jsonl:3: field 'timestamp' is missing");
  CHECK(error_of(good + R"({"timestamp":-1,"input_length":100,"output_length":1,"hash_ids":[1,2]})")
        == "t.jsonl:3: timestamp = -1 must not be negative");
  CHECK(error_of(good + R"({"timestamp":"x","input_length":100,"output_length":1,"hash_ids":[1,2]})")
        == "t.jsonl:3: timestamp = \"x\" must be a number of milliseconds");
  CHECK(error_of(good + R"({"timestamp":1e300,"input_length":100,"output_length":1,"hash_ids":[1,2]})")
            .find("too large")
        != std::string::npos);
  CHECK(error_of(good + R"({"timestamp":0,"input_length":-5,"output_length":1,"hash_ids":[1,2]})")
        == "t.jsonl:3: input_length = -5 must be at least 1");
  CHECK(error_of(good + R"({"timestamp":0,"input_length":1.5,"output_length":1,"hash_ids":[1,2]})")
        == "t.jsonl:3: input_length = 1.5 must be a whole number of tokens");
  CHECK(error_of(good + R"({"timestamp":0,"input_length":99999999999,"output_length":1,"hash_ids":[1,2]})")
            .find("beyond the 16777216 tokens")
        != std::string::npos);
  CHECK(error_of(good + R"({"timestamp":0,"input_length":100,"output_length":0,"hash_ids":[1,2]})")
        == "t.jsonl:3: output_length = 0 must be at least 1");
  CHECK(error_of(good + R"({"timestamp":0,"input_length":100,"output_length":1,"hash_ids":[]})")
            .find("not empty")
        != std::string::npos);
  CHECK(error_of(good + R"({"timestamp":0,"input_length":100,"output_length":1,"hash_ids":[1,-2]})")
            .find("holds -2")
        != std::string::npos);
  CHECK(error_of(good + R"({"timestamp":0,"input_length":700,"output_length":1,"hash_ids":[1,2]})")
        == "t.jsonl:3: 700 tokens in 2 hash_ids do not fit the block size of the lines before, 64 tokens");
  CHECK(error_of(good
                 + R"({"timestamp":0,"input_length":100,"output_length":1,"hash_ids":[1,2],"session_id":1})")
        == "t.jsonl:3: 'session_id' must be on every line of a file or on none");
  trace_options options;
  options.hash_block_tokens = 10;
  CHECK(error_of(good, options)
        == "t.jsonl:1: 100 tokens in 2 hash_ids do not fit the given block of 10 tokens");
  CHECK(error_of(R"({"timestamp":9,"input_length":100,"output_length":1,"hash_ids":[1,2],"session_id":1}
{"timestamp":8,"input_length":100,"output_length":1,"hash_ids":[1,2],"session_id":1})")
        == "t.jsonl:2: timestamp is before the one of line 1 of the same session");
}

TEST_CASE("a bad trajectory is named by file, line and reason") {
  auto round = [](const std::string& text) { return R"({"session":"a","rounds":[)" + text + "]}"; };
  CHECK(error_of(round("")) == "t.jsonl:1: 'rounds' must be a list of rounds that is not empty");
  CHECK(error_of(round("5")) == "t.jsonl:1: a round must be an object");
  CHECK(error_of(round(R"({"append":1})")) == "t.jsonl:1: field 'generate' is missing");
  CHECK(error_of(round(R"({"generate":1})")) == "t.jsonl:1: field 'append' is missing");
  CHECK(error_of(round(R"({"apend":1,"generate":1})"))
        == "t.jsonl:1: unknown field \"apend\"; did you mean 'append'?");
  CHECK(error_of(round(R"({"append":0,"generate":1})"))
        == "t.jsonl:1: the first round must append at least 1 token");
  CHECK(error_of(round(R"({"append":[1,4294967296],"generate":1})")).find("holds 4294967296")
        != std::string::npos);
  CHECK(error_of(round(R"({"append":9000000,"generate":1},{"append":9000000,"generate":1})"))
            .find("add up to more")
        != std::string::npos);
  CHECK(error_of(round(R"({"append":1,"generate":1,"tool_ms":-3})"))
        == "t.jsonl:1: tool_ms = -3 must not be negative");
  CHECK(error_of(round(R"({"append":1,"prompt":1,"generate":1})")).find("not both") != std::string::npos);
  CHECK(error_of(round(R"({"prompt":65,"hash_ids":[1],"hash_block":64,"generate":1})"))
        == "t.jsonl:1: 1 hash_ids of 64 tokens do not make a prompt of 65");
  auto fine = round(R"({"append":1,"generate":1})");
  CHECK(error_of(fine + "\n" + fine) == "t.jsonl:2: session \"a\" was on an earlier line");
  CHECK(error_of(R"({"rounds":[{"append":1,"generate":1}]})") == "t.jsonl:1: field 'session' is missing");
}

TEST_CASE("a long mistaken value does not make a long error") {
  auto text = error_of(R"({"timestamp":")" + std::string(100000, 'x')
                       + R"(","input_length":100,"output_length":1,"hash_ids":[1]})");
  CHECK(text.size() < 200);
}

TEST_CASE("paths that cannot be read are refused") {
  CHECK(load_trace("/no/such/file").error().text.find("cannot open trace '/no/such/file'") == 0);
  CHECK(load_trace("/").error().text == "trace '/' is a directory; name a JSON Lines file");
  CHECK(load_trace("synthetic:1K").error().text.find("choose 32K, 48K or 64K") != std::string::npos);
}

TEST_CASE("a synthetic trace is named by its class") {
  trace_options options;
  options.trajectories = 3;
  auto t = load_trace("synthetic:64K", options);
  REQUIRE(t);
  CHECK(t->name == "synthetic:64K");
  CHECK(t->trajectories.size() == 3);
}

TEST_CASE("the bundled trace is what its notice says") {
  auto t = load_trace(bundled);
  REQUIRE(t);
  auto s = core::compute_stats(*t);
  CHECK(t->name == "swe_agent.jsonl");
  CHECK(s.trajectories == 20);
  CHECK(s.rounds == 402);
  CHECK(s.max_prompt == 36281);
  CHECK(s.hit_upper_bound > 0.9);
  CHECK(t->trajectories[0].rounds[0].prompt_hash_block_tokens == 64);
  for (const auto& one : t->trajectories) CHECK(one.rounds.size() <= 30);
}

TEST_CASE("rounds of the bundled trace share the prefix their ids share") {
  auto t = core::limit(*load_trace(bundled), 1, 5);
  const auto& one = t.trajectories[0];
  core::prompt_builder builder{one, 1, 32000};
  std::vector<std::vector<core::token_id>> prompts;
  while (!builder.finished()) prompts.push_back(builder.next_prompt());
  for (std::size_t i = 1; i < prompts.size(); ++i) {
    const auto &a = one.rounds[i - 1].prompt_hash_ids, &b = one.rounds[i].prompt_hash_ids;
    auto shared = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
    REQUIRE(shared > 0);
    auto ends =
        std::mismatch(prompts[i - 1].begin(), prompts[i - 1].end(), prompts[i].begin(), prompts[i].end());
    auto common = ends.first - prompts[i - 1].begin();
    CHECK(common >= shared * 64);
    CHECK(common < (shared + 1) * 64);
  }
}

TEST_CASE("the public Mooncake traces load where DUALPATH_MOONCAKE_TRACES names their folder") {
  const char* folder = std::getenv("DUALPATH_MOONCAKE_TRACES");
  if (folder == nullptr) {
    WARN("skipped: DUALPATH_MOONCAKE_TRACES is not set");
    return;
  }
  auto conversation = load_trace(std::string{folder} + "/mooncake_conversation.jsonl");
  REQUIRE(conversation);
  CHECK(conversation->trajectories.size() == 12031);
  CHECK(conversation->trajectories[0].rounds[0].prompt_hash_block_tokens == 512);
  auto synthetic = load_trace(std::string{folder} + "/mooncake_synthetic.jsonl");
  REQUIRE(synthetic);
  CHECK(synthetic->trajectories.size() == 3993);
}
