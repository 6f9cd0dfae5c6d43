// Declarations inside classes and methods, which a family inherits.
#pragma once

#include <utility>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaCounterImpl : public Module {
 public:
  struct State {
    double a = 1.0;
    explicit State(double a) : a(a) {}
    State() = default;
    bool operator==(const State& other) const = default;
    double twice() const { return 2.0 * a; }
  };

  /// A class and an enum of the method itself.
  double sum(double x) {
    enum Sign { kMinus = -1, kPlus = 1 };
    struct Total {
      double value = 1.0;
      explicit Total(double first) : value(first) {}
      void add(double y) { value += y * static_cast<double>(kPlus); }
    };
    Total total(x);
    total.add(state.twice());
    struct {
      double factor = 0.5;
      int64_t power = 2;
    } last;
    return total.value * last.factor * static_cast<double>(last.power) * static_cast<double>(x < 0.0 ? kMinus : kPlus);
  }

  double halved(auto x) { return x / 2.0; }

  virtual double get() { return 1.0; }
  virtual double get() const { return 2.0; }
  double both() { return 10.0 * get() + std::as_const(*this).get(); }

  bool is_new() const { return state == State(1.0); }

  friend double peek(const AlphaCounterImpl& counter) { return 3.0 * counter.state.a; }
  friend bool operator==(const AlphaCounterImpl& one, const AlphaCounterImpl& other) {
    return one.state == other.state;
  }

  State state;
};
TORCH_MODULE(AlphaCounter);

}  // namespace modular::alpha
