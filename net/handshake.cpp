#include "net/handshake.hpp"

#include <openssl/crypto.h>

#include <string>

namespace dualpath::net {
namespace {

core::error mismatch(const identity& theirs, const char* what, const std::string& their_value,
                     const std::string& our_value) {
  return {core::errc::refused, "peer engine " + std::to_string(theirs.engine.value) + " has " + what + " "
                                   + their_value + ", ours is " + our_value};
}

std::string hex(const core::model_fingerprint& model) { return core::to_hex(core::block_key{model.bytes}); }

} // namespace

core::result<void> check_peer(const identity& ours, const wire::peer_identity& theirs) {
  auto& who = theirs.who;
  auto number = [](auto value) { return std::to_string(value); };
  if (theirs.version != wire::protocol_version) {
    return mismatch(who, "protocol version", number(theirs.version), number(wire::protocol_version));
  }
  if (who.layout.block_tokens != ours.layout.block_tokens) {
    return mismatch(who, "block size", number(who.layout.block_tokens), number(ours.layout.block_tokens));
  }
  if (who.layout.layers != ours.layout.layers) {
    return mismatch(who, "layer count", number(who.layout.layers), number(ours.layout.layers));
  }
  if (who.layout.token_bytes != ours.layout.token_bytes) {
    return mismatch(who, "KV bytes per layer and token", number(who.layout.token_bytes),
                    number(ours.layout.token_bytes));
  }
  if (who.model != ours.model) return mismatch(who, "model fingerprint", hex(who.model), hex(ours.model));
  return {};
}

core::result<void> check_proof(const wire::hello& hello, std::string_view secret) {
  auto wanted = wire::prove(hello, secret);
  if (wanted.empty()) return {};
  if (hello.proof.size() == wanted.size()
      && CRYPTO_memcmp(hello.proof.data(), wanted.data(), wanted.size()) == 0)
    return {};
  return core::error{core::errc::refused, "peer engine "
                                              + std::to_string(hello.sender.sender.who.engine.value)
                                              + " does not hold the secret of this cluster"};
}

core::result<void> check_target(const identity& ours, std::uint64_t named_instance) {
  if (named_instance == ours.instance) return {};
  return core::error{core::errc::refused, "the address names instance " + std::to_string(named_instance)
                                              + " of engine " + std::to_string(ours.engine.value)
                                              + ", which is now instance " + std::to_string(ours.instance)
                                              + ": fetch its address again"};
}

} // namespace dualpath::net
