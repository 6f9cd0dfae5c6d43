#include "runtime/checkpoint/model_body.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {
namespace {

std::string_view without_first(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::string get_module(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

/// "encoder.layer." of "encoder.layer.0.output.dense.weight"; empty where no component is a number.
std::string before_first_index(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view component = name.substr(begin, end - begin);
    if (!component.empty() && std::ranges::all_of(component, [](unsigned char c) { return std::isdigit(c); }))
      return std::string(name.substr(0, begin));
    begin = end + 1;
  }
  return {};
}

/// Rest of `name`, which lies in `pattern`, after as many components as `pattern` has.
std::string_view behind(std::string_view pattern, std::string_view name) {
  for (auto components = std::ranges::count(pattern, '.') + 1; components > 0; --components)
    name = name.find('.') == std::string_view::npos ? std::string_view() : without_first(name);
  return name;
}

std::vector<std::string_view> get_embeddings(const Plan& plan) {
  std::vector<std::string_view> modules = plan.first;
  if (plan.first_stack) modules.insert(modules.end(), plan.first_stack->first.begin(), plan.first_stack->first.end());
  return modules;
}

}  // namespace

ModelBody::ModelBody(const ModelConfig& model)
    : plan_(*model.entry->plan), is_of_another_class_(!model.named.empty() && model.named != kNoClass) {}

bool ModelBody::holds(std::string_view name) const {
  const auto is_in = [&](std::string_view pattern) {
    const std::string_view inner = without_first(pattern);  // without the base model's prefix
    return lies_in(pattern, name) || lies_in(pattern, without_first(name)) ||
           (inner != pattern && lies_in(inner, name));
  };
  return std::ranges::any_of(plan_.units, is_in) || std::ranges::any_of(get_embeddings(plan_), is_in);
}

bool ModelBody::holds_in_file(const std::string& name) const {
  return holds(name) || std::ranges::any_of(paths_, [&](const std::string& path) { return name.starts_with(path); }) ||
         (!is_of_another_class_ && modules_.contains(get_module(name)));
}

void ModelBody::add(const std::string& name, const std::string& file_name) {
  modules_.insert(get_module(file_name));
  const auto holds_name = [&](std::string_view pattern) { return lies_in(pattern, name); };
  if (std::ranges::any_of(plan_.units, holds_name))
    if (std::string path = before_first_index(file_name); !path.empty()) paths_.insert(std::move(path));
  for (const std::string_view pattern : get_embeddings(plan_)) {
    if (!holds_name(pattern)) continue;
    const std::string_view rest = behind(pattern, name);
    if (!rest.empty() && file_name.size() > rest.size() && file_name.ends_with(rest))
      paths_.insert(file_name.substr(0, file_name.size() - rest.size()));
  }
}

}  // namespace modular
