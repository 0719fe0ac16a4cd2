#include "net/wire.hpp"

#include "proto/peer.capnp.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>

namespace dualpath::net::wire {
namespace {

using digest = std::array<std::uint8_t, 16>;

core::error malformed(const char* what, const std::string& why) {
  return {core::errc::invalid_argument, std::string{"malformed "} + what + " of a peer: " + why};
}

template <class Root, class Fill>
bytes to_bytes(Fill fill) {
  capnp::word scratch[128] = {};
  capnp::MallocMessageBuilder builder{kj::arrayPtr(scratch, 128)};
  fill(builder.template initRoot<Root>());
  auto words = capnp::messageToFlatArray(builder);
  auto chars = words.asBytes();
  bytes out(chars.size());
  std::memcpy(out.data(), chars.begin(), chars.size());
  return out;
}

template <class Root, class Value, class Read>
core::result<Value> from_bytes(const char* what, view from, Read read) {
  if (from.empty() || from.size() > max_bytes || from.size() % sizeof(capnp::word) != 0) {
    return malformed(what, std::to_string(from.size()) + " bytes is no possible size");
  }
  try {
    auto words = kj::heapArray<capnp::word>(from.size() / sizeof(capnp::word));
    std::memcpy(words.begin(), from.data(), from.size());
    capnp::ReaderOptions limits;
    limits.traversalLimitInWords = 4 * words.size();
    limits.nestingLimit = 8;
    capnp::FlatArrayMessageReader reader{words, limits};
    return read(reader.template getRoot<Root>());
  } catch (const kj::Exception& exception) {
    return malformed(what, exception.getDescription().cStr());
  } catch (const std::exception& exception) {
    return malformed(what, exception.what());
  }
}

kj::ArrayPtr<const kj::byte> as_data(view from) {
  return {reinterpret_cast<const kj::byte*>(from.data()), from.size()};
}

bytes copy_of(capnp::Data::Reader from) {
  bytes out(from.size());
  if (!out.empty()) std::memcpy(out.data(), from.begin(), from.size());
  return out;
}

template <class Builder>
void write_list(Builder list, const std::array<bytes, lane_count>& from) {
  for (std::size_t i = 0; i < lane_count; ++i) list.set(static_cast<unsigned>(i), as_data(from[i]));
}

template <class Reader>
bool read_list(Reader list, std::array<bytes, lane_count>& to) {
  if (list.size() != lane_count) return false;
  for (std::size_t i = 0; i < lane_count; ++i) to[i] = copy_of(list[static_cast<unsigned>(i)]);
  return true;
}

digest digest_of(const std::array<bytes, lane_count>& parts, std::array<std::uint64_t, 3> numbers) {
  bytes all;
  auto append = [&](const void* from, std::size_t size) {
    auto first = static_cast<const std::byte*>(from);
    all.insert(all.end(), first, first + size);
  };
  append(numbers.data(), sizeof numbers);
  for (auto& part : parts) {
    std::uint64_t size = part.size();
    append(&size, sizeof size);
    append(part.data(), part.size());
  }
  return core::digest128(all);
}

bool matches(capnp::Data::Reader found, const digest& wanted) {
  return found.size() == wanted.size() && std::equal(wanted.begin(), wanted.end(), found.begin());
}

void write(proto::Identity::Builder to, const peer_identity& from) {
  to.setProtocolVersion(from.version);
  to.setInstance(from.who.instance);
  to.setEngine(from.who.engine.value);
  to.setIncarnation(from.who.incarnation.value);
  auto& model = from.who.model.bytes;
  to.setModel(kj::arrayPtr(model.data(), model.size()));
  auto layout = to.initLayout();
  layout.setLayers(from.who.layout.layers);
  layout.setBlockTokens(from.who.layout.block_tokens);
  layout.setTokenBytes(from.who.layout.token_bytes);
}

bool read(proto::Identity::Reader from, peer_identity& to) {
  to.version = from.getProtocolVersion();
  to.who.instance = from.getInstance();
  to.who.engine = core::engine_id{from.getEngine()};
  to.who.incarnation = core::incarnation{from.getIncarnation()};
  auto model = from.getModel();
  if (model.size() != to.who.model.bytes.size()) return false;
  std::copy(model.begin(), model.end(), to.who.model.bytes.begin());
  auto layout = from.getLayout();
  to.who.layout = {layout.getLayers(), layout.getBlockTokens(), layout.getTokenBytes()};
  return true;
}

void write(proto::Address::Builder to, const address& from) {
  write(to.initIdentity(), from.sender);
  write_list(to.initLanes(lane_count), from.lanes);
  auto sum = digest_of(from.lanes, {});
  to.setDigest(kj::arrayPtr(sum.data(), sum.size()));
}

/// The defect, or nullptr.
const char* read(proto::Address::Reader from, address& to) {
  if (!read(from.getIdentity(), to.sender)) return "its model fingerprint is not 16 bytes";
  if (!read_list(from.getLanes(), to.lanes)) return "it does not have one address a lane";
  if (!matches(from.getDigest(), digest_of(to.lanes, {}))) return "its digest does not match";
  return nullptr;
}

} // namespace

bytes encode(const address& value) {
  return to_bytes<proto::Address>([&](proto::Address::Builder root) { write(root, value); });
}

bytes encode(const hello& value) {
  return to_bytes<proto::Hello>([&](proto::Hello::Builder root) {
    write(root.initSender(), value.sender);
    root.setTargetInstance(value.target_instance);
    root.setGeneration(value.generation);
    root.setHeard(value.heard);
    root.setReplyTo(as_data(value.reply_to));
    auto sum = core::digest128(value.reply_to);
    root.setReplyDigest(kj::arrayPtr(sum.data(), sum.size()));
    root.setProof(as_data(value.proof));
  });
}

bytes prove(const hello& value, std::string_view secret) {
  if (secret.empty()) return {};
  auto bare = value;
  bare.proof.clear();
  auto text = encode(bare);
  bytes proof(EVP_MAX_MD_SIZE);
  unsigned int length = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(proof.data()), &length);
  proof.resize(length);
  return proof;
}

