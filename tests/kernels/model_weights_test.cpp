#include "model_fixture.hpp"

#include "kernels/model/checkpoint.hpp"

#include <nlohmann/json.hpp>

using namespace dualpath;
using namespace dualpath::kernels;
using namespace dualpath::kernels::test;

namespace {

std::string load_error(const std::string& dir) {
  auto model = load_model(dir);
  return model ? std::string{} : model.error().text;
}

/// The tensors of a fixture, to be changed and written elsewhere.
struct copied_model {
  std::shared_ptr<const checkpoint> source;
  std::vector<named_tensor> tensors;
  scratch_dir dir;

  explicit copied_model(const std::string& name) {
    auto opened = checkpoint::open(fixture_dir(name));
    REQUIRE(opened);
    source = *opened;
    auto file = safetensors_file::open(fixture_dir(name) + "/model.safetensors");
    REQUIRE(file);
    for (const auto& [tensor, of] : (*file)->entries()) tensors.push_back({tensor, *source->find(tensor)});
    dir.write("config.json", read_file(fixture_dir(name) + "/config.json"));
  }
  void write() { REQUIRE(write_safetensors(dir.path("model.safetensors"), tensors)); }
};

} // namespace

TEST_CASE("a created model is the same bytes every time and equals the one made in memory") {
  scratch_dir one, two;
  REQUIRE(create_model(model_preset::tiny, 7, one.path("m")));
  REQUIRE(create_model(model_preset::tiny, 7, two.path("m")));
  for (const char* name : {"m/config.json", "m/model.safetensors"})
    CHECK(read_file(one.path(name)) == read_file(two.path(name)));
  auto loaded = must_load(one.path("m"));
  auto made = make_random_weights(model_preset::tiny, 7);
  REQUIRE(made);
  CHECK(loaded->name == "m");
  CHECK(loaded->fingerprint(kv_dtype::f32) == (*made)->fingerprint(kv_dtype::f32));
  CHECK(loaded->fingerprint(kv_dtype::f32) != must_load("tiny")->fingerprint(kv_dtype::f32));
}

TEST_CASE("the preset weights are the golden ones on every machine") {
  // Changing them changes every stored block key of the demonstrations.
  CHECK(core::to_hex({must_load("tiny")->fingerprint(kv_dtype::f32).bytes})
        == "fd9cb5b34f1ea2aa709fbb1bf3022aac");
}

TEST_CASE("a preset has the size it is named for") {
  CHECK(preset_config(model_preset::tiny).active_parameters() < 1'000'000);
  CHECK(preset_config(model_preset::small).active_parameters() > 20'000'000);
  CHECK(preset_config(model_preset::small).active_parameters() < 30'000'000);
  CHECK(parse_preset("small") == model_preset::small);
  CHECK_FALSE(parse_preset("large"));
}

TEST_CASE(
    "the fingerprint depends on every weight, on the configuration and on the KV type, not on the folder") {
  copied_model copy{"qwen2_tied"};
  copy.write();
  auto original = must_load(fixture_dir("qwen2_tied"))->fingerprint(kv_dtype::f32);
  CHECK(must_load(copy.dir.path(""))->fingerprint(kv_dtype::f32) == original);
  CHECK(must_load(copy.dir.path(""))->fingerprint(kv_dtype::bf16) != original);
  for (auto& tensor : copy.tensors) {
    CAPTURE(tensor.name);
    auto kept = tensor.view.bytes;
    std::vector<std::byte> changed(kept.begin(), kept.end());
    changed[changed.size() / 2] ^= std::byte{1};
    tensor.view.bytes = changed;
    copy.write();
    CHECK(must_load(copy.dir.path(""))->fingerprint(kv_dtype::f32) != original);
    tensor.view.bytes = kept;
  }
  copy.write();
  auto config = nlohmann::json::parse(read_file(copy.dir.path("config.json")));
  config["rope_parameters"]["rope_theta"] = 12345.0;
  copy.dir.write("config.json", config.dump());
  CHECK(must_load(copy.dir.path(""))->fingerprint(kv_dtype::f32) != original);
}

