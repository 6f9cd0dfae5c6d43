#include "runtime/parallel/pipeline_stages.h"

#include <algorithm>

namespace modular {

std::pair<int64_t, int64_t> stage_span(int64_t layers, int64_t stage, int64_t stages,
                                       const std::vector<int64_t>& cuts) {
  if (!cuts.empty())
    return {stage == 0 ? 0 : cuts[static_cast<size_t>(stage - 1)],
            stage + 1 == stages ? layers : cuts[static_cast<size_t>(stage)]};
  const int64_t share = layers / stages, longer = layers % stages;
  const int64_t first = stage * share + std::min(stage, longer);
  return {first, first + share + (stage < longer ? 1 : 0)};
}

}  // namespace modular
