// What a user sees of a run: the JSON report (docs/guides/report-schema.md), the token log and the table of
// compare.
#pragma once

#include "core/result.hpp"
#include "core/run_record.hpp"
#include "core/run_summary.hpp"

#include <span>
#include <string>
#include <vector>

namespace dualpath::apps {

/// Why a comparison ended before all of its policies had run.
struct unfinished {
  std::string policy, why; ///< the one that failed; policy "": none did
};

/// {"runs":[...]}, one object a run; pretty-printed, ends with a newline.
std::string report_json(std::span<const core::run_summary> runs, const unfinished& at = {});
core::result<void> write_report(const std::string& path, std::span<const core::run_summary> runs,
                                const unfinished& at = {});

/// One JSON line a round: session, round, prompt, generated, hit_tokens, path.
core::result<void> write_tokens(const std::string& path, const core::run_record& record);

/// The result of one run, a few lines for a terminal.
std::string format_run(const core::run_summary& run);
/// Aligned, one column a policy and one row a figure, with the speed-up over basic where basic ran, what was
/// measured at start, and a last line saying which digests agree. At least one run.
std::string format_comparison(std::span<const core::run_summary> runs);
/// Whether all runs generated the same tokens.
bool digests_agree(std::span<const core::run_summary> runs);

} // namespace dualpath::apps
