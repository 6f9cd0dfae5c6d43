#include "runtime/data/parquet_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <system_error>

#include "runtime/data/masking.h"
#include "runtime/data/model_inputs.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

using Of = RowColumn::Of;

constexpr int64_t kCachedBytes = int64_t{1} << 30;  // of decoded row groups
constexpr int64_t kOpenFiles = 64;

/// Writers leave marker files next to theirs, like Spark's _SUCCESS.
bool is_parquet_name(const std::filesystem::path& path) { return path.extension() == ".parquet"; }

/// Calls `visit` with a typed pointer to the first value.
template <class Visitor>
void with_values(const ParquetValues& values, Visitor&& visit) {
  switch (values.element) {
    case ParquetType::int8:
      return visit(static_cast<const int8_t*>(values.data));
    case ParquetType::int16:
      return visit(static_cast<const int16_t*>(values.data));
    case ParquetType::int32:
      return visit(static_cast<const int32_t*>(values.data));
    case ParquetType::int64:
      return visit(static_cast<const int64_t*>(values.data));
    case ParquetType::uint8:
      return visit(static_cast<const uint8_t*>(values.data));
    case ParquetType::uint16:
      return visit(static_cast<const uint16_t*>(values.data));
    case ParquetType::uint32:
      return visit(static_cast<const uint32_t*>(values.data));
    case ParquetType::float32:
      return visit(static_cast<const float*>(values.data));
    case ParquetType::float64:
      return visit(static_cast<const double*>(values.data));
    case ParquetType::other:
      break;
  }
  throw std::logic_error("a column of unknown type");
}

int64_t bytes_of_values(const ParquetValues& values) {
  int64_t bytes = 0;
  if (values.element != ParquetType::other)
    with_values(values, [&](const auto* data) { bytes = values.count * static_cast<int64_t>(sizeof(*data)); });
  for (const auto& offsets : values.offsets) bytes += static_cast<int64_t>(offsets.size() * sizeof(int32_t));
  return bytes;
}

/// Range of the values [begin, end) of a row, over all of its lists.
std::pair<int64_t, int64_t> values_of_row(const ParquetValues& values, int64_t row) {
  int64_t begin = row, end = row + 1;
  for (const auto& offsets : values.offsets) {
    begin = offsets[static_cast<size_t>(begin)];
    end = offsets[static_cast<size_t>(end)];
  }
  return {begin, end};
}

/// The row that a value belongs to.
int64_t get_row(const ParquetValues& values, int64_t index) {
  for (size_t level = values.offsets.size(); level-- > 0;)
    index = std::ranges::upper_bound(values.offsets[level], index) - values.offsets[level].begin() - 1;
  return index;
}

/// Length of a row's outer list.
int64_t list_length(const ParquetValues& values, int64_t row) {
  const auto& offsets = values.offsets.front();
  return offsets[static_cast<size_t>(row) + 1] - offsets[static_cast<size_t>(row)];
}

/// Copies a row's values to the start of `to`'s row, which is contiguous.
void copy_row(const ParquetValues& values, int64_t row, const at::Tensor& to, int64_t to_row) {
  const auto [begin, end] = values_of_row(values, row);
  const int64_t stride = to.stride(0), first = begin, last = end;
  with_values(values, [&](const auto* data) {
    if (to.is_floating_point())
      std::transform(data + first, data + last, to.mutable_data_ptr<float>() + to_row * stride,
                     [](auto value) { return static_cast<float>(value); });
    else
      std::transform(data + first, data + last, to.mutable_data_ptr<int64_t>() + to_row * stride,
                     [](auto value) { return static_cast<int64_t>(value); });
  });
}

std::unique_ptr<Dataset> open_parquet(const DatasetRequest& request) {
  auto rows = std::make_unique<ParquetDataset>(request);
  const bool has_labels = rows->has_labels();
  return has_labels ? std::move(rows) : hide_items(std::move(rows), request);
}

}  // namespace

