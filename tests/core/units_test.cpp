#include "core/units.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <string>

using namespace dualpath::core;
using namespace std::chrono_literals;

TEST_CASE("rates are read in bytes and in bits, decimal and binary") {
  CHECK(*parse_bytes_per_second("200MB/s") == 200e6);
  CHECK(*parse_bytes_per_second("50GB/s") == 50e9);
  CHECK(*parse_bytes_per_second("1.5GiB/s") == 1.5 * 1024 * 1024 * 1024);
  CHECK(*parse_bytes_per_second("400Gb/s") == 50e9);
  CHECK(*parse_bytes_per_second("400 Gbit/s") == 50e9);
  CHECK(*parse_bytes_per_second("0") == 0);
  CHECK(*parse_bytes_per_second(" 12 kB/s ") == 12e3);
}

TEST_CASE("sizes are whole numbers of bytes") {
  CHECK(*parse_bytes("4GiB") == std::uint64_t{4} << 30);
  CHECK(*parse_bytes("64k") == 64000);
  CHECK(*parse_bytes("64Ki") == 65536);
  CHECK(*parse_bytes("4096") == 4096);
  CHECK(*parse_bytes("0.5KiB") == 512);
  CHECK_FALSE(parse_bytes("0.3B"));
  CHECK_FALSE(parse_bytes("99999999PiB"));
}

TEST_CASE("operations and times are read with their units") {
  CHECK(*parse_flops("2TFLOPS") == 2e12);
  CHECK(*parse_flops("1.5PFLOP/s") == 1.5e15);
  CHECK(*parse_flops("0") == 0);
  CHECK(*parse_duration("300ms") == 300ms);
  CHECK(*parse_duration("5us") == 5us);
  CHECK(*parse_duration("1.5s") == 1500ms);
  CHECK(*parse_duration("2min") == 2min);
  CHECK(*parse_duration("1h") == 1h);
  CHECK(*parse_duration("0") == 0ns);
}

TEST_CASE("a quantity that is negative, has no or a wrong unit, or is no number is refused in one sentence") {
  auto check_refused = [](const auto& parsed, const std::string& text) {
    INFO(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == errc::invalid_argument);
    CHECK(parsed.error().text.find("\"" + text + "\"") != std::string::npos);
    CHECK(parsed.error().text.back() == '.');
    CHECK(parsed.error().text.find('\n') == std::string::npos);
  };
  for (std::string text :
       {"", "-1GB/s", "fast", "inf", "nan", "1e400", "MB/s", "5 apples", "200MB", "1GB/sx", "--3", "0x10"})
    check_refused(parse_bytes_per_second(text), text);
  for (std::string text : {"", "-4GiB", "4GiB/s", "lots", "GiB", "1..5B"})
    check_refused(parse_bytes(text), text);
  for (std::string text : {"", "-2TFLOPS", "2TB", "T"}) check_refused(parse_flops(text), text);
  for (std::string text : {"", "-1s", "5", "5 parsecs", "s", "99999999999h"})
    check_refused(parse_duration(text), text);
}

TEST_CASE("quantities are written with three digits and the largest unit that fits") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(4096) == "4.00 KiB");
  CHECK(format_bytes(1536u << 20) == "1.50 GiB");
  CHECK(format_rate(200e6) == "200 MB/s");
  CHECK(format_rate(50e9) == "50.0 GB/s");
  CHECK(format_rate(999.9e6) == "1.00 GB/s");
  CHECK(format_count(532) == "532");
  CHECK(format_count(12345) == "12.3 k");
  CHECK(format_duration(300ms) == "300 ms");
  CHECK(format_duration(12500ms) == "12.5 s");
  CHECK(format_duration(-5us) == "-5.00 us");
}

TEST_CASE("what is written is read back within its three digits") {
  DUALPATH_RANDOM(random);
  for (int i = 0; i < 2000; ++i) {
    double value = std::pow(10, random.real(0, 16));
    INFO("value " << value);
    auto rate = parse_bytes_per_second(format_rate(value));
    REQUIRE(rate);
    CHECK(*rate == Approx(value).epsilon(0.006).margin(0.51));
    auto time = parse_duration(format_duration(duration{static_cast<std::int64_t>(value)}));
    REQUIRE(time);
    CHECK(static_cast<double>(time->count()) == Approx(value).epsilon(0.006).margin(1));
  }
}
