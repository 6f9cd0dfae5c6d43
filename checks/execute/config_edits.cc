#include "checks/execute/config_edits.h"

#include <algorithm>
#include <array>
#include <optional>

#include "checks/execute/family_program.h"
#include "runtime/parallel/parameters/config_integers.h"

namespace modular::execute {
namespace {

const std::array kHints = {
    Hint{"token_id", {1, 2, 3, 5, 6, 7}, {1, 2, 3}},
    Hint{"token_index", {1, 2, 3, 5, 6, 7}, {1, 2, 3}},
    Hint{"head_dim", {32, 16, 24, 64}, {16, 8}},
    Hint{"head", {4, 8, 12, 16}, {2, 4, 1, 8}},
    Hint{"expert", {8, 16, 32}, {8, 4}},
    Hint{"layer", {3, 4, 6, 8}, {2, 3}},
    Hint{"window", {4, 8}, {4, 8}},
    Hint{"chunk", {4, 8}, {4, 8}},
    Hint{"local", {4, 8}, {4, 8}},
    Hint{"image_size", {16, 24, 32}, {16}},
    Hint{"patch_size", {4, 8}, {4}},
};

std::vector<int64_t> values_of_optional(const std::string& path) {
  const Hint* hint = find_hint(path);
  return hint ? hint->values : std::vector<int64_t>{16, 4, 8, 2, 32, 1, 3};
}

/// Values for a count that the plan splits: a vocabulary may be uneven, and few heads are shared by ranks.
std::vector<Edit> uneven_counts(const std::string& path, int64_t count, const Plan& plan) {
  std::vector<Edit> edits;
  const auto is_split = [&](const Divides& divided) { return divided.axis == "tp" && divided.field == path; };
  if (!std::ranges::any_of(plan.divides, is_split)) return edits;
  for (const int64_t fewer : {count - 1, int64_t{2}, int64_t{1}}) {
    if (fewer < 1 || fewer >= count) continue;
    Edit edit = set_integer(path, fewer);
    edit.name += " " + std::to_string(fewer);
    edits.push_back(std::move(edit));
  }
  return edits;
}

/// The kinds of rotary embeddings other than the config's. Of each, values of which one may fit the features of a head.
std::vector<std::vector<RopeParameters>> rope_variants(const RopeParameters& given) {
  constexpr int64_t kOriginal = 8;  // shorter than a sequence
  std::vector<std::vector<RopeParameters>> variants;
  for (const char* type : {"yarn", "llama3", "longrope", "dynamic", "linear"}) {
    if (given.rope_type == type) continue;
    RopeParameters rope = given;
    rope.rope_type = type;
    rope.factor = 2.0;
    rope.original_max_position_embeddings = kOriginal;
    rope.low_freq_factor = 1.0;
    rope.high_freq_factor = 4.0;
    std::vector<RopeParameters>& variant = variants.emplace_back();
    if (rope.rope_type != "longrope") {
      variant.push_back(rope);
      continue;
    }
    for (const size_t pairs : {4, 8, 16, 2, 6, 12, 3, 5, 10, 20, 24, 32}) {
      rope.short_factor = std::vector<double>(pairs, 1.5);
      rope.long_factor = std::vector<double>(pairs, 3.0);
      variant.push_back(rope);
    }
  }
  return variants;
}

}  // namespace

const Hint* find_hint(std::string_view path) {
  const auto found =
      std::ranges::find_if(kHints, [&](const Hint& hint) { return path.find(hint.word) != std::string_view::npos; });
  return found == kHints.end() ? nullptr : &*found;
}

void visit_fields(AnyConfig& config, const std::function<void(const std::string&, const ConfigValue&)>& visit) {
  const std::function<FieldVisitor(const std::string&)> visitor = [&](const std::string& prefix) {
    return FieldVisitor([&visit, &visitor, prefix](std::string_view name, const ConfigValue& field) {
      const std::string path = prefix + std::string(name);
      if (const auto* nested = std::get_if<NestedConfig*>(&field))
        (*nested)->fields(visitor(path + "."));
      else
        visit(path, field);
    });
  };
  config.fields(visitor(""));
}

Edit set_integer(const std::string& path, int64_t value) {
  return {path, [path, value](AnyConfig& config) {
            set_config_integer(config, path, value);
            visit_fields(config, [&](const std::string& name, const ConfigValue& field) {
              if (const auto* found = std::get_if<std::optional<int64_t>*>(&field); found && name == path)
                **found = value;
            });
          }};
}

std::vector<std::pair<std::string, int64_t>> integer_fields(AnyConfig& config) {
  std::vector<std::pair<std::string, int64_t>> fields;
  visit_fields(config, [&](const std::string& path, const ConfigValue& field) {
    if (const auto* value = std::get_if<int64_t*>(&field)) fields.emplace_back(path, **value);
    if (const auto* value = std::get_if<std::optional<int64_t>*>(&field); value && **value)
      fields.emplace_back(path, ***value);
    if (const auto* value = std::get_if<IntegerOrString*>(&field))
      if (const auto* integer = std::get_if<int64_t>(*value)) fields.emplace_back(path, *integer);
  });
  return fields;
}

std::vector<Alternative> alternatives(AnyConfig& config, const Plan& plan) {
  std::vector<Alternative> all;
  visit_fields(config, [&](const std::string& path, const ConfigValue& field) {
    const auto add = [&](std::vector<Edit> edits) {
      if (!edits.empty()) all.push_back({path, std::move(edits)});
    };
    if (const auto* flag = std::get_if<bool*>(&field)) {
      add({set_field<bool>(path, !**flag, path + (**flag ? " off" : " on"))});
    } else if (const auto* some_flag = std::get_if<std::optional<bool>*>(&field)) {
      const bool given = !(*some_flag)->value_or(false);
      add({set_field<std::optional<bool>>(path, given, path + (given ? " on" : " off"))});
    } else if (const auto* count = std::get_if<int64_t*>(&field)) {
      add(uneven_counts(path, **count, plan));
    } else if (const auto* integer = std::get_if<std::optional<int64_t>*>(&field)) {
      if (**integer) {
        add(uneven_counts(path, ***integer, plan));
        add({set_field<std::optional<int64_t>>(path, std::nullopt, path + " not given")});
      } else {
        std::vector<Edit> edits;
        for (const int64_t given : values_of_optional(path))
          edits.push_back(set_field<std::optional<int64_t>>(path, given, path + " " + std::to_string(given)));
        add(std::move(edits));
      }
    } else if (const auto* number = std::get_if<std::optional<double>*>(&field)) {
      if (**number)
        add({set_field<std::optional<double>>(path, std::nullopt, path + " not given")});
      else
        add({set_field<std::optional<double>>(path, 0.5, path + " 0.5"),
             set_field<std::optional<double>>(path, 2.0, path + " 2")});
    } else if (const auto* text = std::get_if<std::string*>(&field)) {
      for (const std::string& other : compared_strings)
        if (other != **text) add({set_field<std::string>(path, other, path + " " + other)});
    } else if (const auto* list = std::get_if<std::vector<int64_t>*>(&field); list && (*list)->empty()) {
      add({set_field<std::vector<int64_t>>(path, {1, 2}, path + " 1, 2"),
           set_field<std::vector<int64_t>>(path, {1}, path + " 1")});
    } else if (const auto* some_list = std::get_if<std::optional<std::vector<int64_t>>*>(&field);
               some_list && !**some_list) {
      add({set_field<std::optional<std::vector<int64_t>>>(path, std::vector<int64_t>{1}, path + " 1")});
    } else if (const auto* rope = std::get_if<RopeParameters*>(&field)) {
      for (const std::vector<RopeParameters>& variant : rope_variants(**rope)) {
        std::vector<Edit> edits;
        for (const RopeParameters& value : variant)
          edits.push_back(set_field<RopeParameters>(path, value, path + " " + value.rope_type));
        add(std::move(edits));
      }
    } else if (const auto* by_layer = std::get_if<LayerRopeParameters*>(&field)) {
      for (const std::vector<RopeParameters>& variant : rope_variants((*by_layer)->full_attention)) {
        std::vector<Edit> edits;
        for (const RopeParameters& value : variant) {
          LayerRopeParameters both = **by_layer;
          both.full_attention = value;
          edits.push_back(set_field<LayerRopeParameters>(path, both, path + " " + value.rope_type));
        }
        add(std::move(edits));
      }
    }
  });
  return all;
}

}  // namespace modular::execute
