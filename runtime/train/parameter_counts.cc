#include "runtime/train/parameter_counts.h"

#include "runtime/parallel/meta_construction.h"
#include "runtime/parallel/parameter_table.h"

namespace modular {

ParameterCounts count_parameters(const ModelConfig& network) {
  const Model model = build_on_meta(*network.entry, *network.config);
  const ParameterTable table = parameter_table(*model.module, *network.entry->plan, *network.config, /*stages=*/{});
  ParameterCounts counts;
  for (const ModelParameter& parameter : table.parameters) {
    counts.all += c10::multiply_integers(parameter.global_shape);
    for (const int64_t elements : parameter.multiplied) counts.multiplied += elements;
  }
  return counts;
}

}  // namespace modular
