// A block store whose disk fails on demand: reads, writes or both end with an error of the test's choice
// until told otherwise, without reaching the store inside. Thread-safe; completions of failed operations run
// inside the call, which callers must bear.
#pragma once

#include "storage/block_store.hpp"

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace dualpath::testing {

class faulty_store final : public storage::block_store {
public:
  explicit faulty_store(std::shared_ptr<storage::block_store> inner) : inner_{std::move(inner)} {}

  std::atomic<bool> reads_fail = false, writes_fail = false;
  std::set<core::block_key> unreadable; ///< fail to be read even so; not to be changed while reads go on
  std::atomic<std::uint64_t> reads_failed = 0, writes_failed = 0;

  std::uint64_t payload_bytes() const override { return inner_->payload_bytes(); }
  void read(const core::block_key& key, std::span<std::byte> payload, done on_done) override {
    if (!reads_fail && !unreadable.contains(key)) return inner_->read(key, payload, std::move(on_done));
    ++reads_failed;
    on_done(broken("read"));
  }
  void write(const storage::block_name& name, std::span<const std::byte> payload, done on_done) override {
    if (!writes_fail) return inner_->write(name, payload, std::move(on_done));
    ++writes_failed;
    on_done(broken("write"));
  }
  void remove(const core::block_key& key, done on_done) override { inner_->remove(key, std::move(on_done)); }
  core::result<void> scan(const std::function<void(const storage::block_name&)>& visit) override {
    return inner_->scan(visit);
  }
  void on_evicted(std::function<void(const core::block_key&)> tell) override {
    inner_->on_evicted(std::move(tell));
  }
  storage::store_counters counters() const override { return inner_->counters(); }
  std::string describe() const override { return inner_->describe(); }

private:
  static core::error broken(const std::string& verb) {
    return {core::errc::io, "cannot " + verb + " a block: Input/output error"};
  }
  std::shared_ptr<storage::block_store> inner_;
};

} // namespace dualpath::testing
