// Coroutines of a storage thread. An operation on a block is a chain of steps, each a request to the
// kernel; written as a coroutine the chain reads from top to bottom. Everything here lives on one thread.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace dualpath::storage {

/// A lazily started step that its caller awaits; it ends before the caller does.
template <class T>
class [[nodiscard]] task {
public:
  struct promise_type {
    std::coroutine_handle<> caller;
    std::optional<T> value;

    struct resume_caller {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        return self.promise().caller;
      }
      void await_resume() noexcept {}
    };
    task get_return_object() { return task{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    resume_caller final_suspend() noexcept { return {}; }
    void return_value(T result) { value.emplace(std::move(result)); }
    void unhandled_exception() { std::terminate(); }
  };

  explicit task(std::coroutine_handle<promise_type> self) : self_{self} {}
  task(const task&) = delete;
  task& operator=(const task&) = delete;
  ~task() { self_.destroy(); }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    self_.promise().caller = caller;
    return self_;
  }
  T await_resume() { return std::move(*self_.promise().value); }

private:
  std::coroutine_handle<promise_type> self_;
};

/// Runs at once and frees itself at its end; whoever starts one keeps count of those that are not finished.
struct detached {
  struct promise_type {
    detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

} // namespace dualpath::storage
