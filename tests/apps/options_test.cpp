#include "apps/options.hpp"
#include "apps/workload_setup.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace dualpath;
using namespace dualpath::apps;

namespace {

core::result<run_options> with(const std::string& name, const std::string& value) {
  raw_run_options raw;
  raw.given["trace"] = {"synthetic:32K"};
  raw.given[name] = {value};
  return resolve(raw);
}

std::string error_of(const std::string& name, const std::string& value) {
  auto options = with(name, value);
  if (options) return "no error";
  CHECK(options.error().code == core::errc::invalid_argument);
  return options.error().text;
}

/// A file in the temporary folder that goes away with the test.
class temporary_file {
public:
  explicit temporary_file(const std::string& text)
      : path_{std::filesystem::temp_directory_path()
              / ("dualpath_options_" + std::to_string(getpid()) + ".toml")} {
    std::ofstream{path_} << text;
  }
  ~temporary_file() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

private:
  std::filesystem::path path_;
};

} // namespace

TEST_CASE("defaults are complete and valid") {
  auto o = with("trace", "synthetic:32K");
  REQUIRE(o);
  CHECK(o->cluster == cluster_size{1, 1});
  CHECK(o->gpus_per_node == 1);
  CHECK(o->policy == core::policy::dualpath);
  CHECK(o->policies
        == std::vector{core::policy::recompute, core::policy::basic, core::policy::dualpath,
                       core::policy::oracle});
  CHECK(o->compute.kind == compute_kind::cpu);
  CHECK(o->model == "tiny");
  CHECK(o->pattern_shape.name == "qwen2.5-32b");
  CHECK(o->block_tokens == 64);
  CHECK(o->store_capacity_bytes == 0);
  CHECK(o->quota == std::chrono::milliseconds{300});
  CHECK(o->snic_bandwidth == 0);
  CHECK(o->pe_buffer_bytes == 0);
  CHECK(o->store.empty());
  CHECK(o->log.level == core::log_level::warn);
  CHECK(o->log.format == log_format::text);
  CHECK(o->scale_tokens == 1);
  CHECK(o->tool_scale == 1);
  CHECK(o->seed == 1);
  CHECK(o->control_in_flight_bytes == std::uint64_t{64} << 20);
  CHECK(o->peer_timeout == std::chrono::seconds{5});
  CHECK_FALSE(o->no_progress);
}

TEST_CASE("every option has help and a name of its own") {
  std::vector<std::string> names;
  for (const auto& row : run_option_table()) {
    CHECK(std::find(names.begin(), names.end(), row.name) == names.end());
    CHECK(std::string{row.help}.size() > 3);
    names.push_back(row.name);
  }
}

TEST_CASE("values are read with their units") {
  CHECK(with("cluster", "2P4D")->cluster == cluster_size{2, 4});
  CHECK(with("snic-bandwidth", "200MB/s")->snic_bandwidth == 200e6);
  CHECK(with("pe-buffer", "4GiB")->pe_buffer_bytes == std::uint64_t{4} << 30);
  CHECK(with("store-capacity", "200GiB")->store_capacity_bytes == std::uint64_t{200} << 30);
  CHECK(with("pe-buffer", "auto")->pe_buffer_bytes == 0);
  CHECK(with("compute", "pattern:2TFLOPS")->compute.pattern_flops == 2e12);
  CHECK(with("pattern-shape", "16x4096")->pattern_shape.layers == 16);
  CHECK(with("kv-dtype", "bf16")->kv_dtype == kv_dtype::bf16);
  CHECK(with("arrival", "poisson:0.4")->arrival.rate_per_s == 0.4);
  CHECK(with("arrival", "trace")->arrival.kind == core::arrival_kind::trace);
  CHECK(with("policies", "basic,round_robin,split")->policies
        == std::vector{core::policy::basic, core::policy::round_robin, core::policy::split});
  CHECK(with("quota", "1.5s")->quota == std::chrono::milliseconds{1500});
  CHECK(with("temperature", "0.7")->temperature == Approx(0.7));
}

