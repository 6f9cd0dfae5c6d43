#include "runtime/checkpoint/host_copy.h"

#include <c10/util/ScopeExit.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace modular {
namespace {

constexpr size_t kAlignment = 64;                  // of each tensor in the memory
constexpr int64_t kPieceBytes = int64_t{8} << 20;  // small, since a thread may have to wait for another thread's piece

/// Uses huge pages if available: a copy into small pages takes three times as long.
std::shared_ptr<std::byte> allocate(size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error(
        fmt::format("cannot allocate {} MiB for a checkpoint's background copy: set "
                    "checkpoint.background to false, which needs no copy",
                    bytes >> 20));
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* begin) { ::munmap(begin, bytes); }};
}

}  // namespace

std::vector<size_t> HostCopy::make_room(const std::vector<at::Tensor>& sources) {
  size_t bytes = 0;
  std::vector<size_t> offsets;
  for (const at::Tensor& source : sources) {
    offsets.push_back(bytes);
    bytes += (source.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  pieces_.clear();
  if (bytes > capacity_) {
    memory_.reset();  // freed before the larger allocation
    memory_ = allocate(bytes);
    capacity_ = bytes;
  }
  return offsets;
}

void HostCopy::reserve(const std::vector<at::Tensor>& sources) {
  make_room(sources);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (size_t offset = 0; offset < capacity_; offset += page)
    *const_cast<volatile std::byte*>(memory_.get() + offset) = {};
}

std::vector<at::Tensor> HostCopy::begin(const std::vector<at::Tensor>& sources) {
  const std::vector<size_t> offsets = make_room(sources);
  std::vector<at::Tensor> copies;
  for (size_t i = 0; i < sources.size(); ++i) {
    const at::Tensor source = sources[i].detach();
    copies.push_back(at::from_blob(
        memory_.get() + offsets[i], source.sizes(), [memory = memory_](void*) {}, source.options().device(at::kCPU)));
    if (source.numel() == 0) continue;
    if (!source.is_cpu() || !source.is_contiguous()) {
      pieces_.push_back({copies.back(), source});
      continue;
    }
    const at::Tensor from = source.view(-1), to = copies.back().view(-1);
    const int64_t step = std::max<int64_t>(1, kPieceBytes / static_cast<int64_t>(source.element_size()));
    for (int64_t first = 0; first < from.numel(); first += step) {
      const int64_t count = std::min(step, from.numel() - first);
      pieces_.push_back({to.narrow(0, first, count), from.narrow(0, first, count)});
    }
  }
  begun_ = 0;
  done_ = 0;
  return copies;
}

void HostCopy::run(bool among_others) {
  for (size_t i = 0; (i = begun_.fetch_add(1)) < pieces_.size();) {
    const auto& [to, from] = pieces_[i];
    const auto count = c10::make_scope_exit([this] {  // counts failed pieces too: other threads wait for them
      if (done_.fetch_add(1) + 1 == pieces_.size()) done_.notify_all();
    });
    // libtorch's copy would start a second thread pool for a thread other than the one that computes the steps.
    if (among_others && from.is_cpu() && from.is_contiguous())
      std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes());
    else
      at::Tensor(to).copy_(from);
  }
  for (size_t done = 0; (done = done_.load()) < pieces_.size();) done_.wait(done);
}

}  // namespace modular
