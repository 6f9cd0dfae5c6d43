// A function body as the weave stage reads it: expressions and statements with their source spans and the declarations
// that Clang resolved them to, without Clang pointers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "generator/source/span.h"

namespace modgen {

/// How a variable or parameter is bound to its initializer or argument.
enum class Binding {
  value,               // holds a copied or moved value
  constant_reference,  // reads the referenced object, including later changes
  reference,           // may change the referenced object
};

struct Expr;

struct Parameter {
  std::string name;            // empty if unnamed
  std::string type;            // as written, renamed to the family
  std::string canonical;       // without reference and const: "at::Tensor"
  bool hides_tensors = false;  // it contains tensors that the contract's for_each_tensor does not find
  Binding binding = Binding::value;
  uint32_t variable = 0;                // as in Expr::variable
  uint32_t name_at = 0;                 // offset of its name, or where a name would be inserted
  bool varies = false;                  // constructors: it is changed, so that it is not the argument
  std::shared_ptr<const Expr> initial;  // its default argument; null if there is none
};

/// The declaration that Clang resolved a call to, and the spans of the call's parts.
struct Callee {
  /// Where it is declared.
  enum class Home {
    unknown,   // called through a pointer or by a template-dependent name
    family,    // the flattened text
    contract,  // namespace modular outside of families
    torch,     // at, c10 or torch
    standard,  // std
    other,
  };
  Home home = Home::unknown;
  std::string name;             // qualified: "at::silu", "modular::rms_norm", "at::TensorBase::size"
  std::string signature;        // functions of the family only: as Function::signature
  bool changes_object = false;  // a non-const method
  bool of_module = false;       // a method of a class that derives from torch::nn::Module
  std::vector<size_t> changes;  // operands that it may change: bound to non-const references or pointers
  // Source spans and offsets; empty or 0 in a macro body.
  SourceSpan written;  // the callee with parentheses around it: "layer", "layer->forward", "modular::rms_norm"
  SourceSpan name_at;  // the name in it; empty if an object is called directly
  uint32_t open = 0;   // the opening parenthesis of the arguments
};

struct Body;

struct Expr {
  enum class Kind {
    local,   // a local variable or parameter: name
    global,  // a global variable or constant, or a function that is not called here: qualified name. operands[0] is the
             // initializer of a family's constant, unless the compiler computes it
    field,   // a member of `this`, or operands[0].name; the `->` of a holder or smart pointer is omitted
    call,    // a free or static function: qualified name, operands are the explicit arguments
    method,  // operands[0].name(operands[1…]); operator() of a module holder has the name "forward"; operands[0].kind
             // is `self` for this. A super call is qualified by its class: "LlamaModelImpl::embed"
    op,  // a built-in or overloaded operator: name is its spelling, including "=", "[]" and "?:"; unary operators have
         // one operand
    construct,  // name is the type, operands are the explicit arguments
    cast,       // an explicit conversion of operands[0]; implicit ones are omitted
    literal,    // name is the text
    list,       // a braced list
    self,       // this
    lambda,     // operands are the captures, `body` the body
    thrown,     // throw: operands[0] is the thrown value, if any
    unknown,    // a construct whose meaning is not known: name is what messages call it, operands its sub-expressions.
                // Of a pointer to a member, `members` is that member, and `type` its class
    other,      // a constant such as sizeof(T), without operands, or a call through a pointer
  };
  Kind kind = Kind::other;
  std::string name;
  std::string type;  // canonical, without reference and const: "at::Tensor", "long", "bool", "modular::llama::LlamaMLP"
  std::vector<Expr> operands;
  SourceSpan span;        // without surrounding parentheses
  SourceSpan outer;       // with surrounding parentheses
  bool in_macro = false;  // it comes from a macro body, and `span` is the entire macro use
  bool is_lvalue = false;
  // Lvalues: neither read nor made const here, so that the code around it may change it or keep a reference to it.
  bool is_unread = false;
  bool is_reference = false;             // a capture by reference, or a reference field
  bool takes_const_away = false;         // casts: it removes const
  bool may_change = false;               // globals: it is not constant
  std::string narrowed_to;               // the type that the number is converted to, which may change it
  bool is_template = false;              // lambdas: it is generic
  uint32_t variable = 0;                 // locals: the variable's number in the function, from 1 on
  std::shared_ptr<const Callee> callee;  // calls, methods, operators and constructions that run a function
  std::vector<std::string> members;      // lists that initialize a struct: the member of each operand
  std::shared_ptr<const Body> body;      // lambdas
};

struct Stmt {
  enum class Kind {
    declare,     // names (several for a structured binding), exprs: the initializer, if any
    expression,  // exprs[0]
    ret,         // exprs[0] is the value, if any
    branch,      // exprs[0] the condition, then_body, else_body
    choice,      // switch: exprs[0] is the condition, then_body has the labels (`is_labelled`)
    range_for,   // names the variable (several for a structured binding), exprs[0] the range, then_body
    loop,        // any other loop: exprs is its condition, if any; then_body; else_body is the increment
    block,       // then_body in a separate scope: `{…}`, or an `if` or `for` with the variables that it declares
    leave,       // break
    next,        // continue
    other,       // a construct whose meaning is not known: exprs are its expressions, then_body its statements
  };
  Kind kind = Kind::other;
  std::vector<std::string> names;
  std::vector<uint32_t> variables;   // the numbers of `names`, as in Expr::variable
  std::vector<std::string> members;  // structured bindings of a struct: the member of each name
  Binding binding = Binding::value;  // declarations: how the variables are bound
  std::string type;                  // declarations: type as written
  std::string canonical;             // declarations: type as in Expr::type
  bool is_static = false;            // declarations: static storage
  bool is_labelled = false;          // preceded by a label of the enclosing switch
  bool has_default = false;          // switches
  bool body_first = false;           // loops: do … while
  bool has_room = true;              // another statement can be inserted before it
  std::string construct;             // other: what messages call it
  std::vector<Expr> exprs;
  std::vector<Stmt> then_body, else_body;
  SourceSpan span;  // including the final semicolon or brace
};

/// A constructor initializer of a field or base class.
struct Initializer {
  std::string name;  // name of the field or base class
  bool is_base = false;
  std::vector<Expr> arguments;
  SourceSpan span;
};

struct Body {
  std::vector<Initializer> initializers;  // constructors: initializers as written
  std::vector<Stmt> statements;
  SourceSpan span;  // including its braces; empty if there is no body
};

/// Whether `expr` is `=`, `+=`, …
bool is_assignment(const Expr& expr);
/// Whether `expr` is an in-place method call such as `x.add_(y)`.
bool is_in_place_method(const Expr& expr);
/// Whether an operation changes its first operand: `x.add_(y)`, `x += y`.
inline bool changes_first(const Expr& expr) { return is_assignment(expr) || is_in_place_method(expr); }

/// Whether `expr` itself, without its operands, may set the local variable.
bool sets_variable(const Expr& expr, uint32_t variable);

/// Calls `visit` for each expression, outermost first, in source order.
void for_each_expr(Expr& expr, const std::function<void(Expr&)>& visit);
void for_each_expr(Body& body, const std::function<void(Expr&)>& visit);
void for_each_expr(const Body& body, const std::function<void(const Expr&)>& visit);
/// Calls `visit` for each statement, outermost first, in source order.
void for_each_stmt(Body& body, const std::function<void(Stmt&)>& visit);

}  // namespace modgen
