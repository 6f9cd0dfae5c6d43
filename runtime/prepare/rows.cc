#include "runtime/prepare/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <utility>

#include "runtime/checkpoint/json_text.h"
#include "runtime/data/files.h"
#include "runtime/model/tensors.h"
#include "runtime/prepare/source_kinds.h"

namespace modular {
namespace {

using nlohmann::json;
using Form = RowPlan::Form;

constexpr size_t kBatchBytes = size_t{1} << 20, kBatchRows = 4096;  // of what the tokenizer is asked at once

[[noreturn]] void reject(const PieceRecords& piece, const Record& record, const std::string& what) {
  throw DataError(fmt::format("{}: {}", get_location(*piece.source, piece.piece, record), what));
}

bool is_text(const json& value) { return value.is_string() && is_utf8(value.get_ref<const std::string&>()); }

bool is_message(const json& value) { return value.is_object() && value.contains("role") && value["role"].is_string(); }

/// Messages come as their JSON text.
void check_conversation(const PieceRecords& piece, const Record& record, const std::string& column) {
  const json& text = record.values.front();
  const json value = is_text(text) ? parse_json(text.get_ref<const std::string&>()) : json();
  if (!value.is_array() || value.empty() || !std::ranges::all_of(value, is_message))
    reject(piece, record,
           fmt::format("\"{}\" is {}, and a list of messages like {{\"role\": \"user\", \"content\": TEXT}} is read",
                       column, shown(value.is_discarded() ? text : value)));
}

void check_text(const PieceRecords& piece, const Record& record, const RowPlan& plan, size_t column) {
  const json& value = record.values[column];
  if (plan.form == Form::conversation) {
    check_conversation(piece, record, plan.columns[column]);
  } else if (plan.form == Form::words) {
    if (!value.is_array() || !std::ranges::all_of(value, is_text))
      reject(piece, record,
             fmt::format("\"{}\" is {}, and a list of words is read", plan.columns[column], shown(value)));
  } else if (!is_text(value)) {
    reject(piece, record,
           value.is_string() ? fmt::format("\"{}\" is no text in UTF-8", plan.columns[column])
                             : fmt::format("\"{}\" is {}, which is no text", plan.columns[column], shown(value)));
  }
}

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

/// Text of a number without what Python's float() and int() skip: surrounding spaces and a plus sign.
std::string_view plain_number(std::string_view text) {
  text = without_spaces(text);
  const bool has_plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  return has_plus ? text.substr(1) : text;
}

/// The integer that is written so; "007" is none.
std::optional<int64_t> get_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || std::to_string(value) != text) return {};
  return value;
}

/// A label of a file whose values are all texts.
json untyped_label(const std::string& text, bool may_be_real) {
  if (const auto integer = get_integer(may_be_real ? plain_number(text) : text)) return *integer;
  if (const auto real = real_number(text); may_be_real && real && std::isfinite(*real)) return *real;
  return text;
}

/// A classifier's label that is a number or a list: of scores, or of a row's labels.
json numeric_label(const PieceRecords& piece, const Record& record, const RowPlan& plan, const json& value) {
  const bool is_score = plan.problem == "regression";
  json label = value;
  if (value.is_string() && !piece.source->kind->typed) {
    const std::string& text = value.get_ref<const std::string&>();
    if (const auto number = real_number(text)) label = *number;
    if (without_spaces(text).starts_with('[')) label = parse_json(text);
  }
  const auto is_number = [](const json& one) {
    return one.is_boolean() || (one.is_number() && std::isfinite(one.get<float>()));
  };
  const auto is_one = [&](const json& one) {
    const double number = !is_number(one) ? -1.0 : one.is_boolean() ? one.get<bool>() : one.get<double>();
    return number == 0.0 || number == 1.0;
  };
  const auto all_are = [&](auto&& kind) { return label.is_array() && std::ranges::all_of(label, kind); };
  const bool fits =
      is_score ? is_number(label) || (all_are(is_number) && !label.empty()) : all_are(is_text) || all_are(is_one);
  if (!fits)
    reject(piece, record,
           fmt::format("its label, \"{}\", is {}, and the problem of the model is {}: write {}", plan.columns.back(),
                       shown(value), plan.problem,
                       is_score ? "a finite number, or a list of them"
                                : "a list of names, or a list with 0 or 1 for each label"));
  if (label.is_boolean()) label = label.get<bool>() ? 1 : 0;
  if (label.is_array())
    for (json& one : label)
      if (one.is_boolean()) one = one.get<bool>() ? 1 : 0;
  return label;
}

