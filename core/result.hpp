// Errors as values. Data-plane code never throws; a code exists only where a caller reacts to it, everything
// else is told by the text, which names the thing, the value and what to do.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace dualpath::core {

enum class errc : unsigned char {
  invalid_argument, ///< bad input of a user: report and exit
  not_found,        ///< a block that is not stored: a miss
  corrupt,          ///< failed verification: a miss, and the block is removed
  io,               ///< a device failed: try the other path or recompute
  no_space,         ///< disk full: go on without writes
  timed_out,        ///< a deadline passed
  disconnected,     ///< the peer is gone
  refused,          ///< a peer of another model, layout or version
  unsupported,      ///< something valid that this build or machine cannot do
  closed,           ///< the device is shutting down
  corrupt_kv,       ///< KV bytes differ from what was computed: a bug, stop
};

constexpr const char* to_string(errc code) {
  switch (code) {
  case errc::invalid_argument:
    return "invalid argument";
  case errc::not_found:
    return "not found";
  case errc::corrupt:
    return "corrupt";
  case errc::io:
    return "i/o error";
  case errc::no_space:
    return "no space";
  case errc::timed_out:
    return "timed out";
  case errc::disconnected:
    return "disconnected";
  case errc::refused:
    return "refused";
  case errc::unsupported:
    return "unsupported";
  case errc::closed:
    return "closed";
  case errc::corrupt_kv:
    return "corrupt KV";
  }
  return "unknown";
}

struct [[nodiscard]] error {
  errc code = errc::io;
  std::string text;
};

/// Either a value or an error.
template <class T>
class [[nodiscard]] result {
public:
  result(T value) : state_{std::in_place_index<0>, std::move(value)} {}
  result(core::error failure) : state_{std::in_place_index<1>, std::move(failure)} {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  const core::error& error() const { return *std::get_if<1>(&state_); }

private:
  std::variant<T, core::error> state_;
};

template <>
class [[nodiscard]] result<void> {
public:
  result() = default;
  result(core::error failure) : failure_{std::move(failure)} {}

  bool has_value() const { return !failure_; }
  explicit operator bool() const { return has_value(); }
  const core::error& error() const {
    assert(failure_);
    return *failure_;
  }

private:
  std::optional<core::error> failure_; ///< success is passed on at the cost of a flag
};

} // namespace dualpath::core
