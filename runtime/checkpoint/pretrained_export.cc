#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/checkpoint/adapters.h"
#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/pretrained_files.h"
#include "runtime/checkpoint/sentence_transformers.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/checkpoint/tokenizer_files.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/random/initialization.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A tensor of an exported file: a piece of a parameter.
struct ExportedTensor {
  const ModelParameter* parameter;
  StateDictPiece piece;

  /// Buffers stay in float32, as in transformers.
  at::ScalarType type(at::ScalarType requested) const { return parameter->trainable ? requested : at::kFloat; }
};

std::string_view dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    default:
      throw std::runtime_error("a model can be exported as float32, bfloat16 or float16");
  }
}

/// Splits the parameters, in the model's order and as the entry's files hold them, into files of at most `limit` bytes
/// (and at least one tensor).
std::vector<std::vector<ExportedTensor>> plan_files(const Entry& entry, const std::vector<ModelParameter>& parameters,
                                                    at::ScalarType dtype, int64_t limit) {
  std::vector<std::vector<ExportedTensor>> files(1);
  int64_t filled = 0;
  for (const ModelParameter& parameter : parameters)
    for (StateDictPiece& piece : state_dict_pieces(entry, parameter.name, parameter.global_shape)) {
      const ExportedTensor tensor{&parameter, std::move(piece)};
      const int64_t bytes =
          c10::multiply_integers(tensor.piece.shape) * static_cast<int64_t>(c10::elementSize(tensor.type(dtype)));
      if (!files.back().empty() && filled + bytes > limit) {
        files.emplace_back();
        filled = 0;
      }
      files.back().push_back(tensor);
      filled += bytes;
    }
  return files;
}

/// Initial values of the parameter in a run with the default seed.
at::Tensor initial_values(const ModelConfig& model, const std::string& name) {
  const Model built = build_on_meta(*model.entry, *model.config);
  const ParameterTable table = parameter_table(*built.module, *model.entry->plan, *model.config, /*stages=*/{});
  const auto found = std::ranges::find(table.parameters, name, &ModelParameter::name);
  TORCH_INTERNAL_ASSERT(found != table.parameters.end(), name);
  const std::vector<int64_t>& shape = found->global_shape;
  const std::vector<int64_t> begin(shape.size(), 0);
  ShardedParameter full{.name = name, .names = {name}, .global_shape = shape, .slices = {{begin, begin, shape}}};
  full.local = at::empty(shape, at::kFloat);
  SliceInitializer initializer(/*seed=*/0);
  initializer.add(found->tensor, full);
  initializer.run(*built.module);
  return full.local;
}

}  // namespace

