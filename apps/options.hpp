// What a run of a cluster is told: one table of options stands behind the command line, the configuration
// file and this struct, so that names, defaults and checks are the same everywhere. Flags win over the file,
// the file over the defaults.
#pragma once

#include "apps/config_file.hpp"
#include "apps/logging.hpp"
#include "core/clock.hpp"
#include "core/policy/qos.hpp"
#include "core/read_path.hpp"
#include "core/result.hpp"
#include "core/workload/arrival.hpp"
#include "kernels/model/model_weights.hpp"
#include "kernels/pattern/pattern_shape.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace dualpath::apps {

struct cluster_size {
  std::uint32_t prefill_nodes = 1, decode_nodes = 1;
  std::uint32_t nodes() const { return prefill_nodes + decode_nodes; }
  friend bool operator==(const cluster_size&, const cluster_size&) = default;
};
/// "2P1D"; both at least 1.
core::result<cluster_size> parse_cluster(std::string_view text);
/// The same, or "0P0D": a cluster that starts empty.
core::result<cluster_size> parse_first_nodes(std::string_view text);
std::string to_string(const cluster_size& shape);

core::result<core::policy> parse_policy(std::string_view text);
/// "recompute,basic,dualpath,oracle"; no policy twice.
core::result<std::vector<core::policy>> parse_policies(std::string_view text);

enum class compute_kind : std::uint8_t { cpu, pattern };
struct compute_choice {
  compute_kind kind = compute_kind::cpu;
  double pattern_flops = 0; ///< FLOP/s the pattern device pretends to have
};
/// "cpu" or "pattern:2TFLOPS".
core::result<compute_choice> parse_compute(std::string_view text);

/// "closed", "trace" or "poisson:RATE", RATE in agents per second.
core::result<core::arrival_process> parse_arrival(std::string_view text);

using kernels::kv_dtype;

/// What copies between host and device memory are made with. automatic: RDMA writes looped back through the
/// NIC where there is one that reaches the memory, else the device's own copies.
enum class copy_mode : std::uint8_t { automatic, device, verbs };
struct copy_choice {
  copy_mode mode = copy_mode::automatic;
  std::string rdma_device{}; ///< "": the first with an active port
  friend bool operator==(const copy_choice&, const copy_choice&) = default;
};
/// "auto", "device", "verbs" or "verbs:mlx5_0".
core::result<copy_choice> parse_copies(std::string_view text);

/// Whether the lanes of a compute network are paced in software.
enum class pacing_mode : std::uint8_t { automatic, on, off };

struct run_options {
  cluster_size cluster;
  std::uint32_t gpus_per_node = 1;
  std::string listen;                        ///< HOST:PORT where nodes join by hand; "": none do
  bool head_only = false;                    ///< the head has no engines: all nodes of the cluster join it
  core::duration join_timeout{0};            ///< for all nodes to join; 0: not given
  core::duration peer_timeout{0};            ///< of silence; then a process counts as lost
  core::duration wait_for_role{0};           ///< that no node has any more
  std::string secret_file;                   ///< of the cluster, for nodes that join by hand
  std::uint64_t control_in_flight_bytes = 0; ///< of requests, a node; 0: no bound
  std::map<std::string, core::engine_role> node_roles; ///< by name of the machine
  core::policy policy = core::policy::dualpath;
  std::vector<core::policy> policies; ///< of compare, in the order given

  std::string trace;                        ///< a path or synthetic:64K
  std::uint32_t agents = 0, max_rounds = 0; ///< 0: all
  double scale_tokens = 1;
  core::arrival_process arrival;
  double tool_scale = 1; ///< factor on the tool delays of the trace; 0: none
  std::uint64_t seed = 1;

  std::string model; ///< tiny, small or a directory; used by --compute cpu
  compute_choice compute;
  kernels::pattern_shape pattern_shape;
  apps::kv_dtype kv_dtype = apps::kv_dtype::f32;
  std::uint32_t compute_threads = 0; ///< per engine; 0: chosen from the cores at hand
  float temperature = 0;

  std::string store;                      ///< directory; "": a temporary one, removed at the end
  std::uint64_t store_capacity_bytes = 0; ///< of this model's blocks, all nodes together; 0: no limit
  std::uint32_t block_tokens = 64;
  double snic_bandwidth = 0;     ///< bytes/s a node; 0: unlimited
  double cnic_bandwidth = 0;     ///< bytes/s a GPU; 0: unlimited
  double memory_bandwidth = 0;   ///< bytes/s a node, for the bounds of spec §5; 0: unlimited
  std::string transports;        ///< UCX_TLS of the data plane; "": UCX's own choice
  core::duration busy_poll{0};   ///< how long a lane of the data plane spins before it sleeps
  std::string data_plane_secret; ///< proven by whoever connects; drawn where all engines are in this process
  std::string net_device = "lo"; ///< where a data plane over tcp listens; "": everywhere
  copy_choice copies;
  pacing_mode pacing = pacing_mode::automatic;
  core::qos_config qos; ///< traffic classes of the compute network

  core::duration quota{};         ///< attention time of a forward batch (spec §7)
  std::uint32_t chunk_tokens = 0; ///< upper bound of a prefill chunk; 0: by the quota alone
  /// Sizes of the pools per engine; 0: chosen from model, trace and agents.
  std::uint64_t pe_buffer_bytes = 0, de_buffer_bytes = 0, hbm_bytes = 0, staging_bytes = 0;

  std::vector<std::string> inject; ///< faults, e.g. crash:..., in the order given
  core::duration deadline{};       ///< what takes longer is taken for lost
  std::string report, tokens;      ///< paths; "": none
  log_options log;
  bool no_progress = false;
};

/// Options as given, by long name without the dashes. Values of a list are separate; a flag has the value
/// "true".
struct raw_run_options {
  std::string config; ///< path of the TOML file; "": none
  std::map<std::string, std::vector<std::string>> given;
};

/// The subcommand the options are for: compare has --policies where run has --policy, and qos has only those
/// of the arbiter tables. A configuration file may hold them all and serve any.
enum class run_command : std::uint8_t { run, compare, qos };

/// One row of the table behind flags, configuration file and run_options.
struct option_row {
  const char* name;  ///< long name without the dashes
  const char* group; ///< heading in the help
  config_key::kind type;
  const char* placeholder;
  const char* fallback; ///< "" where there is none to show
  const char* help;
  core::result<void> (*set)(run_options&, const std::vector<std::string>& values);
};
std::span<const option_row> run_option_table();

/// Adds every run option, grouped, to a subcommand; `raw` must outlive the parse.
void bind_run_options(CLI::App& app, raw_run_options& raw, run_command command = run_command::run);

/// Reads the configuration file, fills in defaults and checks everything. Does not need CLI11 to have run.
core::result<run_options> resolve(const raw_run_options& raw);
/// The same for a node, which needs no trace.
core::result<run_options> resolve_for_node(const raw_run_options& raw);
/// The same for the traffic classes alone.
core::result<core::qos_config> resolve_qos(const raw_run_options& raw);

/// Option values by long name.
using option_values = std::map<std::string, std::vector<std::string>>;
/// What flags and file say of the devices of a node; the same on every node unless it says otherwise.
core::result<option_values> node_settings(const raw_run_options& raw);
/// The names of these options.
bool is_node_setting(const option_row& row);
/// Adds those options of a node to a subcommand; `raw` must outlive the parse.
void bind_node_options(CLI::App& app, raw_run_options& raw);

} // namespace dualpath::apps
