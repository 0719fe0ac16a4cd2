#include "storage/store_spec.hpp"

#include "storage/file_store.hpp"
#ifdef DUALPATH_HAVE_RADOS
#include "storage/rados_store.hpp"
#endif

#include <algorithm>

namespace dualpath::storage {
namespace {

core::error bad(std::string_view text, const std::string& why) {
  return {core::errc::invalid_argument,
          "store '" + std::string{text} + "' " + why + "; write file:DIR, rados:CONF/POOL or a folder"};
}

/// "rados" of "rados:…"; "" of a path. A folder whose name has a colon is written file:DIR.
std::string_view scheme_of(std::string_view text) {
  auto colon = text.find(':');
  if (colon == std::string_view::npos) return {};
  auto scheme = text.substr(0, colon);
  bool letters = std::all_of(scheme.begin(), scheme.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return letters ? scheme : std::string_view{};
}

core::result<store_spec> parse_rados(std::string_view text, std::string_view rest) {
  auto slash = rest.rfind('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == rest.size())
    return bad(text, "names no configuration and pool");
  return store_spec{store_spec::kind::rados, rest.substr(0, slash), std::string{rest.substr(slash + 1)}};
}

core::result<std::unique_ptr<block_store>> open_rados([[maybe_unused]] const store_spec& where,
                                                      [[maybe_unused]] const store_request& request) {
#ifdef DUALPATH_HAVE_RADOS
  return open_rados_store({.conf = where.path,
                           .pool = where.pool,
                           .model = request.model,
                           .layout = request.layout,
                           .queue_depth = request.queue_depth,
                           .capacity_bytes = request.capacity_bytes});
#else
  return core::error{core::errc::unsupported,
                     "store rados:" + where.path.string() + "/" + where.pool
                         + " needs Ceph, and this build has none; install librados-dev and build again"};
#endif
}

} // namespace

core::result<store_spec> parse_store_spec(std::string_view text) {
  auto scheme = scheme_of(text);
  auto rest = scheme.empty() ? text : text.substr(scheme.size() + 1);
  if (scheme == "rados") return parse_rados(text, rest);
  if (!scheme.empty() && scheme != "file")
    return bad(text, "is of an unknown kind '" + std::string{scheme} + "'");
  if (rest.empty()) return bad(text, "names no folder");
  return store_spec{store_spec::kind::files, rest, {}};
}

core::result<std::unique_ptr<block_store>> open_store(const store_spec& where, const store_request& request) {
  if (where.what == store_spec::kind::rados) return open_rados(where, request);
  return open_file_store({.directory = where.path,
                          .model = request.model,
                          .layout = request.layout,
                          .queue_depth = request.queue_depth,
                          .capacity_bytes = request.capacity_bytes});
}

} // namespace dualpath::storage
