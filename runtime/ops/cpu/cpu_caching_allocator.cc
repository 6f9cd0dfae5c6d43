#include "runtime/ops/cpu/cpu_caching_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace modular::cpu {
namespace {

// Allocates tensors with malloc and aligns them within the allocation. libtorch requests aligned memory, for which
// glibc before 2.38 needs a larger free block: it never reuses the block of a freed tensor of the same size.
class AligningAllocator final : public c10::Allocator {
  static constexpr uintptr_t kAlignment = 64;

  static bool reports() { return c10::memoryProfilingEnabled() || FLAGS_caffe2_report_cpu_memory_usage; }

  // The pointer from malloc is stored before the tensor's memory, because c10 frees by the latter.
  static void*& malloc_pointer(void* memory) { return static_cast<void**>(memory)[-1]; }

  static void free_memory(void* memory) {
    if (!memory) return;
    if (reports()) c10::profiledCPUMemoryReporter().Delete(memory);
    std::free(malloc_pointer(memory));
  }

 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = nullptr;
    if (bytes > 0) {
      const size_t size = bytes + kAlignment;
      void* const from = size > bytes ? std::malloc(size) : nullptr;
      TORCH_CHECK(from, "not enough memory: a tensor needs ", bytes, " bytes");
      const uintptr_t after = reinterpret_cast<uintptr_t>(from) + sizeof(void*);
      memory = reinterpret_cast<void*>((after + kAlignment - 1) / kAlignment * kAlignment);
      malloc_pointer(memory) = from;
      if (reports()) c10::profiledCPUMemoryReporter().New(memory, bytes);
    }
    return {memory, memory, free_memory, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_memory; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

}  // namespace

bool install_cpu_caching_allocator() {
  if (kAddressSanitizer) return false;
#ifdef __GLIBC__
  constexpr uint64_t kHugePage = uint64_t{2} << 20;
  mallopt(M_MMAP_MAX, 0);                                // large blocks come from the heap,
  mallopt(M_TRIM_THRESHOLD, -1);                         // which does not shrink
  static auto* const allocator = new AligningAllocator;  // never freed: tensors may outlive everything else
  c10::SetCPUAllocator(allocator);
  // Marks heap addresses for half of the machine's memory for huge pages before they are used. They stay marked after
  // they are freed to the heap, and only pages that are written take memory.
  const auto reserved =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 2;
  void* const begin = std::malloc(reserved);
  if (!begin) return true;  // the address space is limited: small pages
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
