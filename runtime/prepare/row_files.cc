// Rows in safetensors files, with one tensor per list.
#include <ATen/ATen.h>

#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/prepare/rows.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLabels = "labels";

/// Calls visit(name, list) for each list of numbers.
template <class AnyRows, class Visitor>
void visit_lists(AnyRows& rows, Visitor&& visit) {
  visit("ids", rows.ids), visit("lengths", rows.lengths), visit("types", rows.types), visit("words", rows.words);
  visit("learned", rows.learned), visit("prompts", rows.prompts), visit("targets", rows.targets),
      visit("target_lengths", rows.target_lengths);
}

}  // namespace

void write_rows(const fs::path& path, const Rows& rows) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  visit_lists(rows, [&]<class Number>(const char* name, const std::vector<Number>& list) {
    const auto size = static_cast<int64_t>(list.size());
    tensors.emplace_back(
        name, at::from_blob(const_cast<Number*>(list.data()), {size}, c10::CppTypeToScalarType<Number>::value));
  });
  const fs::path partial = path.string() + ".partial";
  write_safetensors(partial, tensors, {{kLabels, rows.labels.dump()}});
  fs::rename(partial, path);
}

Rows read_rows(const fs::path& path) {
  Rows rows;
  const SafetensorsFile file(path);
  visit_lists(rows, [&]<class Number>(const char* name, std::vector<Number>& list) {
    const at::Tensor tensor = file.tensor(name);
    list.assign(tensor.const_data_ptr<Number>(), tensor.const_data_ptr<Number>() + tensor.numel());
  });
  rows.labels = parse_json(file.metadata().at(kLabels));
  return rows;
}

}  // namespace modular
