// Which storage NICs are better left alone for a while, since a read through one of them failed with an I/O
// error or was not answered. Without this, a side whose storage is broken would cost each request a read that
// fails first. When the pause is over one read finds out, and no other goes there until it has succeeded, or
// is not going to be answered any more. Pure; not thread-safe.
#pragma once

#include "core/clock.hpp"
#include "core/ids.hpp"

#include <map>

namespace dualpath::core {

class read_pause {
public:
  /// `patience`: by then a read is answered, or told to have failed.
  explicit read_pause(duration pause = {}, duration patience = {}) : pause_{pause}, patience_{patience} {}

  /// A read through the storage NIC of the node failed, or was not answered.
  void failed(node_id node, instant now);
  /// A read has been placed there.
  void placed(node_id node, instant now);
  /// A read there has succeeded. One that began before the failure says nothing of now: only after a pause
  /// does it count.
  void succeeded(node_id node);
  /// Whether reads had better go elsewhere.
  bool avoids(node_id node, instant now) const;

private:
  struct entry {
    instant until{0};
    bool tried = false; ///< a read was placed after the pause
  };
  duration pause_, patience_;
  std::map<node_id, entry> nodes_;
};

} // namespace dualpath::core
