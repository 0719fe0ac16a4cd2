#include "storage/rados_pool.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace dualpath::storage {
namespace {

/// An operation in flight; librados holds it by address and its completion frees it.
struct operation {
  rados_done on_done;
  rados_completion_t completion = nullptr;
  std::size_t page_bytes = 0, payload_bytes = 0;
  std::uint64_t object_bytes = 0;
  int page_code = 0, payload_code = 0, stat_code = 0;
};

void finish(rados_completion_t completion, void* argument) {
  std::unique_ptr<operation> one{static_cast<operation*>(argument)};
  rados_outcome outcome;
  outcome.code = std::min(rados_aio_get_return_value(completion), 0);
  outcome.version = rados_aio_get_version(completion);
  outcome.read_bytes = one->page_bytes + one->payload_bytes;
  outcome.object_bytes = one->object_bytes;
  rados_aio_release(completion);
  one->on_done(outcome);
}

std::unique_ptr<operation> begin(rados_done on_done) {
  auto one = std::make_unique<operation>();
  one->on_done = std::move(on_done);
  rados_aio_create_completion2(one.get(), finish, &one->completion);
  return one;
}

/// What `submit` returns is an error that no completion will tell.
void start(std::unique_ptr<operation> one, const std::function<int(rados_completion_t)>& submit) {
  auto* flying = one.release();
  auto completion = flying->completion;
  if (int rc = submit(completion); rc < 0) {
    std::unique_ptr<operation> landed{flying};
    rados_aio_release(completion);
    landed->on_done({.code = rc});
  }
}

const char* chars(std::span<const std::byte> bytes) { return reinterpret_cast<const char*>(bytes.data()); }

using write_op = std::unique_ptr<void, void (*)(void*)>;
write_op make_write_op() { return {rados_create_write_op(), rados_release_write_op}; }

/// A full cluster otherwise makes writers wait until somebody deletes something.
constexpr int try_when_full = LIBRADOS_OPERATION_FULL_TRY;

std::string seconds_of(core::duration d) {
  auto whole = std::chrono::ceil<std::chrono::seconds>(d).count();
  return std::to_string(std::max<std::int64_t>(whole, 1));
}

core::error bad_option(std::string text) { return {core::errc::invalid_argument, std::move(text)}; }

/// The largest object an OSD takes in one write, where the configuration of the client tells.
std::uint64_t most_write_bytes(rados_t cluster) {
  char text[32] = {};
  if (rados_conf_get(cluster, "osd_max_write_size", text, sizeof text) < 0) return 90ULL << 20;
  return std::strtoull(text, nullptr, 10) << 20;
}

std::optional<core::error> configure(rados_t cluster, const rados_store_options& options) {
  auto object_bytes = header_bytes + padded_bytes(options.layout.full_block_bytes());
  // The client would make a submitter wait beyond these.
  auto in_flight_bytes = std::max<std::uint64_t>(100ULL << 20, 2 * options.queue_depth * object_bytes);
  const std::pair<const char*, std::string> settings[] = {
      {"rados_osd_op_timeout", seconds_of(options.deadline)},
      {"rados_mon_op_timeout", seconds_of(options.connect_deadline)},
      {"client_mount_timeout", seconds_of(options.connect_deadline)},
      {"objecter_inflight_op_bytes", std::to_string(in_flight_bytes)},
      {"objecter_inflight_ops", std::to_string(std::max(1024U, 2 * options.queue_depth))},
  };
  for (const auto& [name, value] : settings)
    if (int rc = rados_conf_set(cluster, name, value.c_str()); rc < 0)
      return bad_option(std::string{"Ceph does not take "} + name + " = " + value + ": "
                        + std::strerror(-rc));
  if (auto most = most_write_bytes(cluster); object_bytes > most)
    return bad_option("a block of " + std::to_string(object_bytes) + " bytes is more than the "
                      + std::to_string(most)
                      + " bytes an OSD writes at once (osd_max_write_size); use fewer tokens a block");
  return {};
}

} // namespace

