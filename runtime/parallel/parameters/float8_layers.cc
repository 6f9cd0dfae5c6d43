#include "runtime/parallel/parameters/float8_layers.h"

#include <algorithm>

#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {
namespace {

/// Calls `visit(path, layer)` for each selected layer.
template <class Visit>
void visit_layers(const nn::Module& root, const std::vector<std::string>& patterns, const Visit& visit) {
  for (const auto& item : root.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const auto offer = [&](auto* layer) {
      if (!layer || std::ranges::any_of(layer->weight.sizes(), [](int64_t size) { return size % kFloat8Multiple; }))
        return;
      const std::string weight = item.key() + ".weight";
      if (std::ranges::any_of(patterns, [&](const std::string& pattern) { return lies_in(pattern, weight); }))
        visit(item.key(), *layer);
    };
    offer(item.value()->as<nn::LinearImpl>());
    offer(item.value()->as<TransposedLinearImpl>());
  }
}

}  // namespace

std::vector<std::string> float8_layers(const nn::Module& root, const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  visit_layers(root, patterns, [&](const std::string& path, const auto&) { paths.push_back(path); });
  return paths;
}

void multiply_in_float8(nn::Module& root, const std::vector<std::string>& patterns) {
  visit_layers(root, patterns, [](const std::string&, auto& layer) { layer.in_float8 = true; });
}

}  // namespace modular
