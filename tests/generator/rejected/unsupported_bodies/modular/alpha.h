// A coroutine, and a constructor that is a function-try-block.
#pragma once

#include <coroutine>
#include <exception>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaNumbers {
  struct promise_type {
    int64_t current = 0;
    AlphaNumbers get_return_object() { return {}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(int64_t value) {
      current = value;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

struct AlphaBox {
  AlphaBox() try : size(4) {
  } catch (...) {
    throw;
  }
  AlphaNumbers numbers() const {
    co_yield 1;
    co_yield 2;
  }
  int64_t size;
};

}  // namespace modular::alpha
