#include "runtime/data/example_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/masking.h"
#include "runtime/data/model_inputs.h"
#include "runtime/files/open_file.h"
#include "runtime/parallel/parameters/meta_construction.h"

namespace modular {
namespace {

constexpr int64_t kAtOnce = int64_t{1} << 20;  // positions per pass

bool is_of_decoder(std::string_view name, bool has_decoder) {
  return has_decoder && (name.starts_with("decoder_") || name == "labels");
}

/// Per row, one past the last position at which `of_texts` is true in any of its texts.
/// - of_texts [rows, seq] or [rows, texts, seq] bool
at::Tensor find_ends(const at::Tensor& of_texts) {
  const at::Tensor counts = of_texts.dim() == 3 ? of_texts.any(1) : of_texts;
  const int64_t seq = counts.size(1);
  return at::where(counts, at::arange(1, seq + 1), at::zeros({1}, at::kLong)).amax(1);
}

/// The same for a tensor of a file; nullopt if the file has none with positions.
void lengthen(std::vector<UnpaddedLength>& lengths, size_t first, const SafetensorsFile& file, std::string_view name,
              int64_t padding, int64_t UnpaddedLength::* length) {
  const auto header = file.tensors().find(name);
  if (header == file.tensors().end()) return;
  const auto& shape = header->second.shape;
  // Numbers are labels of full rows.
  if ((shape.size() != 2 && shape.size() != 3) || shape[1] == 0 || at::isFloatingType(header->second.dtype)) return;
  for (const at::Tensor& some : file.tensor(name).split(std::max<int64_t>(kAtOnce / shape[1], 1))) {
    const at::Tensor ends = find_ends(some.to(at::kLong).ne(padding));
    for (const int64_t end : std::span(ends.const_data_ptr<int64_t>(), static_cast<size_t>(ends.numel()))) {
      lengths[first].*length = std::max(lengths[first].*length, end);
      ++first;
    }
  }
}

int64_t rounded(int64_t length) { return std::max<int64_t>((length + 7) / 8 * 8, 8); }

std::vector<std::filesystem::path> get_paths(const std::vector<DataFile>& files) {
  std::vector<std::filesystem::path> paths;
  for (const DataFile& file : files) paths.push_back(file.path);
  return paths;
}

/// Rejects images of a shape that the model does not accept. Only its forward knows which, so it runs on the meta
/// device, without values.
void check_images_in(const ModelConfig& model, const Examples& examples) {
  const auto image = examples.row_shape("pixel_values");
  if (image.empty()) return;
  const auto ids = examples.row_shape("input_ids");
  Batch batch;
  batch.pixel_values = at::empty({1, image[0], image[1], image[2]}, at::kMeta);
  if (!ids.empty()) batch.input_ids = at::empty({1, ids[0]}, at::TensorOptions(at::kMeta).dtype(at::kLong));
  const at::NoGradGuard no_grad;
  try {
    build_on_meta(*model.entry, *model.config).forward(batch);
  } catch (const ConfigError& error) {
    throw ConfigError(
        fmt::format("the examples of data.paths do not fit {}: {}: write images of that size, or set "
                    "image_size and num_channels of the model's config",
                    model.entry->architecture, error.what()));
  } catch (const c10::Error&) {
    // It asked for values, after the images' check or without one.
  }
}

/// Whether the file's labels are floating-point numbers.
bool has_real_labels_in(const DataFile& file) {
  const SafetensorsFile opened(file.path, Links::followed);
  const auto labels = opened.tensors().find("labels");
  return labels != opened.tensors().end() && at::isFloatingType(labels->second.dtype);
}

/// Throws ConfigError if the examples are longer than the model's positions, or have images that it does not accept.
void check_shapes(const DatasetRequest& request, const Examples& examples) {
  const auto shape = examples.row_shape("input_ids");
  const auto longest = longest_sequence(request.model);
  if (!shape.empty() && longest && shape.back() > *longest)
    throw ConfigError(fmt::format("the examples of data.paths have {} tokens, and {} has positions for {}: {}",
                                  shape.back(), request.model.entry->architecture, *longest,
                                  advice_on_positions(request.model, !request.checkpoint.empty())));
  check_images_in(request.model, examples);
}

std::unique_ptr<Dataset> open_examples(const DatasetRequest& request) {
  const DataOptions& options = request.options;
  auto dataset = std::make_unique<ExampleDataset>(request.files, request.model);
  if (options.trim || options.group_by_length) dataset->measure(options.trim);
  check_shapes(request, *dataset->examples());
  const bool has_labels = dataset->examples()->has_labels();
  return has_labels ? std::move(dataset) : hide_items(std::move(dataset), request);
}

}  // namespace

const DataFormat kExamplesFormat = {.name = "examples",
                                    .holds_samples = true,
                                    .has_rows = true,
                                    .label_names = LabelNames::labels_json,
                                    .has_real_labels = has_real_labels_in,
                                    .open = open_examples,
                                    .describe = describe_rows};

std::string describe_rows(const Dataset* dataset) { return fmt::format("{} examples", dataset ? dataset->count() : 0); }

std::vector<UnpaddedLength> row_lengths(const std::vector<std::filesystem::path>& files, bool has_decoder) {
  std::vector<UnpaddedLength> lengths;
  for (const std::filesystem::path& path : files) {
    const SafetensorsFile file(path, Links::followed);
    const auto mask = file.tensors().find("attention_mask");
    if (mask == file.tensors().end()) return {};
    const size_t first = lengths.size();
    lengths.resize(first + static_cast<size_t>(mask->second.shape.at(0)));
    lengthen(lengths, first, file, "attention_mask", 0, &UnpaddedLength::input);
    lengthen(lengths, first, file, "labels", kIgnoredTarget,
             has_decoder ? &UnpaddedLength::target : &UnpaddedLength::input);
    if (has_decoder) lengthen(lengths, first, file, "decoder_attention_mask", 0, &UnpaddedLength::target);
  }
  return lengths;
}

Batch cut_to(Batch batch, const UnpaddedLength& length, bool has_decoder) {
  const int64_t input = batch.input_ids.size(1);
  batch.fields([&](std::string_view name, at::Tensor& tensor) {
    if (!tensor.defined() || name == "pixel_values" || tensor.dim() < 2) return;
    if (name == "labels" && tensor.is_floating_point()) return;  // of full rows
    const bool of_decoder = is_of_decoder(name, has_decoder);
    if (!of_decoder && tensor.size(1) != input) return;
    const int64_t kept = std::min(rounded(of_decoder ? length.target : length.input), tensor.size(1));
    tensor = tensor.narrow(1, 0, kept).contiguous();
  });
  return batch;
}

ExampleDataset::ExampleDataset(const std::vector<DataFile>& files, const ModelConfig& model)
    : paths_(get_paths(files)), examples_(paths_, model), has_decoder_(model.entry->task == "seq2seq") {
  if (examples_.size() == 0) throw DataError("the files of data.paths have no examples: write at least one row");
}

void ExampleDataset::measure(bool trims) {
  lengths_ = row_lengths(paths_, has_decoder_);
  trims_ = trims;
  if (lengths_.empty())
    throw DataError(
        "data.trim and data.group_by_length need attention_mask, which the files of data.paths do not have: write it, "
        "or leave both out");
}

Batch ExampleDataset::cut(Batch batch, std::span<const int64_t> step) const {
  if (!trims_) return batch;
  UnpaddedLength longest;
  for (const int64_t sample : step) {
    const UnpaddedLength& row = lengths_[static_cast<size_t>(sample)];
    longest = {std::max(longest.input, row.input), std::max(longest.target, row.target)};
  }
  return cut_to(std::move(batch), longest, has_decoder_);
}

int64_t ExampleDataset::length(int64_t sample) const {
  if (lengths_.empty()) return 0;
  const UnpaddedLength& row = lengths_[static_cast<size_t>(sample)];
  return row.input + row.target;
}

int64_t ExampleDataset::tokens() const {
  int64_t tokens = 0;
  for (const char* name : {"input_ids", "decoder_input_ids"})
    if (const auto shape = examples_.row_shape(name); !shape.empty())
      tokens += std::reduce(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());  // of all texts
  return std::max<int64_t>(tokens, 1);
}

Batch ExampleDataset::read(std::span<const SamplePosition> positions, int64_t samples) const {
  std::vector<int64_t> numbers;
  for (const SamplePosition& position : positions) numbers.push_back(position.sample);
  numbers.resize(static_cast<size_t>(samples));  // pads with the first row, which is valid input
  Batch batch = examples_.read(numbers);
  batch.labels.slice(0, static_cast<int64_t>(positions.size())).fill_(kIgnoredTarget);
  return batch;
}

void ExampleDataset::validate() const { examples_.check_ids(); }

}  // namespace modular
