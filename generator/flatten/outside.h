// Bodies of methods that follow their class, because they need what is defined after it.
#pragma once

#include <string>
#include <utility>

#include "generator/flatten/family.h"

namespace modgen {

/// Whether the function has no written result type: its body has to come before its calls.
bool deduces_result(const clang::FunctionDecl& function);

/// The `= 0` of `declaration`, the declaration of a pure virtual method; empty for other functions.
SourceSpan pure_specifier(const Family& family, const clang::FunctionDecl& declaration);

/// The body of a method of `entity` while it is rendered.
class MovableBody {
 public:
  /// Of the method that a class of `level` declares with `declaration`, and that gets the name `name` if that is not
  /// empty.
  MovableBody(Entity& entity, size_t level, const clang::FunctionDecl& declaration, std::string name = {});

  bool can_move() const { return method_ != nullptr; }
  /// Puts the body after the class, also if it needs nothing from there.
  void move() { method_->is_outside = true; }
  /// Adds what the head of `definition`, which follows its class, names: parameters and results that are values need
  /// the definitions of their types.
  void add_values(Family& family, const clang::FunctionDecl& definition);

  /// The result of `make`, which renders code that becomes part of the body.
  template <class Make>
  auto render(Make&& make) {
    Entity::Method* const around = std::exchange(entity_.inside, method_);
    auto result = make();
    entity_.inside = around;
    return result;
  }
  /// The same for the text that goes where the body goes.
  template <class Make>
  Fragment text(Make&& make) {
    Fragment text = render(make);
    text.set_part(number_);
    return text;
  }

 private:
  Entity& entity_;
  Entity::Method* method_ = nullptr;  // null if the body has to stay in the class
  uint32_t number_ = 0;
};

/// The definition of the method `number` of `entity`, for the place after the class.
Fragment definition_outside(Family& family, Entity& entity, size_t number);

}  // namespace modgen
