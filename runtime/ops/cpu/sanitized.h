// Whether the program is compiled with the address sanitizer, which has its own allocator and maps more memory than any
// limit allows.
#pragma once

namespace modular::cpu {

// g++ and Clang have different macros.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

}  // namespace modular::cpu