json get_label(const PieceRecords& piece, const Record& record, const RowPlan& plan, const json& value) {
  const std::string& column = plan.columns.back();
  if (value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()))
    reject(
        piece, record,
        fmt::format("its label, \"{}\", is missing: write one, or leave the row out{}", column,
                    plan.has_classes() ? fmt::format(", or write {} where there is no target", kIgnoredTarget) : ""));
  if (!plan.problem.empty()) return numeric_label(piece, record, plan, value);
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_unsigned() && !std::in_range<int64_t>(value.get<uint64_t>()))
    reject(piece, record,
           fmt::format("its label, \"{}\", is {}, which is too large for a label: write {}", column, shown(value),
                       plan.has_classes() ? "the number of a class, or a name as a text" : "a smaller number"));
  const bool fits = value.is_number_integer() || is_text(value) || (value.is_number() && plan.labels_may_be_real);
  if (!fits)
    reject(piece, record,
           fmt::format("its label, \"{}\", is {}: write {}{}", column, shown(value),
                       plan.labels_may_be_real ? "a number or a name" : "an integer or a name",
                       plan.infers_problem ? fmt::format("; for scores {}, for several labels a row {}", kForScores,
                                                         "--set model.config.problem_type=multi_label_classification")
                                           : ""));
  const bool untyped = value.is_string() && !piece.source->kind->typed;
  return untyped ? untyped_label(value.get<std::string>(), plan.labels_may_be_real) : value;
}

json labels_of_words(const PieceRecords& piece, const Record& record, const RowPlan& plan) {
  const json& values = record.values.back();
  const size_t words = record.values.front().size();
  if (!values.is_array() || values.size() != words)
    reject(piece, record,
           fmt::format("\"{}\" is {}: write a list with a label for each of the {} words", plan.columns.back(),
                       shown(values), words));
  json labels = json::array();
  for (const json& value : values) labels.push_back(get_label(piece, record, plan, value));
  return labels;
}

/// A row with where it is of.
struct Row {
  const PieceRecords* piece;
  const Record* record;

  const json& value(size_t column) const { return record->values[column]; }
};

template <class Value>
void append(std::vector<Value>& values, const std::vector<Value>& more) {
  values.insert(values.end(), more.begin(), more.end());
}

json get_column(std::span<const Row> rows, size_t column) {
  json texts = json::array();
  for (const Row& row : rows) texts.push_back(row.value(column));
  return texts;
}

/// A text of the column with the prompt before it.
json with_prompt(const RowPlan& plan, const Row& row, size_t column) {
  if (column >= plan.prompts.size() || plan.prompts[column].empty()) return row.value(column);
  return plan.prompts[column] + row.value(column).get_ref<const std::string&>();
}

void check_length(const Row& row, int64_t ids, const RowLength& length) {
  if (!length.asked && length.positions && ids > *length.positions)
    reject(*row.piece, *row.record,
           fmt::format("has {} ids, and the model has positions for {}: give --seq-len {}, which truncates", ids,
                       *length.positions, *length.positions));
}

/// Encodes some rows and appends them.
class Encoder {
 public:
  Encoder(const RowPlan& plan, const RowLength& length, Tokenizer& tokenizer, Rows& rows)
      : plan_(plan), length_(length), tokenizer_(tokenizer), rows_(rows) {}

