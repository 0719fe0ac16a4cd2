#include "storage/block_ledger.hpp"

#include "fixture.hpp"

#include <fstream>

namespace dualpath::storage::testing {
namespace {

using enum ledger_change;

std::unique_ptr<block_ledger> open(const temp_folder& folder) {
  auto opened = block_ledger::open(folder.path().string());
  INFO((opened ? "" : opened.error().text));
  REQUIRE(opened);
  return std::move(*opened);
}

block_ledger::news read(block_ledger& ledger) {
  auto turn = ledger.try_turn();
  REQUIRE(turn);
  auto news = ledger.read();
  REQUIRE(news);
  return *news;
}

void add(block_ledger& ledger, std::vector<ledger_entry> entries) {
  auto turn = ledger.try_turn();
  REQUIRE(turn);
  REQUIRE(ledger.read());
  REQUIRE(ledger.add(entries));
}

TEST_CASE("the first to open a ledger is alone until it lets others in") {
  temp_folder folder;
  auto first = open(folder);
  CHECK(first->alone());
  first->share();
  CHECK_FALSE(first->alone());
  auto second = open(folder);
  CHECK_FALSE(second->alone());
  first.reset();
  second.reset();
  CHECK(open(folder)->alone());
}

TEST_CASE("what one adds the others read once, in order, and nobody reads what it added itself") {
  temp_folder folder;
  auto first = open(folder);
  first->share();
  auto second = open(folder);
  auto names = chain(1, 2);
  std::vector<ledger_entry> told{{reserved, names[0].key, {}},
                                 {stored, names[1].key, names[0].key},
                                 {used, names[0].key, {}},
                                 {leaving, names[1].key, {}},
                                 {gone, names[1].key, {}}};
  add(*first, told);
  CHECK(read(*second).entries == told);
  CHECK(read(*second).entries.empty());
  CHECK(read(*first).entries.empty());
  add(*second, {told[2]});
  CHECK(read(*first).entries == std::vector{told[2]});
}

TEST_CASE("only one has the turn at a time") {
  temp_folder folder;
  auto first = open(folder);
  first->share();
  auto second = open(folder);
  {
    auto turn = first->try_turn();
    REQUIRE(turn);
    CHECK_FALSE(second->try_turn());
  }
  CHECK(second->try_turn());
}

TEST_CASE("a ledger that starts over is all that others know from then on") {
  temp_folder folder;
  auto first = open(folder);
  first->share();
  auto second = open(folder);
  auto names = chain(1, 3);
  add(*first, {{stored, names[0].key, {}}});
  CHECK(read(*second).restarted); // its first look
  std::vector<ledger_entry> all{{stored, names[1].key, names[0].key}, {stored, names[2].key, names[1].key}};
  {
    auto turn = first->try_turn();
    REQUIRE(first->replace(all));
  }
  auto news = read(*second);
  CHECK(news.restarted);
  CHECK(news.entries == all);
  add(*second, {{gone, names[2].key, {}}});
  CHECK(read(*first).entries == std::vector<ledger_entry>{{gone, names[2].key, {}}});
}

TEST_CASE("a line cut short by a death is skipped, and what follows is not") {
  temp_folder folder;
  auto ledger = open(folder);
  auto names = chain(1, 2);
  add(*ledger, {{stored, names[0].key, {}}});
  ledger.reset();
  std::ofstream{folder.path() / "ledger", std::ios::app} << "+ 0123456789";
  ledger = open(folder);
  ledger->share();
  auto other = open(folder);
  add(*ledger, {{stored, names[1].key, names[0].key}});
  CHECK(read(*other).entries
        == std::vector<ledger_entry>{{stored, names[0].key, {}}, {stored, names[1].key, names[0].key}});
}

TEST_CASE("a ledger is long when it is several times what it has to say") {
  temp_folder folder;
  auto ledger = open(folder);
  auto name = chain(1, 1).front();
  add(*ledger, std::vector<ledger_entry>(40'000, {used, name.key, {}}));
  CHECK(ledger->is_long_for(1));
  CHECK_FALSE(ledger->is_long_for(10'000));
}

} // namespace
} // namespace dualpath::storage::testing
