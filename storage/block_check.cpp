#include "storage/block_check.hpp"

namespace dualpath::storage {

core::error bad_block(core::errc code, const core::block_key& key, std::string_view place,
                      std::string_view why) {
  return {code, "block " + core::to_hex(key) + " in " + std::string{place} + " " + std::string{why}};
}

core::result<block_header> check_block(const block_owner& owner, const core::block_key& key,
                                       std::uint64_t read_bytes, const_header_page page,
                                       std::span<const std::byte> payload, std::optional<checksum128> sum) {
  auto bad = [&](core::errc code, std::string_view why) { return bad_block(code, key, owner.place, why); };
  if (read_bytes < page.size()) return bad(core::errc::corrupt, "is cut short");
  auto header = decode_header(page);
  if (!header && header.error().code == core::errc::unsupported)
    return bad(core::errc::not_found, "is not for this build: its " + header.error().text);
  if (!header) return bad(core::errc::corrupt, "is damaged: its " + header.error().text);
  if (header->name.key != key) return bad(core::errc::corrupt, "holds another block");
  if (header->model != owner.model || header->layout != owner.layout)
    return bad(core::errc::not_found, "belongs to another model or layout");
  if (header->payload_bytes != owner.layout.full_block_bytes())
    return bad(core::errc::corrupt, "has the wrong size");
  if (payload.empty()) return header;
  if (read_bytes < page.size() + payload.size()) return bad(core::errc::corrupt, "is cut short");
  if ((sum ? *sum : checksum(payload)) != header->payload_checksum)
    return bad(core::errc::corrupt, "is damaged: its payload fails its checksum");
  return header;
}

} // namespace dualpath::storage
