// Dropout RNG for training. A sample drops the same elements on every mesh, in any division into micro-batches and
// stages, and in a recomputed forward.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "runtime/model/dropout.h"

namespace modular {

class StepDropoutRng final : public dropout::Draws {
 public:
  /// Layers are identified by their path in `model`, which is the same on all ranks and stages.
  StepDropoutRng(const nn::Module& model, uint64_t seed);

  /// RNG position within a forward.
  struct Position {
    Tensor samples;                                             // [batch] int64
    std::unordered_map<const nn::DropoutImpl*, uint64_t> runs;  // calls of each layer so far
  };

  /// Call before each forward. A batch without samples numbers its rows from 0.
  void begin_forward(const Batch& batch);
  const Position& position() const { return position_; }
  void set_position(Position position) { position_ = std::move(position); }

  DropoutRng draw(const nn::DropoutImpl& layer) override;

 private:
  uint64_t seed_;
  std::unordered_map<const nn::DropoutImpl*, uint64_t> layer_ids_;
  Position position_;
};

}  // namespace modular
