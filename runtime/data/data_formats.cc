#include "runtime/data/data_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace modular {

std::span<const DataFormat* const> data_formats() {
  static constexpr std::array formats = {&kBytesFormat,    &kTokensFormat,   &kNanoGptFormat, &kLlmCFormat,
                                         &kMegatronFormat, &kExamplesFormat, &kParquetFormat, &kImagesFormat};
  return formats;
}

const DataFormat* find_data_format(std::string_view name) {
  const auto found = std::ranges::find(data_formats(), name, &DataFormat::name);
  return found == data_formats().end() ? nullptr : *found;
}

bool has_property(std::string_view name, bool DataFormat::* property) {
  const DataFormat* const format = find_data_format(name);
  return format && format->*property;
}

std::string unknown_data_format(std::string_view name) {
  if (find_data_format(name)) return {};
  std::vector<std::string_view> known;
  for (const DataFormat* format : data_formats()) known.push_back(format->name);
  const std::string_view last = known.back();
  known.pop_back();
  return fmt::format("data.format is \"{}\": it must be one of {} and {}", name, fmt::join(known, ", "), last);
}

}  // namespace modular
