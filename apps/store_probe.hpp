// Whether blocks could be kept in a place, tried with one page in a file of its own.
#pragma once

#include "apps/node_facts.hpp"

#include <string>

namespace dualpath::apps {

/// `where` as in --store. A folder that does not exist is tried where it would be made. Leaves nothing
/// behind.
store_facts probe_store(const std::string& where);

} // namespace dualpath::apps
