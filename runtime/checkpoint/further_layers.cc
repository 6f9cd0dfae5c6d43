#include "runtime/checkpoint/further_layers.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/parallel/parameters/config_integers.h"

namespace modular {

using nlohmann::json;

FurtherLayers::FurtherLayers(const ModelConfig& model) : path_(std::string(model.entry->plan->split_list) + ".") {
  const json config = json::parse(model.other_keys);
  const auto count = config.find("num_nextn_predict_layers");
  const ConfigIntegers integers = config_integers(*model.config);
  const auto layers = integers.find("num_hidden_layers");
  if (count == config.end() || !count->is_number_unsigned() || layers == integers.end()) return;
  first_ = static_cast<uint64_t>(layers->second);
  count_ = count->get<uint64_t>();
}

bool FurtherLayers::hold(std::string_view name) const {
  if (!name.starts_with(path_)) return false;
  name.remove_prefix(path_.size());
  uint64_t layer = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, layer);
  return error == std::errc() && rest != end && *rest == '.' && layer >= first_ && layer - first_ < count_;
}

}  // namespace modular
