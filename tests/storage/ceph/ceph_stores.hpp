// The cluster under test.
#pragma once

#include "tests/storage/contract_subject.hpp"

#include "storage/rados_store.hpp"

namespace dualpath::storage::testing {

/// ceph.conf, from DUALPATH_CEPH_CONF.
std::filesystem::path ceph_conf();
/// Stores of models nobody else has, over pool kv.
rados_store_options fresh_model();

} // namespace dualpath::storage::testing
