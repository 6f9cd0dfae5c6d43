// A copy of tensors in host memory that is made while the tensors are read, in memory that is kept for the next copy.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace modular {

/// Several threads copy together: each takes the next piece that none has begun.
class HostCopy {
 public:
  /// Has the memory for a copy of `sources` at hand, whose first use takes longer than copying. Throws
  /// std::runtime_error where there is none.
  void reserve(const std::vector<at::Tensor>& sources);

  /// Tensors of the same sizes and types as `sources`, which hold their values once run() has returned, until the next
  /// call. Nobody may write the sources before that. Throws std::runtime_error where there is no memory.
  std::vector<at::Tensor> begin(const std::vector<at::Tensor>& sources);

  /// Copies what is left, with others that run() meanwhile, and returns when all is copied. Of two threads that call it
  /// one may be `among_others`, which computes: it then uses no thread but its own.
  void run(bool among_others);

 private:
  struct Piece {
    at::Tensor to, from;
  };

  /// Makes the memory hold copies of `sources`, and returns where in it each lies.
  std::vector<size_t> make_room(const std::vector<at::Tensor>& sources);

  std::shared_ptr<std::byte> memory_;
  size_t capacity_ = 0;
  std::vector<Piece> pieces_;
  std::atomic<size_t> begun_ = 0, done_ = 0;  // of pieces_
};

}  // namespace modular