bytes encode(const hello_reply& value) {
  return to_bytes<proto::HelloReply>([&](proto::HelloReply::Builder root) {
    write(root.initSender(), value.sender);
    root.setNamedInstance(value.named_instance);
    root.setHelloGeneration(value.hello_generation);
    root.setGeneration(value.generation);
    root.setRefusal(value.refusal.c_str());
  });
}

bytes encode(const bye& value) {
  return to_bytes<proto::Bye>([&](proto::Bye::Builder root) {
    root.setSenderInstance(value.sender_instance);
    root.setGeneration(value.generation);
    root.setReason(value.reason.c_str());
  });
}

bytes encode(const message_header& value) {
  return to_bytes<proto::MessageHeader>([&](proto::MessageHeader::Builder root) {
    root.setSenderInstance(value.sender_instance);
    root.setTargetInstance(value.target_instance);
    root.setKind(value.kind);
    root.setLength(value.length);
  });
}

bytes encode(const region& value) {
  return to_bytes<proto::Region>([&](proto::Region::Builder root) {
    root.setInstance(value.instance);
    root.setBase(value.base);
    root.setSize(value.size);
    write_list(root.initKeys(lane_count), value.keys);
    auto sum = digest_of(value.keys, {value.instance, value.base, value.size});
    root.setDigest(kj::arrayPtr(sum.data(), sum.size()));
  });
}

bytes encode(const copy_request& value) {
  return to_bytes<proto::CopyRequest>([&](proto::CopyRequest::Builder root) {
    root.setSenderInstance(value.sender_instance);
    root.setTargetInstance(value.target_instance);
    auto chunks = root.initChunks(static_cast<unsigned>(value.chunks.size()));
    for (unsigned i = 0; i < chunks.size(); ++i) {
      auto& from = value.chunks[i];
      chunks[i].setNumber(from.number);
      chunks[i].setBase(from.base);
      chunks[i].setSize(from.size);
      auto rows = chunks[i].initRows(static_cast<unsigned>(from.rows.size()));
      for (unsigned j = 0; j < rows.size(); ++j) {
        rows[j].setOffset(from.rows[j].offset);
        rows[j].setBytes(from.rows[j].bytes);
      }
    }
  });
}

