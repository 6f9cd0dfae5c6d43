// What dropout drops in training: the same for a sample of a run's order whichever ranks, micro-batches and stages it
// meets, and whether its forward is run once or again in the backward.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "runtime/model/dropout.h"

namespace modular {

class StepDropoutRng final : public dropout::Draws {
 public:
  /// A layer's place is its path in `model`, which is the same on all ranks and stages.
  StepDropoutRng(const nn::Module& model, uint64_t seed);

  /// Where a forward is in what it draws.
  struct Position {
    Tensor samples;                                             // [batch] int64
    std::unordered_map<const nn::DropoutImpl*, uint64_t> runs;  // of each layer so far
  };

  /// Before each forward. A batch without samples counts its rows from 0.
  void begin_forward(const Batch& batch);
  const Position& position() const { return position_; }
  void set_position(Position position) { position_ = std::move(position); }

  DropoutRng draw(const nn::DropoutImpl& layer) override;

 private:
  uint64_t seed_;
  std::unordered_map<const nn::DropoutImpl*, uint64_t> places_;
  Position position_;
};

}  // namespace modular
