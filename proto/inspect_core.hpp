// How CAF serialises the types of core. Lives apart from core, which knows nothing of CAF.
#pragma once

#include "core/ids.hpp"
#include "core/layout/block_key.hpp"
#include "core/layout/strided_piece.hpp"
#include "core/read_path.hpp"

#include <caf/meta/type_name.hpp>

namespace dualpath::core {

template <class Inspector, class Tag, class Rep>
typename Inspector::result_type inspect(Inspector& f, strong_id<Tag, Rep>& x) {
  return f(x.value);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, block_key& x) {
  return f(x.bytes);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, read_split& x) {
  return f(caf::meta::type_name("read_split"), x.decode_blocks, x.prefill_blocks);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, failed_reads& x) {
  return f(caf::meta::type_name("failed_reads"), x.prefill, x.decode);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, strided_piece& x) {
  return f(caf::meta::type_name("strided_piece"), x.local_offset, x.local_stride, x.remote_offset,
           x.remote_stride, x.bytes, x.count);
}

} // namespace dualpath::core
