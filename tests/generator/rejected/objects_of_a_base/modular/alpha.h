// The base of beta.h.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaPart {
  virtual ~AlphaPart() = default;
  virtual int64_t size() const { return 1; }
};
struct AlphaKeeper {
  AlphaPart part;
};
inline int64_t alpha_size(AlphaPart part) { return part.size(); }
inline AlphaPart alpha_part() { return AlphaPart(); }

struct AlphaPair {
  int64_t first = 1;
};

class AlphaGateImpl : public Module {
 public:
  explicit AlphaGateImpl(double gain) : gain(gain) {}
  Tensor forward(const Tensor& x) { return x * gain; }
  double gain;
};
TORCH_MODULE(AlphaGate);

struct AlphaBox {
  virtual ~AlphaBox() = default;
  std::vector<AlphaPart> parts;
};

}  // namespace modular::alpha
