// Copies tensors to host memory while the tensors are read; the memory is kept for the next copy.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace modular {

/// Several threads copy together: each takes the next piece that no thread has begun.
class HostCopy {
 public:
  /// Allocates and touches the memory for a copy of `sources`: first use of memory takes longer than copying. Throws
  /// std::runtime_error if allocation fails.
  void reserve(const std::vector<at::Tensor>& sources);

  /// Returns tensors of the same sizes and types as `sources`, which hold their values from the return of run() until
  /// the next call. The sources must not be written before that. Throws std::runtime_error if allocation fails.
  std::vector<at::Tensor> begin(const std::vector<at::Tensor>& sources);

  /// Copies what is left, together with other threads in run(), and returns when everything is copied. Of two calling
  /// threads, the one that does not compute the steps passes `among_others`, and then uses no thread but its own.
  void run(bool among_others);

 private:
  struct Piece {
    at::Tensor to, from;
  };

  /// Makes room for copies of `sources`, and returns the offset of each in the memory.
  std::vector<size_t> make_room(const std::vector<at::Tensor>& sources);

  std::shared_ptr<std::byte> memory_;
  size_t capacity_ = 0;
  std::vector<Piece> pieces_;
  std::atomic<size_t> begun_ = 0, done_ = 0;  // numbers of pieces
};

}  // namespace modular
