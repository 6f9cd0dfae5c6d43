// Through a cast, a reference, a result or a copy, C++ calls what the base declares; flattened, there is one class.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaSizeImpl : public alpha::AlphaSizeImpl {
 public:
  int64_t size() { return 2; }
  int64_t by_cast() { return static_cast<alpha::AlphaSizeImpl*>(this)->size(); }
  int64_t by_reference() {
    alpha::AlphaSizeImpl& base = *this;
    return base.size();
  }
  int64_t by_result() { return itself().size(); }
  int64_t by_condition(alpha::AlphaSizeImpl& other) { return (size() > 1 ? *this : other).size(); }
  int64_t by_template() { return size_of<alpha::AlphaSizeImpl>(*this); }

 private:
  template <class Sized>
  static int64_t size_of(Sized& sized) {
    return sized.size();
  }
};
TORCH_MODULE(BetaSize);

struct BetaArea : alpha::AlphaArea {
  int64_t area() const override { return 2; }
  int64_t by_copy() const {
    const alpha::AlphaArea copy = *this;
    return copy.area();
  }
  int64_t by_optional() const {
    const std::optional<alpha::AlphaArea> copy(*this);
    return copy->area();
  }
  void assign(const BetaArea& other) { static_cast<alpha::AlphaArea&>(*this) = other; }
  int64_t height = 1;
};

struct BetaVolume : alpha::AlphaVolume {
  int64_t volume() const override { return 2; }
  int64_t by_elements() const {
    std::vector<alpha::AlphaVolume> all;
    all.push_back(*this);
    return all[0].volume();
  }
};

struct BetaLength : alpha::AlphaLength {
  int64_t length() const override { return 2; }
  int64_t by_alternative() const {
    std::variant<int64_t, alpha::AlphaLength> one;
    one = *this;
    return std::get<1>(one).length();
  }
};

struct BetaWeight : alpha::AlphaWeight {
  int64_t weight() const override { return 2; }
  int64_t by_copied_reference() const {
    const alpha::AlphaWeight& seen = *this;
    const alpha::AlphaWeight copy = seen;
    return copy.weight();
  }
};

struct BetaHeight : alpha::AlphaHeight {
  int64_t height() const override { return 2; }
  int64_t by_pointer() const { return std::make_shared<alpha::AlphaHeight>(*this)->height(); }
};

struct BetaNumber : alpha::AlphaNumber {
  operator int64_t() const { return number * 10; }
  int64_t by_conversion() const {
    const alpha::AlphaNumber& seen = *this;
    const int64_t shown = seen;
    return shown;
  }
};

}  // namespace modular::beta
