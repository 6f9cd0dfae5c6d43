#include "runtime/train/parameter_counts.h"

#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {

ParameterCounts count_parameters(const ModelConfig& network, const ParallelOptions& options) {
  const Model model = build_on_meta(*network.entry, *network.config);
  ParameterTable table = parameter_table(*model.module, *network.entry->plan, *network.config, /*stages=*/{});
  freeze(table.parameters, options.frozen, options.trained);
  ParameterCounts counts;
  for (const ModelParameter& parameter : table.parameters) {
    const int64_t elements_of_all = c10::multiply_integers(parameter.global_shape);
    counts.all += elements_of_all;
    if (parameter.trainable) counts.trained += elements_of_all;
    for (const int64_t elements : parameter.multiplied) counts.multiplied += elements;
  }
  return counts;
}

}  // namespace modular
