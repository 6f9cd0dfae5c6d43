#include "tests/contract/shard_rows.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <stdexcept>

#include "generator/weave/rules/rules.h"

namespace contract {
namespace {

using modgen::Call;
using modgen::Expr;
using modgen::Operation;
using modgen::ShardType;
using modgen::Value;

/// A value to try for a parameter, and its name on the page.
struct Candidate {
  Value value;
  std::string name;
};

/// Dimension names of an operand. "..." in "x [..., hidden]" becomes two dimensions: rules must not depend on the
/// number.
std::vector<std::string> dimensions(const Operand& operand) {
  std::vector<std::string> names;
  for (const std::string& name : operand.shape) {
    if (name == "...") names.push_back("…");
    names.push_back(name == "..." ? "…" : name);
  }
  return names;
}

const Operand* operand_named(const Declaration& function, const std::string& name) {
  for (const Operand& operand : function.operands)
    if (std::find(operand.names.begin(), operand.names.end(), name) != operand.names.end()) return &operand;
  return nullptr;
}

bool is_tensor_parameter(const Parameter& parameter) { return parameter.type == "const Tensor &"; }

/// Candidate values of a parameter: full, partial, or split along each dimension, as one or, if `in_parts`, within two
/// equal parts.
std::vector<Candidate> candidates(const Declaration& function, const Parameter& parameter, bool in_parts) {
  if (!is_tensor_parameter(parameter)) {
    if (parameter.type == "const Batch &") return {{modgen::make_invariant("modular::Batch", false), ""}};
    if (parameter.type == "const AttentionMask &")
      return {{modgen::make_invariant("modular::AttentionMask", false), ""}};
    std::vector<Candidate> numbers = {{Value::number(), ""}};
    if (parameter.type == "int64_t") numbers.push_back({Value::number(/*local=*/true), "TP_LOCAL"});
    return numbers;
  }
  const Operand* operand = operand_named(function, parameter.name);
  if (!operand || !operand->has_shape)
    throw std::runtime_error(function.header + ":" + std::to_string(function.line) + ": the comment of " +
                             function.name + " gives no shape of " + parameter.name + ": write a line \"/// - " +
                             parameter.name + " [batch, …]\"");
  const std::vector<std::string> names = dimensions(*operand);
  const auto rank = static_cast<int64_t>(names.size());
  const auto says = [&](const char* words) { return operand->text.find(words) != std::string::npos; };
  const bool gradient = !says("int64") && !says("bool") && !says("without a gradient");
  const auto make = [&](ShardType type) {
    Value value = Value::tensor(type, gradient, rank);
    for (int64_t dim = 0; dim < rank; ++dim)
      if (names[dim] == "1") value.ones.push_back(dim - rank);
    return value;
  };
  std::vector<Candidate> all = {{make(modgen::kInvariant), "I"}, {make(modgen::kPartial), "P"}};
  if (says("undefined")) all.push_back({Value(), "undefined"});
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (names[dim] == "1") continue;
    all.push_back({make(modgen::sharded(dim)), "S(" + names[dim] + ")"});
    if (in_parts && names[dim] != "…")
      all.push_back({make(modgen::sharded(dim, {"n", "n"})), "S(" + names[dim] + ") in parts"});
  }
  return all;
}

std::string type_text(const Value& value, const std::vector<std::string>& names) {
  if (value.kind == Value::Kind::tuple) {
    std::string all;
    for (const Value& element : value.elements) all += (all.empty() ? "" : ", ") + type_text(element, names);
    return all;
  }
  if (value.kind == Value::Kind::object) return "I";
  if (value.kind == Value::Kind::number) return value.count.is_share ? "a tp-local count" : "a number";
  const ShardType& type = value.type;
  if (type.kind == ShardType::Kind::invariant) return "I";
  if (type.kind == ShardType::Kind::replicated) return "R";
  if (type.kind == ShardType::Kind::partial) return "P";
  const auto dim = static_cast<size_t>(type.dim);
  const std::string where = dim < names.size() ? names[dim] : std::to_string(type.dim);
  return "S(" + where + ")" + (type.parts.empty() ? "" : " in parts");
}

/// Text for the call that modgen writes around the operation or instead of it.
std::string woven(Call call) {
  switch (call) {
    case Call::none:
      return "";
    case Call::sum:
      return ", by `tp::exit` around the call";
    case Call::exit:
      return ", by `tp::exit`";
    case Call::embedding:
      return ", by `tp::embedding`";
    case Call::cross_entropy:
      return ", by `tp::cross_entropy`";
    case Call::cross_entropy_outputs:
      return ", by `tp::cross_entropy_outputs`";
    case Call::sampled_cross_entropy:
      return ", by `tp::sampled_cross_entropy`";
    case Call::layer_norm:
      return ", by `tp::layer_norm`";
    case Call::dropout:
      return ", by `tp::dropout`";
    case Call::attention:
      return ", by `tp::attention`";
    case Call::rms_norm:
      return ", by `tp::rms_norm`";
    case Call::alibi_slopes:
      return ", by `tp::alibi_slopes`";
    default:
      throw std::runtime_error("a rule inserts a call that the page cannot describe");
  }
}

/// One combination of operands that a rule accepts: the alternatives for each operand, and the result.
using Row = std::pair<std::vector<std::vector<std::string>>, std::string>;

/// Applies the rule to `operands`; empty if it rejects them.
std::optional<Row> apply(const std::string& name, const std::vector<Candidate>& operands, const char* cpp_type,
                         const std::vector<std::string>& result_names) {
  Expr expr;
  expr.type = cpp_type;
  expr.operands.resize(operands.size());
  Operation op;
  op.name = name;
  op.expr = &expr;
  for (size_t i = 0; i < operands.size(); ++i) {
    op.operands.push_back(&expr.operands[i]);
    op.values.push_back(operands[i].value);
  }
  const Value result = modgen::apply_rule(op, modgen::find_rule(name));
  if (!op.message.empty()) return std::nullopt;
  Row row;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool entered = std::find(op.entered.begin(), op.entered.end(), i) != op.entered.end();
    row.first.push_back({operands[i].name + (entered ? ", entered" : "")});
  }
  row.second = type_text(result, result_names) + woven(op.call);
  return row;
}

