#include "generator/tool/commands.h"

#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <functional>
#include <map>
#include <set>
#include <stdexcept>

#include "generator/weave/weave.h"

namespace modgen {

namespace {

using Json = llvm::json::OStream;

std::string json_text(const std::function<void(Json&)>& write) {
  std::string text;
  llvm::raw_string_ostream out(text);
  Json json(out, 2);
  json.object([&] { write(json); });
  out << "\n";
  return text;
}

void write_list(Json& json, llvm::StringRef key, const std::vector<std::string>& texts) {
  json.attributeArray(key, [&] {
    for (const std::string& text : texts) json.value(text);
  });
}

/// Quotes a text, as both dot and JSON read it.
std::string in_quotes(const std::string& text) {
  std::string result;
  llvm::raw_string_ostream(result) << llvm::json::Value(text);
  return result;
}

std::string joined(const std::vector<std::string>& texts, const char* separator) {
  std::string result;
  for (const std::string& text : texts) result.append(result.empty() ? "" : separator).append(text);
  return result;
}

const char* stage_color(const std::string& stage) {
  return stage == "first" ? "lightblue" : stage == "split" ? "khaki" : stage == "last" ? "lightsalmon" : "white";
}

// ---- deps -----------------------------------------------------------------------------------------------------------

void write_class(Json& json, const ClassOutline& outline) {
  json.attribute("name", outline.name);
  json.attribute("kind", outline.kind == ClassOutline::Kind::module ? "module" : "plain");
  json.attribute("declared", outline.declared);
  json.attribute("alias", outline.alias);
  json.attribute("file", outline.where.path);
  json.attribute("line", static_cast<int64_t>(outline.where.line));
  write_list(json, "bases", outline.bases);
  write_list(json, "uses", outline.uses);
}

void write_deps(Json& json, const Output& output) {
  const FamilyOutline& outline = *output.outline;
  json.attribute("prefix", outline.prefix);
  json.attribute("spec", outline.spec);
  json.attribute("generated", output.path);
  write_list(json, "includes", outline.includes);
  write_list(json, "reads", output.read);
  json.attributeArray("classes", [&] {
    for (const ClassOutline& one : outline.classes) json.object([&] { write_class(json, one); });
  });
}

/// Families as clusters of the classes that they declare, with arrows to base classes. Inferred classes are dashed, and
/// shown only if another class derives from them.
std::string deps_dot(const GenerateResult& result) {
  std::string clusters, arrows;
  std::set<std::string> declared, named;
  for (const Output& output : result.outputs) {
    clusters.append("  subgraph ").append(in_quotes("cluster_" + output.family)).append(" {\n    label=");
    clusters.append(in_quotes(output.family)).append(";\n");
    for (const ClassOutline& one : output.outline->classes) {
      if (!one.declared) continue;
      const std::string id = in_quotes(output.family + "::" + one.name);
      clusters.append("    ").append(id).append(" [label=").append(in_quotes(one.name));
      clusters.append(one.alias ? ", style=rounded" : "").append("];\n");
      declared.insert(id);
      if (one.bases.empty()) continue;
      named.insert(in_quotes(one.bases.front()));
      arrows.append("  ").append(id).append(" -> ").append(in_quotes(one.bases.front())).append(";\n");
    }
    clusters.append("  }\n");
  }
  for (const std::string& id : named)
    if (!declared.count(id)) clusters.append("  ").append(id).append(" [style=dashed];\n");
  return "digraph deps {\n  rankdir=RL;\n  node [shape=box];\n" + clusters + arrows + "}\n";
}

// ---- layout ---------------------------------------------------------------------------------------------------------

void write_parameter(Json& json, const ParameterLayout& layout) {
  json.attribute("name", layout.name);
  json.attribute("module", layout.module);
  json.attribute("type", layout.type);
  if (layout.shape)
    write_list(json, "shape", *layout.shape);
  else
    json.attribute("shape", nullptr);
  if (!layout.only_where.empty()) json.attribute("only_where", layout.only_where);
  json.attribute("fsdp_unit", layout.unit);
  if (layout.dim)
    json.attributeObject("tensor_split", [&] {
      json.attribute("dim", *layout.dim);
      if (!layout.parts.empty()) write_list(json, "parts", layout.parts);
    });
  else
    json.attribute("tensor_split", nullptr);
  if (layout.stage.empty())
    json.attribute("pipeline_stage", nullptr);
  else
    json.attribute("pipeline_stage", layout.stage);
  if (layout.tied_to.empty()) return;
  json.attributeObject("tied", [&] {
    json.attribute("to", layout.tied_to);
    json.attribute("flag", layout.flag);
  });
}

void write_layout(Json& json, const Output& output, const EntryPlan& plan) {
  json.attribute("family", output.family);
  json.attribute("task", plan.task);
  json.attribute("config", plan.config);
  json.attributeArray("parameters", [&] {
    for (const ParameterLayout& layout : get_layout(*output.model, plan))
      json.object([&] { write_parameter(json, layout); });
  });
}

/// FSDP units as clusters of their parameters, colored by pipeline stage; arrows are ties.
std::string layout_dot(const GenerateResult& result) {
  std::string text = "digraph layout {\n  rankdir=LR;\n  node [shape=box, style=filled, fillcolor=white];\n";
  for (const Output& output : result.outputs)
    for (const EntryPlan& plan : output.model->plans) {
      std::map<std::string, std::string> units;
      std::string ties;
      const auto id = [&](const std::string& parameter) { return in_quotes(plan.entry + "." + parameter); };
      for (const ParameterLayout& layout : get_layout(*output.model, plan)) {
        std::string label = layout.name + "\n[" + (layout.shape ? joined(*layout.shape, ", ") : "?") + "]";
        if (layout.dim) {
          label.append("\ntp: dimension ").append(std::to_string(*layout.dim));
          if (!layout.parts.empty()) label.append(" in parts ").append(joined(layout.parts, ", "));
        }
        units[layout.unit]
            .append("      ")
            .append(id(layout.name))
            .append(" [label=")
            .append(in_quotes(label))
            .append(", fillcolor=")
            .append(stage_color(layout.stage))
            .append("];\n");
        if (!layout.tied_to.empty())
          ties.append("    ")
              .append(id(layout.name))
              .append(" -> ")
              .append(id(layout.tied_to))
              .append(" [label=tied];\n");
      }
      text.append("  subgraph ").append(in_quotes("cluster_" + plan.entry)).append(" {\n    label=");
      text.append(in_quotes(plan.entry)).append(";\n");
      for (const auto& [unit, nodes] : units) {
        text.append("    subgraph ").append(in_quotes("cluster_" + plan.entry + "." + unit)).append(" {\n      label=");
        text.append(in_quotes(unit.empty() ? "root unit" : "unit " + unit))
            .append(";\n")
            .append(nodes)
            .append("    }\n");
      }
      text.append(ties).append("  }\n");
    }
  return text + "}\n";
}

std::string plans(const GenerateResult& result) {
  llvm::json::Object all;
  for (const Output& output : result.outputs) {
    auto plans = llvm::cantFail(llvm::json::parse(output.plan_json));
    for (auto& [entry, plan] : *plans.getAsObject()) all[entry] = std::move(plan);
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}", llvm::json::Value(std::move(all))) << "\n";
  return text;
}

}  // namespace

std::string describe(const GenerateResult& result, Emit what, EmitFormat format) {
  if (format == EmitFormat::dot) {
    if (what == Emit::plan) throw std::runtime_error("--emit plan has no form in dot: use --emit layout");
    return what == Emit::deps ? deps_dot(result) : layout_dot(result);
  }
  if (format == EmitFormat::text) {
    if (what != Emit::plan) throw std::runtime_error("--format text is supported only with --emit plan");
    std::string text;
    for (const Output& output : result.outputs) text += output.proof;
    return text;
  }
  // The plans of a single family keep the order of its generated file.
  if (what == Emit::plan) return result.outputs.size() == 1 ? result.outputs.front().plan_json : plans(result);
  return json_text([&](Json& json) {
    for (const Output& output : result.outputs) {
      if (what == Emit::deps) {
        json.attributeObject(output.family, [&] { write_deps(json, output); });
        continue;
      }
      for (const EntryPlan& plan : output.model->plans)
        json.attributeObject(plan.entry, [&] { write_layout(json, output, plan); });
    }
  });
}

namespace {

void write(llvm::json::OStream& json, const Diagnostic& diagnostic) {
  constexpr const char* kNames[] = {"error", "warning", "note"};
  const auto text = [](const std::string& bytes) { return llvm::json::fixUTF8(bytes); };
  json.attribute("severity", kNames[static_cast<int>(diagnostic.severity)]);
  json.attribute("file", text(diagnostic.where.path));
  json.attribute("line", diagnostic.where.line);
  json.attribute("column", diagnostic.where.column);
  json.attribute("source_line", text(diagnostic.where.source_line));
  json.attribute("message", text(diagnostic.message));
  json.attribute("advice", text(diagnostic.advice));
  json.attributeArray("notes", [&] {
    for (const Diagnostic& note : diagnostic.notes) json.object([&] { write(json, note); });
  });
  json.attributeArray("fix", [&] {
    for (const FixIt& fix : diagnostic.fix)
      json.object([&] {
        json.attribute("file", text(fix.path));
        json.attribute("begin", fix.begin);
        json.attribute("end", fix.end);
        json.attribute("text", text(fix.text));
      });
  });
}

}  // namespace

std::string to_json(const std::vector<Diagnostic>& diagnostics) {
  std::string result;
  llvm::raw_string_ostream out(result);
  llvm::json::OStream json(out, 2);
  json.array([&] {
    for (const Diagnostic& diagnostic : diagnostics) json.object([&] { write(json, diagnostic); });
  });
  out << "\n";
  out.flush();
  return result;
}

}  // namespace modgen
