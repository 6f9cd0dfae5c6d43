// Values and operations for tests of the shard-type rules.
#pragma once

#include <gtest/gtest.h>

#include "generator/weave/shard_types.h"

namespace modgen {

inline Value literal(int64_t number) { return Value::number(literal_count(number)); }

inline Value list(std::vector<Value> elements) {
  Value value;
  value.kind = Value::Kind::tuple;
  value.elements = std::move(elements);
  return value;
}

/// An operation on expressions that match the values.
struct OnValues {
  OnValues(std::string name, std::vector<Value> values) {
    expr.type = "at::Tensor";
    expr.operands.resize(values.size());
    op.name = std::move(name);
    op.expr = &expr;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].kind == Value::Kind::tuple) {
        expr.operands[i].kind = Expr::Kind::list;
        expr.operands[i].operands.resize(values[i].elements.size());
      }
      op.operands.push_back(&expr.operands[i]);
    }
    op.values = std::move(values);
  }
  OnValues(const OnValues&) = delete;

  bool rejected() const { return !op.message.empty(); }

  Expr expr;
  Operation op;
  Value result;
};

}  // namespace modgen
