#include "runtime/modrun/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

struct Source {
  fs::path folder;
  ModelConfig model;
};

Source open_source(const fs::path& path) {
  const fs::path checkpoint = find_checkpoint(path);
  const fs::path folder = checkpoint.empty() ? path : checkpoint;
  return {folder, read_config(folder)};
}

void check_ids(const fs::path& path, const char* name, const at::Tensor& ids, int64_t count, bool may_ignore) {
  if (ids.numel() == 0) return;
  at::Tensor wrong = ids.lt(0).logical_or(ids.ge(count));
  if (may_ignore) wrong = wrong.logical_and(ids.ne(kIgnoredTarget));
  if (!wrong.any().item<bool>()) return;
  throw std::runtime_error(fmt::format(
      "{}: \"{}\" holds {}: write ids from 0 to {}{}", path.string(), name, ids.masked_select(wrong)[0].item<int64_t>(),
      count - 1, may_ignore ? fmt::format(", or {} where there is no target", kIgnoredTarget) : ""));
}

Batch checked_batch(const ForwardOptions& options, const ModelConfig& model) {
  Batch batch = read_batch(options.inputs, model);
  if (options.gradients && !batch.labels.defined())
    throw std::runtime_error(
        fmt::format("{} holds no \"labels\", without which there are no gradients", options.inputs.string()));
  return batch;
}

int64_t data_ranks(const MeshShape& shape) { return shape[Axis::dp_replicate] * shape[Axis::dp_shard]; }

void check_rows(const ForwardOptions& options, const Batch& batch, const MeshShape& shape) {
  if (batch.input_ids.size(0) % data_ranks(shape) != 0)
    throw std::runtime_error(fmt::format("{} has {} rows: make dp_replicate x dp_shard, {}, divide them",
                                         options.inputs.string(), batch.input_ids.size(0), data_ranks(shape)));
}

/// The one rank of each data-parallel share that writes its logits.
bool writes_logits(const Mesh& mesh) {
  return mesh.coordinate(Axis::pp) == 0 && mesh.coordinate(Axis::cp) == 0 && mesh.coordinate(Axis::ep) == 0 &&
         mesh.coordinate(Axis::tp) == 0;
}

}  // namespace

Batch read_batch(const fs::path& inputs, const ModelConfig& model) {
  const SafetensorsFile file(inputs);
  Batch batch;
  const std::pair<const char*, at::Tensor*> places[] = {{"input_ids", &batch.input_ids},
                                                        {"labels", &batch.labels},
                                                        {"attention_mask", &batch.attention_mask},
                                                        {"position_ids", &batch.position_ids}};
  const std::string known = "input_ids, labels, attention_mask and position_ids";
  for (const auto& [name, header] : file.tensors()) {
    const auto* place = std::ranges::find(places, name, &std::pair<const char*, at::Tensor*>::first);
    if (place == std::end(places))
      throw std::runtime_error(fmt::format("{} holds \"{}\": a forward reads {}", inputs.string(), name, known));
    if (header.shape.size() != 2 || !at::isIntegralType(header.dtype, /*includeBool=*/true))
      throw std::runtime_error(fmt::format("{}: \"{}\" is {} of {}: write [batch, seq] of integers", inputs.string(),
                                           name, shape_text(header.shape), c10::toString(header.dtype)));
    *place->second = file.tensor(name).to(at::kLong).clone();
  }
  if (!batch.input_ids.defined())
    throw std::runtime_error(fmt::format("{} holds no \"input_ids\": a forward reads {}", inputs.string(), known));
  for (const auto& [name, place] : places)
    if (place->defined() && place->sizes() != batch.input_ids.sizes())
      throw std::runtime_error(fmt::format("{}: \"{}\" is {} and \"input_ids\" is {}: write equal shapes",
                                           inputs.string(), name, shape_text(place->sizes().vec()),
                                           shape_text(batch.input_ids.sizes().vec())));
  const int64_t vocab = fields_as_json(*model.config).value("vocab_size", INT64_MAX);
  check_ids(inputs, "input_ids", batch.input_ids, vocab, /*may_ignore=*/false);
  if (batch.labels.defined()) check_ids(inputs, "labels", batch.labels, vocab, /*may_ignore=*/true);
  return batch;
}

std::string forward_refusal(const ForwardOptions& options, const MeshShape& shape) {
  try {
    const Source source = open_source(options.checkpoint);
    if (auto refusal = ParallelModel::refusal(*source.model.entry, *source.model.config, shape); !refusal.empty())
      return refusal;
    check_rows(options, checked_batch(options, source.model), shape);
    return fs::exists(source.folder / "checkpoint.json") ? checkpoint_refusal(source.folder, source.model)
                                                         : pretrained_refusal(source.folder, source.model);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

void run_forward(const ForwardOptions& options, Mesh& mesh) {
  const Source source = open_source(options.checkpoint);
  if (const std::string note = unknown_keys_note(source.model); mesh.rank() == 0 && !note.empty())
    fmt::print(stderr, "{}\n", note);
  Batch batch = checked_batch(options, source.model);
  check_rows(options, batch, mesh.shape());
  const int64_t rows = batch.input_ids.size(0) / data_ranks(mesh.shape());
  const int64_t first_row =
      rows * (mesh.coordinate(Axis::dp_replicate) * mesh.size(Axis::dp_shard) + mesh.coordinate(Axis::dp_shard));
  const int64_t all_rows = batch.input_ids.size(0);
  batch.tensors([&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.narrow(0, first_row, rows).to(mesh.device());
  });

  ParallelModel model(*source.model.entry, *source.model.config, mesh, options.parallel, /*seed=*/0);
  load_parameters(source.folder, source.model, boxes_of(model.parameters()));
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
    std::vector<SafetensorsWriter::Tensor> headers = {
        {"logits", logits.scalar_type(), {all_rows, logits.size(1), logits.size(2)}}};
    if (result) headers.push_back({"loss", at::kDouble, {}});
    if (options.gradients)
      for (const ModelParameter& parameter : model_parameters(source.model))
        headers.push_back({"gradients." + parameter.name, at::kFloat, parameter.global_shape});
    auto writer = SafetensorsWriter::create(partial, headers, {});
    if (result) writer.write("loss", at::full({}, result->loss, at::kDouble));
    writer.close();
  }
  barrier(mesh.world(), "the creation of the outputs' file");
  auto writer = SafetensorsWriter::open(partial);
  if (writes_logits(mesh)) writer.write("logits", {first_row, 0, 0}, logits);
  if (options.gradients)
    for (const ShardedParameter& parameter : model.parameters())
      if (parameter.owner)
        for (const ParameterBox& box : parameter.boxes)
          writer.write("gradients." + parameter.name, box.offset, box.in_local(parameter.grad));
  writer.close();
  barrier(mesh.world(), "the outputs");
  if (mesh.rank() == 0) fs::rename(partial, options.outputs);
}

}  // namespace modular