const DataFormat kParquetFormat = {.name = "parquet",
                                   .holds_samples = true,
                                   .has_rows = true,
                                   .has_row_groups = true,
                                   .is_data = is_parquet_name,
                                   .open = open_parquet,
                                   .describe = describe_rows};

ParquetDataset::ParquetDataset(const DatasetRequest& request)
    : files_(request.files),
      model_(request.model),
      has_checkpoint_(!request.checkpoint.empty()),
      task_(find_task(model_.entry->task)),
      has_decoder_(task_->labels == Task::Labels::each_target_token),
      open_(kOpenFiles),
      decoded_(kCachedBytes) {
  for (size_t file = 0; file < files_.size(); ++file) open_file(file);
  makes_labels_ = std::ranges::find(columns_, "labels", &RowColumn::name) == columns_.end();
  if (count() == 0) throw DataError("the files of data.paths have no rows: write at least one");
  const int64_t partitions = request.split == Split::training ? request.options.partitions : 0;
  if (partitions == 0) return;
  std::vector<int64_t> rows;
  for (const RowGroup& group : groups_) rows.push_back(group.rows);
  order_.emplace(std::move(rows), partitions);
}

void ParquetDataset::open_file(size_t file) {
  const std::string path = files_[file].path.string();
  const auto opened = parquet_library().open(path);
  std::vector<RowColumn> found = columns_in(opened->columns(), path, row_columns(model_), model_);
  if (file == 0) columns_ = found;
  const std::string first = files_.front().path.string();
  for (const auto& [some, others, has, lacks] :
       {std::tuple(&found, &columns_, &path, &first), std::tuple(&columns_, &found, &first, &path)})
    for (const RowColumn& column : *some)
      if (std::ranges::find(*others, column.name, &RowColumn::name) == others->end())
        throw DataError(fmt::format("{} has a column \"{}\", and {} has none: write files with the same columns", *has,
                                    column.name, *lacks));
  int64_t row = 0;
  for (size_t group = 0; group < opened->groups().size(); ++group) {
    const int64_t rows = opened->groups()[group].rows;
    if (rows > 0) {
      groups_.push_back({file, static_cast<int64_t>(group), rows, row});
      begin_.push_back(begin_.back() + rows);
    }
    row += rows;
  }
}

std::vector<ParquetValues> ParquetDataset::read_group(const RowGroup& group) const {
  const DataFile& file = files_[group.file];
  if (std::error_code error; static_cast<int64_t>(std::filesystem::file_size(file.path, error)) != file.bytes)
    throw DataError(fmt::format("{} has changed since the run began: restore it", file.path.string()));
  const auto* const found = open_.find(group.file);
  ParquetFile& opened =
      found ? **found : *open_.add(group.file, parquet_library().open(file.path.string()), /*taken=*/1);
  if (group.group >= static_cast<int64_t>(opened.groups().size()) ||
      opened.groups()[static_cast<size_t>(group.group)].rows != group.rows)
    throw DataError(fmt::format("{} has changed since the run began: restore it", file.path.string()));
  std::vector<std::string> names;
  for (const RowColumn& column : columns_) names.emplace_back(column.name);
  return opened.read(group.group, names);
}

std::shared_ptr<const ParquetDataset::Decoded> ParquetDataset::group(size_t number) const {
  const std::lock_guard lock(mutex_);
  if (const auto* const found = decoded_.find(number)) return *found;
  auto made = std::make_shared<Decoded>(read_group(groups_[number]));
  int64_t bytes = 0;
  for (const ParquetValues& values : *made) bytes += bytes_of_values(values);
  decoded_.add(number, made, bytes);
  return made;
}

