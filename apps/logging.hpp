// Log lines on standard error, one an event.
#pragma once

#include <string>

namespace dualpath::apps {

/// `level` as in --log-level; already checked.
void set_up_logging(const std::string& level);

} // namespace dualpath::apps
