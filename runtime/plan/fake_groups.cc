#include "runtime/plan/fake_rank.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>
#include <utility>

#include "runtime/mesh/rendezvous.h"

namespace modular {
namespace {

class DoneWork final : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
};

class FakeBackend final : public c10d::Backend {
 public:
  using Done = c10::intrusive_ptr<c10d::Work>;
  FakeBackend(const GroupSpec& spec, std::shared_ptr<FakePeers> peers)
      : Backend(spec.rank, static_cast<int>(spec.ranks.size())), peers_(std::move(peers)) {}

  const std::string getBackendName() const override { return "fake"; }

  Done allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override { return done(); }
  Done broadcast(std::vector<at::Tensor>&, const c10d::BroadcastOptions&) override { return done(); }
  Done allgather_into_tensor_coalesced(std::vector<at::Tensor>&, std::vector<at::Tensor>&,
                                       const c10d::AllgatherOptions&) override {
    return done();
  }
  Done _reduce_scatter_base(at::Tensor&, at::Tensor&, const c10d::ReduceScatterOptions&) override { return done(); }
  Done alltoall_base(at::Tensor&, at::Tensor&, std::vector<int64_t>&, std::vector<int64_t>&,
                     const c10d::AllToAllOptions&) override {
    return done();
  }
  Done barrier(const c10d::BarrierOptions&) override { return done(); }

  Done send(std::vector<at::Tensor>& tensors, int, int tag) override {
    if (const at::Tensor& sent = tensors[0]; sent.scalar_type() == at::kLong)
      peers_->shapes[tag].assign(sent.const_data_ptr<int64_t>(), sent.const_data_ptr<int64_t>() + sent.numel());
    return done();
  }
  Done recv(std::vector<at::Tensor>& tensors, int, int tag) override {
    const at::Tensor& received = tensors[0];
    if (received.scalar_type() != at::kLong) return done();
    const auto known = peers_->shapes.find(tag);
    TORCH_INTERNAL_ASSERT(!peers_->shapes.empty(), "the rank of the first stage must run first");
    const std::vector<int64_t>& shape =
        known != peers_->shapes.end() ? known->second : (peers_->guessed[tag] = peers_->shapes.begin()->second);
    std::ranges::copy(shape, received.mutable_data_ptr<int64_t>());
    return done();
  }

 private:
  static Done done() { return c10::make_intrusive<DoneWork>(); }
  std::shared_ptr<FakePeers> peers_;
};

}  // namespace

bool FakePeers::guessed_right() const {
  return std::ranges::all_of(guessed, [&](const auto& guess) {
    const auto known = shapes.find(guess.first);
    return known != shapes.end() && known->second == guess.second;
  });
}

FakeGroups::FakeGroups(std::shared_ptr<FakePeers> peers) {
  group_maker = [peers = std::move(peers)](const GroupSpec& spec) {
    auto group = c10::make_intrusive<c10d::ProcessGroup>(spec.rank, static_cast<int>(spec.ranks.size()));
    group->setBackend(at::kCPU, c10d::ProcessGroup::CUSTOM, c10::make_intrusive<FakeBackend>(spec, peers));
    group->setDefaultBackend(c10d::ProcessGroup::CUSTOM);
    group->setGroupName(spec.name);
    group->setGroupDesc(spec.description);
    return group;
  };
}

FakeGroups::~FakeGroups() { group_maker = nullptr; }

}  // namespace modular