void ParquetDataset::measure() const {
  std::call_once(measured_, [&] {
    std::vector<UnpaddedLength> lengths(static_cast<size_t>(count()));
    bool has_targets = makes_labels_;
    for (size_t number = 0; number < groups_.size(); ++number) {
      const auto decoded = group(number);
      for (size_t at = 0; at < columns_.size(); ++at) {
        const RowColumn& column = columns_[at];
        if (column.lists > 0) measure_lists(number, column, (*decoded)[at], lengths);
        const bool any = check_values(number, column, (*decoded)[at]);
        has_targets = has_targets || (column.name == "labels" && any);
      }
    }
    if (!has_targets)
      throw DataError(fmt::format("{}: all labels are {}, which is not a target: write labels to train on",
                                  files_.front().path.parent_path().string(), kIgnoredTarget));
    for (const UnpaddedLength& row : lengths) {
      longest_ = {std::max(longest_.input, row.input), std::max(longest_.target, row.target)};
      all_alike_ = all_alike_ && row.input == lengths.front().input;
    }
    lengths_ = std::move(lengths);
  });
}

void ParquetDataset::reject(size_t number, int64_t row, const std::string& sentence) const {
  const RowGroup& group = groups_[number];
  throw DataError(fmt::format("{}: row {}: {}", files_[group.file].path.string(), group.first + row, sentence));
}

void ParquetDataset::measure_lists(size_t number, const RowColumn& column, const ParquetValues& values,
                                   std::vector<UnpaddedLength>& lengths) const {
  for (int64_t row = 0; row < groups_[number].rows; ++row) {
    const int64_t length = list_length(values, row);
    if (column.of == Of::row) {
      if (length != column.width)
        reject(number, row,
               fmt::format("\"{}\" has {} values, and num_labels of the model's config is {}: make them equal",
                           column.name, length, column.width));
      continue;
    }
    UnpaddedLength& known = lengths[static_cast<size_t>(begin_[number] + row)];
    int64_t& expected = column.of == Of::input ? known.input : known.target;
    if (expected == 0) expected = length;  // the first column sets it
    if (length == 0)
      reject(number, row, fmt::format("\"{}\" is empty: write at least one value, or leave the row out", column.name));
    if (length != expected)
      reject(number, row,
             fmt::format("\"{}\" has {} values and \"{}\" has {}: write as many", column.name, length,
                         column.of == Of::input ? "input_ids" : "labels", expected));
    if (column.lists < 2) continue;
    const auto& inner = values.offsets[1];
    const auto first = static_cast<size_t>(values.offsets[0][static_cast<size_t>(row)]);
    for (size_t list = first; list < first + static_cast<size_t>(length); ++list)
      if (inner[list + 1] - inner[list] != column.width)
        reject(number, row,
               fmt::format("\"{}\" has a list of {} values, and the model's config has {} per item: write that many",
                           column.name, inner[list + 1] - inner[list], column.width));
  }
}

bool ParquetDataset::check_values(size_t number, const RowColumn& column, const ParquetValues& values) const {
  bool any = false;
  with_values(values, [&](const auto* data) {
    for (int64_t index = 0; index < values.count; ++index) {
      const auto number_there = static_cast<double>(data[index]);
      if (column.may_ignore && number_there == kIgnoredTarget) continue;
      any = true;
      if (column.as_numbers) {
        if (!std::isfinite(number_there) || (column.zero_or_one && number_there != 0.0 && number_there != 1.0))
          reject(number, get_row(values, index),
                 fmt::format("\"{}\" holds {}: write {}", column.name, number_there,
                             column.zero_or_one ? "0 or 1" : "finite numbers"));
        continue;
      }
      if (column.below.empty()) continue;
      const int64_t below = column.below[static_cast<size_t>(index) % column.below.size()];
      if (const auto id = static_cast<int64_t>(data[index]); id < 0 || id >= below)
        reject(number, get_row(values, index),
               fmt::format("\"{}\" holds {}: write ids from 0 to {} ({} of the model's config is {}){}", column.name,
                           id, below - 1, column.below_key, below,
                           column.may_ignore ? fmt::format(", or {} where there is no target", kIgnoredTarget) : ""));
    }
  });
  return any;
}

