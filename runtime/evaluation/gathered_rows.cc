#include "runtime/evaluation/gathered_rows.h"

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

/// Concatenates the rows of all ranks. Ranks may have different numbers of rows, or none.
at::Tensor gather(const at::Tensor& own, const Mesh& mesh) {
  if (!mesh.control()) return own;
  const int64_t ranks = mesh.world_size();
  const auto gather_parts = [&](const at::Tensor& part) {
    at::Tensor all = at::zeros({ranks * part.numel()}, part.options());
    all.narrow(0, mesh.rank() * part.numel(), part.numel()).copy_(part.flatten());
    all_gather(mesh.control(), {all}, "evaluation rows").wait();
    return all;
  };
  const at::Tensor sizes = gather_parts(at::tensor({own.size(0), own.size(1)}, at::kLong)).view({ranks, 2});
  const int64_t most = sizes.select(1, 0).max().item<int64_t>(), width = sizes.select(1, 1).max().item<int64_t>();
  at::Tensor padded = at::zeros({most, width}, own.options());
  if (own.size(0) > 0) padded.narrow(0, 0, own.size(0)).copy_(own);
  const at::Tensor all = gather_parts(padded).view({ranks, most, width});
  std::vector<at::Tensor> parts;
  for (int64_t rank = 0; rank < ranks; ++rank) parts.push_back(all[rank].narrow(0, 0, sizes[rank][0].item<int64_t>()));
  return at::cat(parts);
}

at::Tensor join(const std::vector<at::Tensor>& parts, at::ScalarType type) {
  return parts.empty() ? at::empty({0, 0}, type) : at::cat(parts);
}

}  // namespace

void GatheredRows::add(const at::Tensor& rows, const at::Tensor& samples) {
  rows_.push_back(rows.cpu());
  samples_.push_back(samples.cpu().unsqueeze(1));
}

at::Tensor GatheredRows::all(at::ScalarType type, const Mesh& mesh) const {
  const at::Tensor order = gather(join(samples_, at::kLong), mesh).flatten().argsort();
  return gather(join(rows_, type), mesh).index_select(0, order);
}

}  // namespace modular