/// The rows of all combinations of operands that the rule accepts.
std::vector<Row> make_rows(const std::string& name, const std::vector<std::vector<Candidate>>& choices,
                           const char* cpp_type, const std::vector<std::string>& result_names) {
  std::vector<Row> rows;
  std::vector<size_t> chosen(choices.size(), 0);
  for (bool more = true; more;) {
    std::vector<Candidate> operands;
    for (size_t i = 0; i < choices.size(); ++i) operands.push_back(choices[i][chosen[i]]);
    if (auto row = apply(name, operands, cpp_type, result_names);
        row && std::find(rows.begin(), rows.end(), *row) == rows.end())
      rows.push_back(std::move(*row));
    more = false;
    for (size_t i = choices.size(); i-- > 0 && !more;) {
      more = ++chosen[i] < choices[i].size();
      if (!more) chosen[i] = 0;
    }
  }
  return rows;
}

/// Merges rows that differ in a single operand, until there are none.
void merge(std::vector<Row>& rows) {
  for (bool again = true; again;) {
    again = false;
    for (size_t row = 0; row < rows.size() && !again; ++row) {
      for (size_t other = row + 1; other < rows.size() && !again; ++other) {
        if (rows[row].second != rows[other].second) continue;
        std::vector<size_t> differing;
        for (size_t i = 0; i < rows[row].first.size(); ++i)
          if (rows[row].first[i] != rows[other].first[i]) differing.push_back(i);
        if (differing.size() != 1) continue;
        auto& into = rows[row].first[differing[0]];
        for (const std::string& more : rows[other].first[differing[0]])
          if (std::find(into.begin(), into.end(), more) == into.end()) into.push_back(more);
        rows.erase(rows.begin() + static_cast<ptrdiff_t>(other));
        again = true;
      }
    }
  }
}

/// A table of the rows, with a column for each operand that any row constrains.
std::string table(const std::vector<std::string>& names, std::vector<Row> rows) {
  merge(rows);
  std::vector<size_t> columns;
  for (size_t i = 0; i < names.size(); ++i)
    if (std::any_of(rows.begin(), rows.end(),
                    [&](const Row& row) { return row.first[i] != std::vector{std::string()}; }))
      columns.push_back(i);
  std::string text = "|", line = "|";
  for (const size_t i : columns) text += " `" + names[i] + "` |", line += "---|";
  text += " result |\n" + line + "---|\n";
  for (const Row& row : rows) {
    text += "|";
    for (const size_t i : columns) {
      std::string any;
      for (const std::string& name : row.first[i])
        any += (any.empty() ? "" : " or ") + (name.empty() ? std::string("a number") : name);
      text += " " + any + " |";
    }
    text += " " + row.second + " |\n";
  }
  return text;
}

