#include "core/layout/block_key.hpp"

#include <catch2/catch.hpp>

using namespace dualpath::core;

// The expected values come from Python's hashlib, an independent implementation:
//   root = sha256(b"dualpath-kv-1" + bytes(16))[:16]; child = sha256(parent + struct.pack("<4I", ...))[:16]
TEST_CASE("block keys are the golden ones on every machine") {
  auto root = root_key(model_fingerprint{});
  CHECK(to_hex(root) == "1cdd4c7b36d119fdf432496e22fb951b");
  std::vector<token_id> tokens{0, 1, 2, 3, 65536, 4294967295u, 7, 8, 9};
  auto chain = key_chain(model_fingerprint{}, tokens, 4);
  REQUIRE(chain.size() == 2);
  CHECK(to_hex(chain[0]) == "b4db44eb81cd622725907712434dcf1f");
  CHECK(to_hex(chain[1]) == "e2c52a4906399e859585fc92b6871703");
}

TEST_CASE("a key depends on the model and on every earlier token") {
  std::vector<token_id> tokens(128, 5);
  auto chain = key_chain(model_fingerprint{}, tokens, 64);
  auto other_model = model_fingerprint{};
  other_model.bytes[15] = 1;
  CHECK(key_chain(other_model, tokens, 64)[0] != chain[0]);
  tokens[0] = 6;
  CHECK(key_chain(model_fingerprint{}, tokens, 64)[1] != chain[1]);
}

TEST_CASE("a partly filled last block has no key") {
  std::vector<token_id> tokens(127, 5);
  CHECK(key_chain(model_fingerprint{}, tokens, 64).size() == 1);
}
