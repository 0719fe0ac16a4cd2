#include "core/workload/generator.hpp"
#include "core/workload/prompt_builder.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>

using namespace dualpath::core;

namespace {

using tokens = std::vector<token_id>;

round_spec appended(std::uint32_t append, std::uint32_t generate = 2) {
  round_spec round;
  round.append_tokens = append;
  round.generate_tokens = generate;
  return round;
}

round_spec absolute(std::vector<std::uint64_t> ids, std::uint32_t block, std::uint32_t prompt) {
  round_spec round;
  round.prompt_hash_ids = std::move(ids);
  round.prompt_hash_block_tokens = block;
  round.prompt_tokens = prompt;
  round.generate_tokens = 1;
  return round;
}

bool starts_with(const tokens& longer, const tokens& shorter) {
  return longer.size() >= shorter.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

} // namespace

TEST_CASE("the prompt of a round is all earlier appends and generations plus its own append") {
  trajectory t{"s", 0, {appended(5), appended(3), appended(0)}};
  prompt_builder builder{t, 1, 1000};
  auto first = builder.next_prompt();
  CHECK(first.size() == 5);
  builder.generated(tokens{77});
  builder.generated(tokens{78});
  auto second = builder.next_prompt();
  REQUIRE(second.size() == 10);
  CHECK(starts_with(second, first));
  CHECK(second[5] == 77);
  CHECK(second[6] == 78);
  builder.generated(tokens{79});
  CHECK_FALSE(builder.finished());
  auto third = builder.next_prompt();
  CHECK(third.size() == 11);
  CHECK(third.back() == 79);
  CHECK(builder.finished());
}

TEST_CASE("explicit ids are taken as they are, modulo the vocabulary") {
  auto round = appended(3);
  round.append_ids = {4, 1004, 999};
  trajectory t{"s", 0, {round}};
  CHECK(prompt_builder{t, 1, 1000}.next_prompt() == tokens{4, 4, 999});
}

TEST_CASE("synthesised tokens depend on seed, session and round, and stay inside the vocabulary") {
  trajectory a{"a", 0, {appended(200), appended(200)}}, b{"b", 0, {appended(200)}};
  auto prompt = prompt_builder{a, 1, 50}.next_prompt();
  CHECK(prompt == prompt_builder{a, 1, 50}.next_prompt());
  CHECK(prompt != prompt_builder{a, 2, 50}.next_prompt());
  CHECK(prompt != prompt_builder{b, 1, 50}.next_prompt());
  for (auto token : prompt) REQUIRE(token < 50);
  prompt_builder builder{a, 1, 50};
  (void)builder.next_prompt();
  auto second = builder.next_prompt();
  CHECK(tokens(second.begin() + 200, second.end()) != prompt);
}

TEST_CASE("an absolute prompt does not build on what was generated") {
  trajectory t{"s", 0, {absolute({1, 2}, 8, 12), absolute({1, 3}, 8, 16)}};
  prompt_builder builder{t, 1, 1000};
  auto first = builder.next_prompt();
  CHECK(first.size() == 12);
  builder.generated(tokens{7, 7, 7});
  auto second = builder.next_prompt();
  REQUIRE(second.size() == 16);
  CHECK(std::equal(first.begin(), first.begin() + 8, second.begin()));
  CHECK_FALSE(std::equal(first.begin() + 8, first.end(), second.begin() + 8));
}

TEST_CASE("equal hash ids mean equal tokens in any session, different ones different tokens") {
  auto seed = dualpath::tests::seed_of_run();
  INFO("DUALPATH_SEED=" << seed);
  std::mt19937_64 random{seed};
  std::map<std::uint64_t, tokens> by_id;
  std::map<tokens, std::uint64_t> by_tokens;
  for (int session = 0; session < 50; ++session) {
    std::vector<std::uint64_t> ids(1 + random() % 8);
    for (auto& id : ids) id = random() % 30;
    constexpr std::uint32_t block = 16;
    auto last = 1 + static_cast<std::uint32_t>(random() % block);
    auto length = static_cast<std::uint32_t>(ids.size() - 1) * block + last;
    trajectory t{std::to_string(session), 0, {absolute(ids, block, length)}};
    auto prompt = prompt_builder{t, seed, 32000}.next_prompt();
    REQUIRE(prompt.size() == length);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      auto begin = prompt.begin() + static_cast<std::ptrdiff_t>(i * block);
      tokens part(begin, i + 1 < ids.size() ? begin + block : prompt.end());
      auto& known = by_id[ids[i]];
      auto& shorter = known.size() < part.size() ? known : part;
      auto& longer = known.size() < part.size() ? part : known;
      REQUIRE(starts_with(longer, shorter));
      if (known.size() < part.size()) known = part;
      if (part.size() == block) REQUIRE(by_tokens.emplace(part, ids[i]).first->second == ids[i]);
    }
  }
}

TEST_CASE("prefixes of absolute prompts stay prefixes when scaled") {
  auto seed = dualpath::tests::seed_of_run();
  INFO("DUALPATH_SEED=" << seed);
  std::mt19937_64 random{seed};
  for (int i = 0; i < 200; ++i) {
    std::vector<std::uint64_t> ids(1 + random() % 10);
    for (auto& id : ids) id = random();
    auto shared = random() % (ids.size() + 1);
    auto other = ids;
    other.resize(shared);
    for (std::size_t k = 0; k <= random() % 4; ++k) other.push_back(random());
    auto length = [&](const auto& list) {
      return static_cast<std::uint32_t>((list.size() - 1) * 64 + 1 + random() % 64);
    };
    trace t;
    t.trajectories = {{"a", 0, {absolute(ids, 64, length(ids))}},
                      {"b", 0, {absolute(other, 64, length(other))}}};
    auto factor = static_cast<double>(1 + random() % 300) / 100;
    auto scaled = scale_tokens(t, factor);
    auto block = scaled.trajectories[0].rounds[0].prompt_hash_block_tokens;
    auto a = prompt_builder{scaled.trajectories[0], seed, 32000}.next_prompt();
    auto b = prompt_builder{scaled.trajectories[1], seed, 32000}.next_prompt();
    INFO("factor " << factor << ", shared blocks " << shared);
    auto common = std::min({shared * block, a.size(), b.size()});
    REQUIRE(std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(common), b.begin()));
    REQUIRE(a.size() > (ids.size() - 1) * block);
    REQUIRE(a.size() <= ids.size() * block);
  }
}

TEST_CASE("prompts of a generated trajectory have the lengths its statistics say") {
  auto t = limit(generate_trace(workload_profiles[0], 1, 3), 1, 0);
  prompt_builder builder{t.trajectories[0], 3, 32000};
  std::uint64_t sum = 0, longest = 0;
  while (!builder.finished()) {
    auto generate = builder.next_spec().generate_tokens;
    longest = builder.next_prompt().size();
    sum += longest;
    builder.generated(tokens(generate, 1));
  }
  auto s = compute_stats(t);
  CHECK(s.prompt_tokens == sum);
  CHECK(s.max_prompt == longest);
}
