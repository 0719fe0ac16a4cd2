#include "storage/file_store.hpp"

#include "storage/block_ledger.hpp"
#include "storage/block_paths.hpp"
#include "storage/bounded_store.hpp"
#include "storage/buffer_check.hpp"
#include "storage/file_worker.hpp"
#include "storage/name_inbox.hpp"
#include "storage/store_folder.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace dualpath::storage {
namespace {

constexpr unsigned max_queue_depth = 4096;
constexpr unsigned max_threads = 64;

class file_store final : public block_store {
public:
  file_store(unsigned queue_depth, std::unique_ptr<file_worker::shared_parts> shared,
             std::vector<std::unique_ptr<file_worker>> workers)
      : queue_depth_{queue_depth}, shared_{std::move(shared)}, workers_{std::move(workers)} {}

  ~file_store() override {
    for (auto& worker : workers_) worker->stop();
  }

  std::uint64_t payload_bytes() const override { return shared_->id.layout.full_block_bytes(); }

  void read(const core::block_key& key, std::span<std::byte> payload, done on_done) override {
    if (auto fault = buffer_misfit(payload, payload_bytes()))
      submit(refused_request{std::move(*fault), std::move(on_done)});
    else
      submit(read_request{key, payload.first(padded_bytes(payload_bytes())), std::move(on_done)});
  }
  void write(const block_name& name, std::span<const std::byte> payload, done on_done) override {
    if (auto fault = buffer_misfit(payload, payload_bytes()))
      submit(refused_request{std::move(*fault), std::move(on_done)});
    else
      submit(write_request{name, payload.first(padded_bytes(payload_bytes())), std::move(on_done)});
  }
  void remove(const core::block_key& key, done on_done) override {
    submit(remove_request{key, std::move(on_done)});
  }
  core::result<void> scan(const std::function<void(const block_name&)>& visit) override;

  store_counters counters() const override { return shared_->counters.snapshot(); }
  std::string describe() const override {
    auto& folder = shared_->folder;
    return "blocks of " + std::to_string(payload_bytes()) + " bytes in " + folder.path + " ("
           + folder.file_system + ", " + (folder.direct ? "direct I/O" : "through the page cache")
           + ", io_uring depth " + std::to_string(queue_depth_) + ", threads "
           + std::to_string(workers_.size()) + ")";
  }

private:
  void submit(file_request what) {
    auto* own = file_worker::current();
    if (own == nullptr || !own->serves(*shared_))
      own = std::min_element(workers_.begin(), workers_.end(), [](auto& a, auto& b) {
              return a->load() < b->load();
            })->get();
    own->submit(std::move(what));
  }

  const unsigned queue_depth_;
  std::unique_ptr<file_worker::shared_parts> shared_;
  std::vector<std::unique_ptr<file_worker>> workers_;
};

core::result<void> file_store::scan(const std::function<void(const block_name&)>& visit) {
  name_inbox inbox;
  auto deliver = [&](std::size_t most) {
    for (auto& name : inbox.take(most)) visit(name);
  };
  int rc = walk_blocks(shared_->folder.fd.get(), [&](const core::block_key& key, std::uint64_t file_bytes) {
    inbox.expect();
    submit(
        name_request{key, file_bytes, [&](core::result<block_name> name) { inbox.arrive(std::move(name)); }});
    deliver(2 * std::size_t{queue_depth_});
  });
  deliver(0);
  if (rc != 0)
    return core::error{core::errc::io,
                       "cannot list the blocks in " + shared_->folder.path + ": " + std::strerror(rc)};
  if (auto failure = inbox.failure()) return *failure;
  return {};
}

} // namespace

core::result<std::unique_ptr<block_store>> open_file_store(file_store_options options) {
  if (options.layout.full_block_bytes() == 0)
    return core::error{core::errc::invalid_argument,
                       "the block layout has no bytes (" + std::to_string(options.layout.layers)
                           + " layers of " + std::to_string(options.layout.block_tokens) + " tokens of "
                           + std::to_string(options.layout.token_bytes)
                           + " bytes); every part must be at least 1"};
  if (options.queue_depth == 0 || options.queue_depth > max_queue_depth)
    return core::error{core::errc::invalid_argument,
                       "the block store's queue depth is " + std::to_string(options.queue_depth)
                           + "; choose one from 1 to " + std::to_string(max_queue_depth)};
  if (options.threads == 0 || options.threads > max_threads)
    return core::error{core::errc::invalid_argument, "the block store has " + std::to_string(options.threads)
                                                         + " threads; choose 1 to "
                                                         + std::to_string(max_threads)};
  auto folder = open_store_folder(options.directory, options.model, options.layout, options.direct_io);
  if (!folder) return folder.error();
  // A worker without an operation of its own would only cost a thread.
  auto threads = std::min(options.threads, options.queue_depth);
  auto shared = std::make_unique<file_worker::shared_parts>(
      std::move(*folder), block_files::identity{options.model, options.layout},
      options.keep == durability::power);
  std::vector<std::unique_ptr<file_worker>> workers;
  for (unsigned i = 0; i < threads; ++i) {
    auto worker =
        file_worker::start(*shared, options.queue_depth / threads + (i < options.queue_depth % threads));
    if (!worker) return worker.error();
    workers.push_back(std::move(*worker));
  }
  auto capacity_bytes = options.capacity_bytes;
  auto block_bytes = header_bytes + padded_bytes(options.layout.full_block_bytes());
  auto place = shared->folder.path;
  auto store = std::make_unique<file_store>(options.queue_depth, std::move(shared), std::move(workers));
  if (capacity_bytes == 0) return std::unique_ptr<block_store>{std::move(store)};
  auto ledger = block_ledger::open(place);
  if (ledger) return bound_store(std::move(store), block_bytes, capacity_bytes, std::move(*ledger));
  // Without file locks nobody can agree on anything.
  if (ledger.error().code != core::errc::unsupported) return ledger.error();
  return bound_store(std::move(store), block_bytes, capacity_bytes);
}

} // namespace dualpath::storage
