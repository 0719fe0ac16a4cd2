// The children of a supervisor. It holds them by strong references, since an actor that nobody refers to
// ends, and takes them down with itself, however it ends.
#pragma once

#include <caf/all.hpp>

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace dualpath::actors {

/// Ends an actor at once, whatever waits in its mailbox: an exit message of normal priority would queue
/// behind it all.
inline void stop_actor(const caf::actor& handle) {
  caf::anon_send<caf::message_priority::high>(handle,
                                              caf::exit_msg{handle.address(), caf::exit_reason::kill});
}

class child_table {
public:
  /// Monitors the child on behalf of `parent`.
  template <class Parent, class Handle>
  void adopt(Parent* parent, const Handle& child, std::string what) {
    parent->monitor(child);
    children_.emplace(child.address(), entry{std::move(what), caf::actor_cast<caf::actor>(child)});
  }
  /// The name of a child that has ended, and is forgotten by this; nothing for a stranger.
  std::optional<std::string> remove(const caf::actor_addr& child) {
    auto node = children_.extract(child);
    if (node.empty()) return std::nullopt;
    return std::move(node.mapped().what);
  }
  void stop_all() const {
    for (auto& [address, child] : children_) stop_actor(child.handle);
  }
  bool empty() const { return children_.empty(); }

private:
  struct entry {
    std::string what;
    caf::actor handle;
  };
  std::map<caf::actor_addr, entry> children_;
};

/// An exception that escapes a handler ends the actor, as it should, but with its text as the reason.
template <class Self>
void name_crashes(Self* self) {
  self->set_exception_handler([](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      return caf::make_error(caf::sec::runtime_error, e.what());
    } catch (...) {
      return caf::make_error(caf::sec::runtime_error, "an exception of unknown type");
    }
  });
}

/// A table whose children end with `parent`.
template <class Parent>
std::shared_ptr<child_table> make_child_table(Parent* parent) {
  auto table = std::make_shared<child_table>();
  parent->attach_functor([table] { table->stop_all(); });
  parent->set_exit_handler([parent](caf::exit_msg& order) { parent->quit(order.reason); });
  return table;
}

} // namespace dualpath::actors