/// The layer's name for a rule: "TP_SHARD embedding" for "tp_shard embedding", "LayerNorm" for "LayerNorm layer".
std::string layer_name(const std::string& rule) {
  if (!rule.starts_with("tp_")) return rule.substr(0, rule.rfind(" layer"));
  const size_t end = std::min(rule.find(' '), rule.size());
  std::string name = rule;
  std::transform(name.begin(), name.begin() + static_cast<ptrdiff_t>(end), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return end == rule.size() ? name + " linear" : name;
}

}  // namespace

std::string shard_table(const Declaration& function) {
  if (std::none_of(function.parameters.begin(), function.parameters.end(), is_tensor_parameter)) return "";
  // Every tensor has candidates, even if no rule reads it.
  std::vector<std::vector<Candidate>> choices, in_parts;
  size_t count = 1;
  for (const Parameter& parameter : function.parameters) {
    choices.push_back(candidates(function, parameter, /*in_parts=*/false));
    in_parts.push_back(candidates(function, parameter, /*in_parts=*/true));
    count *= in_parts.back().size();
  }
  if (!modgen::find_rule(function.name)) return "";
  const bool is_mask = function.signature.starts_with("AttentionMask"),
             is_outputs = function.signature.starts_with("Outputs");
  const Operand* returned = operand_named(function, "returns");
  if (!is_mask && !is_outputs && (!returned || !returned->has_shape))
    throw std::runtime_error(function.header + ":" + std::to_string(function.line) + ": the comment of " +
                             function.name +
                             " gives no shape of its result: write a line \"/// - returns [batch, …]\"");
  const char* type = is_mask                                          ? "modular::AttentionMask"
                     : is_outputs                                     ? "modular::Outputs"
                     : function.signature.starts_with("RotaryTables") ? "std::pair<at::Tensor, at::Tensor>"
                                                                      : "at::Tensor";
  constexpr size_t kMost = 20'000;  // with six operands, parts would give hundreds of thousands of combinations
  std::vector<std::string> names;
  for (const Parameter& parameter : function.parameters) names.push_back(parameter.name);
  return table(names, make_rows(function.name, count <= kMost ? in_parts : choices, type,
                                is_mask || is_outputs ? std::vector<std::string>() : dimensions(*returned)));
}

std::string layer_table() {
  std::vector<Row> rows;
  for (const auto& [key, rule] : modgen::layer_rules()) {
    const std::string name(key);
    if (name == "embedding") continue;  // libtorch's function
    const bool reads_ids = name.ends_with("embedding") || name == "embedding layer";
    const std::vector<std::string> dims =
        reads_ids ? std::vector<std::string>{"batch", "seq"} : std::vector<std::string>{"batch", "seq", "features"};
    Value layer;
    if (name == "tp_shard embedding") layer.type = modgen::sharded(1);
    const auto rank = static_cast<int64_t>(dims.size());
    std::vector<Candidate> values = {{Value::tensor(modgen::kInvariant, !reads_ids, rank), "I"},
                                     {Value::tensor(modgen::kPartial, !reads_ids, rank), "P"}};
    for (int64_t dim = 0; dim < rank; ++dim)
      values.push_back({Value::tensor(modgen::sharded(dim), !reads_ids, rank), "S(" + dims[dim] + ")"});
    for (Row& row : make_rows(name, {{{layer, layer_name(name)}}, values}, "at::Tensor", {"batch", "seq", "features"}))
      rows.push_back(std::move(row));
  }
  return table({"layer", "x"}, std::move(rows));
}

std::string other_rules(const Contract& contract) {
  std::set<std::string> own;
  for (const Declaration& declaration : contract.declarations) own.insert(declaration.name);
  std::map<std::string, std::set<std::string>> kinds;
  for (const modgen::RuleTable* table :
       {&modgen::arithmetic_rules(), &modgen::shape_rules(), &modgen::cutting_rules(), &modgen::matmul_rules(),
        &modgen::function_rules(), &modgen::state_space_rules()})
    for (const auto& [key, rule] : *table) {
      const std::string name(key);
      if (own.contains(name)) continue;
      if (name.starts_with("."))
        kinds["Methods of tensors"].insert(name.substr(1));
      else if (name.starts_with("op "))
        kinds["Operators"].insert(name.substr(3));
      else
        kinds["Functions"].insert(name);
    }
  std::string text;
  for (const auto& [kind, names] : kinds) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "`" : ", `") + name + "`";
    text += "- " + kind + ": " + list + "\n";
  }
  return text;
}

}  // namespace contract
