#include "ceph_stores.hpp"

namespace dualpath::storage::testing {

std::filesystem::path ceph_conf() {
  const char* conf = std::getenv("DUALPATH_CEPH_CONF");
  if (!conf) FAIL("DUALPATH_CEPH_CONF names no ceph.conf; run tests/storage/ceph/run PROGRAM");
  return conf;
}

rados_store_options fresh_model() {
  rados_store_options options{.conf = ceph_conf(), .pool = "kv", .layout = layout};
  std::random_device random;
  for (auto& byte : options.model.bytes) byte = static_cast<std::uint8_t>(random());
  return options;
}

subject any_store() {
  return {"Ceph", [options = fresh_model()] { return take(open_rados_store(options)); }, {}};
}

} // namespace dualpath::storage::testing
