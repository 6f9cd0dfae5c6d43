#include "runtime/checkpoint/label_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include <algorithm>
#include <charconv>

#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/files/open_file.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kUnnamed = "LABEL_";
constexpr int64_t kMostLabels = 1 << 20;

/// Parses the full text as a label's number.
std::optional<int64_t> label_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number >= kMostLabels) return {};
  return number;
}

/// The number in a name like LABEL_3.
std::optional<int64_t> number_in_name(std::string_view name) {
  if (!name.starts_with(kUnnamed)) return {};
  const auto number = label_number(name.substr(kUnnamed.size()));
  return number && std::to_string(*number) == name.substr(kUnnamed.size()) ? number : std::nullopt;
}

std::string in_lower_case(std::string name) {
  std::ranges::transform(name, name.begin(), [](char c) { return 'A' <= c && c <= 'Z' ? c - 'A' + 'a' : c; });
  return name;
}

/// The name in Unicode normalization form C, in which a letter with an accent is one character.
std::string composed(const std::string& name) {
  if (std::ranges::all_of(name, [](unsigned char c) { return c < 0x80; }) || !is_utf8(name)) return name;
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const composer = icu::Normalizer2::getNFCInstance(status);
  if (U_FAILURE(status)) throw std::runtime_error(fmt::format("ICU does not support NFC: {}", u_errorName(status)));
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  composer->normalizeUTF8(0, name, sink, nullptr, status);
  if (U_FAILURE(status)) throw std::runtime_error(fmt::format("ICU cannot compose a name: {}", u_errorName(status)));
  return result;
}

/// The name with escapes, for messages: normalization forms look alike when printed.
std::string escaped(const std::string& name) { return json(name).dump(-1, ' ', /*ensure_ascii=*/true); }

std::string text_of_name(const json& name) { return name.is_string() ? name.get<std::string>() : name.dump(); }

std::string quoted(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::vector<std::string> some;
  for (const std::string& name : names)
    if (some.size() < kShown) some.push_back(shown(json(name)));
  return fmt::format("{}{}", fmt::join(some, ", "), names.size() > kShown ? ", …" : "");
}

}  // namespace

std::map<std::string, int64_t> read_labels(const fs::path& file) {
  const json labels = parse_json(read_file(file, kMostTextBytes, Links::followed));
  const auto is_number = [](const json& element) {
    return element.is_number_integer() && element.get<int64_t>() >= 0 && element.get<int64_t>() < kMostLabels;
  };
  if (!labels.is_object() || !std::ranges::all_of(labels, is_number))
    throw ConfigError(fmt::format("{} does not hold names with numbers: prepare the data again", file.string()));
  return labels.get<std::map<std::string, int64_t>>();
}

LabelTable::LabelTable(const json& config, int64_t count) {
  for (int64_t number = 0; number < count; ++number) names_.push_back(fmt::format("{}{}", kUnnamed, number));
  if (const auto names = config.find("id2label"); names != config.end() && names->is_object())
    for (const auto& [key, name] : names->items())
      if (const auto number = label_number(key); number && *number < count)
        names_[static_cast<size_t>(*number)] = text_of_name(name);
  for (int64_t number = 0; number < count; ++number) numbers_[names_[static_cast<size_t>(number)]].insert(number);
  if (const auto numbers = config.find("label2id"); numbers != config.end() && numbers->is_object())
    for (const auto& [name, value] : numbers->items())
      if (const auto number = label_number(text_of_name(value)); number && *number < count)
        numbers_[name].insert(*number);
}

LabelTable LabelTable::of(const ModelConfig& model) {
  if (find_task(model.entry->task)->label_count != "num_labels") return {};
  json config = json::parse(model.other_keys);
  const auto count = fields_as_json(*model.config).value("num_labels", int64_t{0});
  if (const auto names = config.find("id2label"); names != config.end() && static_cast<int64_t>(names->size()) != count)
    config = json::object();
  return {config, count};
}

bool LabelTable::has_names() const {
  for (size_t number = 0; number < names_.size(); ++number)
    if (number_in_name(names_[number]) != static_cast<int64_t>(number)) return true;
  return std::ranges::any_of(numbers_, [](const auto& entry) { return !number_in_name(entry.first); });
}

std::optional<int64_t> LabelTable::find(const std::string& name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return {};
  if (found->second.size() > 1)
    throw ConfigError(
        fmt::format("the model's config.json gives the label {} two numbers, {}: make id2label and label2id agree",
                    shown(json(name)), fmt::join(found->second, " and ")));
  return *found->second.begin();
}

std::optional<int64_t> LabelTable::find_in_any_case(const std::string& name) const {
  if (const auto number = find(name)) return number;
  std::set<int64_t> found;
  for (const auto& [known, numbers] : numbers_)
    if (in_lower_case(known) == in_lower_case(name)) found.insert(numbers.begin(), numbers.end());
  if (found.size() == 1) return *found.begin();
  const std::string form = composed(name);
  for (const auto& [known, numbers] : numbers_)
    if (composed(known) == form)
      throw ConfigError(
          fmt::format("the data has a label {}, and the model's config.json calls it {}: the same text in another "
                      "form of Unicode (NFC, NFD), which would be a different label: write it as the model does",
                      escaped(name), escaped(known)));
  return {};
}

namespace {

/// Throws ConfigError if two names are the same text in two normalization forms, unless the model has both as labels.
void check_unicode_forms(const std::set<std::string>& names, const LabelTable& model) {
  std::map<std::string, std::string> by_form;
  for (const std::string& name : names) {
    const auto [other, is_new] = by_form.emplace(composed(name), name);
    if (!is_new && !(model.has(name) && model.has(other->second)))
      throw ConfigError(
          fmt::format("the data has the labels {} and {}: the same text in two forms of Unicode (NFC, NFD), which "
                      "would be two labels: write one of the two",
                      escaped(other->second), escaped(name)));
  }
}

}  // namespace

