#include "model_fixture.hpp"

#include "kernels/model/safetensors.hpp"

#include <cmath>
#include <cstring>

using namespace dualpath;
using namespace dualpath::kernels;
using namespace dualpath::kernels::test;

namespace {

/// A file of a header and data bytes, whatever they are.
std::string raw_file(const std::string& header, std::size_t data_bytes, std::uint64_t stated_header_bytes) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &stated_header_bytes, 8);
  return file + header + std::string(data_bytes, '\1');
}
std::string raw_file(const std::string& header, std::size_t data_bytes) {
  return raw_file(header, data_bytes, header.size());
}

std::string open_error(const std::string& content) {
  scratch_dir dir;
  dir.write("model.safetensors", content);
  auto file = safetensors_file::open(dir.path("model.safetensors"));
  if (file) return {};
  CHECK(file.error().code == core::errc::invalid_argument);
  CHECK_THAT(file.error().text, Catch::StartsWith(dir.path("model.safetensors") + ": "));
  return file.error().text;
}

} // namespace

TEST_CASE("tensors written are read back exactly") {
  scratch_dir dir;
  std::vector<float> values{1, -2.5F, 3e-41F, INFINITY, 0, 6};
  std::vector<std::uint16_t> halves{0x3c00, 0xc000, 0x0001, 0x7c00};
  std::vector<named_tensor> tensors{{"a", {tensor_type::f32, {2, 3}, std::as_bytes(std::span{values})}},
                                    {"b.c", {tensor_type::f16, {4}, std::as_bytes(std::span{halves})}},
                                    {"empty", {tensor_type::bf16, {0, 7}, {}}}};
  REQUIRE(write_safetensors(dir.path("x.safetensors"), tensors));
  auto file = safetensors_file::open(dir.path("x.safetensors"));
  REQUIRE(file);
  REQUIRE((*file)->entries().size() == 3);
  auto a = (*file)->view("a", (*file)->entries().at("a"));
  REQUIRE(a);
  CHECK(a->shape == std::vector<std::uint64_t>{2, 3});
  std::vector<float> read(6);
  widen(*a, 0, read);
  CHECK(std::memcmp(read.data(), values.data(), 24) == 0);
  auto b = (*file)->view("b.c", (*file)->entries().at("b.c"));
  REQUIRE(b);
  std::vector<float> widened(3);
  widen(*b, 1, widened);
  CHECK(widened == std::vector<float>{-2.0F, 0x1p-24F, INFINITY});
}

TEST_CASE("16-bit floats are widened exactly") {
  std::vector<std::uint16_t> bits{0x0000, 0x8000, 0x3c00, 0xbc00, 0x7bff,
                                  0x0400, 0x03ff, 0x8001, 0x7c00, 0xfc00};
  std::vector<float> as_half{0,        -0.0F,           1,         -1,       65504,
                             0x1p-14F, 1023 * 0x1p-24F, -0x1p-24F, INFINITY, -INFINITY};
  std::vector<float> out(bits.size());
  widen({tensor_type::f16, {}, std::as_bytes(std::span{bits})}, 0, out);
  CHECK(std::memcmp(out.data(), as_half.data(), out.size() * 4) == 0);
  std::vector<std::uint16_t> brain{0x3f80, 0xc000, 0x0001, 0x7f80};
  std::vector<float> as_brain{1, -2, 0x1p-133F, INFINITY};
  std::vector<float> widened(4);
  widen({tensor_type::bf16, {}, std::as_bytes(std::span{brain})}, 0, widened);
  CHECK(widened == as_brain);
}

