#include "generator/print/print_plan.h"

#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "generator/source/names.h"
#include "generator/weave/weave.h"

namespace modgen {
namespace {

/// Converts "LlamaForCausalLM" to "llama_for_causal_lm", with the family's own spelling: "vit", not "vi_t".
std::string entry_name(const FamilyModel& family, const std::string& entry) {
  std::string letters;
  for (const char c : family.name)
    if (c != '_') letters += c;
  const bool is_prefix = entry.starts_with(family.prefix) && letters.size() == family.prefix.size() &&
                         std::equal(letters.begin(), letters.end(), family.prefix.begin(), [](char name, char prefix) {
                           return name == std::tolower(static_cast<unsigned char>(prefix));
                         });
  return is_prefix ? family.name + "_" + snake_case(entry.substr(family.prefix.size())) : snake_case(entry);
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

/// `.name = {a, b},`, with one element per line if there are several and they are lists. Empty for no elements.
std::string member(const std::string& name, const std::vector<std::string>& elements) {
  if (elements.empty()) return {};
  std::string text = "    ." + name;
  if (elements.size() > 1 && elements[0].starts_with("{")) {
    text += " =\n        {\n";
    for (const std::string& element : elements) text.append("            ").append(element).append(",\n");
    return text + "        },\n";
  }
  text += " = {";
  for (size_t i = 0; i < elements.size(); ++i) text.append(i ? ", " : "").append(elements[i]);
  return text + "},\n";
}

template <class List, class Text>
std::vector<std::string> each(const List& list, Text&& text) {
  std::vector<std::string> result;
  for (const auto& element : list) result.push_back(text(element));
  return result;
}

void write_names(llvm::json::OStream& json, llvm::StringRef key, const std::vector<std::string>& names) {
  json.attributeArray(key, [&] {
    for (const std::string& name : names) json.value(name);
  });
}

/// Writes the owner of a parameter on each mesh axis.
void write_parameter(llvm::json::OStream& json, const ParameterLayout& layout) {
  json.attribute("name", layout.name);
  if (layout.shape) write_names(json, "shape", *layout.shape);
  json.attribute("unit", layout.unit);
  if (!layout.stage.empty()) json.attribute("stage", layout.stage);
  json.attribute("layout", layout.dim ? "split" : "full");
  if (layout.dim) json.attribute("dim", *layout.dim);
  if (!layout.parts.empty()) write_names(json, "parts", layout.parts);
  if (!layout.tied_to.empty()) json.attribute("tied_to", layout.tied_to);
}

void write_proof(llvm::json::OStream& json, const EntryPlan::Proof& proof) {
  json.attributeObject("by_rule", [&] {
    for (const auto& [operation, count] : proof.by_rule) json.attribute(operation, count);
  });
  json.attribute("alike", proof.alike);
  json.attributeArray("trusted", [&] {
    for (const EntryPlan::Trust& trust : proof.trusted)
      json.object([&] {
        json.attribute("operation", trust.operation);
        json.attribute("where", trust.location);
        json.attribute("assumption", trust.assumption);
      });
  });
}

void write_plan(llvm::json::OStream& json, const FamilyModel& family, const EntryPlan& plan) {
  json.attribute("task", plan.task);
  json.attribute("config", plan.config);
  write_names(json, "units", plan.units);
  json.attributeArray("tensor_splits", [&] {
    for (const EntryPlan::Split& split : plan.tensor_splits)
      json.object([&] {
        json.attribute("parameter", split.parameter);
        json.attribute("dim", split.dim);
        if (!split.parts.empty()) write_names(json, "parts", split.parts);
      });
  });
  json.attributeArray("ties", [&] {
    for (const EntryPlan::Tie& tie : plan.ties)
      json.object([&] {
        json.attribute("parameter", tie.parameter);
        json.attribute("source", tie.source);
        json.attribute("flag", tie.flag);
      });
  });
  json.attributeArray("stacks", [&] {
    for (const EntryPlan::Stack& stack : plan.stacks)
      json.object([&] {
        json.attribute("split_list", stack.split_list);
        write_names(json, "first", stack.first);
        write_names(json, "last", stack.last);
      });
  });
  write_names(json, "everywhere", plan.everywhere);
  json.attributeArray("divides", [&] {
    for (const EntryPlan::Divides& divides : plan.divides)
      json.object([&] {
        json.attribute("field", divides.field);
        json.attribute("axis", divides.axis);
        if (!divides.otherwise.empty()) json.attribute("otherwise", divides.otherwise);
      });
  });
  json.attributeArray("experts", [&] {
    for (const EntryPlan::Experts& experts : plan.experts)
      json.object([&] {
        json.attribute("parameter", experts.parameter);
        json.attribute("chosen", experts.chosen);
      });
  });
  write_names(json, "rates", plan.rates);
  write_names(json, "tables", plan.tables);
  write_names(json, "sequence", plan.sequence);
  write_names(json, "partial_in_sequence", plan.partial_in_sequence);
  if (plan.uncached) json.attribute("uncached", true);
  if (!plan.context_error.empty()) json.attribute("context_error", plan.context_error);
  if (plan.full_loss) json.attribute("full_loss", true);
  json.attributeArray("stage_cuts", [&] {
    for (const EntryPlan::StageCut& cut : plan.cuts)
      json.object([&] {
        json.attribute("list", cut.list);
        json.attribute("carried", cut.carried);
        write_names(json, "shape", cut.shape);
      });
  });
  json.attributeArray("parameters", [&] {
    for (const ParameterLayout& layout : get_layout(family, plan)) json.object([&] { write_parameter(json, layout); });
  });
  json.attributeObject("proof", [&] { write_proof(json, plan.proof); });
}

std::string plan_name(const FamilyModel& family, const EntryPlan& plan) {
  return entry_name(family, plan.entry) + "_plan";
}

bool is_entry(const FamilyModel& family, const EntryPlan& plan) {
  return std::ranges::any_of(family.plans, [&](const EntryPlan& entry) { return &entry == &plan; });
}

std::string comment(const EntryPlan& plan) { return "// The parallel plan of " + plan.entry + ".\n"; }

std::string stack_members(const EntryPlan::Stack& stack) {
  return (stack.split_list.empty() ? "" : "    .split_list = " + quoted(stack.split_list) + ",\n") +
         member("first", each(stack.first, quoted)) + member("last", each(stack.last, quoted));
}

/// The initializers of a Plan's members that are not empty, a line each; elements of lists of rows have their own
/// lines.
std::string members(const FamilyModel& family, const EntryPlan& plan) {
  std::string text = member("units", each(plan.units, quoted));
  text += member("tensor_splits", each(plan.tensor_splits, [](const EntryPlan::Split& split) {
                   std::string text = "{" + quoted(split.parameter) + ", " + std::to_string(split.dim);
                   for (size_t i = 0; i < split.parts.size(); ++i)
                     text += (i == 0 ? ", {" : ", ") + quoted(split.parts[i]);
                   return text + (split.parts.empty() ? "}" : "}}");
                 }));
  text += member("ties", each(plan.ties, [](const EntryPlan::Tie& tie) {
                   return "{" + quoted(tie.parameter) + ", " + quoted(tie.source) + ", " + quoted(tie.flag) + "}";
                 }));
  if (!plan.stacks.empty()) text += stack_members(plan.stacks.back());
  if (plan.stacks.size() > 1) text += "    .first_stack = " + entry_name(family, plan.entry) + "_first_stack,\n";
  text += member("everywhere", each(plan.everywhere, quoted));
  text += member("divides", each(plan.divides, [](const EntryPlan::Divides& divides) {
                   return "{" + quoted(divides.field) + ", " + quoted(divides.axis) +
                          (divides.otherwise.empty() ? "" : ", Divides::" + divides.otherwise) + "}";
                 }));
  text += member("experts", each(plan.experts, [](const EntryPlan::Experts& experts) {
                   return "{" + quoted(experts.parameter) + ", " + quoted(experts.chosen) + "}";
                 }));
  text += member("rates", each(plan.rates, quoted));
  text += member("tables", each(plan.tables, quoted));
  text += member("sequence", each(plan.sequence, quoted));
  text += member("partial_in_sequence", each(plan.partial_in_sequence, quoted));
  if (plan.uncached) text += "    .uncached = true,\n";
  if (!plan.context_error.empty()) text += "    .context_error = " + quoted(plan.context_error) + ",\n";
  if (plan.full_loss) text += "    .full_loss = true,\n";
  return text;
}

/// The plan as a table of all its rows.
std::string definition(const FamilyModel& family, const EntryPlan& plan) {
  std::string text;
  if (plan.stacks.size() > 1)
    text = "// The stack of " + plan.entry + " that runs first.\ninline const Stack " + entry_name(family, plan.entry) +
           "_first_stack = {\n" + stack_members(plan.stacks.front()) + "};\n\n";
  const std::string rows = members(family, plan);
  return text + comment(plan) + "inline const Plan " + plan_name(family, plan) + " = {" +
         (rows.empty() ? rows : "\n" + rows) + "};\n\n";
}

}  // namespace

std::vector<PlanSource> plan_sources(const FamilyModel& family) {
  std::vector<PlanSource> sources;
  const std::vector<PlanStatement> statements = state_plans(family);
  std::set<const EntryPlan*> stated;
  for (size_t i = 0; i < family.plans.size(); ++i) {
    const EntryPlan& plan = family.plans[i];
    const PlanStatement& statement = statements[i];
    PlanSource& source = sources.emplace_back();
    std::string name = plan_name(family, plan);
    if (!statement.base) {
      source.table = definition(family, plan);
    } else {
      // The table of an earlier entry has been printed with that entry.
      const bool is_stated = !stated.insert(statement.base).second || is_entry(family, *statement.base);
      if (!is_stated) source.table = definition(family, *statement.base);
      const std::string rows = members(family, statement.rows);
      const std::string base = plan_name(family, *statement.base);
      if (statement.path.empty() && rows.empty()) {
        name = base;
      } else {
        source.registration = comment(plan) + "inline const Plan " + name + " = " + base;
        if (!statement.path.empty()) source.registration += ".under(" + quoted(statement.path) + ")";
        // clang-format puts each member on a line of its own if a comma follows the last.
        const bool is_one = std::count(rows.begin(), rows.end(), '\n') == 1;
        if (!rows.empty())
          source.registration += ".with({\n" + (is_one ? rows.substr(0, rows.size() - 2) : rows) + "})";
        source.registration += ";\n\n";
      }
    }
    source.registration += "inline const bool " + entry_name(family, plan.entry) + "_registered = register_entry<" +
                           plan.entry + ", " + plan.config + ">(" + quoted(family.name) + ", " +
                           quoted(plan.architecture) + ", " + quoted(plan.task) + ", " + quoted(family.model_type) +
                           ", " + name + ");\n";
  }
  return sources;
}

std::string plan_json(const FamilyModel& family) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::json::OStream json(out, 2);
  json.object([&] {
    for (const EntryPlan& plan : family.plans)
      json.attributeObject(plan.entry, [&] { write_plan(json, family, plan); });
  });
  out << "\n";
  out.flush();
  return text;
}

std::string proof_text(const FamilyModel& family) {
  std::string text;
  for (const EntryPlan& plan : family.plans) {
    int64_t by_rule = 0;
    for (const auto& [operation, count] : plan.proof.by_rule) by_rule += count;
    text.append(family.name).append(": ").append(plan.entry).append(": ");
    text.append(std::to_string(by_rule)).append(" operations proven by a rule, ");
    text.append(std::to_string(plan.proof.alike)).append(" on values that are the same on all ranks, ");
    text.append(std::to_string(plan.proof.trusted.size())).append(" assumed\n");
    for (const EntryPlan::Trust& trust : plan.proof.trusted)
      text.append("  ")
          .append(trust.location)
          .append(": ")
          .append(trust.operation)
          .append(": ")
          .append(trust.assumption)
          .append("\n");
    for (const EntryPlan::Trust& obstacle : plan.proof.obstacles)
      text.append("  ")
          .append(obstacle.location)
          .append(": no ")
          .append(obstacle.operation)
          .append(": ")
          .append(obstacle.assumption)
          .append("\n");
  }
  return text;
}

}  // namespace modgen
