// A user's backend (parallel.backend): Gloo's, logging each call as a letter in the file that COUNTING_BACKEND names.
// Throws if COUNTING_BACKEND_FAILS is set.
#include "runtime/mesh/backend_library.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using Work = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using Splits = std::vector<int64_t>;

class Counting final : public c10d::Backend {
 public:
  Counting(c10::intrusive_ptr<c10d::Backend> inner, int rank, int size)
      : Backend(rank, size), inner_(std::move(inner)) {}

  const std::string getBackendName() const override { return "counting"; }
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    note('r');
    return inner_->allreduce(tensors, options);
  }
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    note('b');
    return inner_->broadcast(tensors, options);
  }
  Work alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_sizes, Splits& input_sizes,
                     const c10d::AllToAllOptions& options) override {
    note('a');
    return inner_->alltoall_base(output, input, output_sizes, input_sizes, options);
  }
  Work send(Tensors& tensors, int to, int tag) override {
    note('s');
    return inner_->send(tensors, to, tag);
  }
  Work recv(Tensors& tensors, int from, int tag) override {
    note('s');
    return inner_->recv(tensors, from, tag);
  }
  void shutdown() override { inner_->shutdown(); }

 private:
  static void note(char call) {
    if (const char* file = std::getenv("COUNTING_BACKEND")) std::ofstream(file, std::ios::app) << call;
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void modular_make_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout,
    c10::intrusive_ptr<c10d::Backend>& backend) {
  if (std::getenv("COUNTING_BACKEND_FAILS")) throw std::runtime_error("the switch is off");
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->threads = 2;
  backend = c10::make_intrusive<Counting>(c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options), rank,
                                          size);
}