NumberedLabels number_labels(const std::set<std::string>& names, const LabelTable& model) {
  check_unicode_forms(names, model);
  NumberedLabels labels;
  if (!model.has_names()) {
    if (std::ranges::all_of(names, [](const std::string& name) { return number_in_name(name).has_value(); })) {
      for (const std::string& name : names) labels.numbers[name] = *number_in_name(name);
      return labels;
    }
    // A head without names was trained with numbers, so "10" is number 10; sorted order would put it before "2".
    const auto number_of_head = [&](const std::string& name) {
      const auto number = label_number(name);
      return number && *number < model.count() && std::to_string(*number) == name;
    };
    if (std::ranges::all_of(names, number_of_head)) {
      for (const std::string& name : names) labels.numbers[name] = *label_number(name);
      return labels;
    }
  }
  std::set<int64_t> taken;
  if (static_cast<int64_t>(names.size()) <= model.count()) {
    for (const std::string& name : names)
      if (const auto number = model.find(name); number && taken.insert(*number).second) labels.numbers[name] = *number;
    for (const std::string& name : names) {
      const auto number = labels.numbers.contains(name) ? std::nullopt : model.find_in_any_case(name);
      if (!number || !taken.insert(*number).second) continue;
      labels.numbers[name] = *number;
      labels.respelled.push_back(name);
    }
  }
  int64_t next = 0;
  for (const std::string& name : names) {
    if (labels.numbers.contains(name)) continue;
    while (!taken.insert(next).second) ++next;
    labels.numbers[name] = next;
    labels.others.push_back(name);
  }
  return labels;
}

std::string labels_note(const NumberedLabels& labels, const LabelTable& model, const std::string& folder) {
  const auto name = [&](int64_t number) { return shown(json(model.names()[static_cast<size_t>(number)])); };
  if (labels.others.empty() && labels.respelled.empty()) return {};
  if (static_cast<int64_t>(labels.numbers.size()) > model.count())
    return fmt::format(
        "labels: the data has {} and {} has {}: they are numbered in sorted order, and the head is newly initialized",
        labels.numbers.size(), folder, model.count());
  std::string text;
  if (!labels.respelled.empty()) {
    const std::string& first = labels.respelled.front();
    text = fmt::format("labels: {} is mapped to {} of {}, number {}{}", shown(json(first)),
                       name(labels.numbers.at(first)), folder, labels.numbers.at(first),
                       labels.respelled.size() > 1 ? ", and others in the same way" : "");
  }
  if (labels.others.empty()) return text;
  const std::string& first = labels.others.front();
  const int64_t number = labels.numbers.at(first);
  if (!text.empty()) text += '\n';
  if (!model.has_names())
    return text + fmt::format(
                      "labels: {} has no names for its labels: {} are numbered in sorted order, from {}. If its "
                      "head was trained with other numbers, write those into its id2label and label2id",
                      folder, quoted(labels.others), number);
  return text + fmt::format("labels: {} are not labels of {}, which has {}: {} takes the row of {}, number {}{}",
                            quoted(labels.others), folder, quoted(model.names()), shown(json(first)), name(number),
                            number, labels.others.size() > 1 ? "; the others take the following rows" : "");
}

std::optional<LabelMap> LabelMap::of(const fs::path& file, const ModelConfig& model) {
  const fs::path path = file.parent_path() / kLabelNames;
  if (find_task(model.entry->task)->label_count != "num_labels" || !fs::is_regular_file(path)) return {};
  const LabelTable table = LabelTable::of(model);
  if (!table.has_names()) return {};
  LabelMap map;
  map.file_ = path, map.model_ = table;
  const std::map<std::string, int64_t> labels = read_labels(path);
  int64_t size = 0;
  for (const auto& [name, number] : labels) size = std::max(size, number + 1);
  map.names_.resize(static_cast<size_t>(size));
  map.numbers_ = at::full({size}, -1, at::kLong);
  bool is_same = size == table.count();
  for (const auto& [name, number] : labels) {
    const auto found = table.find_in_any_case(name);
    map.names_[static_cast<size_t>(number)] = name;
    map.numbers_[number] = found.value_or(-1);
    is_same = is_same && found == number;
  }
  if (is_same) return {};
  return map;
}

at::Tensor LabelMap::apply(const at::Tensor& labels) const {
  const at::Tensor missing = numbers_.lt(0);
  const bool by_label = labels.is_floating_point();
  const at::Tensor known = by_label ? at::Tensor() : labels.ge(0).logical_and(labels.lt(size()));
  const at::Tensor used = by_label ? labels.gt(0).reshape({-1, size()}).any(0)
                                   : labels.masked_select(known).bincount(/*weights=*/{}, size()).gt(0);
  if (const at::Tensor wrong = used.logical_and(missing).nonzero().flatten(); wrong.numel() > 0)
    throw std::runtime_error(
        fmt::format("{}: {} is not a label of the model, which has {}: give data with these labels", file_.string(),
                    shown(json(names_[static_cast<size_t>(wrong[0].item<int64_t>())])), quoted(model_.names())));
  if (!by_label)
    return at::where(known, numbers_.index_select(0, labels.clamp(0, size() - 1).flatten()).view_as(labels), labels);
  const at::Tensor kept = missing.logical_not().nonzero().flatten();
  std::vector<int64_t> shape = labels.sizes().vec();
  shape.back() = model_.count();
  return at::zeros(shape, labels.options())
      .index_copy(-1, numbers_.index_select(0, kept), labels.index_select(-1, kept));
}

}  // namespace modular
