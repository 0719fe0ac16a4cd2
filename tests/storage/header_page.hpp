// Header pages that no build of today would write.
#pragma once

#include "storage/block_header.hpp"

#include "proto/block.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <array>
#include <cstring>

namespace dualpath::storage::testing {

using page = std::array<std::byte, header_bytes>;

/// Makes the page's own checksum right, so that damage reaches the parser behind it.
inline void reseal(page& bytes) {
  auto sum = checksum(std::span{bytes}.first(header_bytes - sizeof(checksum128)));
  std::memcpy(bytes.data() + header_bytes - sizeof sum, &sum, sizeof sum);
}

/// A sound page with a version of the future.
inline page page_of_version(std::uint32_t version) {
  page bytes;
  encode_header({}, bytes);
  std::array<capnp::word, header_bytes / sizeof(capnp::word)> words;
  std::memcpy(words.data(), bytes.data(), header_bytes);
  capnp::FlatArrayMessageReader reader{kj::arrayPtr(words.data(), words.size())};
  capnp::MallocMessageBuilder builder;
  builder.setRoot(reader.getRoot<proto::BlockHeader>());
  builder.getRoot<proto::BlockHeader>().setVersion(version);
  auto flat = capnp::messageToFlatArray(builder);
  bytes = {};
  std::memcpy(bytes.data(), flat.begin(), flat.size() * sizeof(capnp::word));
  reseal(bytes);
  return bytes;
}

} // namespace dualpath::storage::testing
