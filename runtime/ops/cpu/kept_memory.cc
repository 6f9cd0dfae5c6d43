#include "runtime/ops/cpu/kept_memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "runtime/ops/cpu/sanitized.h"

namespace modular::cpu {

bool keep_freed_memory() {
  if (kAddressSanitizer) return false;
#ifdef __GLIBC__
  constexpr uint64_t kHugePage = uint64_t{2} << 20;
  mallopt(M_MMAP_MAX, 0);         // large pieces come from the heap,
  mallopt(M_TRIM_THRESHOLD, -1);  // which does not shrink
  // The heap's addresses for half of the machine's memory are marked while nothing is there, and stay marked as they
  // are free in the heap: only what is written takes memory.
  const auto reserved =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 2;
  void* const begin = std::malloc(reserved);
  if (!begin) return true;  // under a limit of addresses: in small pages
  const uint64_t first = (reinterpret_cast<uintptr_t>(begin) + kHugePage) / kHugePage * kHugePage;
  const uint64_t last = (reinterpret_cast<uintptr_t>(begin) + reserved) / kHugePage * kHugePage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
  std::free(begin);
  return true;
#else
  return false;
#endif
}

}  // namespace modular::cpu
