// Which storage NIC reads the stored part of a prompt (spec §4), and the policies that choose it.
#pragma once

#include <cstdint>

namespace dualpath::core {

enum class read_path : std::uint8_t {
  none,    ///< nothing was loaded: everything is computed
  prefill, ///< storage → PE buffer
  decode,  ///< storage → DE buffer → (compute network, layer by layer) → PE
};

constexpr const char* to_string(read_path path) {
  return path == read_path::none ? "recompute" : path == read_path::prefill ? "prefill" : "decode";
}

enum class policy : std::uint8_t {
  dualpath,    ///< the side with the shorter read queue
  basic,       ///< the prefill side only
  round_robin, ///< sides in turn
  recompute,   ///< no stored KV is used, none is stored
  oracle,      ///< as dualpath over a store and networks that cost nothing
};

constexpr const char* to_string(policy p) {
  switch (p) {
  case policy::dualpath:
    return "dualpath";
  case policy::basic:
    return "basic";
  case policy::round_robin:
    return "round_robin";
  case policy::recompute:
    return "recompute";
  case policy::oracle:
    return "oracle";
  }
  return "unknown";
}

} // namespace dualpath::core