TEST_CASE("a malformed file is refused with what is wrong and where") {
  auto tensor = [](const std::string& type, const std::string& shape, const std::string& offsets) {
    return R"({"t":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  CHECK_THAT(open_error(""), Catch::Contains("too short"));
  CHECK_THAT(open_error("1234567"), Catch::Contains("too short"));
  CHECK_THAT(open_error(raw_file("{}", 0, 3)), Catch::Contains("header of 3 bytes in a file of 10"));
  CHECK_THAT(open_error(raw_file("{}", 0, ~std::uint64_t{0})),
             Catch::Contains("truncated, or not safetensors"));
  CHECK_THAT(open_error(raw_file("{\"a\":", 8)), Catch::Contains("not a JSON object"));
  CHECK_THAT(open_error(raw_file("[1]", 8)), Catch::Contains("not a JSON object"));
  CHECK_THAT(open_error(raw_file("{\"\xff\":{}}", 8)), Catch::Contains("not a JSON object"));
  CHECK_THAT(open_error(raw_file(R"({"t":5})", 8)), Catch::Contains("tensor t is not an object"));
  CHECK_THAT(open_error(raw_file(R"({"t":{"shape":[2],"data_offsets":[0,8]}})", 8)),
             Catch::Contains("no dtype"));
  CHECK_THAT(open_error(raw_file(R"({"t":{"dtype":"F32","data_offsets":[0,8]}})", 8)),
             Catch::Contains("no shape"));
  CHECK_THAT(open_error(raw_file(R"({"t":{"dtype":"F32","shape":[2]}})", 8)),
             Catch::Contains("no data_offsets"));
  CHECK_THAT(open_error(raw_file(tensor("F32", "[2]", "[0,8]"), 7)),
             Catch::Contains("tensor t ends at data byte 8 but the file holds only 7"));
  CHECK_THAT(open_error(raw_file(tensor("F32", "[2]", "[8,0]"), 8)), Catch::Contains("no range"));
  CHECK_THAT(open_error(raw_file(tensor("F32", "[2]", "[-8,0]"), 8)), Catch::Contains("no range"));
  CHECK_THAT(open_error(raw_file(tensor("F32", "[2]", "[0,8.5]"), 8)), Catch::Contains("no range"));
  CHECK_THAT(open_error(raw_file(tensor("F32", "[2]", "[0,18446744073709551615]"), 8)),
             Catch::Contains("the file holds only 8"));
  CHECK_THAT(open_error(raw_file(tensor("F32", "[3]", "[0,8]"), 8)),
             Catch::Contains("needs 12 bytes but has 8"));
  CHECK_THAT(open_error(raw_file(tensor("F32", "[-2]", "[0,8]"), 8)), Catch::Contains("has shape [-2]"));
  CHECK_THAT(open_error(raw_file(tensor("F32", "[4294967296,4294967296]", "[0,8]"), 8)),
             Catch::Contains("impossible shape"));
  CHECK_THAT(open_error(raw_file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                 R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                                 12)),
             Catch::Contains("tensors a and b overlap"));
}

TEST_CASE("a tensor of a type that cannot be read is refused only where it is asked for") {
  scratch_dir dir;
  dir.write("x", raw_file(R"({"t":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", 8));
  auto file = safetensors_file::open(dir.path("x"));
  REQUIRE(file);
  auto view = (*file)->view("t", (*file)->entries().at("t"));
  REQUIRE_FALSE(view);
  CHECK_THAT(view.error().text, Catch::Contains("tensor t is of type I64"));
}

TEST_CASE("a missing file and a folder are refused") {
  scratch_dir dir;
  CHECK_FALSE(safetensors_file::open(dir.path("none")));
  CHECK_FALSE(safetensors_file::open(dir.path("")));
}

TEST_CASE("no corruption of a checkpoint crashes: every byte of the header, every length of the file") {
  scratch_dir dir;
  auto from = fixture_dir("qwen2_tied");
  auto content = read_file(from + "/model.safetensors");
  std::uint64_t header_bytes;
  std::memcpy(&header_bytes, content.data(), 8);
  dir.write("config.json", read_file(from + "/config.json"));
  std::size_t refused = 0;
  auto attempt = [&](const std::string& bytes) {
    dir.write("model.safetensors", bytes);
    auto model = load_model(dir.path(""));
    if (model) return;
    ++refused;
    CHECK_THAT(model.error().text, Catch::Contains("model.safetensors"));
  };
  for (std::size_t at = 0; at < 8 + header_bytes; at += at < 200 ? 1 : 17) {
    auto damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    attempt(damaged);
  }
  // Most flips break a name, a shape or an offset; one in "__metadata__" or in blanks does no harm.
  CHECK(refused > 100);
  refused = 0;
  std::size_t lengths = 0;
  for (std::size_t length = 0; length < content.size(); length = length * 2 + 1, ++lengths)
    attempt(content.substr(0, length));
  attempt(content.substr(0, content.size() - 1));
  CHECK(refused == lengths + 1);
}
