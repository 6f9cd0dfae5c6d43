#include "runtime/evaluation/gathered_rows.h"

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

/// The ranks' rows after one another. Ranks may have different numbers of them, or none.
at::Tensor gathered(const at::Tensor& own, const Mesh& mesh) {
  if (!mesh.control()) return own;
  const int64_t ranks = mesh.world_size();
  const auto all_of = [&](const at::Tensor& part) {
    at::Tensor all = at::zeros({ranks * part.numel()}, part.options());
    all.narrow(0, mesh.rank() * part.numel(), part.numel()).copy_(part.flatten());
    all_gather(mesh.control(), {all}, "the rows of an evaluation").wait();
    return all;
  };
  const at::Tensor sizes = all_of(at::tensor({own.size(0), own.size(1)}, at::kLong)).view({ranks, 2});
  const int64_t most = sizes.select(1, 0).max().item<int64_t>(), width = sizes.select(1, 1).max().item<int64_t>();
  at::Tensor padded = at::zeros({most, width}, own.options());
  if (own.size(0) > 0) padded.narrow(0, 0, own.size(0)).copy_(own);
  const at::Tensor all = all_of(padded).view({ranks, most, width});
  std::vector<at::Tensor> parts;
  for (int64_t rank = 0; rank < ranks; ++rank) parts.push_back(all[rank].narrow(0, 0, sizes[rank][0].item<int64_t>()));
  return at::cat(parts);
}

at::Tensor joined(const std::vector<at::Tensor>& parts, at::ScalarType type) {
  return parts.empty() ? at::empty({0, 0}, type) : at::cat(parts);
}

}  // namespace

void GatheredRows::add(const at::Tensor& rows, const at::Tensor& samples) {
  rows_.push_back(rows.cpu());
  samples_.push_back(samples.cpu().unsqueeze(1));
}

at::Tensor GatheredRows::all(at::ScalarType type, const Mesh& mesh) const {
  const at::Tensor order = gathered(joined(samples_, at::kLong), mesh).flatten().argsort();
  return gathered(joined(rows_, type), mesh).index_select(0, order);
}

}  // namespace modular