core::result<std::unique_ptr<rados_pool>> rados_pool::open(const rados_store_options& options,
                                                           std::string name_space) {
  auto conf = options.conf.string();
  std::unique_ptr<rados_pool> pool{new rados_pool};
  pool->name_ = "pool " + options.pool + " of Ceph at " + conf;
  if (int rc = rados_create(&pool->cluster_, options.user.c_str()); rc < 0)
    return bad_option("cannot make a Ceph client for user '" + options.user + "': " + std::strerror(-rc));
  if (int rc = rados_conf_read_file(pool->cluster_, conf.c_str()); rc < 0)
    return bad_option("cannot read the Ceph configuration " + conf + ": " + std::strerror(-rc));
  if (auto failure = configure(pool->cluster_, options)) return *failure;
  if (int rc = rados_connect(pool->cluster_); rc < 0)
    return core::error{core::errc::io, "cannot connect to Ceph at " + conf + ": " + std::strerror(-rc)
                                           + "; check its monitors, and the keyring of client."
                                           + options.user};
  if (int rc = rados_ioctx_create(pool->cluster_, options.pool.c_str(), &pool->io_); rc < 0)
    return rc == -ENOENT
               ? bad_option("Ceph at " + conf + " has no pool '" + options.pool
                            + "'; make one: ceph osd pool create " + options.pool)
               : core::error{core::errc::io, "cannot open " + pool->name_ + ": " + std::strerror(-rc)};
  rados_ioctx_set_namespace(pool->io_, name_space.c_str());
  return pool;
}

rados_pool::~rados_pool() {
  if (io_) rados_ioctx_destroy(io_);
  if (cluster_) rados_shutdown(cluster_);
}

void rados_pool::read(const std::string& object, header_page page, std::span<std::byte> payload,
                      rados_done on_done) {
  auto one = begin(std::move(on_done));
  std::unique_ptr<void, void (*)(void*)> op{rados_create_read_op(), rados_release_read_op};
  rados_read_op_stat(op.get(), &one->object_bytes, nullptr, &one->stat_code);
  rados_read_op_read(op.get(), 0, page.size(), reinterpret_cast<char*>(page.data()), &one->page_bytes,
                     &one->page_code);
  if (!payload.empty())
    rados_read_op_read(op.get(), page.size(), payload.size(), reinterpret_cast<char*>(payload.data()),
                       &one->payload_bytes, &one->payload_code);
  start(std::move(one), [&](rados_completion_t completion) {
    return rados_aio_read_op_operate(op.get(), io_, completion, object.c_str(), LIBRADOS_OPERATION_NOFLAG);
  });
}

void rados_pool::create(const std::string& object, const_header_page page, std::span<const std::byte> payload,
                        rados_done on_done) {
  auto op = make_write_op();
  rados_write_op_create(op.get(), LIBRADOS_CREATE_EXCLUSIVE, nullptr);
  rados_write_op_write(op.get(), chars(page), page.size(), 0);
  rados_write_op_write(op.get(), chars(payload), payload.size(), page.size());
  start(begin(std::move(on_done)), [&](rados_completion_t completion) {
    return rados_aio_write_op_operate(op.get(), io_, completion, object.c_str(), nullptr, try_when_full);
  });
}

void rados_pool::remove(const std::string& object, rados_done on_done) {
  auto op = make_write_op();
  rados_write_op_remove(op.get());
  start(begin(std::move(on_done)), [&](rados_completion_t completion) {
    return rados_aio_write_op_operate(op.get(), io_, completion, object.c_str(), nullptr, try_when_full);
  });
}

void rados_pool::remove_version(const std::string& object, std::uint64_t version, rados_done on_done) {
  auto op = make_write_op();
  rados_write_op_assert_version(op.get(), version);
  rados_write_op_remove(op.get());
  start(begin(std::move(on_done)), [&](rados_completion_t completion) {
    return rados_aio_write_op_operate(op.get(), io_, completion, object.c_str(), nullptr, try_when_full);
  });
}

int rados_pool::list(const std::function<void(std::string_view object)>& visit) {
  rados_list_ctx_t cursor = nullptr;
  if (int rc = rados_nobjects_list_open(io_, &cursor); rc < 0) return rc;
  std::unique_ptr<void, void (*)(void*)> owner{cursor, rados_nobjects_list_close};
  for (;;) {
    const char* object = nullptr;
    int rc = rados_nobjects_list_next(cursor, &object, nullptr, nullptr);
    if (rc == -ENOENT) return 0;
    if (rc < 0) return rc;
    visit(object);
  }
}

} // namespace dualpath::storage
