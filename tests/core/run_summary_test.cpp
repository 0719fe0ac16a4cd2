#include "core/run_summary.hpp"

#include <catch2/catch.hpp>

using namespace dualpath::core;

namespace {

using std::chrono::milliseconds;

round_record make_round(const std::string& session, std::uint32_t round, std::vector<token_id> generated) {
  round_record r;
  r.session = session;
  r.round = round;
  r.generated = std::move(generated);
  r.submitted = milliseconds{100};
  r.first_token = milliseconds{150};
  r.second_token = milliseconds{170};
  r.finished = milliseconds{210};
  r.prompt_tokens = 100;
  r.hit_tokens = 64;
  r.hits = {0, 1};
  return r;
}

node_record make_node(std::uint32_t id, engine_role role, std::uint64_t read_bytes) {
  node_record n;
  n.node = node_id{id};
  n.role = role;
  n.storage_read_bytes = read_bytes;
  return n;
}

} // namespace

TEST_CASE("latencies follow their definitions") {
  run_record record;
  record.jct = milliseconds{500};
  record.rounds = {make_round("a", 0, {1, 2, 3, 4})};
  auto s = summarise(record);
  CHECK(s.ttft_ms.p50 == Approx(50));
  CHECK(s.ttst_ms.p50 == Approx(20));
  CHECK(s.tpot_ms.p50 == Approx(20)); // 60 ms for 3 more tokens
  CHECK(s.jct_s == Approx(0.5));
}

TEST_CASE("a round of one token has no TTST and no TPOT") {
  run_record record;
  record.rounds = {make_round("a", 0, {1})};
  auto s = summarise(record);
  CHECK(s.ttft_ms.p50 == Approx(50));
  CHECK(s.ttst_ms.p50 == 0);
  CHECK(s.tpot_ms.p50 == 0);
}

TEST_CASE("percentiles are nearest ranks") {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  auto p = compute_percentiles(samples);
  CHECK(p.p50 == 50);
  CHECK(p.p90 == 90);
  CHECK(p.p99 == 99);
  CHECK(p.mean == Approx(50.5));
  CHECK(compute_percentiles({7}).p99 == 7);
  CHECK(compute_percentiles({}).p99 == 0);
}

TEST_CASE("storage figures cover all storage NICs, those that read nothing too") {
  run_record record;
  record.jct = milliseconds{2000};
  record.nodes = {make_node(0, engine_role::prefill, 900), make_node(1, engine_role::decode, 300),
                  make_node(2, engine_role::decode, 0)};
  auto s = summarise(record);
  CHECK(s.storage_nic_max_over_avg == Approx(900.0 / 400));
  CHECK(s.storage_bytes_per_s == Approx(600));
  REQUIRE(s.nodes.size() == 3);
  CHECK(s.nodes[1].storage_read_bytes == 300);
}

TEST_CASE("paths, hits and repeated attempts are counted") {
  run_record record;
  record.rounds = {make_round("a", 0, {1}), make_round("a", 1, {1}), make_round("b", 0, {1}),
                   make_round("b", 1, {1})};
  record.rounds[1].hits = {1, 0};
  record.rounds[1].attempts = 2;
  record.rounds[2].hits = {};
  record.rounds[2].hit_tokens = 0;
  record.rounds[2].lost_tokens = 64;
  record.rounds[3].hits = {3, 2};
  auto s = summarise(record);
  CHECK(s.path_prefill == 1);
  CHECK(s.path_decode == 1);
  CHECK(s.path_split == 1);
  CHECK(s.path_recompute == 1);
  CHECK(s.hit_blocks_decode == 4);
  CHECK(s.hit_blocks_prefill == 3);
  CHECK(s.hit_rate == Approx(192.0 / 400));
  CHECK(s.lost_tokens == 64);
  CHECK(s.rerouted == 1);
  CHECK(s.requests == 4);
}

TEST_CASE("an empty record has a summary of zeros") {
  auto s = summarise({});
  CHECK(s.requests == 0);
  CHECK(s.hit_rate == 0);
  CHECK(s.storage_bytes_per_s == 0);
  CHECK(s.storage_nic_max_over_avg == 0);
  CHECK(s.digest.size() == 32);
}

TEST_CASE("the digest depends on session, round and tokens, and on nothing else") {
  std::vector<round_record> rounds{make_round("a", 0, {1, 2}), make_round("a", 1, {3}),
                                   make_round("b", 0, {4})};
  auto digest = tokens_digest(rounds);

  auto same = rounds;
  same[0].finished = milliseconds{999};
  same[1].hits = {1, 0};
  same[2].prompt = {1, 2, 3};
  std::swap(same[0], same[2]);
  CHECK(tokens_digest(same) == digest);

  auto token = rounds;
  token[1].generated[0] = 5;
  CHECK(tokens_digest(token) != digest);
  auto session = rounds;
  session[2].session = "c";
  CHECK(tokens_digest(session) != digest);
  auto moved = rounds; // the same tokens in a row, cut elsewhere
  moved[0].generated = {1};
  moved[1].generated = {2, 3};
  CHECK(tokens_digest(moved) != digest);
  auto missing = rounds;
  missing.pop_back();
  CHECK(tokens_digest(missing) != digest);
}
