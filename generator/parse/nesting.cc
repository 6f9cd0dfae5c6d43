#include "generator/parse/nesting.h"

#include <sys/resource.h>

#include <algorithm>

namespace modgen {

size_t Nesting::add(clang::tok::TokenKind kind) {
  switch (kind) {
    case clang::tok::l_paren:
    case clang::tok::l_square:
    case clang::tok::l_brace:
      around_.push_back(open_++);
      break;
    case clang::tok::r_paren:
    case clang::tok::r_square:
    case clang::tok::r_brace:
      if (!around_.empty()) {
        open_ = around_.back() + 2;  // including both brackets
        around_.pop_back();
      }
      break;
    case clang::tok::semi:
      open_ = around_.empty() ? 0 : around_.back() + 1;
      break;
    default:
      ++open_;
  }
  return open_;
}

void allow_deep_stack() {
  // Linux reserves this much below the main thread's stack, regardless of the limit at program start.
  constexpr rlim_t kBytes = 100 << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kBytes) return;
  limit.rlim_cur = std::min(kBytes, limit.rlim_max);
  setrlimit(RLIMIT_STACK, &limit);
}

}  // namespace modgen
