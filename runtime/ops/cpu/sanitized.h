// Whether the program is compiled with the address sanitizer, whose allocator is its own and maps more than any limit.
#pragma once

namespace modular::cpu {

// g++ and Clang say it differently.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

}  // namespace modular::cpu