void write_pretrained(const StoredTensors& stored, const ModelConfig& model, const fs::path& folder,
                      const ExportOptions& options) {
  const std::vector<DenseWeights> dense = get_dense_weights(model, folder);
  const auto belongs_to = [](const DenseWeights& layer) {
    return [&layer](const ModelParameter& parameter) { return parameter.name.starts_with(layer.prefix); };
  };
  std::vector<ModelParameter> parameters = model_parameters(without_adapters(model)), of_layers;
  std::erase_if(parameters, [&](const ModelParameter& parameter) {
    return may_be_missing(model, parameter.name) && !stored.contains(parameter.name);
  });
  for (const DenseWeights& layer : dense) {
    std::ranges::copy_if(parameters, std::back_inserter(of_layers), belongs_to(layer));
    std::erase_if(parameters, belongs_to(layer));
  }
  const auto write = [&](const fs::path& path, const std::vector<ExportedTensor>& tensors) {
    std::vector<SafetensorsWriter::Tensor> headers;
    for (const ExportedTensor& tensor : tensors)
      headers.push_back({tensor.piece.name, tensor.type(options.dtype), tensor.piece.file_shape});
    auto writer = SafetensorsWriter::create(path, headers, {{"format", "pt"}});
    int64_t bytes = 0;
    for (const ExportedTensor& tensor : tensors) {
      const auto& [parameter, piece] = tensor;
      const at::Tensor values = at::empty(piece.shape, at::TensorOptions().dtype(tensor.type(options.dtype)));
      read_merged_slice(parameter->name, stored, model.lora.get(), piece.offset, values);
      writer.write(piece.name, values.view(piece.file_shape));
      bytes += static_cast<int64_t>(values.nbytes());
    }
    writer.close();
    return bytes;
  };
  const auto files = plan_files(*model.entry, parameters, options.dtype, options.max_shard_bytes);
  json weight_map = json::object();
  int64_t total = 0;
  for (size_t index = 0; index < files.size(); ++index) {
    const std::string name =
        files.size() == 1 ? kPretrainedFile : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, files.size());
    total += write(folder / name, files[index]);
    for (const ExportedTensor& tensor : files[index]) weight_map[tensor.piece.name] = name;
  }
  if (files.size() > 1)
    write_file(folder / kPretrainedIndex,
               json{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}}.dump(2) + "\n");
  write_sentence_transformers(model, folder);
  for (const DenseWeights& layer : dense) {
    std::vector<ExportedTensor> tensors;
    for (const ModelParameter& parameter : of_layers) {
      if (!belongs_to(layer)(parameter)) continue;
      const std::vector<int64_t>& shape = parameter.global_shape;
      tensors.push_back(
          {&parameter,
           {parameter.name.substr(layer.prefix.size()), std::vector<int64_t>(shape.size(), 0), shape, shape}});
    }
    write(layer.file, tensors);
  }
}

void export_pretrained(const fs::path& path, const fs::path& folder, const ExportOptions& options,
                       const fs::path& base) {
  const fs::path checkpoint = find_checkpoint(path), source = checkpoint.empty() ? path : checkpoint;
  const ModelConfig model = read_pretrained_config(source, nullptr, base);
  const std::string_view dtype = dtype_name(options.dtype);
  const StoredTensors stored = open_parameters(source, model);
  reject_existing(folder);
  NewFolder exported(folder);
  const fs::path& partial = exported.partial();
  write_pretrained(stored, model, partial, options);
  write_file(partial / "config.json", without_embedding_head(format_config(without_adapters(model), dtype)));
  if (const fs::path tokenizer = tokenizer_of_weights(source, model.base); !tokenizer.empty())
    copy_tokenizer(tokenizer, partial);
  exported.publish();
}

void import_pretrained(const fs::path& folder, const fs::path& checkpoint, const fs::path& base) {
  const ModelConfig model = read_pretrained_config(folder, nullptr, base);
  const StoredTensors stored = open_parameters(folder, model);
  reject_existing(checkpoint);
  NewFolder imported(checkpoint);
  const fs::path& partial = imported.partial();
  std::vector<TensorSlice> slices;
  std::vector<SafetensorsWriter::Tensor> headers;
  for (const ModelParameter& parameter : model_parameters(model)) {
    slices.push_back(
        {parameter.name, parameter.global_shape, std::vector<int64_t>(parameter.global_shape.size(), 0), {}, true});
    headers.push_back({parameter.name, at::kFloat, parameter.global_shape});
  }
  auto writer = SafetensorsWriter::create(partial / rank_file_name(0), headers, slice_metadata(slices));
  for (const auto& tensor : headers) {
    const auto found = stored.find(tensor.name);
    writer.write(tensor.name, found == stored.end() ? initial_values(model, tensor.name)
                                                    : read_full(tensor.name, found->second, tensor.dtype));
  }
  writer.close();
  write_file(partial / "config.json", format_config(model, "float32"));
  write_index(partial, TrainingState(), MeshShape(), /*ranks=*/1);
  const fs::path own = transformer_folder(folder), tokenizer = has_tokenizer(own) ? own : model.base;
  if (!tokenizer.empty() && has_tokenizer(tokenizer)) {
    fs::create_directory(partial / kTokenizerFolder);
    copy_tokenizer_with_class(tokenizer, partial / kTokenizerFolder);
  }
  imported.publish();
}

}  // namespace modular
