// Where the blocks of a run are stored: as the user says, or in a temporary folder that is gone afterwards.
#pragma once

#include "apps/options.hpp"
#include "core/result.hpp"
#include "storage/store_spec.hpp"

#include <string>

namespace dualpath::apps {

class run_store {
public:
  /// `many_processes`: the oracle's store is memory that all of them reach.
  static core::result<run_store> open(const run_options& options, bool many_processes);
  run_store(run_store&& other) noexcept;
  run_store& operator=(run_store&&) = delete;
  ~run_store();

  const storage::store_spec& spec() const { return spec_; }
  /// As --store takes it, from any folder; "" where nothing is stored outside a process.
  std::string text() const { return text_; }

private:
  run_store(storage::store_spec spec, std::string text, bool temporary)
      : spec_{std::move(spec)}, text_{std::move(text)}, temporary_{temporary} {}
  storage::store_spec spec_;
  std::string text_;
  bool temporary_;
};

} // namespace dualpath::apps
