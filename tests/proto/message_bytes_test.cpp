// What crosses between processes: messages as bytes and back.
#include "proto/interfaces.hpp"

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <catch2/catch.hpp>

using namespace dualpath;

namespace {

struct config : caf::actor_system_config {
  config() { add_message_types<caf::id_block::dualpath>(); }
};

struct wire {
  config settings;
  caf::actor_system system{settings};

  template <class Message>
  std::vector<char> bytes_of(Message message) {
    std::vector<char> bytes;
    caf::binary_serializer sink{system, bytes};
    REQUIRE(sink(message) == caf::none);
    return bytes;
  }
  template <class Message>
  caf::error read(const std::vector<char>& bytes, Message& message) {
    caf::binary_deserializer source{system, bytes};
    return source(message);
  }
};

proto::request long_request() {
  proto::request request;
  request.id = core::request_id{7};
  request.session = "session";
  std::vector<core::token_id> context;
  for (core::token_id t = 0; t < 200000; ++t) context.push_back(t * 2654435761U);
  request.context = std::move(context);
  request.keys = core::key_chain(core::model_fingerprint{}, request.context, 64);
  request.attempt = 3;
  return request;
}

} // namespace

TEST_CASE("a request reads as it was written, its tokens as four bytes each and its keys as sixteen",
          "[messages]") {
  wire w;
  auto request = long_request();
  auto bytes = w.bytes_of(proto::prefill_work{request});
  CHECK(bytes.size() < 4 * request.context.size() + 16 * request.keys.size() + 200);
  proto::prefill_work read;
  REQUIRE(w.read(bytes, read) == caf::none);
  CHECK(read.request.context == request.context);
  CHECK(read.request.keys == request.keys);
  CHECK(read.request.session == request.session);
  CHECK(read.request.attempt == 3);
}

TEST_CASE("the bytes a request is counted with are no less than it takes, and little more", "[messages]") {
  wire w;
  auto request = long_request();
  request.client = caf::actor_cast<caf::strong_actor_ptr>(w.system.spawn([] {}));
  for (auto& each : {request, proto::request{}}) {
    auto taken = w.bytes_of(proto::submit{each}).size();
    CHECK(proto::wire_bytes(each) >= taken);
    CHECK(proto::wire_bytes(each) < taken + 300);
  }
}

TEST_CASE("a message that promises more tokens than it brings is refused", "[messages]") {
  wire w;
  auto bytes = w.bytes_of(proto::prefill_work{long_request()});
  for (auto kept : {bytes.size() - 1, bytes.size() / 2, std::size_t{30}}) {
    proto::prefill_work read;
    CHECK(w.read(std::vector<char>(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(kept)), read)
          != caf::none);
  }
}

TEST_CASE("a copy of a message within a process shares its tokens and keys", "[messages]") {
  auto request = long_request();
  auto message = caf::make_message(proto::prefill_work{request});
  auto& inside = message.get_as<proto::prefill_work>(0).request;
  CHECK(inside.context.data() == request.context.data());
  CHECK(inside.keys.data() == request.keys.data());
}

TEST_CASE("a decode engine is told the tokens after the last whole block and the keys from the last hit on",
          "[messages]") {
  proto::request request;
  std::vector<core::token_id> context(1003, 5);
  request.context = context;
  request.keys = core::key_chain(core::model_fingerprint{}, request.context, 10);
  request.hits = {40, 50};
  auto keys = request.keys;
  auto cut = proto::for_decode(request, 10, false);
  CHECK(cut.context_tokens() == request.context_tokens());
  CHECK(cut.total_tokens() == request.total_tokens());
  CHECK(cut.tokens_before == 1000);
  CHECK(cut.context.size() == 3);
  CHECK(cut.keys_before == 89);
  CHECK(cut.keys == keys.from(89));

  request.hits = {};
  CHECK(proto::for_decode(request, 10, false).keys == keys);
  auto whole = proto::for_decode(request, 10, true);
  CHECK(whole.context == request.context);
  CHECK(whole.tokens_before == 0);
}

TEST_CASE("what a decode engine is told of a long request fits into two kilobytes", "[messages]") {
  wire w;
  auto request = long_request();
  request.hits = {0, static_cast<std::uint32_t>(request.keys.size()) - 7};
  CHECK(w.bytes_of(proto::decode_work{proto::for_decode(request, 64, false), 1}).size() < 2000);
}
