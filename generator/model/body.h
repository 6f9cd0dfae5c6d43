// A function body as weaving reads it: expressions and statements with their places in the source, and no Clang
// pointer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generator/source/span.h"

namespace modgen {

struct Parameter {
  std::string name;
  std::string type;  // as written, renamed to the family
};

struct Expr {
  enum class Kind {
    local,   // a local variable or parameter: name
    global,  // a constant outside of functions: qualified name
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
    lambda,     // not looked into: operands are what it captures
    other,      // anything else: operands are its sub-expressions
  };
  Kind kind = Kind::other;
  std::string name;
  std::string type;  // canonical, without reference and const: "at::Tensor", "long", "bool", "modular::llama::LlamaMLP"
  std::vector<Expr> operands;
  SourceSpan span;
};

struct Stmt {
  enum class Kind {
    declare,     // names (several for a structured binding), exprs: the initializer if there is one
    expression,  // exprs[0]
    ret,         // exprs[0] if there is a value
    branch,      // exprs[0] the condition, then_body, else_body
    range_for,   // names the variable (several for a structured binding), exprs[0] the range, then_body
    loop,        // any other loop: exprs what it evaluates each time, then_body
    block,       // then_body in a scope of its own: `{…}`, or what an `if` or `for` declares together with it
    other,       // anything else: exprs are its expressions, then_body its statements
  };
  Kind kind = Kind::other;
  std::vector<std::string> names;
  std::string type;  // of a declaration, as written
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

/// Calls `visit` for each expression, outermost first, in source order.
void for_each_expr(Expr& expr, const std::function<void(Expr&)>& visit);
void for_each_expr(Body& body, const std::function<void(Expr&)>& visit);
/// Calls `visit` for each statement, outermost first, in source order.
void for_each_stmt(Body& body, const std::function<void(Stmt&)>& visit);

/// The body as an indented tree, for tests and for people.
std::string to_text(const Body& body);

}  // namespace modgen