  void add(std::span<const Row> batch) {
    const size_t before = rows_.lengths.size();
    if (plan_.form == Form::running_text)
      add_documents(batch);
    else if (plan_.form == Form::continuation)
      add_continuations(batch);
    else if (plan_.form == Form::conversation)
      add_conversations(batch);
    else if (plan_.form == Form::several_texts)
      add_several(batch);
    else
      add_texts(batch);
    if (plan_.form != Form::running_text)
      for (size_t text = before; text < rows_.lengths.size(); ++text)
        check_length(batch[(text - before) / plan_.texts_of_row()], rows_.lengths[text], length_);
    for (const Row& row : batch)
      if (plan_.has_label)
        rows_.labels.push_back(plan_.form == Form::words
                                   ? labels_of_words(*row.piece, *row.record, plan_)
                                   : get_label(*row.piece, *row.record, plan_, row.record->values.back()));
  }

 private:
  /// A text that is running ends with the id for that, once.
  void end_text(std::vector<int32_t>& ids, size_t begin) const {
    const auto end = tokenizer_.end_of_text();
    if (end && (ids.size() == begin || ids.back() != *end)) ids.push_back(static_cast<int32_t>(*end));
  }

  void add_documents(std::span<const Row> batch) {
    const EncodedTexts encoded = tokenizer_.encode({.texts = get_column(batch, 0)});
    for (auto id = encoded.ids.begin(); const int64_t length : encoded.lengths) {
      const size_t begin = rows_.ids.size();
      rows_.ids.insert(rows_.ids.end(), id, id + length);
      id += length;
      end_text(rows_.ids, begin);
      rows_.lengths.push_back(static_cast<int64_t>(rows_.ids.size() - begin));
    }
  }

  /// A prompt's ids are those that a model is later asked with: without what the tokenizer puts after a text.
  void add_continuations(std::span<const Row> batch) {
    const EncodedTexts prompts = tokenizer_.encode({.texts = get_column(batch, 0)});
    const EncodedTexts texts = tokenizer_.encode({.texts = get_column(batch, 1), .special = false});
    auto prompt = prompts.ids.begin(), text = texts.ids.begin();
    for (size_t row = 0; row < batch.size(); ++row) {
      const size_t begin = rows_.ids.size();
      const int64_t of_prompt = std::max<int64_t>(prompts.lengths[row] - tokenizer_.closing(), 0);
      rows_.ids.insert(rows_.ids.end(), prompt, prompt + of_prompt);
      rows_.ids.insert(rows_.ids.end(), text, text + texts.lengths[row]);
      prompt += prompts.lengths[row], text += texts.lengths[row];
      end_text(rows_.ids, begin);
      if (length_.asked && rows_.ids.size() - begin > static_cast<size_t>(*length_.asked))
        rows_.ids.resize(begin + static_cast<size_t>(*length_.asked));
      rows_.lengths.push_back(static_cast<int64_t>(rows_.ids.size() - begin));
      rows_.prompts.push_back(std::min(of_prompt, rows_.lengths.back()));
    }
  }

  void add_conversations(std::span<const Row> batch) {
    EncodedChats encoded;
    try {
      encoded = tokenizer_.encode_chats(get_column(batch, 0));
    } catch (const UnsupportedConversation& error) {
      reject(*batch[error.row].piece, *batch[error.row].record, error.what());
    }
    for (size_t begin = 0; const int64_t length : encoded.lengths) {
      const int64_t kept = std::min(length, length_.asked.value_or(length));
      for (size_t id = begin; id < begin + static_cast<size_t>(kept); ++id) {
        rows_.ids.push_back(encoded.ids[id]);
        rows_.learned.push_back(encoded.learned[id]);
      }
      begin += static_cast<size_t>(length);
      rows_.lengths.push_back(kept);
    }
  }

  void add_several(std::span<const Row> batch) {
    json texts = json::array();
    for (const Row& row : batch)
      for (size_t text = 0; text < plan_.texts; ++text) texts.push_back(with_prompt(plan_, row, text));
    const EncodedTexts encoded = tokenizer_.encode({.texts = std::move(texts), .longest = length_.truncated()});
    append(rows_.ids, encoded.ids);
    append(rows_.lengths, encoded.lengths);
    note_prompts(encoded.lengths);
  }

