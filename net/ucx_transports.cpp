#include "net/ucx_transports.hpp"

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include <span>

namespace dualpath::net {
namespace {

void add_transports_of(uct_md_h domain, std::vector<ucx_transport>& to) {
  uct_tl_resource_desc_t* found = nullptr;
  unsigned count = 0;
  if (uct_md_query_tl_resources(domain, &found, &count) != UCS_OK) return;
  for (const auto& each : std::span{found, count}) to.push_back({each.tl_name, each.dev_name});
  uct_release_tl_resource_list(found);
}

void add_domain(uct_component_h component, const char* name, std::vector<ucx_transport>& to) {
  uct_md_config_t* config = nullptr;
  if (uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) return;
  uct_md_h domain = nullptr;
  if (uct_md_open(component, name, config, &domain) == UCS_OK) {
    add_transports_of(domain, to);
    uct_md_close(domain);
  }
  uct_config_release(config);
}

void add_component(uct_component_h component, std::vector<ucx_transport>& to) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (uct_component_query(component, &attributes) != UCS_OK || attributes.md_resource_count == 0) return;
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  if (uct_component_query(component, &attributes) != UCS_OK) return;
  for (const auto& domain : domains) add_domain(component, domain.md_name, to);
}

} // namespace

std::vector<ucx_transport> list_ucx_transports() {
  std::vector<ucx_transport> transports;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (uct_query_components(&components, &count) != UCS_OK) return transports;
  for (auto* component : std::span{components, count}) add_component(component, transports);
  uct_release_component_list(components);
  return transports;
}

std::string ucx_version() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

} // namespace dualpath::net