bytes encode(const copy_reply& value) {
  return to_bytes<proto::CopyReply>([&](proto::CopyReply::Builder root) {
    root.setSenderInstance(value.sender_instance);
    root.setTargetInstance(value.target_instance);
    auto chunks = root.initChunks(static_cast<unsigned>(value.chunks.size()));
    for (unsigned i = 0; i < chunks.size(); ++i) chunks.set(i, value.chunks[i]);
    root.setRefusal(value.refusal.c_str());
  });
}

core::result<copy_request> decode_copy_request(view from) {
  return from_bytes<
      proto::CopyRequest,
      copy_request>("copy request", from, [](proto::CopyRequest::Reader root) -> core::result<copy_request> {
    copy_request out{root.getSenderInstance(), root.getTargetInstance(), {}};
    for (auto each : root.getChunks()) {
      auto& chunk = out.chunks.emplace_back(copy_chunk{each.getNumber(), each.getBase(), each.getSize(), {}});
      for (auto row : each.getRows()) chunk.rows.push_back({row.getOffset(), row.getBytes()});
    }
    return out;
  });
}

core::result<copy_reply> decode_copy_reply(view from) {
  return from_bytes<proto::CopyReply, copy_reply>(
      "copy reply", from, [](proto::CopyReply::Reader root) -> core::result<copy_reply> {
        copy_reply out{root.getSenderInstance(), root.getTargetInstance(), {}, root.getRefusal().cStr()};
        for (auto chunk : root.getChunks()) out.chunks.push_back(chunk);
        return out;
      });
}

core::result<address> decode_address(view from) {
  return from_bytes<proto::Address, address>("address", from,
                                             [](proto::Address::Reader root) -> core::result<address> {
                                               address out;
                                               if (auto defect = read(root, out))
                                                 return malformed("address", defect);
                                               return out;
                                             });
}

core::result<hello> decode_hello(view from) {
  return from_bytes<proto::Hello, hello>("hello", from, [](proto::Hello::Reader root) -> core::result<hello> {
    hello out;
    if (auto defect = read(root.getSender(), out.sender)) return malformed("hello", defect);
    out.target_instance = root.getTargetInstance();
    out.generation = root.getGeneration();
    out.heard = root.getHeard();
    out.reply_to = copy_of(root.getReplyTo());
    if (!matches(root.getReplyDigest(), core::digest128(out.reply_to))) {
      return malformed("hello", "its digest does not match");
    }
    out.proof = copy_of(root.getProof());
    return out;
  });
}

core::result<hello_reply> decode_hello_reply(view from) {
  return from_bytes<proto::HelloReply, hello_reply>(
      "hello reply", from, [](proto::HelloReply::Reader root) -> core::result<hello_reply> {
        hello_reply out;
        if (!read(root.getSender(), out.sender)) {
          return malformed("hello reply", "its model fingerprint is not 16 bytes");
        }
        out.named_instance = root.getNamedInstance();
        out.hello_generation = root.getHelloGeneration();
        out.generation = root.getGeneration();
        out.refusal = root.getRefusal().cStr();
        return out;
      });
}

core::result<bye> decode_bye(view from) {
  return from_bytes<proto::Bye, bye>("bye", from, [](proto::Bye::Reader root) -> core::result<bye> {
    return bye{root.getSenderInstance(), root.getGeneration(), root.getReason().cStr()};
  });
}

core::result<message_header> decode_message_header(view from) {
  return from_bytes<proto::MessageHeader, message_header>(
      "message header", from, [](proto::MessageHeader::Reader root) -> core::result<message_header> {
        return message_header{root.getSenderInstance(), root.getTargetInstance(), root.getKind(),
                              root.getLength()};
      });
}

core::result<region> decode_region(view from) {
  return from_bytes<proto::Region, region>(
      "region", from, [](proto::Region::Reader root) -> core::result<region> {
        region out{root.getInstance(), root.getBase(), root.getSize(), {}};
        if (!read_list(root.getKeys(), out.keys))
          return malformed("region", "it does not have one key a lane");
        if (!matches(root.getDigest(), digest_of(out.keys, {out.instance, out.base, out.size}))) {
          return malformed("region", "its digest does not match");
        }
        if (out.base + out.size < out.base) return malformed("region", "it wraps around the address space");
        return out;
      });
}

} // namespace dualpath::net::wire
