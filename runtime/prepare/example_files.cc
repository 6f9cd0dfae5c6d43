#include "runtime/prepare/example_files.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

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

int64_t find_longest(const std::vector<int64_t>& lengths) {
  return lengths.empty() ? 0 : *std::ranges::max_element(lengths);
}

int64_t padded_length(int64_t longest, const RowLength& length) {
  if (length.asked) return *length.asked;
  const int64_t rounded = (std::max<int64_t>(longest, 1) + kMultiple - 1) / kMultiple * kMultiple;
  return std::min(rounded, length.positions.value_or(rounded));
}

/// Whether a label means "no target". It does also where the other labels are names.
bool is_ignored(const json& label) { return label.is_number_integer() && label.get<int64_t>() == kIgnoredTarget; }

/// A label as the name of its class.
std::string name_for(const json& label) {
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

/// How many labels names are numbered for: those of the model, or of a new head. 0 where labels are numbers.
int64_t label_count(const ExampleShape& shape) {
  if (shape.named.numbers.empty()) return 0;
  int64_t count = 0;
  for (const auto& [name, number] : shape.named.numbers) count = std::max(count, number + 1);
  return static_cast<int64_t>(shape.named.numbers.size()) > shape.model.count() ? count
                                                                                : std::max(count, shape.model.count());
}

/// What the labels of all rows are.
class LabelKinds {
 public:
  explicit LabelKinds(const RowPlan& plan) : plan_(plan) {}

  /// Throws DataError where the label of a row does not go with those before.
  void add(const json& label) {
    const bool are_numbers =
        !plan_.problem.empty() && !(label.is_array() && label.empty() ? has_names_ : holds_name(label));
    if (are_numbers && plan_.form != Form::words) add_length(label.is_array() ? static_cast<int64_t>(label.size()) : 0);
    for_each_label(json::array({label}), [&](const json& one) {
      has_names_ = has_names_ || one.is_string();
      any_real_ = any_real_ || one.is_number_float();
      any_number_ = any_number_ || one.is_number();
      if (!one.is_number_float() && !is_ignored(one)) names_.insert(name_for(one));
    });
    if (has_names_ && (any_real_ || (any_number_ && !plan_.problem.empty())))
      throw DataError(fmt::format("\"{}\" holds both names and numbers{}: write one of the two", plan_.columns.back(),
                                  plan_.problem.empty() ? " that are no integers" : ""));
  }

  /// Throws DataError where names are numbers that are scores.
  bool has_names() const {
    const bool are_scores =
        plan_.infers_problem &&
        std::ranges::all_of(names_, [](const std::string& name) { return real_number(name).has_value(); }) &&
        std::ranges::any_of(names_, [](const std::string& name) { return name.find('.') != name.npos; });
    if (has_names_ && are_scores)
      throw DataError(
          fmt::format("the labels of \"{}\" are numbers like {}: for scores add {}; if they are names of classes, add "
                      "--set model.config.problem_type=single_label_classification",
                      plan_.columns.back(), *names_.begin(), kForScores));
    return has_names_;
  }

  bool any_real() const { return any_real_; }
  const std::set<std::string>& names() const { return names_; }
  int64_t numbers() const { return has_names_ ? 0 : length_.value_or(0); }

 private:
  static bool holds_name(const json& label) {
    return label.is_array() && std::ranges::any_of(label, [](const json& one) { return one.is_string(); });
  }

  void add_length(int64_t length) {
    const auto shown_length = [&](int64_t one) {
      if (one > 0) return fmt::format("lists of {}", one);
      return std::string(plan_.problem == "regression" ? "single numbers" : "empty lists");
    };
    if (length_ && *length_ != length)
      throw DataError(fmt::format("\"{}\" holds {} and {}: write as many numbers in each row, one for each label",
                                  plan_.columns.back(), shown_length(*length_), shown_length(length)));
    length_ = length;
  }

  const RowPlan& plan_;
  bool has_names_ = false, any_real_ = false, any_number_ = false;
  std::set<std::string> names_;
  std::optional<int64_t> length_;
};

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
    Tensors tensors = {{"input_ids", by_row(of_ids(rows_.ids, static_cast<int32_t>(shape_.padding)))},
                       {"attention_mask", by_row(attention_mask())}};
    if (plan_.has_types) tensors.emplace_back("token_type_ids", of_ids(rows_.types, uint8_t{0}));
    if (const at::Tensor labels = made_labels(); labels.defined()) tensors.emplace_back("labels", labels);
    return tensors;
  }

 private:
  template <class Number>
  at::Tensor of_ids(const std::vector<Number>& numbers, Number padding) const {
    return padded(numbers, rows_.lengths, shape_.ids, padding, shape_.pads_left);
  }

  /// 1 for tokens, and 2 for those of a prompt that pooling leaves out.
  at::Tensor attention_mask() const {
    std::vector<uint8_t> tokens(rows_.ids.size(), 1);
    if (!plan_.leaves_prompts_out) return of_ids(tokens, uint8_t{0}).to(at::kBool);
    auto first = tokens.begin();
    for (size_t text = 0; text < rows_.lengths.size(); ++text) {
      std::fill_n(first, rows_.prompts[text], uint8_t{2});
      first += rows_.lengths[text];
    }
    return of_ids(tokens, uint8_t{0});
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
    if (plan_.problem == "multi_label_classification" && !shape_.named.numbers.empty()) return of_label_sets();
    if (shape_.real_labels) {
      std::vector<float> scores;
      for_each_label(rows_.labels, [&](const json& label) { scores.push_back(label.get<float>()); });
      const at::Tensor all = at::tensor(scores, at::kFloat);
      return shape_.numbers > 0 ? all.view({-1, shape_.numbers}) : all;
    }
    std::vector<int64_t> ids;
    for (const json& label : rows_.labels) ids.push_back(to_number(label));
    return at::tensor(ids, at::kLong);
  }

  int64_t to_number(const json& label) const {
    if (shape_.named.numbers.empty() || is_ignored(label)) return label.get<int64_t>();
    return shape_.named.numbers.at(name_for(label));
  }

  /// [rows, labels]: 1 for each label of a row.
  at::Tensor of_label_sets() const {
    at::Tensor sets = at::zeros({static_cast<int64_t>(rows_.labels.size()), label_count(shape_)}, at::kFloat);
    auto values = sets.accessor<float, 2>();
    for (int64_t row = 0; row < sets.size(0); ++row)
      for (const json& label : rows_.labels[static_cast<size_t>(row)]) values[row][to_number(label)] = 1.0F;
    return sets;
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
          labels[id] = static_cast<int32_t>(to_number(rows_.labels.at(row).at(static_cast<size_t>(word))));
        before = rows_.words[id++];
      }
    return labels;
  }

  const Rows& rows_;
  const RowPlan& plan_;
  const ExampleShape& shape_;
};

}  // namespace