  /// How many ids of each of these texts, the columns of one row after another, are left out for their prompt.
  void note_prompts(const std::vector<int64_t>& lengths) {
    if (!plan_.leaves_prompts_out) return;
    if (prompt_lengths_.empty())
      for (const std::string& prompt : plan_.prompts) prompt_lengths_.push_back(prompt_length(prompt));
    for (size_t text = 0; text < lengths.size(); ++text)
      rows_.prompts.push_back(std::min(prompt_lengths_[text % prompt_lengths_.size()], lengths[text]));
  }

  /// As Sentence Transformers counts: the ids of the prompt alone, without one that the tokenizer puts after a text.
  int64_t prompt_length(const std::string& prompt) {
    if (prompt.empty()) return 0;
    const EncodedTexts encoded = tokenizer_.encode({.texts = {prompt}, .longest = length_.truncated()});
    return std::max<int64_t>(encoded.lengths[0] - std::min<int64_t>(tokenizer_.closing(), 1), 0);
  }

  void add_texts(std::span<const Row> batch) {
    json texts = json::array();
    for (const Row& row : batch) texts.push_back(with_prompt(plan_, row, 0));
    const EncodedTexts encoded = tokenizer_.encode({.texts = std::move(texts),
                                                    .pairs = plan_.form == Form::pair ? get_column(batch, 1) : json(),
                                                    .words = plan_.form == Form::words,
                                                    .longest = length_.truncated(),
                                                    .wants_types = plan_.has_types,
                                                    .wants_words = plan_.form == Form::words});
    append(rows_.ids, encoded.ids);
    append(rows_.lengths, encoded.lengths);
    append(rows_.types, encoded.types);
    append(rows_.words, encoded.words);
    note_prompts(encoded.lengths);
    if (plan_.form != Form::source) return;
    const EncodedTexts targets =
        tokenizer_.encode({.texts = get_column(batch, 1), .target = true, .longest = length_.asked});
    append(rows_.targets, targets.ids);
    append(rows_.target_lengths, targets.lengths);
  }

  const RowPlan& plan_;
  const RowLength& length_;
  Tokenizer& tokenizer_;
  Rows& rows_;
  std::vector<int64_t> prompt_lengths_;  // of each column
};

size_t text_bytes(const json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size();
  size_t bytes = 0;
  if (value.is_structured())
    for (const json& part : value) bytes += text_bytes(part);
  return bytes;
}

}  // namespace

std::optional<double> real_number(const std::string& text) {
  const std::string number(plain_number(text));
  if (number.starts_with('+')) return {};
  double value = 0.0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::invalid_argument || end != number.data() + number.size()) return {};
  if (error == std::errc::result_out_of_range) value = std::strtod(number.c_str(), nullptr);  // 0 or an infinity
  return value;
}

Rows encode_rows(const std::vector<PieceRecords>& pieces, const RowPlan& plan, const RowLength& length,
                 Tokenizer& tokenizer) {
  Rows rows;
  Encoder encoder(plan, length, tokenizer, rows);
  std::vector<Row> batch;
  size_t bytes = 0;
  const auto encode = [&] {
    if (!batch.empty()) encoder.add(batch);
    batch.clear();
    bytes = 0;
  };
  for (const PieceRecords& piece : pieces)
    for (const Record& record : piece.records) {
      for (size_t text = 0; text < plan.texts; ++text) {
        check_text(piece, record, plan, text);
        bytes += text_bytes(record.values[text]);
      }
      batch.push_back({&piece, &record});
      if (bytes >= kBatchBytes || batch.size() >= kBatchRows) encode();
    }
  encode();
  return rows;
}

int64_t rows_without_targets(const Rows& rows) {
  int64_t count = 0;
  for (size_t row = 0; row < rows.prompts.size(); ++row) count += rows.prompts[row] == rows.lengths[row];
  if (rows.learned.empty()) return count;
  auto id = rows.learned.begin();
  for (const int64_t length : rows.lengths) {
    count += std::none_of(id, id + length, [](uint8_t learned) { return learned != 0; });
    id += length;
  }
  return count;
}

}  // namespace modular
