// Where the blocks of a run are stored: as the user says, or in a temporary folder that is gone afterwards.
#pragma once

#include "apps/options.hpp"
#include "apps/temporary_folder.hpp"
#include "core/result.hpp"
#include "storage/store_spec.hpp"

#include <optional>
#include <string>

namespace dualpath::apps {

struct run_store {
  storage::store_spec spec;
  std::string text; ///< as --store takes it, from any folder; "": nothing is stored outside a process
  std::optional<temporary_folder> temporary;

  /// `many_processes`: the oracle's store is memory that all of them reach.
  static core::result<run_store> open(const run_options& options, bool many_processes);
};

} // namespace dualpath::apps
