// Bodies of methods follow their class where they need what needs the class.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  int64_t weight() const { return AlphaBox::weight() * height; }
  int64_t twice() const { return 2 * alpha::alpha_area(*this); }
  int64_t height = 1;
};

class BetaGateImpl : public alpha::AlphaGateImpl {
 public:
  double gain() const { return AlphaGateImpl::gain() * 0.5; }
};
TORCH_MODULE(BetaGate);

struct BetaLeaf : alpha::AlphaLeaf {
  int64_t up(const alpha::AlphaTree& tree, int64_t depth) const {
    const int64_t below = AlphaLeaf::up(tree, depth);
    return below + 1;
  }
};

struct BetaShelf : alpha::AlphaShelf {
  int64_t moved() {
    take(part());
    return number;
  }
};

struct BetaVisitor : alpha::AlphaVisitor {
  void visit(const alpha::AlphaNode& node) override {
    AlphaVisitor::visit(node);
    sum *= 10;
  }
};

struct BetaNode : alpha::AlphaNode {
  int64_t visited() const {
    BetaVisitor visitor;
    accept(visitor);
    return visitor.sum;
  }
};

struct BetaSafe : alpha::AlphaSafe {
  int64_t own() const { return alpha::AlphaReader().read(*this); }
};

}  // namespace modular::beta
