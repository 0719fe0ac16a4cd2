#include "apps/cmd_node.hpp"

#include "actors/control_plane.hpp"
#include "apps/command.hpp"
#include "apps/node_process.hpp"
#include "net/tls_identity.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <memory>

namespace dualpath::apps {

namespace {

struct contact_arguments {
  std::string head, secret_file;
};

core::result<net::head_contact> read_contact(const contact_arguments& arguments) {
  auto where = net::parse_endpoint(arguments.head);
  if (!where) return where.error();
  auto secret = net::read_cluster_secret(arguments.secret_file);
  if (!secret) return secret.error();
  net::head_contact contact;
  contact.host = where->host;
  contact.port = where->port;
  contact.secret = *secret;
  return contact;
}

struct node_arguments {
  std::string head, role, listen;
  raw_run_options raw;
};

int run_node(const node_arguments& arguments) {
  auto secret = arguments.raw.given.find("secret-file");
  if (secret == arguments.raw.given.end())
    return report_error(
        {core::errc::invalid_argument, "a node needs --secret-file, the same secret as the head's"});
  auto contact = read_contact({arguments.head, secret->second.front()});
  if (!contact) return report_error(contact.error());
  node_identity who;
  who.listen_host = arguments.listen;
  if (arguments.role == "prefill") who.role = proto::wanted_role::prefill;
  if (arguments.role == "decode") who.role = proto::wanted_role::decode;
  return serve_as_node(arguments.raw, *contact, who);
}

struct drain_arguments {
  std::uint32_t node = 0;
  contact_arguments contact;
};

int drain(const drain_arguments& arguments) {
  auto contact = read_contact(arguments.contact);
  if (!contact) return report_error(contact.error());
  auto identity = net::tls_identity::derive(contact->secret);
  if (!identity) return report_error(identity.error());
  actors::control_plane plane{{identity->certificate_path(), identity->key_path()}};
  auto head = plane.find_head(contact->host, contact->port);
  if (!head) return report_error(head.error());
  caf::scoped_actor self{plane.system(), true};
  core::result<void> result;
  self->request(*head, std::chrono::seconds{10}, proto::drain_node{core::node_id{arguments.node}})
      .receive(
          [&](const proto::outcome& answer) {
            if (!answer.ok) result = core::error{answer.code, answer.text};
          },
          [&](const caf::error& e) {
            result =
                core::error{core::errc::timed_out, "the head did not answer: " + plane.system().render(e)};
          });
  if (!result) return report_error(result.error());
  std::printf("node %u drains: it finishes what it decodes, then leaves\n", arguments.node);
  return exit_ok;
}

} // namespace

void add_node_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("node", "Serve as a node of a cluster whose head waits with --listen");
  auto a = std::make_shared<node_arguments>();
  command->add_option("--join", a->head, "Where the head listens")->type_name("HOST:PORT")->required();
  command->add_option("--role", a->role, "prefill or decode; without it, whichever the cluster lacks")
      ->type_name("ROLE")
      ->check(CLI::IsMember({"prefill", "decode"}));
  command
      ->add_option(
          "--listen", a->listen,
          "Address of this machine for other nodes; without it, the one from which the head is reached")
      ->type_name("HOST");
  bind_node_options(*command, a->raw);
  command->callback([a, &exit_code] { exit_code = run_node(*a); });
}

void add_drain_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "drain", "Have a node finish what it decodes, hand back what waits, and leave its cluster");
  auto a = std::make_shared<drain_arguments>();
  command->add_option("node", a->node, "Number of the node, as in the report")->required();
  command->add_option("--join", a->contact.head, "Where the head listens")
      ->type_name("HOST:PORT")
      ->required();
  command->add_option("--secret-file", a->contact.secret_file, "File with the secret of the cluster")
      ->type_name("FILE")
      ->required();
  command->callback([a, &exit_code] { exit_code = drain(*a); });
}

} // namespace dualpath::apps
