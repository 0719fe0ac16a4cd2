#include "core/shared_sequence.hpp"

#include <catch2/catch.hpp>

using namespace dualpath::core;

TEST_CASE("a copy of a shared sequence, and a part of it, hold the same items, not copies of them",
          "[shared_sequence]") {
  shared_tokens all{std::vector<token_id>{1, 2, 3, 4, 5}};
  auto copy = all;
  CHECK(copy.data() == all.data());
  auto middle = all.part(1, 3);
  CHECK(middle.data() == all.data() + 1);
  CHECK(middle == shared_tokens{2, 3, 4});
  CHECK(all.first(2) == shared_tokens{1, 2});
  CHECK(all.from(3) == shared_tokens{4, 5});
  CHECK(all.from(5).empty());
}

TEST_CASE("a part outlives the sequence it was taken from", "[shared_sequence]") {
  auto part = shared_tokens{std::vector<token_id>(1000, 7)}.part(500, 3);
  CHECK(part == shared_tokens{7, 7, 7});
}

TEST_CASE("shared sequences are equal by content", "[shared_sequence]") {
  shared_tokens a{1, 2, 3};
  CHECK(a == shared_tokens{1, 2, 3});
  CHECK_FALSE(a == shared_tokens{1, 2, 4});
  CHECK_FALSE(a == shared_tokens{1, 2});
  CHECK(shared_tokens{} == shared_tokens{std::vector<token_id>{}});
}

TEST_CASE("appending makes another sequence and leaves the old one, and parts of it, as they are",
          "[shared_sequence]") {
  shared_tokens old{1, 2, 3};
  auto longer = old.first(2).appended(std::vector<token_id>{8, 9});
  CHECK(longer == shared_tokens{1, 2, 8, 9});
  CHECK(old == shared_tokens{1, 2, 3});
  CHECK(shared_tokens{}.appended(longer) == longer);
}

TEST_CASE("a shared sequence reads as a span", "[shared_sequence]") {
  shared_tokens tokens{4, 5, 6};
  std::span<const token_id> seen = tokens;
  CHECK(seen.data() == tokens.data());
  CHECK(seen.size() == 3);
  CHECK(key_chain(model_fingerprint{}, tokens, 2).size() == 1);
}
