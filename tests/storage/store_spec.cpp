#include "storage/store_spec.hpp"

#include "fixture.hpp"

namespace dualpath::storage::testing {
namespace {

using kind = store_spec::kind;

TEST_CASE("a store is named by its kind, and a plain path is a folder of files") {
  auto parsed = [](const char* text) {
    auto spec = parse_store_spec(text);
    INFO(text);
    REQUIRE(spec);
    return *spec;
  };
  CHECK(parsed("/mnt/kv") == store_spec{kind::files, "/mnt/kv", {}});
  CHECK(parsed("kv") == store_spec{kind::files, "kv", {}});
  CHECK(parsed("file:/mnt/kv") == store_spec{kind::files, "/mnt/kv", {}});
  CHECK(parsed("file:a:b") == store_spec{kind::files, "a:b", {}});
  CHECK(parsed("/mnt/a:b") == store_spec{kind::files, "/mnt/a:b", {}});
  CHECK(parsed("rados:/etc/ceph/ceph.conf/kv") == store_spec{kind::rados, "/etc/ceph/ceph.conf", "kv"});
  CHECK(parsed("rados:ceph.conf/kv") == store_spec{kind::rados, "ceph.conf", "kv"});
}

TEST_CASE("a store that cannot be understood is refused with what was written and what may be") {
  for (auto* text :
       {"", "file:", "rados:", "rados:ceph.conf", "rados:/kv", "rados:ceph.conf/", "nfs:server/kv"}) {
    INFO(text);
    auto spec = parse_store_spec(text);
    REQUIRE_FALSE(spec);
    CHECK(spec.error().code == core::errc::invalid_argument);
    CHECK_THAT(spec.error().text,
               Catch::Contains("'" + std::string{text} + "'") && Catch::Contains("rados:CONF/POOL"));
  }
}

TEST_CASE("a file store opens by its specification, with the capacity asked for") {
  temp_folder folder;
  auto spec = parse_store_spec("file:" + folder.path().string());
  REQUIRE(spec);
  store_request request{.model = model(1), .layout = {.layers = 1, .block_tokens = 4, .token_bytes = 1024}};
  request.capacity_bytes = 2 * (4096 + 4096);
  auto store = open_store(*spec, request);
  INFO((store ? "" : store.error().text));
  REQUIRE(store);
  for (std::uint32_t prompt = 0; prompt < 4; ++prompt)
    REQUIRE(write(**store, chain(prompt, 1).front(), content(prompt, 4096)) == "ok");
  CHECK(scan(**store).size() == 2);
}

TEST_CASE("a Ceph store that is not there is an error in one sentence, whether or not this build has Ceph") {
  auto spec = parse_store_spec("rados:/nonexistent/ceph.conf/kv");
  REQUIRE(spec);
  auto store =
      open_store(*spec, {.model = model(1), .layout = {.layers = 1, .block_tokens = 4, .token_bytes = 8}});
  REQUIRE_FALSE(store);
  CHECK_THAT(store.error().text, Catch::Contains("/nonexistent/ceph.conf"));
}

} // namespace
} // namespace dualpath::storage::testing
