// What the request scheduler charges to every engine, and what waits for every group, kept so that no choice
// has to look at all engines of a cluster: engines are found by their group, which is a role on a node, and
// the sums over groups are kept up to date with every charge. A plain object; not thread-safe.
#pragma once

#include "core/ids.hpp"
#include "core/policy/engine_load.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dualpath::core {

class engine_table {
public:
  /// The engine takes work, for the first time or again; what is charged to it stays. `hbm_tokens`: room for
  /// KV-cache, of decode engines.
  void up(engine_id engine, node_id node, engine_role role, std::uint64_t hbm_tokens);
  /// It takes none; what is charged to it stays until it is released. Unknown engines are ignored.
  void down(engine_id engine);
  /// It takes none and is not expected to: drained, or lost with its node. up() takes it back.
  void retire(engine_id engine);

  /// A request of so many tokens is the engine's from now on; the engine has been up once.
  void charge(engine_id engine, std::uint64_t tokens);
  /// It is no longer; as charged.
  void release(engine_id engine, std::uint64_t tokens);

  /// A request waits in the private queue of a node's decode group, or no longer does.
  void add_waiting(node_id group, std::uint64_t tokens);
  void remove_waiting(node_id group, std::uint64_t tokens);

  /// Engines of the group that are up, in the order of their ids.
  std::vector<engine_load> loads_of(node_id node, engine_role role, std::uint64_t read_queue_tokens) const;
  bool has_live(node_id node, engine_role role) const;
  /// The most that any decode engine of the node can hold, up or down; 0 where there is none.
  std::uint64_t most_hbm_tokens(node_id node) const;
  std::size_t live_count() const { return live_count_; }
  /// Requests charged to the engine; 0 where it is unknown.
  std::uint64_t requests_of(engine_id engine) const;

  /// The decode groups that take requests, in the order of their nodes: those with an engine that is up, or,
  /// where there is none in the cluster, all with one that is only down. Valid until the next call that is
  /// not const.
  std::span<const node_id> decode_groups() const { return decode_groups_; }
  /// Unfinished tokens of each: charged to its engines that are up (in a cluster without any: to those that
  /// are only down), and waiting.
  std::span<const std::uint64_t> decode_group_tokens() const { return decode_group_tokens_; }

private:
  struct entry {
    node_id node;
    engine_role role = engine_role::prefill;
    bool live = false, retired = false;
    std::uint64_t requests = 0, tokens = 0, hbm_tokens = 0;
  };
  struct group {
    std::vector<engine_id> engines; ///< sorted
    std::uint64_t waiting_tokens = 0;
    std::size_t index = none; ///< in decode_groups_
  };
  using group_key = std::pair<node_id, engine_role>;
  static constexpr std::size_t none = ~std::size_t{0};

  const group* find(node_id node, engine_role role) const;
  bool counts(const entry& engine) const { return any_decode_live_ ? engine.live : !engine.retired; }
  void leave_group(engine_id engine, const entry& from);
  void count(const entry& engine, std::uint64_t tokens, bool more);
  void count_waiting(node_id node, std::uint64_t tokens, bool more);
  void list_decode_groups();

  std::unordered_map<engine_id, entry> engines_;
  std::map<group_key, group> groups_;
  std::vector<node_id> decode_groups_;
  std::vector<std::uint64_t> decode_group_tokens_;
  std::size_t live_count_ = 0;
  bool any_decode_live_ = false;
};

} // namespace dualpath::core
