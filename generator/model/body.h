// A function body as weaving reads it: expressions and statements with their places in the source, what Clang resolved
// them to, and no Clang pointer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "generator/source/span.h"

namespace modgen {

/// How a variable or parameter is bound to what it is given.
enum class Binding {
  value,               // holds a copy, or what was moved into it
  constant_reference,  // reads what it is given, also after that has changed
  reference,           // may change what it is given
};

struct Parameter {
  std::string name;            // empty where it has none
  std::string type;            // as written, renamed to the family
  std::string canonical;       // without reference and const: "at::Tensor"
  bool hides_tensors = false;  // there are tensors in it that the contract's for_each_tensor does not find
  Binding binding = Binding::value;
  uint32_t variable = 0;  // as in Expr::variable
  uint32_t name_at = 0;   // where its name is, or would be
};

/// The declaration that Clang resolved a call to, and how the call is written.
struct Callee {
  /// Who declares it.
  enum class Home {
    unknown,   // called through a pointer, or of a name that depends on a template's parameter
    family,    // the flattened text
    contract,  // namespace modular outside of families
    torch,     // at, c10 or torch
    standard,  // std
    other,
  };
  Home home = Home::unknown;
  std::string name;             // qualified: "at::silu", "modular::rms_norm", "at::TensorBase::size"
  std::string signature;        // of the family's: as Function::signature has it
  bool changes_object = false;  // a method that is not const
  bool of_module = false;       // a method of a class that derives from torch::nn::Module
  std::vector<size_t> changes;  // the operands that it may change: bound to references or pointers to what is not const
  // Places; empty or 0 in a macro's body.
  SourceSpan written;  // what is called, with parentheses around it: "layer", "layer->forward", "modular::rms_norm"
  SourceSpan name_at;  // of the name in it; empty where an object itself is called
  uint32_t open = 0;   // the parenthesis before the arguments
};

struct Body;

struct Expr {
  enum class Kind {
    local,   // a local variable or parameter: name
    global,  // a constant outside of functions, or a function that is not called here: qualified name
    field,   // a member of `this`, or operands[0].name; a holder's or smart pointer's `->` is seen through
    call,    // a free or static function: qualified name, operands are the arguments given
    method,  // operands[0].name(operands[1…]); operator() of a module holder has the name "forward"; operands[0].kind
             // is `self` for this. A super call has its class before the name: "LlamaModelImpl::embed"
    op,  // a built-in or overloaded operator: name is its spelling, "=", "[]" and "?:" among them; a unary one has one
         // operand
    construct,  // name is the type, operands are the arguments given
    cast,       // an explicit conversion of operands[0]; implicit ones are seen through
    literal,    // name is the text
    list,       // a braced list
    self,       // this
    lambda,     // operands are what it captures, `body` what it runs
    thrown,     // throw: operands[0] where something is thrown
    other,      // anything else: operands are its sub-expressions
  };
  Kind kind = Kind::other;
  std::string name;
  std::string type;  // canonical, without reference and const: "at::Tensor", "long", "bool", "modular::llama::LlamaMLP"
  std::vector<Expr> operands;
  SourceSpan span;                       // without parentheses around it
  SourceSpan outer;                      // with them
  bool in_macro = false;                 // it comes from a macro's body, and `span` is the whole use
  bool is_lvalue = false;                // it names something that lives on
  bool is_reference = false;             // a capture by reference, or a field that is a reference
  bool takes_const_away = false;         // of a cast: it names what is const as what is not
  bool is_template = false;              // of a lambda: it has parameters of any type
  uint32_t variable = 0;                 // of a local one: its number in the function, from 1 on
  std::shared_ptr<const Callee> callee;  // of calls, methods, operators and constructions that run a function
  std::vector<std::string> members;      // of a list that makes a struct: the member that each operand is for
  std::shared_ptr<const Body> body;      // of a lambda
};

struct Stmt {
  enum class Kind {
    declare,     // names (several for a structured binding), exprs: the initializer if there is one
    expression,  // exprs[0]
    ret,         // exprs[0] if there is a value
    branch,      // exprs[0] the condition, then_body, else_body
    choice,      // switch: exprs[0] what is switched over, then_body with its labels (`is_labelled`)
    range_for,   // names the variable (several for a structured binding), exprs[0] the range, then_body
    loop,        // any other loop: exprs its condition if there is one, then_body, else_body what follows each round
    block,       // then_body in a scope of its own: `{…}`, or what an `if` or `for` declares together with it
    leave,       // break
    next,        // continue
    other,       // anything else: exprs are its expressions, then_body its statements
  };
  Kind kind = Kind::other;
  std::vector<std::string> names;
  std::vector<uint32_t> variables;   // the numbers of `names`, as in Expr::variable
  std::vector<std::string> members;  // of a structured binding of a struct: what each name stands for
  Binding binding = Binding::value;  // of what it declares
  std::string type;                  // of a declaration, as written
  std::string canonical;             // likewise, as Expr::type has it
  bool is_static = false;            // a declaration whose value outlives the call
  bool is_labelled = false;          // in a switch: a label comes before it
  bool has_default = false;          // of a switch
  bool body_first = false;           // of a loop: do … while
  bool has_room = true;              // another statement can be placed before it
  std::vector<Expr> exprs;
  std::vector<Stmt> then_body, else_body;
  SourceSpan span;  // to its semicolon or brace, that included
};

/// What a constructor writes before its body for a field, or for a base class.
struct Initializer {
  std::string name;  // of the field or of the base class
  bool is_base = false;
  std::vector<Expr> arguments;
  SourceSpan span;
};

struct Body {
  std::vector<Initializer> initializers;  // as written, of a constructor
  std::vector<Stmt> statements;
  SourceSpan span;  // with its braces; empty where there is none
};

/// `=`, `+=`, …
bool is_assignment(const Expr& expr);
/// `x.add_(y)`
bool is_in_place_method(const Expr& expr);
/// Whether an operation changes its first operand: `x.add_(y)`, `x += y`.
inline bool changes_first(const Expr& expr) { return is_assignment(expr) || is_in_place_method(expr); }

/// Calls `visit` for each expression, outermost first, in source order.
void for_each_expr(Expr& expr, const std::function<void(Expr&)>& visit);
void for_each_expr(Body& body, const std::function<void(Expr&)>& visit);
/// Calls `visit` for each statement, outermost first, in source order.
void for_each_stmt(Body& body, const std::function<void(Stmt&)>& visit);

}  // namespace modgen
