#include "runtime/ops/cpu/cpu_caching_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "runtime/ops/cpu/sanitized.h"

namespace modular::cpu {
namespace {

// Tensors' memory by malloc, aligned within what it gives. libtorch asks for aligned memory, which glibc before 2.38
// finds only where more than that is free in one piece: never where a tensor of the same size was before.
class AlignedWithin final : public c10::Allocator {
  static constexpr uintptr_t kAlignment = 64;

  static bool reports() { return c10::memoryProfilingEnabled() || FLAGS_caffe2_report_cpu_memory_usage; }

  // What malloc gave stands before what the tensor got, as c10 wants to free by the latter.
  static void*& given(void* memory) { return static_cast<void**>(memory)[-1]; }

  static void give_back(void* memory) {
    if (!memory) return;
    if (reports()) c10::profiledCPUMemoryReporter().Delete(memory);
    std::free(given(memory));
  }

 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = nullptr;
    if (bytes > 0) {
      const size_t asked = bytes + kAlignment;
      void* const from = asked > bytes ? std::malloc(asked) : nullptr;
      TORCH_CHECK(from, "not enough memory: a tensor needs ", bytes, " bytes");
      const uintptr_t after = reinterpret_cast<uintptr_t>(from) + sizeof(void*);
      memory = reinterpret_cast<void*>((after + kAlignment - 1) / kAlignment * kAlignment);
      given(memory) = from;
      if (reports()) c10::profiledCPUMemoryReporter().New(memory, bytes);
    }
    return {memory, memory, give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

}  // namespace

bool install_cpu_caching_allocator() {
  if (kAddressSanitizer) return false;
#ifdef __GLIBC__
  constexpr uint64_t kHugePage = uint64_t{2} << 20;
  mallopt(M_MMAP_MAX, 0);                            // large pieces come from the heap,
  mallopt(M_TRIM_THRESHOLD, -1);                     // which does not shrink
  static auto* const allocator = new AlignedWithin;  // never freed, as tensors may be after everything else
  c10::SetCPUAllocator(allocator);
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