void ParquetDataset::validate() const {
  measure();
  const auto longest = longest_sequence(model_);
  if (longest && longest_.input > *longest)
    throw ConfigError(fmt::format("a row of data.paths has {} tokens, and {} has positions for {}: {}", longest_.input,
                                  model_.entry->architecture, *longest, advice_on_positions(model_, has_checkpoint_)));
}

const std::vector<UnpaddedLength>& ParquetDataset::lengths() const {
  measure();
  return lengths_;
}

bool ParquetDataset::makes_mask() const {
  return !all_alike_ && std::ranges::find(columns_, "attention_mask", &RowColumn::name) == columns_.end();
}

int64_t ParquetDataset::tokens() const {
  measure();
  return longest_.input + longest_.target;
}

int64_t ParquetDataset::length(int64_t sample) const {
  const UnpaddedLength& row = lengths()[static_cast<size_t>(sample)];
  return row.input + row.target;
}

Batch ParquetDataset::read(std::span<const SamplePosition> positions, int64_t samples) const {
  const std::vector<UnpaddedLength>& lengths = this->lengths();
  std::vector<int64_t> numbers;
  for (const SamplePosition& position : positions) numbers.push_back(position.sample);
  numbers.resize(static_cast<size_t>(samples), positions.empty() ? 0 : positions.front().sample);

  std::vector<at::Tensor> tensors;
  for (const RowColumn& column : columns_) {
    std::vector<int64_t> shape = {samples};
    if (column.of != Of::row) shape.push_back(column.of == Of::input ? longest_.input : longest_.target);
    if (column.width > 0 && (column.of != Of::row || column.lists > 0)) shape.push_back(column.width);
    tensors.push_back(at::full(shape, column.padding, column.as_numbers ? at::kFloat : at::kLong));
  }
  std::vector<int64_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int64_t row) { return numbers[static_cast<size_t>(row)]; });
  std::shared_ptr<const Decoded> decoded;
  size_t held = groups_.size();
  for (const int64_t row : order) {  // one row group at a time
    const int64_t sample = numbers[static_cast<size_t>(row)];
    const auto number = static_cast<size_t>(std::ranges::upper_bound(begin_, sample) - begin_.begin()) - 1;
    if (number != held) decoded = group(number);
    held = number;
    for (size_t at = 0; at < columns_.size(); ++at) copy_row((*decoded)[at], sample - begin_[number], tensors[at], row);
  }

  Batch batch;
  batch.fields([&](std::string_view name, at::Tensor& tensor) {
    if (const auto found = std::ranges::find(columns_, name, &RowColumn::name); found != columns_.end())
      tensor = tensors[static_cast<size_t>(found - columns_.begin())];
  });
  if (makes_mask()) {
    batch.attention_mask = at::zeros({samples, longest_.input}, at::kLong);
    for (int64_t row = 0; row < samples; ++row)
      batch.attention_mask[row]
          .narrow(0, 0, lengths[static_cast<size_t>(numbers[static_cast<size_t>(row)])].input)
          .fill_(1);
  }
  add_item_mask(*task_, batch);
  if (makes_labels_) batch.labels = made_labels(*task_, batch, /*texts=*/1);
  batch.labels.slice(0, static_cast<int64_t>(positions.size())).fill_(kIgnoredTarget);
  return batch;
}

Batch ParquetDataset::cut(Batch batch, std::span<const int64_t> step) const {
  UnpaddedLength longest;
  for (const int64_t sample : step) {
    const UnpaddedLength& row = lengths()[static_cast<size_t>(sample)];
    longest = {std::max(longest.input, row.input), std::max(longest.target, row.target)};
  }
  return cut_to(std::move(batch), longest, has_decoder_);
}

}  // namespace modular
