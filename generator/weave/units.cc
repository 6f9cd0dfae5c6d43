#include "generator/weave/units.h"

#include <algorithm>

#include "generator/weave/module_tree.h"

namespace modgen {
namespace {

constexpr const char* kWrapped = "forward_unit";

/// Why the runtime cannot run `forward` repeatedly with copies of its arguments, and the fix; both empty if it can.
std::pair<std::string, std::string> find_problem(const Class& owner, const Function& forward) {
  const std::string plain = "write it as Tensor forward(const Tensor& x, …)";
  if (forward.is_template) return {"is a template", plain};
  if (forward.is_static) return {"is static", plain};
  if (forward.is_const) return {"is const", "drop the const: the runtime fills and frees its parameters"};
  if (forward.deduces_result) {
    const std::string type(unqualified(forward.result));
    return {"does not say which type it returns", "write " + type + " for auto"};
  }
  if (forward.result == "void")
    return {"returns nothing", "return the result: the runtime keeps copies of the arguments"};
  if (forward.is_reference_qualified) return {"has a & or && after its parameters", "drop it"};
  constexpr const char* kShow =
      "add template <class Visitor> void tensors(Visitor&& visit) to the struct, which calls visit "
      "for each of its tensors; or pass the tensors directly";
  if (forward.result_hides_tensors)
    return {"returns a " + forward.return_type + ", in which the runtime does not find the tensors", kShow};
  for (const Parameter& parameter : forward.parameters)
    if (parameter.hides_tensors)
      return {"takes a " + parameter.type + ", in which the runtime does not find the tensors", kShow};
  for (const Parameter& parameter : forward.parameters)
    if (parameter.binding == Binding::reference)
      return {"may change its parameter " + parameter.name + ": the runtime holds copies and runs it again",
              "take it by const reference, and return the result"};
  for (const Function& other : owner.functions)
    if (other.name == kWrapped)
      return {std::string("would be called ") + kWrapped + ", as another method is", "give that one another name"};
  return {};
}

/// The parameter list as written, with a name for every parameter, and the names.
std::pair<std::string, std::vector<std::string>> named_parameters(const FamilyModel& family, const Function& forward) {
  std::string text;
  std::vector<std::string> names;
  uint32_t at = forward.parameter_list.begin;
  for (const Parameter& parameter : forward.parameters) {
    std::string name = parameter.name;
    if (name.empty()) {
      name = "argument" + std::to_string(names.size() + 1);
      const auto is_taken = [&](const Parameter& other) { return other.name == name; };
      while (std::ranges::any_of(forward.parameters, is_taken)) name += "_";
      text.append(family.text, at, parameter.name_at - at).append(" ").append(name);
      at = parameter.name_at;
    }
    names.push_back(std::move(name));
  }
  text.append(family.text, at, forward.body.span.begin - at);
  return {std::move(text), std::move(names)};
}

}  // namespace

void check_units(const FamilyModel& family, std::vector<Finding>& findings) {
  for (const Class& owner : family.classes) {
    if (!find_annotation(owner.annotations, AnnotationKind::fsdp_unit)) continue;
    const Function* forward = nullptr;
    for (const Function& function : owner.functions) {
      if (function.is_constructor || function.name != "forward") continue;
      if (forward)
        findings.push_back({true,
                            function.where,
                            "an FSDP_UNIT class with two methods named forward",
                            "keep one, and rename the other",
                            {{false, forward->where, "the first one is here", "", {}}}});
      forward = &function;
      const auto [why, advice] = find_problem(owner, function);
      if (!why.empty())
        findings.push_back({true, function.where, "the forward of an FSDP_UNIT class " + why, advice, {}});
    }
    if (!forward)
      findings.push_back({true,
                          owner.where,
                          "FSDP_UNIT marks " + owner.name + ", which has no forward",
                          "mark the class whose forward runs the layers",
                          {}});
  }
}

std::string unit_wrapper(const FamilyModel& family, const Class& owner, const Function& forward) {
  const auto [parameters, names] = named_parameters(family, forward);
  std::string arguments;
  for (const std::string& name : names) arguments += ", " + name;
  const std::string result = forward.has_trailing_result ? "auto" : forward.return_type;
  return result + " forward" + parameters + "{\nreturn fsdp::unit(*this, &" + owner.name + "::" + kWrapped + arguments +
         ");\n}";
}

}  // namespace modgen