TEST_CASE("bad values are refused in one sentence that names option and value") {
  CHECK(error_of("cluster", "0P1D")
        == "--cluster: '0P1D' has no prefill node; at least one is needed, as in 1P1D");
  CHECK(error_of("cluster", "1P0D")
        == "--cluster: '1P0D' has no decode node; at least one is needed, as in 1P1D");
  for (const char* cluster : {"", "1P", "P1D", "1D1P", "1P1D1", "-1P1D", "1 P1D", "99999999999P1D"})
    CHECK(error_of("cluster", cluster).find("is not a cluster") != std::string::npos);
  CHECK(error_of("cluster", "5000P1D").find("more than 4096") != std::string::npos);
  CHECK(error_of("policy", "fast").find("--policy: 'fast' is not a policy; choose dualpath") == 0);
  CHECK(error_of("policies", "basic,basic") == "--policies: 'basic' is listed twice");
  CHECK(error_of("policies", "basic,").find("'' is not a policy") != std::string::npos);
  CHECK(error_of("snic-bandwidth", "-5MB/s").find("--snic-bandwidth: \"-5MB/s\" is not a rate") == 0);
  CHECK(error_of("cnic-bandwidth", "fast").find("--cnic-bandwidth: ") == 0);
  CHECK(error_of("compute", "gpu").find("choose cpu, or pattern:") != std::string::npos);
  CHECK(error_of("compute", "pattern:0").find("faster than 0") != std::string::npos);
  CHECK(error_of("arrival", "poisson:0").find("above 0") != std::string::npos);
  CHECK(error_of("arrival", "poisson:-1").find("above 0") != std::string::npos);
  CHECK(error_of("arrival", "poisson:inf").find("above 0") != std::string::npos);
  CHECK(error_of("agents", "-1") == "--agents: '-1' is not a whole number from 0 to 1000000");
  CHECK(error_of("agents", "3x").find("is not a whole number") != std::string::npos);
  CHECK(error_of("gpus-per-node", "0").find("from 1 to 64") != std::string::npos);
  CHECK(error_of("block-tokens", "0").find("from 1 to 4096") != std::string::npos);
  CHECK(error_of("scale-tokens", "0").find("is not a number") != std::string::npos);
  CHECK(error_of("scale-tokens", "nan").find("is not a number") != std::string::npos);
  CHECK(error_of("temperature", "-1").find("from 0 to 100") != std::string::npos);
  CHECK(error_of("quota", "0ms").find("longer than nothing") != std::string::npos);
  CHECK(error_of("peer-timeout", "900ms").find("give 1s or more") != std::string::npos);
  CHECK(error_of("kv-dtype", "f16") == "--kv-dtype: 'f16' is not a KV dtype; choose f32 or bf16");
  CHECK(error_of("log-level", "loud").find("is not a log level") != std::string::npos);
  CHECK(error_of("transports", "tcp;rm").find("is not a list of UCX transports") != std::string::npos);
  CHECK(error_of("inject", "crash:disk:1").find("--inject: ") == 0);
  CHECK(error_of("model", "/no/such/model").find("is not a model") != std::string::npos);
  CHECK(error_of("report", "/no/such/folder/r.json").find("there is no folder '/no/such/folder'")
        != std::string::npos);
  CHECK(error_of("tokens", "/").find("is a folder") != std::string::npos);
  CHECK(error_of("trace", "").find("is not a trace") != std::string::npos);
  CHECK(resolve({}).error().text.find("no trace is given") == 0);
}

TEST_CASE("the roles of machines are read from flags and from a table, and must fit the cluster") {
  auto roles = [](const std::string& toml, std::vector<std::string> flags = {}) {
    temporary_file file{"trace = 'synthetic:48K'\nlisten = 'a:1'\n" + toml};
    raw_run_options raw;
    raw.config = file.path();
    if (!flags.empty()) raw.given["nodes"] = std::move(flags);
    return resolve(raw);
  };
  using table = std::map<std::string, core::engine_role>;
  constexpr auto prefill = core::engine_role::prefill, decode = core::engine_role::decode;
  CHECK(roles("cluster = '2P2D'\n[nodes]\ngpu07 = 'decode'\n\"gpu08.example\" = 'prefill'\n")->node_roles
        == table{{"gpu07", decode}, {"gpu08.example", prefill}});
  CHECK(roles("cluster = '1P2D'\n", {"a=decode", "b=decode"})->node_roles
        == table{{"a", decode}, {"b", decode}});
  CHECK(roles("cluster = '1P2D'\n[nodes]\na = 'prefill'\n", {"b=decode"})->node_roles
        == table{{"b", decode}});

  auto wrong = [&](const std::string& toml, std::vector<std::string> flags, const std::string& why) {
    auto options = roles(toml, std::move(flags));
    REQUIRE_FALSE(options);
    CHECK(options.error().code == core::errc::invalid_argument);
    INFO(options.error().text);
    CHECK(options.error().text.find(why) != std::string::npos);
  };
  wrong("", {"a=decode", "a=prefill"}, "'a' is given two roles");
  wrong("[nodes]\na = 'decode'\na = 'prefill'\n", {}, ".toml:5");
  wrong("[nodes]\na = ''\n", {}, "'a=' is not MACHINE=ROLE");
  wrong("[nodes]\na = 'both'\n", {}, "'a=both' is not MACHINE=ROLE");
  wrong("[nodes]\na = 3\n", {}, "'a=3' is not MACHINE=ROLE");
  wrong("", {"a"}, "'a' is not MACHINE=ROLE");
  wrong("cluster = '1P2D'\n[nodes]\na = 'decode'\nb = 'decode'\nc = 'decode'\n", {},
        "--nodes gives the role decode to a, b, c, but --cluster 1P2D has 2 decode nodes");
  wrong(
      "cluster = '1P2D'\n[nodes]\na = 'prefill'\n", {},
      "--nodes gives the role prefill to a, but --cluster 1P2D has 1 prefill node, one of which is the head");
  CHECK(roles("cluster = '1P2D'\nhead_only = true\n[nodes]\na = 'prefill'\n"));
  CHECK(roles("cluster = '0P0D'\n[nodes]\na = 'prefill'\nb = 'prefill'\nc = 'decode'\n"));
}

