#include "checks/execute/batches.h"

#include <ATen/CPUGeneratorImpl.h>

#include <stdexcept>
#include <string_view>

#include "runtime/parallel/parameters/config_integers.h"

namespace modular::execute {
namespace {

constexpr int64_t kSamples = 4, kSeq = 16, kTargetSeq = 8;

/// The integer field with this name, or, of the nested configs, the first one.
int64_t find_integer(const ConfigIntegers& integers, const std::string& name, int64_t otherwise) {
  if (const auto found = integers.find(name); found != integers.end()) return found->second;
  for (const auto& [path, value] : integers)
    if (path.ends_with("." + name)) return value;
  return otherwise;
}

/// The integer field that bounds ids of tokens.
int64_t find_vocabulary(const ConfigIntegers& integers) {
  if (const auto found = integers.find("text_config.vocab_size"); found != integers.end()) return found->second;
  const int64_t size = find_integer(integers, "vocab_size", 0);
  if (size < 1) throw std::runtime_error("the config has no vocab_size, which bounds ids of tokens");
  return size;
}

/// The config's vector of integers with this name; empty if it has none.
std::vector<int64_t> find_integers(const AnyConfig& config, std::string_view wanted) {
  std::vector<int64_t> values;
  config.clone()->fields(FieldVisitor([&](std::string_view name, const ConfigValue& field) {
    if (const auto* found = std::get_if<std::vector<int64_t>*>(&field); found && name == wanted) values = **found;
  }));
  return values;
}

class BatchMaker {
 public:
  BatchMaker(const Entry& entry, const AnyConfig& config, const BatchOptions& options)
      : task_(*find_task(entry.task)), config_(config), integers_(config_integers(config)), options_(options) {}

  Batch make() {
    rows_ = kSamples * std::max<int64_t>(1, task_.texts);
    if (task_.reads != Task::Reads::images) make_tokens();
    if (task_.reads != Task::Reads::tokens) make_images();
    make_labels();
    batch_.want_logits = true;
    return std::move(batch_);
  }

 private:
  Tensor sample(int64_t end, at::IntArrayRef sizes, int64_t first = 0) {
    return at::randint(std::min(first, end - 1), end, sizes, generator_, at::TensorOptions().dtype(at::kLong));
  }

  void make_tokens() {
    const int64_t vocabulary = find_vocabulary(integers_);
    batch_.input_ids = sample(vocabulary, {rows_, kSeq}, /*first=*/1);
    if (options_.is_padded) {
      batch_.attention_mask = at::ones({rows_, kSeq}, at::kLong);
      for (int64_t row = 1; row < rows_; ++row) batch_.attention_mask[row].slice(0, kSeq - row).zero_();
    }
    if (options_.has_segments)
      batch_.token_type_ids = sample(find_integer(integers_, "type_vocab_size", 1), {rows_, kSeq});
    std::vector<Tensor> features;
    for (const int64_t cardinality : find_integers(config_, "feature_cardinalities"))
      features.push_back(sample(cardinality, {rows_, kSeq}));
    if (!features.empty()) batch_.feature_ids = at::stack(features, -1);
    if (const int64_t numbers = find_integer(integers_, "feature_numbers", 0); numbers > 0)
      batch_.feature_values = at::randn({rows_, kSeq, numbers}, generator_, at::kDouble);
  }

  void make_images() {
    const int64_t channels = find_integer(integers_, "num_channels", 3),
                  size = find_integer(integers_, "image_size", 0);
    if (size < 1) throw std::runtime_error("the config has no image_size, which images need");
    batch_.pixel_values = at::randn({rows_, channels, size, size}, generator_, at::kDouble);
    const int64_t placeholder = find_integer(integers_, "image_token_index", -1);
    if (placeholder < 0 || !batch_.input_ids.defined()) return;
    // A language model's placeholders: one per patch, before the text.
    const int64_t side = size / std::max<int64_t>(1, find_integer(integers_, "patch_size", size));
    batch_.input_ids.masked_fill_(batch_.input_ids.eq(placeholder), placeholder == 0 ? 1 : 0);
    // In all as many positions as four ranks can share.
    const int64_t seq = (side * side + kSeq) / 4 * 4;
    batch_.input_ids =
        at::cat({at::full({rows_, side * side}, placeholder, at::kLong), batch_.input_ids}, 1).narrow(1, 0, seq);
    if (batch_.attention_mask.defined())
      batch_.attention_mask =
          at::cat({at::ones({rows_, side * side}, at::kLong), batch_.attention_mask}, 1).narrow(1, 0, seq);
  }

  void make_labels() {
    using enum Task::Labels;
    const int64_t classes = task_.label_count.empty() ? 0 : find_integer(integers_, std::string(task_.label_count), 0);
    if (task_.labels == each_row) {
      // Where labels are only compared with each other, two samples share one.
      batch_.labels = classes > 0 ? sample(classes, {kSamples}) : at::arange(kSamples, at::kLong).floor_divide(2);
      return;
    }
    if (classes < 1) throw std::runtime_error("the config has no " + std::string(task_.label_count));
    const int64_t seq = task_.labels == each_target_token ? kTargetSeq : batch_.input_ids.size(1);
    batch_.labels = sample(classes, {rows_, seq}, task_.label_count == "num_labels" ? 0 : 1);
    batch_.labels.slice(1, 0, std::nullopt, 5).fill_(kIgnoredTarget);
    if (task_.labels == each_token && batch_.attention_mask.defined())
      batch_.labels.masked_fill_(batch_.attention_mask.eq(0), kIgnoredTarget);
  }

  const Task& task_;
  const AnyConfig& config_;
  ConfigIntegers integers_;
  BatchOptions options_;
  at::Generator generator_ = at::detail::createCPUGenerator(7);
  int64_t rows_ = 0;
  Batch batch_;
};

}  // namespace

bool reads_tokens(const Entry& entry) { return find_task(entry.task)->reads == Task::Reads::tokens; }

Batch make_batch(const Entry& entry, const AnyConfig& config, const BatchOptions& options) {
  return BatchMaker(entry, config, options).make();
}

Batch find_rows(const Batch& batch, int64_t index, int64_t count) {
  Batch part = batch;
  part.tensors([&](Tensor& tensor) {
    if (!tensor.defined()) return;
    const int64_t rows = tensor.size(0) / count;
    tensor = tensor.narrow(0, index * rows, rows);
  });
  return part;
}

Batch find_positions(const Batch& batch, const Entry& entry, const Grid& grid, int64_t cp_rank) {
  Batch part = batch;
  if (grid.cp == 1) return part;
  const bool cuts_labels = find_task(entry.task)->labels != Task::Labels::each_row;
  part.fields([&](std::string_view name, Tensor& tensor) {
    if (tensor.defined() && name != "pixel_values" && (name != "labels" || cuts_labels))
      tensor = take_context_positions(tensor, 1, grid, cp_rank);
  });
  return part;
}

Batch find_tokens(const Batch& batch, int64_t first, int64_t size) {
  Batch part;
  part.want_logits = true;
  part.input_ids = batch.input_ids.narrow(1, first, size);
  if (batch.feature_ids.defined()) part.feature_ids = batch.feature_ids.narrow(1, first, size);
  if (batch.feature_values.defined()) part.feature_values = batch.feature_values.narrow(1, first, size);
  return part;
}

}  // namespace modular::execute
