#include "apps/run_store.hpp"

#include <cstdlib>
#include <filesystem>
#include <utility>

namespace dualpath::apps {

namespace {

namespace fs = std::filesystem;

constexpr const char* shared_memory = "/dev/shm";

core::result<fs::path> make_temporary(const fs::path& parent) {
  auto pattern = (parent / "dualpath-store-XXXXXX").string();
  if (::mkdtemp(pattern.data()) != nullptr) return fs::path{pattern};
  return core::error{core::errc::io, "cannot make a temporary folder for the block store at '" + pattern
                                         + "'; name one with --store"};
}

} // namespace

core::result<run_store> run_store::open(const run_options& options, bool many_processes) {
  auto oracle = options.policy == core::policy::oracle;
  if (options.policy == core::policy::recompute || (oracle && !many_processes))
    return run_store{{}, {}, false};
  if (!options.store.empty() && !oracle) {
    auto spec = storage::parse_store_spec(options.store);
    if (!spec) return spec.error();
    auto text = spec->what == storage::store_spec::kind::files ? "file:" + fs::absolute(spec->path).string()
                                                               : options.store;
    return run_store{std::move(*spec), text, false};
  }
  std::error_code failed;
  auto folder = make_temporary(oracle ? fs::path{shared_memory} : fs::temp_directory_path(failed));
  if (!folder) return folder.error();
  return run_store{{storage::store_spec::kind::files, *folder, {}}, "file:" + folder->string(), true};
}

run_store::run_store(run_store&& other) noexcept
    : spec_{std::move(other.spec_)},
      text_{std::move(other.text_)},
      temporary_{std::exchange(other.temporary_, false)} {}

run_store::~run_store() {
  std::error_code ignored;
  if (temporary_) fs::remove_all(spec_.path, ignored);
}

} // namespace dualpath::apps
