#include "runtime/modrun/forward.h"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/data/examples.h"
#include "runtime/files/open_file.h"
#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

struct Source {
  fs::path folder;
  ModelConfig model;
};

Source open_source(const ForwardOptions& options) {
  const fs::path checkpoint = find_checkpoint(options.checkpoint);
  const fs::path folder = checkpoint.empty() ? options.checkpoint : checkpoint;
  return {folder, options.model ? *options.model : read_pretrained_config(folder)};
}

Batch checked_batch(const ForwardOptions& options, const ModelConfig& model) {
  Batch batch = read_examples(SafetensorsFile(options.inputs, Links::followed), model);
  if (options.gradients && !batch.labels.defined())
    throw std::runtime_error(
        fmt::format("{} holds no \"labels\", without which there are no gradients", options.inputs.string()));
  return batch;
}

void check_rows(const ForwardOptions& options, const Batch& batch, const MeshShape& shape) {
  if (count_samples(batch) % shape.ranks(kRowAxes) != 0)
    throw std::runtime_error(fmt::format(
        "{} has {} rows, which dp_replicate x dp_shard = {} does not divide: change the mesh or the number of rows",
        options.inputs.string(), count_samples(batch), shape.ranks(kRowAxes)));
}

/// Whether this rank is the one of its data-parallel shard that writes logits.
bool writes_logits(const Mesh& mesh) { return mesh.coordinate({Axis::pp, Axis::cp, Axis::tp}) == 0; }

}  // namespace

std::string forward_error(const ForwardOptions& options, const MeshShape& shape) {
  try {
    const Source source = open_source(options);
    if (auto error = ParallelModel::error(*source.model.entry, *source.model.config, shape); !error.empty())
      return error;
    check_rows(options, checked_batch(options, source.model), shape);
    return fs::exists(source.folder / "checkpoint.json") ? checkpoint_error(source.folder, source.model)
                                                         : pretrained_error(source.folder, source.model);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

void run_forward(const ForwardOptions& options, Mesh& mesh) {
  const Source source = open_source(options);
  Batch batch = checked_batch(options, source.model);
  check_rows(options, batch, mesh.shape());
  const int64_t dp_rank = mesh.coordinate(kRowAxes);
  const int64_t samples = count_samples(batch) / mesh.size(kRowAxes);
  try {
    batch = take_rows(std::move(batch), source.model, dp_rank * samples, samples);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("{}: {}", options.inputs.string(), error.what()));
  }
  const int64_t rows = batch.leading().size(0);
  batch.samples = at::arange(dp_rank * rows, (dp_rank + 1) * rows, at::kLong);
  batch.tensors([&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(mesh.device());
  });

  ParallelOptions parallel = options.parallel;
  parallel.initialize = false;
  ParallelModel model(*source.model.entry, *source.model.config, mesh, parallel, /*seed=*/0);
  load_parameters(source.folder, source.model, get_slices(model));
  model.parameters_changed();

  const at::Tensor logits = model.logits(batch);
  std::optional<StepResult> result;
  if (options.gradients)
    result = model.step({&batch, 1});
  else if (batch.labels.defined())
    result = model.evaluate({&batch, 1});

  fs::path partial = options.outputs;
  partial += ".partial";
  if (mesh.rank() == 0) {
    std::vector<int64_t> shape = logits.sizes().vec();
    shape[0] *= mesh.size(kRowAxes);
    std::vector<SafetensorsWriter::Tensor> headers = {{"logits", logits.scalar_type(), shape}};
    if (result) headers.push_back({"loss", at::kDouble, {}});
    if (options.gradients)
      for (const ModelParameter& parameter : model_parameters(source.model))
        if (parameter.trainable) headers.push_back({"gradients." + parameter.name, at::kFloat, parameter.global_shape});
    auto writer = SafetensorsWriter::create(partial, headers, {});
    if (result) writer.write("loss", at::full({}, result->loss + result->router_loss, at::kDouble));
    writer.close();
  }
  barrier(mesh.control(), "the creation of the outputs' file");
  auto writer = SafetensorsWriter::open(partial);
  std::vector<int64_t> offset(static_cast<size_t>(logits.dim()), 0);
  offset[0] = dp_rank * logits.size(0);
  if (writes_logits(mesh)) writer.write("logits", offset, logits);
  if (options.gradients)
    for (const ShardedParameter& parameter : model.parameters())
      for (const ParameterSlice& slice : parameter.slices)
        if (slice.owner)
          writer.write("gradients." + parameter.name, slice.offset, slice.in_local(parameter.grad).to(at::kFloat));
  writer.close();
  barrier(mesh.control(), "the outputs");
  if (mesh.rank() == 0) fs::rename(partial, options.outputs);
}

}  // namespace modular
