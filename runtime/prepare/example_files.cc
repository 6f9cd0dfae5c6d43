#include "runtime/prepare/example_files.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/files.h"
#include "runtime/model/tensors.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Form = RowPlan::Form;
using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

constexpr int64_t kMultiple = 8;

int64_t longest_of(const std::vector<int64_t>& lengths) {
  return lengths.empty() ? 0 : *std::ranges::max_element(lengths);
}

int64_t padded_length(int64_t longest, const RowLength& length) {
  if (length.asked) return *length.asked;
  const int64_t rounded = (std::max<int64_t>(longest, 1) + kMultiple - 1) / kMultiple * kMultiple;
  return std::min(rounded, length.positions.value_or(rounded));
}

/// A label as the name of its class.
std::string name_of(const json& label) {
  return label.is_string() ? label.get<std::string>() : std::to_string(label.get<int64_t>());
}

template <class Visitor>
void for_each_label(const json& labels, Visitor&& visit) {
  for (const json& label : labels)
    if (label.is_array())
      for (const json& one : label) visit(one);
    else
      visit(label);
}

/// Pads lists of numbers to [lists, length].
template <class Number>
at::Tensor padded(const std::vector<Number>& numbers, const std::vector<int64_t>& lengths, int64_t length,
                  Number padding, bool left) {
  const auto type = c10::CppTypeToScalarType<Number>::value;
  at::Tensor result = at::full({static_cast<int64_t>(lengths.size()), length}, padding, type);
  Number* row = result.mutable_data_ptr<Number>();
  for (auto from = numbers.begin(); const int64_t count : lengths) {
    std::copy(from, from + count, row + (left ? length - count : 0));
    from += count;
    row += length;
  }
  return result;
}

class ExampleTensors {
 public:
  ExampleTensors(const Rows& rows, const RowPlan& plan, const ExampleShape& shape)
      : rows_(rows), plan_(plan), shape_(shape) {}

  Tensors all() const {
    Tensors tensors = {
        {"input_ids", by_row(of_ids(rows_.ids, static_cast<int32_t>(shape_.padding)))},
        {"attention_mask", by_row(of_ids(std::vector<uint8_t>(rows_.ids.size(), 1), uint8_t{0}).to(at::kBool))}};
    if (plan_.has_types) tensors.emplace_back("token_type_ids", of_ids(rows_.types, uint8_t{0}));
    if (const at::Tensor labels = made_labels(); labels.defined()) tensors.emplace_back("labels", labels);
    return tensors;
  }

 private:
  template <class Number>
  at::Tensor of_ids(const std::vector<Number>& numbers, Number padding) const {
    return padded(numbers, rows_.lengths, shape_.ids, padding, shape_.pads_left);
  }

  /// [texts, seq] as [rows, texts, seq], where rows have several.
  at::Tensor by_row(const at::Tensor& texts) const {
    if (plan_.form != Form::several_texts) return texts;
    return texts.view({-1, static_cast<int64_t>(plan_.texts), texts.size(1)});
  }

  at::Tensor made_labels() const {
    constexpr auto kNone = static_cast<int32_t>(kIgnoredTarget);
    if (plan_.form == Form::source)
      return padded(rows_.targets, rows_.target_lengths, shape_.targets, kNone, /*left=*/false);
    if (plan_.form == Form::continuation) return of_ids(after_prompts(), kNone);
    if (plan_.form == Form::conversation) return of_ids(of_assistant(), kNone);
    if (plan_.form == Form::words) return of_ids(of_first_ids(), kNone);
    if (!plan_.has_label) return {};
    if (shape_.real_labels) {
      std::vector<float> scores;
      for (const json& label : rows_.labels) scores.push_back(label.get<float>());
      return at::tensor(scores, at::kFloat);
    }
    std::vector<int64_t> ids;
    for (const json& label : rows_.labels) ids.push_back(number_of(label));
    return at::tensor(ids, at::kLong);
  }

  int64_t number_of(const json& label) const {
    return shape_.classes.empty() ? label.get<int64_t>() : shape_.classes.at(name_of(label));
  }

  std::vector<int32_t> after_prompts() const {
    std::vector<int32_t> labels = rows_.ids;
    for (size_t row = 0, begin = 0; row < rows_.count(); begin += static_cast<size_t>(rows_.lengths[row++]))
      std::fill_n(labels.begin() + static_cast<std::ptrdiff_t>(begin), rows_.prompts[row],
                  static_cast<int32_t>(kIgnoredTarget));
    return labels;
  }

  std::vector<int32_t> of_assistant() const {
    std::vector<int32_t> labels = rows_.ids;
    for (size_t id = 0; id < labels.size(); ++id)
      if (!rows_.learned[id]) labels[id] = static_cast<int32_t>(kIgnoredTarget);
    return labels;
  }

  /// The label of a word is that of its first id.
  std::vector<int32_t> of_first_ids() const {
    std::vector<int32_t> labels(rows_.ids.size(), static_cast<int32_t>(kIgnoredTarget));
    for (size_t row = 0, id = 0; row < rows_.count(); ++row)
      for (int32_t before = -1; int64_t place : c10::irange(rows_.lengths[row])) {
        const int32_t word = rows_.words[id];
        if (word >= 0 && (place == 0 || word != before))
          labels[id] = static_cast<int32_t>(number_of(rows_.labels.at(row).at(static_cast<size_t>(word))));
        before = rows_.words[id++];
      }
    return labels;
  }

  const Rows& rows_;
  const RowPlan& plan_;
  const ExampleShape& shape_;
};

}  // namespace

ExampleShape shape_of(const std::vector<fs::path>& files, const RowPlan& plan, const RowLength& length) {
  ExampleShape shape;
  bool has_names = false;
  std::map<std::string, int64_t> names;
  for (const fs::path& file : files) {
    const Rows rows = read_rows(file);
    shape.ids = std::max(shape.ids, longest_of(rows.lengths));
    shape.targets = std::max(shape.targets, longest_of(rows.target_lengths));
    for_each_label(rows.labels, [&](const json& label) {
      has_names = has_names || label.is_string();
      shape.real_labels = shape.real_labels || label.is_number_float();
      if (!label.is_number_float()) names.emplace(name_of(label), 0);
    });
  }
  if (has_names && shape.real_labels)
    throw DataError(fmt::format("\"{}\" holds both names and numbers that are no integers: write one of the two",
                                plan.columns.back()));
  shape.ids = padded_length(shape.ids, length);
  shape.targets = padded_length(shape.targets, length);
  if (!has_names) return shape;
  for (int64_t number = 0; auto& [name, id] : names) id = number++;
  shape.classes = std::move(names);
  return shape;
}

void write_examples(const fs::path& path, const Rows& rows, const RowPlan& plan, const ExampleShape& shape) {
  write_safetensors(path, ExampleTensors(rows, plan, shape).all());
}

}  // namespace modular