TEST_CASE("a cluster without nodes needs a place for them to join") {
  auto with_listen = [](const char* cluster, const char* listen, bool head_only) {
    raw_run_options raw;
    raw.given = {{"trace", {"synthetic:32K"}}, {"cluster", {cluster}}};
    if (listen[0] != 0) raw.given["listen"] = {listen};
    if (head_only) raw.given["head-only"] = {"true"};
    return resolve(raw);
  };
  CHECK(with_listen("0P0D", "a:1", false)->head_only);
  CHECK(with_listen("0P0D", "a:1", false)->cluster == cluster_size{0, 0});
  CHECK(with_listen("1P1D", "a:1", true)->head_only);
  CHECK_FALSE(with_listen("1P1D", "a:1", false)->head_only);
  CHECK(with_listen("0P0D", "", false).error().text.find("add --listen") != std::string::npos);
  CHECK(with_listen("1P1D", "", true).error().text.find("add --listen") != std::string::npos);
  CHECK_FALSE(with_listen("0P1D", "a:1", false));
  CHECK_FALSE(with_listen("1P0D", "a:1", true));
}

TEST_CASE("flags win over the file, and the file over the defaults") {
  temporary_file file{
      "trace = 'synthetic:48K'\nblock_tokens = 32\n[run]\nsnic-bandwidth = '1GB/s'\nagents = 7\n"};
  raw_run_options raw;
  raw.config = file.path();
  raw.given["agents"] = {"3"};
  auto o = resolve(raw);
  REQUIRE(o);
  CHECK(o->trace == "synthetic:48K");
  CHECK(o->block_tokens == 32);
  CHECK(o->snic_bandwidth == 1e9);
  CHECK(o->agents == 3);
  CHECK(o->gpus_per_node == 1);
}

TEST_CASE("a bad value in the file is named by file and line") {
  temporary_file file{"trace = 'synthetic:48K'\ncluster = '0P1D'\n"};
  raw_run_options raw;
  raw.config = file.path();
  auto o = resolve(raw);
  REQUIRE_FALSE(o);
  CHECK(o.error().text
        == file.path() + ":2: cluster: '0P1D' has no prefill node; at least one is needed, as in 1P1D");
}

TEST_CASE("a run's trace is cut, scaled and given its arrivals") {
  raw_run_options raw;
  raw.given = {{"trace", {DUALPATH_SOURCE_DIR "/traces/swe_agent.jsonl"}},
               {"agents", {"3"}},
               {"max-rounds", {"2"}},
               {"scale-tokens", {"0.5"}},
               {"tool-scale", {"0"}},
               {"arrival", {"poisson:2"}}};
  auto t = prepare_trace(*resolve(raw));
  REQUIRE(t);
  REQUIRE(t->trajectories.size() == 3);
  CHECK(t->trajectories[0].rounds.size() == 2);
  CHECK(t->trajectories[0].rounds[0].prompt_hash_block_tokens == 32);
  CHECK(t->trajectories[0].rounds[1].tool_ms == 0);
  CHECK(t->trajectories[2].arrival_ms > 0);
}
