// The table of run options: names, help, defaults, and what each value may be.
#include "apps/options.hpp"
#include "core/fault_plan.hpp"
#include "core/units.hpp"
#include "net/bootstrap.hpp"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

namespace dualpath::apps {

namespace {

using values = std::vector<std::string>;
using kind = config_key::kind;

core::error fail(const std::string& text, const std::string& reason) {
  return {core::errc::invalid_argument, "'" + text + "' " + reason};
}

template <class Number>
core::result<void> set_whole(const std::string& text, Number least, Number most, Number& target) {
  Number value{};
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    return fail(text, "is not a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  target = value;
  return {};
}

core::result<double> real(const std::string& text, double least, double most, const std::string& range) {
  double value = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || !(value >= least) || !(value <= most))
    return fail(text, "is not a number " + range);
  return value;
}

template <class T>
core::result<void> set_to(core::result<T> parsed, T& target) {
  if (!parsed) return parsed.error();
  target = std::move(*parsed);
  return {};
}

/// "auto" is 0.
core::result<void> set_pool(const std::string& text, std::uint64_t& target) {
  if (text != "auto") return set_to(core::parse_bytes(text), target);
  target = 0;
  return {};
}

/// A file to be written at the end of a long run: found out at its start whether that can be.
core::result<void> set_output(const std::string& text, std::string& target) {
  auto folder = std::filesystem::path{text}.parent_path();
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    return fail(text, "cannot be written: there is no folder '" + folder.string() + "'");
  if (std::filesystem::is_directory(text, ignored)) return fail(text, "is a folder; name a file");
  target = text;
  return {};
}

constexpr std::uint32_t any_count = 1000000;

core::result<void> set_dtype(const std::string& text, kv_dtype& target) {
  for (auto dtype : {kv_dtype::f32, kv_dtype::bf16})
    if (text == to_string(dtype)) {
      target = dtype;
      return {};
    }
  return fail(text, "is not a KV dtype; choose f32 or bf16");
}

core::result<void> set_time(const std::string& text, core::duration& target) {
  auto time = core::parse_duration(text);
  if (!time) return time.error();
  if (*time <= core::duration{0}) return fail(text, "must be longer than nothing, as in 300ms");
  target = *time;
  return {};
}

core::result<void> set_peer_timeout(const std::string& text, core::duration& target) {
  if (auto set = set_time(text, target); !set) return set;
  if (target < std::chrono::seconds{1})
    return fail(text, "is less than healthy processes may be silent for; give 1s or more");
  return {};
}

core::result<void> set_transports(const std::string& text, std::string& target) {
  if (text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_,^@\\") != std::string::npos)
    return fail(text, "is not a list of UCX transports, such as tcp or self,sm,tcp");
  target = text;
  return {};
}

core::result<void> set_pacing(const std::string& text, pacing_mode& target) {
  if (text != "auto" && text != "on" && text != "off")
    return fail(text, "is not a way to pace lanes; choose auto, on or off");
  target = text == "auto" ? pacing_mode::automatic : text == "on" ? pacing_mode::on : pacing_mode::off;
  return {};
}

core::result<void> set_faults(const values& texts, std::vector<std::string>& target) {
  auto plan = core::fault_plan::parse(texts);
  if (!plan) return plan.error();
  target = texts;
  return {};
}

core::result<void> set_flag(const std::string& text, bool& target) {
  if (text != "true" && text != "false") return fail(text, "is neither true nor false");
  target = text == "true";
  return {};
}

core::result<void> set_real(const std::string& text, double least, double most, const char* range,
                            double& target) {
  return set_to(real(text, least, most, range), target);
}

core::result<void> set_endpoint(const std::string& text, std::string& target) {
  auto endpoint = net::parse_endpoint(text, true);
  if (!endpoint) return endpoint.error();
  target = text;
  return {};
}

core::result<void> set_node_roles(const values& texts, std::map<std::string, core::engine_role>& target) {
  for (auto& text : texts) {
    auto equals = text.rfind('=');
    auto role = equals == std::string::npos ? std::string{} : text.substr(equals + 1);
    if (equals == 0 || (role != "prefill" && role != "decode"))
      return fail(text, "is not MACHINE=ROLE, such as gpu07=decode");
    auto given = role == "decode" ? core::engine_role::decode : core::engine_role::prefill;
    auto [place, is_new] = target.emplace(text.substr(0, equals), given);
    if (!is_new && place->second != given)
      return fail(place->first, "is given two roles, prefill and decode; a machine has one");
  }
  return {};
}

core::result<void> set_trace(const std::string& text, std::string& target) {
  if (text.empty()) return fail(text, "is not a trace; give a file or synthetic:64K");
  target = text;
  return {};
}

core::result<void> set_model(const std::string& text, std::string& target) {
  std::error_code ignored;
  if (text != "tiny" && text != "small" && !std::filesystem::is_directory(text, ignored))
    return fail(text, "is not a model; choose tiny, small, or the folder of a model");
  target = text;
  return {};
}

core::result<void> set_temperature(const std::string& text, float& target) {
  auto value = real(text, 0, 100, "from 0 to 100");
  if (!value) return value.error();
  target = static_cast<float>(*value);
  return {};
}

const char* const cluster_group = "Cluster";
const char* const workload_group = "Workload";
const char* const compute_group = "Compute";
const char* const device_group = "Storage and networks";
const char* const memory_group = "Batching and memory";
const char* const output_group = "Faults and output";

const option_row table[] = {
    {"cluster", cluster_group, kind::text, "xPyD", "1P1D",
     "Prefill and decode nodes, as in 2P1D; 0P0D with --listen starts empty, and serves once a prefill and a "
     "decode node have joined",
     [](run_options& o, const values& v) { return set_to(parse_first_nodes(v[0]), o.cluster); }},
    {"gpus-per-node", cluster_group, kind::integer, "N", "1",
     "Engines of a node; each has its own compute NIC",
     [](run_options& o, const values& v) { return set_whole(v[0], 1u, 64u, o.gpus_per_node); }},
    {"listen", cluster_group, kind::text, "HOST:PORT", "",
     "Waits here for the nodes of --cluster but the first to join with dualpath node --join; more may join "
     "while the run goes on. Without it, and without mpirun or srun, all nodes are in this process",
     [](run_options& o, const values& v) { return set_endpoint(v[0], o.listen); }},
    {"head-only", cluster_group, kind::flag, "", "",
     "This process has no engines: all nodes of --cluster join it; needs --listen, and is so with --cluster "
     "0P0D",
     [](run_options& o, const values& v) { return set_flag(v[0], o.head_only); }},
    {"join-timeout", cluster_group, kind::text, "TIME", "",
     "How long all nodes of --cluster may take to join, as in 60s; without it a minute under mpirun or srun, "
     "and any time with --listen",
     [](run_options& o, const values& v) { return set_time(v[0], o.join_timeout); }},
    {"peer-timeout", cluster_group, kind::text, "TIME", "5s",
     "Silence, while this process runs, after which another one of the cluster counts as lost, 1s or more; "
     "longer where single processes may get no CPU for seconds. Of this process: say it to those that join "
     "as well",
     [](run_options& o, const values& v) { return set_peer_timeout(v[0], o.peer_timeout); }},
    {"wait-for-role", cluster_group, kind::text, "TIME", "3min",
     "With --listen: how long requests wait for a new node when the last one of a role was lost, before the "
     "run is given up",
     [](run_options& o, const values& v) { return set_time(v[0], o.wait_for_role); }},
    {"secret-file", cluster_group, kind::text, "FILE", "",
     "File whose first line every process of the cluster must know; needed with --listen",
     [](run_options& o, const values& v) {
       o.secret_file = v[0];
       return core::result<void>{};
     }},
    {"nodes", cluster_group, kind::list, "MACHINE=ROLE", "",
     "Role of a node that does not name one, by its machine; may be repeated. In a file: a table [nodes]",
     [](run_options& o, const values& v) { return set_node_roles(v, o.node_roles); }},
    {"control-in-flight", cluster_group, kind::text, "BYTES", "64MiB",
     "Bytes of requests that a node may have been given without having answered yet, tokens being most of "
     "them; the rest wait with the scheduler; 0: no bound",
     [](run_options& o, const values& v) {
       return set_to(core::parse_bytes(v[0]), o.control_in_flight_bytes);
     }},
    {"policy", cluster_group, kind::text, "NAME", "dualpath",
     "Where stored KV is read: dualpath (the side with the shorter read queue), split (both sides, so that "
     "they finish together), basic (prefill nodes only), round_robin (sides in turn), recompute (nowhere: "
     "nothing is stored), oracle (dualpath at no I/O cost)",
     [](run_options& o, const values& v) { return set_to(parse_policy(v[0]), o.policy); }},
    {"policies", cluster_group, kind::text, "LIST", "recompute,basic,dualpath,oracle",
     "Policies to compare, with commas; the choices are recompute, basic, round_robin, dualpath, split and "
     "oracle",
     [](run_options& o, const values& v) { return set_to(parse_policies(v[0]), o.policies); }},

    {"trace", workload_group, kind::text, "TRACE", "",
     "What to replay: a JSON Lines file (native or Mooncake), or synthetic:32K, synthetic:48K, synthetic:64K",
     [](run_options& o, const values& v) { return set_trace(v[0], o.trace); }},
    {"agents", workload_group, kind::integer, "N", "0", "Only the first N trajectories of the trace; 0: all",
     [](run_options& o, const values& v) { return set_whole(v[0], 0u, any_count, o.agents); }},
    {"max-rounds", workload_group, kind::integer, "N", "0",
     "Only the first N rounds of each trajectory; 0: all",
     [](run_options& o, const values& v) { return set_whole(v[0], 0u, any_count, o.max_rounds); }},
    {"scale-tokens", workload_group, kind::number, "FACTOR", "1",
     "Shrinks or grows every length of the trace",
     [](run_options& o, const values& v) {
       return set_real(v[0], 1e-6, 1000, "from 0.000001 to 1000", o.scale_tokens);
     }},
    {"tool-scale", workload_group, kind::number, "FACTOR", "1",
     "Factor on the tool delays of the trace; 0: none",
     [](run_options& o, const values& v) {
       return set_real(v[0], 0, 1e6, "from 0 to 1000000", o.tool_scale);
     }},
    {"arrival", workload_group, kind::text, "PROCESS", "closed",
     "When agents start: closed (all at once), trace (as recorded), poisson:RATE (RATE agents per second)",
     [](run_options& o, const values& v) { return set_to(parse_arrival(v[0]), o.arrival); }},
    {"seed", workload_group, kind::integer, "SEED", "1",
     "Of synthesised tokens, synthetic traces, arrivals and sampling",
     [](run_options& o, const values& v) {
       return set_whole(v[0], std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(), o.seed);
     }},

    {"compute", compute_group, kind::text, "DEVICE", "cpu",
     "cpu runs a model; pattern:2TFLOPS moves KV that verifies itself and takes the time of that speed",
     [](run_options& o, const values& v) { return set_to(parse_compute(v[0]), o.compute); }},
    {"model", compute_group, kind::text, "MODEL", "tiny",
     "Model of --compute cpu: tiny, small (random weights), or a folder (see dualpath model)",
     [](run_options& o, const values& v) { return set_model(v[0], o.model); }},
    {"pattern-shape", compute_group, kind::text, "SHAPE", "qwen2.5-32b",
     "Model of --compute pattern: qwen2.5-32b, qwen3-235b-a22b, deepseek-v3, deepseek-v3.2, or "
     "LAYERSxTOKEN_BYTES such as 16x4096",
     [](run_options& o, const values& v) {
       return set_to(kernels::parse_pattern_shape(v[0]), o.pattern_shape);
     }},
    {"kv-dtype", compute_group, kind::text, "TYPE", "f32", "Of the KV-cache under --compute cpu: f32 or bf16",
     [](run_options& o, const values& v) { return set_dtype(v[0], o.kv_dtype); }},
    {"compute-threads", compute_group, kind::integer, "N", "0",
     "CPU threads an engine computes with; 0: by the cores at hand",
     [](run_options& o, const values& v) { return set_whole(v[0], 0u, 1024u, o.compute_threads); }},
    {"temperature", compute_group, kind::number, "T", "0", "Of sampling; 0: greedy",
     [](run_options& o, const values& v) { return set_temperature(v[0], o.temperature); }},

    {"store", device_group, kind::text, "DIR", "",
     "Block store, kept for later runs: a folder (file:DIR) or rados:CONF/POOL; without it a temporary "
     "folder",
     [](run_options& o, const values& v) {
       o.store = v[0];
       return core::result<void>{};
     }},
    {"store-capacity", device_group, kind::text, "SIZE", "0",
     "Space for this model's blocks in the store, as in 200GiB, kept by giving up the least recently used "
     "ends of prefixes; 0: no limit",
     [](run_options& o, const values& v) { return set_to(core::parse_bytes(v[0]), o.store_capacity_bytes); }},
    {"block-tokens", device_group, kind::integer, "N", "64", "Tokens of a block",
     [](run_options& o, const values& v) { return set_whole(v[0], 1u, 4096u, o.block_tokens); }},
    {"snic-bandwidth", device_group, kind::text, "RATE", "0",
     "Of each node's storage NIC, as in 200MB/s; 0: unlimited",
     [](run_options& o, const values& v) {
       return set_to(core::parse_bytes_per_second(v[0]), o.snic_bandwidth);
     }},
    {"memory-bandwidth", device_group, kind::text, "RATE", "0",
     "Of each node's DRAM, as in 500GB/s; with the rates of both NICs it bounds the share of reads on either "
     "side (see dualpath plan); 0: unlimited",
     [](run_options& o, const values& v) {
       return set_to(core::parse_bytes_per_second(v[0]), o.memory_bandwidth);
     }},
    {"cnic-bandwidth", device_group, kind::text, "RATE", "0",
     "Of each engine's compute NIC, as in 50GB/s; 0: unlimited",
     [](run_options& o, const values& v) {
       return set_to(core::parse_bytes_per_second(v[0]), o.cnic_bandwidth);
     }},
    {"transports", device_group, kind::text, "LIST", "",
     "UCX transports of the compute network, as in self,sm,tcp; without it UCX chooses",
     [](run_options& o, const values& v) { return set_transports(v[0], o.transports); }},

    {"copies", device_group, kind::text, "HOW", "auto",
     "Copies between host and device memory: device (its own), verbs (RDMA writes looped back through the "
     "first NIC with an active port; verbs:mlx5_0 names one), or auto: verbs where the NIC reaches the "
     "memory",
     [](run_options& o, const values& v) { return set_to(parse_copies(v[0]), o.copies); }},
    {"busy-poll", device_group, kind::text, "TIME", "0ms",
     "How long a lane of the compute network spins after its last work before it sleeps, as in 50us; that of "
     "collectives 100us at least",
     [](run_options& o, const values& v) { return set_to(core::parse_duration(v[0]), o.busy_poll); }},
    {"pacing", device_group, kind::text, "WHEN", "auto",
     "Pacing of the compute network's lanes in software: auto (unless all bytes go over RDMA ports that fit "
     "the traffic classes), on (and KV's threads at a lower priority) or off",
     [](run_options& o, const values& v) { return set_pacing(v[0], o.pacing); }},
    {"qos-vlarb-high", device_group, kind::text, "TABLE", "0:192,1:192,2:0,3:192",
     "High arbiter table of the lanes, LANE:WEIGHT: 0 other, 1 collective, 2 kv, 3 control",
     [](run_options& o, const values& v) {
       return set_to(core::parse_arbiter_table(v[0]), o.qos.tables.high);
     }},
    {"qos-vlarb-low", device_group, kind::text, "TABLE", "0:192,1:192,2:64,3:192",
     "Low arbiter table of the lanes",
     [](run_options& o, const values& v) {
       return set_to(core::parse_arbiter_table(v[0]), o.qos.tables.low);
     }},
    {"qos-high-limit", device_group, kind::integer, "N", "240",
     "Units of 4096 bytes the high table sends before the low one has a turn; 255: the low one may starve",
     [](run_options& o, const values& v) {
       return set_whole(v[0], std::uint8_t{0}, std::uint8_t{255}, o.qos.tables.high_limit);
     }},

    {"quota", memory_group, kind::text, "TIME", "300ms",
     "Predicted attention time of a forward batch at most",
     [](run_options& o, const values& v) { return set_time(v[0], o.quota); }},
    {"chunk-tokens", memory_group, kind::integer, "N", "0", "Longest prefill chunk; 0: as the quota says",
     [](run_options& o, const values& v) { return set_whole(v[0], 0u, 1u << 24, o.chunk_tokens); }},
    {"pe-buffer", memory_group, kind::text, "BYTES", "auto",
     "Host memory of a prefill engine for loaded KV, as in 4GiB",
     [](run_options& o, const values& v) { return set_pool(v[0], o.pe_buffer_bytes); }},
    {"de-buffer", memory_group, kind::text, "BYTES", "auto",
     "Host memory of a decode engine for loaded and received KV",
     [](run_options& o, const values& v) { return set_pool(v[0], o.de_buffer_bytes); }},
    {"hbm", memory_group, kind::text, "BYTES", "auto",
     "Device memory of a decode engine for the KV of running requests",
     [](run_options& o, const values& v) { return set_pool(v[0], o.hbm_bytes); }},
    {"staging", memory_group, kind::text, "BYTES", "auto",
     "Device memory of a prefill engine for the KV of a layer at a time",
     [](run_options& o, const values& v) { return set_pool(v[0], o.staging_bytes); }},

    {"deadline", device_group, kind::text, "TIME", "30s",
     "A storage operation, copy, transfer or message that takes longer is taken for lost; a computation that "
     "takes ten times as long, too",
     [](run_options& o, const values& v) { return set_time(v[0], o.deadline); }},
    {"inject", output_group, kind::list, "FAULT", "",
     "A fault, may be repeated: crash:prefill:N or crash:decode:N (at the N-th step of all engines of the "
     "role), random:ROLE:COUNT:WITHIN:SEED, error:LEG:N, late:LEG:N or lost:LEG:N (the N-th operation of a "
     "leg, as in prefill-read, put or decode-work), chaos:PERMILLE:SEED. Where nodes are processes, each "
     "counts its own steps, and a fault says whose: error:LEG:N@2 is for node 2",
     [](run_options& o, const values& v) { return set_faults(v, o.inject); }},
    {"report", output_group, kind::text, "FILE", "", "Writes the figures as JSON",
     [](run_options& o, const values& v) { return set_output(v[0], o.report); }},
    {"tokens", output_group, kind::text, "FILE", "",
     "Writes prompt and generated tokens of every round as JSON Lines",
     [](run_options& o, const values& v) { return set_output(v[0], o.tokens); }},
    {"log-level", output_group, kind::text, "LEVEL", "warn", "trace, debug, info, warn, error or off",
     [](run_options& o, const values& v) { return set_to(parse_log_level(v[0]), o.log.level); }},
    {"log-format", output_group, kind::text, "FORMAT", "text",
     "text, or json: one object a line with time, level, event and its fields",
     [](run_options& o, const values& v) { return set_to(parse_log_format(v[0]), o.log.format); }},
    {"log-file", output_group, kind::text, "FILE", "", "Appends log lines there instead of to standard error",
     [](run_options& o, const values& v) { return set_output(v[0], o.log.file); }},
    {"no-progress", output_group, kind::flag, "", "", "No progress bar",
     [](run_options& o, const values& v) { return set_flag(v[0], o.no_progress); }},
};

} // namespace

std::span<const option_row> run_option_table() { return table; }

bool is_node_setting(const option_row& row) {
  auto in = [&](const char* group) { return std::string_view{row.group} == group; };
  auto named = [&](std::string_view name) { return row.name == name; };
  return ((in(compute_group) || in(device_group) || in(memory_group)) && !named("store"))
         || named("gpus-per-node") || named("seed") || named("inject");
}

} // namespace dualpath::apps
