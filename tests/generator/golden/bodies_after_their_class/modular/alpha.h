// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaBox {
  enum class Unit { one, ten };

  /// Its area and a bit.
  [[nodiscard]] int64_t weight() const;
  static int64_t weight_of(const AlphaBox& box, int64_t times = 2);
  Unit unit(bool is_large = false) const;
  template <class Number>
  Number scaled(Number n) const;
  bool operator<(const AlphaBox& other) const;
  int64_t width = 3;
};

inline int64_t alpha_area(const AlphaBox& box) { return box.width * box.width; }

inline int64_t AlphaBox::weight() const {
  // After what it calls.
  return alpha_area(*this) + 1;
}
inline int64_t AlphaBox::weight_of(const AlphaBox& box, int64_t times) { return alpha_area(box) * times; }
inline AlphaBox::Unit AlphaBox::unit(bool is_large) const {
  return is_large || alpha_area(*this) > 9 ? Unit::ten : Unit::one;
}
template <class Number>
Number AlphaBox::scaled(Number n) const {
  return n * static_cast<Number>(alpha_area(*this));
}
inline bool AlphaBox::operator<(const AlphaBox& other) const { return alpha_area(*this) < alpha_area(other); }

/// A module.
class AlphaGateImpl : public Module {
 public:
  Tensor forward(const Tensor& x) { return x * gain(); }
  double gain() const;
  double factor = 2.0;
};
TORCH_MODULE(AlphaGate);

inline double alpha_factor(const AlphaGateImpl& gate) { return gate.factor; }

inline double AlphaGateImpl::gain() const { return alpha_factor(*this) + 1.0; }

struct AlphaTree;
/// Two classes of which each needs the other.
struct AlphaLeaf {
  int64_t number = 2;
  int64_t up(const AlphaTree& tree, int64_t depth) const;
};
struct AlphaTree {
  AlphaLeaf leaf;
  int64_t down(int64_t depth) const;
};
inline int64_t AlphaLeaf::up(const AlphaTree& tree, int64_t depth) const {
  const int64_t here = number;
  return depth == 0 ? here : here + tree.down(depth - 1);
}
inline int64_t AlphaTree::down(int64_t depth) const { return 10 + leaf.up(*this, depth); }

struct AlphaPart;
/// A result by value of a class that is defined later.
struct AlphaShelf {
  AlphaPart part() const;
  void take(const AlphaPart& part);
  int64_t number = 3;
};
struct AlphaPart {
  int64_t number = 0;
  std::vector<AlphaShelf> shelves;
};
inline AlphaPart AlphaShelf::part() const { return {number + 1, {*this}}; }
inline void AlphaShelf::take(const AlphaPart& part) {
  number = part.number + static_cast<int64_t>(part.shelves.size());
}

struct AlphaVisitor;
/// A visitor.
struct AlphaNode {
  virtual ~AlphaNode() = default;
  virtual void accept(AlphaVisitor& visitor) const;
  int64_t number = 2;
};
struct AlphaVisitor {
  virtual ~AlphaVisitor() = default;
  virtual void visit(const AlphaNode& node) { sum += node.number; }
  int64_t sum = 0;
};
inline void AlphaNode::accept(AlphaVisitor& visitor) const { visitor.visit(*this); }

struct AlphaSafe;
/// A method as a friend.
struct AlphaReader {
  int64_t read(const AlphaSafe& safe) const;
};
struct AlphaSafe {
  friend int64_t AlphaReader::read(const AlphaSafe& safe) const;

 private:
  int64_t number = 3;
};
inline int64_t AlphaReader::read(const AlphaSafe& safe) const { return safe.number; }

}  // namespace modular::alpha
