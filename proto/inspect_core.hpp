// How CAF serialises the types of core. Lives apart from core, which knows nothing of CAF.
#pragma once

#include "core/ids.hpp"
#include "core/layout/block_key.hpp"
#include "core/layout/strided_piece.hpp"
#include "core/read_path.hpp"
#include "core/shared_sequence.hpp"

#include <caf/all.hpp>
#include <caf/meta/type_name.hpp>

#include <algorithm>
#include <bit>
#include <type_traits>
#include <vector>

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
typename Inspector::result_type inspect(Inspector& f, block_range& x) {
  return f(caf::meta::type_name("block_range"), x.first, x.count);
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

/// A sequence crosses as one run of bytes. How many there are is the sender's word: room for them is made as
/// they come.
template <class T>
caf::error save(caf::serializer& sink, const shared_sequence<T>& x) {
  static_assert(std::has_unique_object_representations_v<T> && std::endian::native == std::endian::little,
                "the bytes of an item are the same in every process");
  auto count = x.size();
  if (auto failed = sink.begin_sequence(count)) return failed;
  if (count > 0)
    if (auto failed = sink.apply_raw(count * sizeof(T), const_cast<T*>(x.data()))) return failed;
  return sink.end_sequence();
}
template <class T>
caf::error load(caf::deserializer& source, shared_sequence<T>& x) {
  constexpr std::size_t items_at_a_time = 65536;
  std::size_t count = 0;
  if (auto failed = source.begin_sequence(count)) return failed;
  std::vector<T> items;
  while (items.size() < count) {
    auto known = items.size();
    items.resize(known + std::min(items_at_a_time, count - known));
    auto bytes = (items.size() - known) * sizeof(T);
    if (auto failed = source.apply_raw(bytes, items.data() + known)) return failed;
  }
  x = std::move(items);
  return source.end_sequence();
}

template <class Inspector, class T>
typename Inspector::result_type inspect(Inspector& f, shared_sequence<T>& x) {
  if constexpr (std::is_base_of_v<caf::serializer, Inspector>) {
    return save(f, x);
  } else if constexpr (std::is_base_of_v<caf::deserializer, Inspector>) {
    return load(f, x);
  } else {
    std::vector<T> items{x.begin(), x.end()};
    return f(items);
  }
}

} // namespace dualpath::core