ExampleShape find_shape(const std::vector<fs::path>& files, const RowPlan& plan, const RowLength& length,
                        const LabelTable& model, std::optional<int64_t> classes) {
  ExampleShape shape{.model = model};
  LabelKinds kinds(plan);
  const int64_t end = classes.value_or(std::numeric_limits<int32_t>::max());
  for (size_t file = 0; file < files.size(); ++file) {
    const Rows rows = read_rows(files[file]);
    shape.ids = std::max(shape.ids, find_longest(rows.lengths));
    shape.targets = std::max(shape.targets, find_longest(rows.target_lengths));
    for (size_t row = 0; row < rows.labels.size(); ++row) {
      kinds.add(rows.labels[row]);
      if (shape.wrong || !plan.has_classes()) continue;
      for_each_label(json::array({rows.labels[row]}), [&](const json& one) {
        const int64_t label = one.is_number_integer() ? one.get<int64_t>() : 0;
        if (!shape.wrong && (label < 0 || label >= end) && !is_ignored(one)) shape.wrong = {file, row, label};
      });
    }
  }
  if (kinds.has_names()) shape.wrong.reset();  // numbers are names there
  shape.ids = padded_length(shape.ids, length);
  shape.targets = padded_length(shape.targets, length);
  shape.real_labels = !plan.problem.empty() || kinds.any_real();
  shape.numbers = kinds.numbers();
  if (plan.problem == "multi_label_classification" && !kinds.has_names() && shape.numbers == 0)
    throw DataError(
        fmt::format("\"{}\" holds empty lists alone: write the labels that rows have", plan.columns.back()));
  if (kinds.has_names()) shape.named = number_labels(kinds.names(), model);
  return shape;
}

std::vector<std::string> label_names(const ExampleShape& shape) {
  std::vector<std::string> names(static_cast<size_t>(label_count(shape)));
  for (size_t number = 0; number < names.size(); ++number)
    names[number] = number < shape.model.names().size() ? shape.model.names()[number] : fmt::format("LABEL_{}", number);
  for (const auto& [name, number] : shape.named.numbers) names[static_cast<size_t>(number)] = name;
  return names;
}

void write_examples(const fs::path& path, const Rows& rows, const RowPlan& plan, const ExampleShape& shape) {
  write_safetensors(path, ExampleTensors(rows, plan, shape).all());
}

}  // namespace modular
