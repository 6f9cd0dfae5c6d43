// Which elements of a model's list each pipeline stage runs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/model/pp.h"

namespace modular {

/// First and one past the last of `layers` that `stage` runs. `cuts` says which of them begins each stage but the
/// first; without, they are divided as evenly as can be, the longer shares on earlier stages, as the last one also
/// computes the logits.
std::pair<int64_t, int64_t> stage_span(int64_t layers, int64_t stage, int64_t stages,
                                       const std::vector<int64_t>& cuts = {});

/// A stage's place in a model, of which nothing runs.
class PlacedStage final : public pp::Stage {
 public:
  PlacedStage(int64_t stage, int64_t stages, std::vector<int64_t> cuts)
      : stage_(stage), stages_(stages), cuts_(std::move(cuts)) {}

  int64_t number() const { return stage_; }
  bool is_first() const override { return stage_ == 0; }
  bool is_last() const override { return stage_ == stages_ - 1; }
  Tensor received() override { return {}; }
  std::pair<int64_t, int64_t> span(int64_t list_size) const override {
    return stage_span(list_size, stage_, stages_, cuts_);
  }

 private:
  int64_t stage_;
  int64_t stages_;
  std::vector<int64_t> cuts_;
};

}  // namespace modular
