// Quantities as people write them: "200MB/s", "4GiB", "2TFLOPS", "300ms". One place reads and writes them, so
// that every option and report means the same by the same word. Decimal prefixes k M G T P are powers of
// 1000, binary ones Ki Mi Gi Ti Pi powers of 1024; bits ("400Gb/s") count eighths of bytes. A bare number is
// in the base unit. Errors: invalid_argument with one sentence that names the text and an example.
#pragma once

#include "core/clock.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace dualpath::core {

/// "200MB/s", "1.5GiB/s", "400Gb/s", "0"; bytes per second.
result<double> parse_bytes_per_second(std::string_view text);
/// "4GiB", "64k", "4096"; must be a whole number of bytes.
result<std::uint64_t> parse_bytes(std::string_view text);
/// "2TFLOPS", "1.5PFLOP/s", "0"; floating point operations per second.
result<double> parse_flops(std::string_view text);
/// "300ms", "5us", "1.5s", "2min", "1h"; a bare number other than 0 is refused, since its unit cannot be
/// known.
result<duration> parse_duration(std::string_view text);

/// "512 B", "4.0 KiB", "1.5 GiB".
std::string format_bytes(std::uint64_t bytes);
/// "200 MB/s", "50.0 GB/s".
std::string format_rate(double bytes_per_second);
/// "532", "12.3 k", "4.5 M".
std::string format_count(double count);
/// "5.00 us", "300 ms", "12.5 s".
std::string format_duration(duration d);

} // namespace dualpath::core
