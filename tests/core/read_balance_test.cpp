#include "core/policy/read_balance.hpp"

#include <catch2/catch.hpp>

#include <random>

using namespace dualpath::core;

namespace {

constexpr node_shape paper{8, 50e9, 50e9, 500e9};

/// Share of the decode side over many hits, where it always has the shorter queue.
double decode_share(read_balance& balance, policy chosen) {
  double decode = 0, all = 0;
  for (int i = 0; i < 2000; ++i) {
    path_inputs inputs;
    inputs.prefill.tokens = 1000000;
    inputs.share = balance.share();
    constexpr std::uint32_t hit_blocks = 100, block_tokens = 64;
    auto reads = choose_reads(chosen, inputs, hit_blocks, block_tokens);
    balance.placed(std::uint64_t{reads.prefill_blocks} * block_tokens,
                   std::uint64_t{reads.decode_blocks} * block_tokens);
    decode += reads.decode_blocks;
    all += hit_blocks;
  }
  return decode / all;
}

} // namespace

TEST_CASE("inside the range of spec 5 reads are not limited, at its edges and outside they are") {
  read_balance balance{paper};
  CHECK(balance.reshape(2, 4));
  CHECK_FALSE(balance.binds());
  REQUIRE(balance.reshape(1, 8)); // below 1/7
  CHECK(balance.binds());
  CHECK(balance.share().highest == Approx(7.0 / 8));
  REQUIRE(balance.reshape(8, 1)); // above 7/2
  CHECK(balance.share().lowest == Approx(2.0 / 9));
  REQUIRE(balance.reshape(1, 7));
  CHECK_FALSE(balance.binds());
  REQUIRE(balance.reshape(7, 2));
  CHECK_FALSE(balance.binds());
}

TEST_CASE("the share of the decode side keeps within its bound however short its queue") {
  for (auto chosen : {policy::dualpath, policy::split}) {
    read_balance balance{paper};
    balance.reshape(1, 8);
    CHECK(decode_share(balance, chosen) == Approx(7.0 / 8).margin(0.01));
    balance.reshape(2, 4);
    CHECK(decode_share(balance, chosen) == Approx(1));
  }
}

TEST_CASE("a change of the shape is told once, with what binds, and starts the count anew") {
  read_balance balance{paper};
  auto told = balance.reshape(1, 8);
  REQUIRE(told);
  CHECK(told->find("PE CNIC writes") != std::string::npos);
  CHECK_FALSE(balance.reshape(1, 8));
  balance.placed(100, 300);
  CHECK(balance.share().all_tokens == 400);
  CHECK(balance.reshape(1, 7));
  CHECK(balance.share().all_tokens == 0);
  CHECK_FALSE(balance.reshape(1, 0)); // nobody decodes: nothing to balance
  CHECK_FALSE(balance.binds());
}

TEST_CASE("without rates nothing is limited") {
  read_balance none;
  CHECK_FALSE(none.reshape(1, 64));
  CHECK_FALSE(none.binds());
  read_balance unlimited{node_shape{8, 0, 50e9, 500e9}};
  CHECK_FALSE(unlimited.reshape(1, 64));
  CHECK_FALSE(unlimited.binds());
}
