#include "apps/run_store.hpp"

#include <filesystem>
#include <utility>

namespace dualpath::apps {

namespace {

namespace fs = std::filesystem;

constexpr const char* shared_memory = "/dev/shm";

} // namespace

core::result<run_store> run_store::open(const run_options& options, bool many_processes) {
  using kind = storage::store_spec::kind;
  auto oracle = options.policy == core::policy::oracle;
  if (options.policy == core::policy::recompute || (oracle && !many_processes)) return run_store{};
  if (!options.store.empty() && !oracle) {
    auto spec = storage::parse_store_spec(options.store);
    if (!spec) return spec.error();
    auto text = spec->what == kind::files ? "file:" + fs::absolute(spec->path).string() : options.store;
    return run_store{std::move(*spec), text, {}};
  }
  auto folder = temporary_folder::make("dualpath-store", oracle ? shared_memory : "");
  if (!folder)
    return core::error{folder.error().code, folder.error().text + "; name one for blocks with --store"};
  auto path = folder->path();
  return run_store{{kind::files, path, {}}, "file:" + path.string(), std::move(*folder)};
}

} // namespace dualpath::apps
