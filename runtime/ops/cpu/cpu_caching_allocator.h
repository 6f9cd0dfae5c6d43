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

// A caching allocator: memory that a step frees stays with the process for the next step.

/// Makes the C library keep freed memory and take large blocks from 2 MiB pages, if the kernel provides them on request
/// (/sys/kernel/mm/transparent_hugepage/enabled). Otherwise each step gets its activations and gradients from the
/// kernel again, page by page, and returns them. CPU tensors then use our own allocator instead of libtorch's, so that
/// a tensor fits where a tensor of its size was before. Like libtorch's, it throws c10::Error when memory runs out.
/// Call this before creating tensors. Returns false and does nothing if the program's C library is not glibc.
bool install_cpu_caching_allocator();

}  // namespace modular::cpu