TEST_CASE("every tensor of a model is needed, and its shape checked") {
  copied_model copy{"qwen2_tied"};
  for (std::size_t i = 0; i < copy.tensors.size(); ++i) {
    auto kept = copy.tensors[i];
    CAPTURE(kept.name);
    copy.tensors.erase(copy.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    copy.write();
    CHECK_THAT(load_error(copy.dir.path("")), Catch::Contains("tensor " + kept.name + " is missing"));
    copy.tensors.insert(copy.tensors.begin() + static_cast<std::ptrdiff_t>(i), kept);
    copy.tensors[i].view.shape.push_back(1);
    copy.write();
    CHECK_THAT(load_error(copy.dir.path("")),
               Catch::Contains("tensor " + kept.name + " has shape") && Catch::Contains("model.safetensors"));
    copy.tensors[i] = kept;
  }
}

TEST_CASE("tensors that are not needed are ignored") {
  copied_model copy{"qwen2_tied"};
  std::vector<float> values(3);
  copy.tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq",
                          {tensor_type::f32, {3}, std::as_bytes(std::span{values})}});
  copy.write();
  CHECK(load_error(copy.dir.path("")).empty());
}

TEST_CASE("shards give the same model as one file") {
  auto sharded = must_load(fixture_dir("llama_head_dim_sharded"));
  auto source = checkpoint::open(fixture_dir("llama_head_dim_sharded"));
  REQUIRE(source);
  auto index = nlohmann::json::parse(
      read_file(fixture_dir("llama_head_dim_sharded") + "/model.safetensors.index.json"));
  std::vector<named_tensor> tensors;
  for (const auto& [name, file] : index.at("weight_map").items())
    tensors.push_back({name, *(*source)->find(name)});
  scratch_dir dir;
  REQUIRE(write_safetensors(dir.path("model.safetensors"), tensors));
  dir.write("config.json", read_file(fixture_dir("llama_head_dim_sharded") + "/config.json"));
  CHECK(must_load(dir.path(""))->fingerprint(kv_dtype::f32) == sharded->fingerprint(kv_dtype::f32));
}

TEST_CASE("an index that names no map, a missing shard or a tensor that is not there is refused") {
  scratch_dir dir;
  std::filesystem::copy(fixture_dir("llama_head_dim_sharded"), dir.path(""),
                        std::filesystem::copy_options::recursive);
  REQUIRE(load_error(dir.path("")).empty());
  auto index_text = read_file(dir.path("model.safetensors.index.json"));
  auto index = nlohmann::json::parse(index_text);
  dir.write("model.safetensors.index.json", "{}");
  CHECK_THAT(load_error(dir.path("")), Catch::Contains("no weight_map"));
  auto changed = index;
  changed["weight_map"]["model.norm.weight"] = "../secret.safetensors";
  dir.write("model.safetensors.index.json", changed.dump());
  CHECK_THAT(load_error(dir.path("")), Catch::Contains("not a file of the folder"));
  changed["weight_map"]["model.norm.weight"] = 5;
  dir.write("model.safetensors.index.json", changed.dump());
  CHECK_THAT(load_error(dir.path("")), Catch::Contains("not a file of the folder"));
  changed = index;
  changed["weight_map"]["no.such.tensor"] = index["weight_map"]["model.norm.weight"];
  dir.write("model.safetensors.index.json", changed.dump());
  CHECK_THAT(load_error(dir.path("")), Catch::Contains("tensor no.such.tensor is missing"));
  dir.write("model.safetensors.index.json", index_text);
  std::string shard = index["weight_map"]["model.norm.weight"];
  std::filesystem::remove(dir.path(shard));
  CHECK_THAT(load_error(dir.path("")), Catch::Contains(shard) && Catch::Contains("cannot be opened"));
}

TEST_CASE("a folder without a model is refused with what is missing") {
  scratch_dir dir;
  CHECK_THAT(load_error(dir.path("")), Catch::Contains("config.json"));
  dir.write("config.json", read_file(fixture_dir("qwen2_tied") + "/config.json"));
  CHECK_THAT(load_error(dir.path("")), Catch::Contains("model.safetensors"));
  CHECK_THAT(load_error("/nonexistent/model"), Catch::Contains("/nonexistent/model/config.json"));
}

TEST_CASE("a model is not created where nothing can be written") {
  CHECK_FALSE(create_model(model_preset::tiny, 0, "/proc/no-such-folder"));
}
