// Dropout RNG for training. A sample drops the same elements on every mesh, in any division into micro-batches and
// stages, and in a recomputed forward.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "runtime/model/dropout.h"
#include "runtime/parallel/step/feature.h"

namespace modular {

class StepDropoutRng final : public dropout::Draws, public Feature {
 public:
  /// Layers are identified by their path in `model`, which is the same on all ranks and stages.
  StepDropoutRng(const nn::Module& model, uint64_t seed);

  /// A batch without samples numbers its rows from 0.
  void before_forward(const Batch& batch, int64_t stage = 0) override;
  std::function<void()> save_position() override;

  DropoutRng draw(const nn::DropoutImpl& layer) override;

 private:
  /// Position within a forward.
  struct Position {
    Tensor samples;                                             // [batch] int64
    std::unordered_map<const nn::DropoutImpl*, uint64_t> runs;  // calls of each layer so far
  };

  uint64_t seed_;
  std::unordered_map<const nn::DropoutImpl*, uint64_t> layer_ids_;
  Position position_;
};

}  // namespace modular
