// Initial weights that one rank reads for all.
#include <fmt/format.h>

#include <exception>
#include <stdexcept>

#include "runtime/checkpoint/pretrained.h"
#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

/// Which parameters `stored` holds, as the first rank has it, on all. Throws `error` there, and on the others that
/// there is one.
std::vector<uint8_t> which_are_stored(const std::vector<ModelParameter>& parameters, const StoredTensors& stored,
                                      const std::exception_ptr& error, const fs::path& folder, Mesh& mesh) {
  std::vector<uint8_t> found(parameters.size() + 1, error ? 0 : 1);  // the last one: whether there is no error
  for (size_t i = 0; i < parameters.size(); ++i) found[i] = stored.contains(parameters[i].name) ? 1 : 0;
  broadcast(mesh.control(), at::from_blob(found.data(), {static_cast<int64_t>(found.size())}, at::kByte), 0,
            "which parameters the initial weights have")
      .wait();
  if (error) std::rethrow_exception(error);
  if (!found.back())
    throw std::runtime_error(
        fmt::format("rank 0, which reads model.checkpoint for all, could not open {}", folder.string()));
  return found;
}

}  // namespace

void load_parameters_by_first(const fs::path& folder, const ModelConfig& model, std::span<const TensorBox> parameters,
                              Head head, Mesh& mesh) {
  const at::NoGradGuard no_grad;
  const bool first = mesh.rank() == 0;
  const std::vector<ModelParameter> all = model_parameters(model);
  StoredTensors stored;
  std::exception_ptr error;
  try {
    if (first) stored = open_parameters(folder, model, head);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  const std::vector<uint8_t> found = which_are_stored(all, stored, error, folder, mesh);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!found[i]) continue;
    const at::Tensor whole =
        at::empty(all[i].global_shape, at::TensorOptions().dtype(all[i].tensor.scalar_type()));  // in host memory
    if (first)
      read_box(all[i].name, stored.at(all[i].name), std::vector<int64_t>(all[i].global_shape.size(), 0), whole);
    broadcast(mesh.control(), whole, 0, "the initial " + all[i].name).wait();
    for (const TensorBox& box : parameters) {
      if (box.name != all[i].name) continue;
      at::Tensor part = whole;
      for (size_t dim = 0; dim < box.offset.size(); ++dim)
        part = part.narrow(static_cast<int64_t>(dim), box.offset[dim], box.local.size(static_cast<int64_t>(dim)));
      at::Tensor(box.local).copy_(part);
    }
  }
}

}  // namespace modular
