#include "storage/block_header.hpp"

#include "proto/block.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

namespace dualpath::storage {
namespace {

constexpr std::uint64_t magic = 0x6874'6170'6c61'7564; // "dualpath" in memory
constexpr std::uint32_t version = 1;
constexpr std::size_t message_bytes = header_bytes - sizeof(checksum128);

using digest = std::array<std::uint8_t, 16>;

capnp::Data::Reader data_of(const digest& bytes) { return {bytes.data(), bytes.size()}; }

bool copy(capnp::Data::Reader from, digest& to) {
  if (from.size() != to.size()) return false;
  std::copy(from.begin(), from.end(), to.begin());
  return true;
}

checksum128 stored_checksum(const_header_page page) {
  checksum128 sum;
  std::memcpy(&sum, page.data() + message_bytes, sizeof sum);
  return sum;
}

core::error corrupt(std::string what) { return {core::errc::corrupt, "block header " + std::move(what)}; }

core::result<block_header> interpret(proto::BlockHeader::Reader message) {
  if (message.getMagic() != magic) return corrupt("lacks its magic number");
  if (message.getVersion() != version)
    return core::error{core::errc::unsupported, "block header has version "
                                                    + std::to_string(message.getVersion())
                                                    + ", this build reads " + std::to_string(version)};
  block_header header;
  if (!copy(message.getKey(), header.name.key.bytes) || !copy(message.getParent(), header.name.parent.bytes)
      || !copy(message.getModel(), header.model.bytes))
    return corrupt("holds a name that is not 16 bytes long");
  header.name.depth = message.getDepth();
  header.layout = {.layers = message.getLayers(),
                   .block_tokens = message.getBlockTokens(),
                   .token_bytes = message.getTokenBytes()};
  header.payload_bytes = message.getPayloadBytes();
  header.payload_checksum = {.low = message.getChecksumLow(), .high = message.getChecksumHigh()};
  return header;
}

} // namespace

static_assert(std::endian::native == std::endian::little, "stored checksums are little-endian");

void encode_header(const block_header& header, header_page page) {
  // Cap'n Proto builds in place in memory that is handed to it zeroed: 8 bytes of segment table, then the
  // segment.
  std::memset(page.data(), 0, page.size());
  alignas(8) std::array<capnp::word, message_bytes / sizeof(capnp::word)> words{};
  std::size_t used = 0;
  {
    capnp::MallocMessageBuilder builder{kj::arrayPtr(words.data() + 1, words.size() - 1)};
    auto message = builder.initRoot<proto::BlockHeader>();
    message.setMagic(magic);
    message.setVersion(version);
    message.setDepth(header.name.depth);
    message.setKey(data_of(header.name.key.bytes));
    message.setParent(data_of(header.name.parent.bytes));
    message.setModel(data_of(header.model.bytes));
    message.setLayers(header.layout.layers);
    message.setBlockTokens(header.layout.block_tokens);
    message.setTokenBytes(header.layout.token_bytes);
    message.setPayloadBytes(header.payload_bytes);
    message.setChecksumLow(header.payload_checksum.low);
    message.setChecksumHigh(header.payload_checksum.high);

    auto segments = builder.getSegmentsForOutput();
    used = segments[0].size();
    std::uint32_t table[2] = {0, static_cast<std::uint32_t>(used)}; // one segment, its size in words
    std::memcpy(page.data(), table, sizeof table);
    std::memcpy(page.data() + sizeof table, segments[0].begin(), used * sizeof(capnp::word));
  }
  auto sum = checksum(page.first<message_bytes>());
  std::memcpy(page.data() + message_bytes, &sum, sizeof sum);
}

core::result<block_header> decode_header(const_header_page page) {
  if (checksum(page.first<message_bytes>()) != stored_checksum(page)) return corrupt("fails its checksum");
  std::array<capnp::word, message_bytes / sizeof(capnp::word)> words;
  std::memcpy(words.data(), page.data(), message_bytes);
  try {
    capnp::FlatArrayMessageReader reader{kj::arrayPtr(words.data(), words.size()),
                                         {.traversalLimitInWords = words.size() * 4, .nestingLimit = 4}};
    return interpret(reader.getRoot<proto::BlockHeader>());
  } catch (const kj::Exception& failure) {
    return corrupt(std::string{"is no valid message: "} + failure.getDescription().cStr());
  }
}

} // namespace dualpath::storage
