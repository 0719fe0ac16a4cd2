#include "storage/disk_slots.hpp"
#include "storage/task.hpp"

#include <catch2/catch.hpp>

#include <coroutine>
#include <map>
#include <string>
#include <vector>

using namespace dualpath::storage;

namespace {

using events = std::vector<std::string>;

/// Requests that are at the disk until the test ends their operation.
struct slots_fixture {
  struct operation {
    slots_fixture& at;
    const std::string& name;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { at.at_disk[name] = waiter; }
    void await_resume() const noexcept {}
  };

  detached request(std::string name) {
    {
      auto slot = co_await disk.enter();
      happened.push_back(name + " begins");
      co_await operation{*this, name};
    }
    happened.push_back(name + " is verified");
  }
  void end(const std::string& name) { at_disk.extract(name).mapped().resume(); }

  disk_slots disk{2};
  std::map<std::string, std::coroutine_handle<>> at_disk;
  events happened;
};

} // namespace

TEST_CASE_METHOD(slots_fixture, "no more operations are at the disk than it has slots") {
  for (auto name : {"a", "b", "c", "d"}) request(name);
  CHECK(happened == events{"a begins", "b begins"});
  end("b");
  end("c");
  CHECK(at_disk.size() == 2);
  end("a");
  end("d");
  CHECK(at_disk.empty());
  CHECK(happened.size() == 8);
}

TEST_CASE_METHOD(slots_fixture,
                 "the disk has its next operation, the oldest, before the one that ended is verified") {
  for (auto name : {"a", "b", "c", "d"}) request(name);
  end("a");
  CHECK(happened == events{"a begins", "b begins", "c begins", "a is verified"});
  for (auto name : {"b", "c", "d"}) end(name);
}

TEST_CASE_METHOD(slots_fixture, "a slot that nobody waits for is there for whoever comes next") {
  request("a");
  end("a");
  for (auto name : {"b", "c", "d"}) request(name);
  CHECK(at_disk.count("b") + at_disk.count("c") == 2);
  CHECK(at_disk.count("d") == 0);
  for (auto name : {"b", "c", "d"}) end(name);
}
