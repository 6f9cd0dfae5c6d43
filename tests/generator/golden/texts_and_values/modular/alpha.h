// The base of beta.h.
#pragma once

#include <map>
#include <stdexcept>
#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha, .title = "alpha");

#define ALPHA_KIND "alpha"
#define ALPHA_REJECT(kind, text) TORCH_CHECK((kind) != text, text " is rejected")

struct AlphaProblem {
  std::string kind;
  int64_t number = 0;
};

struct AlphaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct AlphaKindError : std::runtime_error {
  explicit AlphaKindError(const std::string& kind) : std::runtime_error("a problem of alpha"), kind(kind) {}
  std::string kind;
};

struct AlphaBox {
  std::string kind = "alpha";
  std::map<std::string, std::string> texts{{"alpha", "first"}};

  // Values: what is compared and looked up, and what a spec's own exceptions hold.
  void check() const { TORCH_CHECK(kind != "alpha", "alpha: the kind of alpha"); }
  void check_value() const { TORCH_CHECK_VALUE(texts.count("alpha") == 0, "no alpha, but ", texts.at("alpha")); }
  void check_alone() const { TORCH_CHECK(kind != "alpha" && texts.empty()); }
  void look_up() const { throw std::runtime_error(texts.at("alpha")); }
  void choose() const { throw std::runtime_error(kind == "alpha" ? "one of alpha" : "another alpha"); }
  void ask() const {
    throw std::runtime_error([&] { return kind == "alpha" ? std::string("one") : std::string("two"); }());
  }
  int64_t hold() const {
    try {
      throw AlphaProblem{"alpha", 3};
    } catch (const AlphaProblem& problem) {
      return problem.kind == "alpha" ? problem.number : 0;
    }
  }
  bool throw_string() const {
    try {
      throw std::string("alpha");
    } catch (const std::string& text) {
      return text == "alpha";
    }
  }
  void keep_kind() const { throw AlphaKindError("alpha"); }
  void use_suffix() const {
    using namespace std::string_literals;
    throw std::runtime_error("alpha"s + " failed"s);
  }
  bool is_kind() const { return kind == ALPHA_KIND; }
  void reject() const { ALPHA_REJECT(kind, "alpha"); }

  // Texts: what is all that a message is made of.
  void join() const { throw ConfigError("alpha's number " + std::to_string(texts.size()) + " of alpha"); }
  void append() const { throw AlphaError(std::string("alpha: ").append(kind)); }
  void list() const { throw std::invalid_argument{c10::str("alpha ", texts.size())}; }
  template <class T>
  void check_any(const T& number) const {
    TORCH_CHECK(number > 0, "alpha takes numbers");
  }
  void check_numbers() const { check_any(texts.size()); }
  void pretty_print(std::ostream& stream) const {
    if (kind == "alpha") stream << "alpha(" << kind << ")";
  }
};

#undef ALPHA_KIND
#undef ALPHA_REJECT

}  // namespace modular::alpha
