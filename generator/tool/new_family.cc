#include "generator/tool/new_family.h"

#include <clang/Basic/IdentifierTable.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "generator/source/language.h"
#include "generator/source/names.h"
#include "generator/source/slices.h"
#include "generator/weave/module_tree.h"

namespace modgen {

namespace {

std::string camel_case(const std::string& snake) {
  std::string camel;
  for (size_t index = 0; index < snake.size(); ++index)
    if (snake[index] != '_')
      camel += index == 0 || snake[index - 1] == '_'
                   ? static_cast<char>(std::toupper(static_cast<unsigned char>(snake[index])))
                   : snake[index];
  return camel;
}

void check_names(const NewFamily& family, const std::string& prefix) {
  const auto is_lower = [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_'; };
  clang::IdentifierTable words(language_of_specs());
  if (family.name.empty() || !std::islower(static_cast<unsigned char>(family.name[0])) ||
      !std::ranges::all_of(family.name, is_lower) || words.get(family.name).getTokenID() != clang::tok::identifier)
    throw std::runtime_error("'" + family.name +
                             "' cannot be a family: its name is a file's and a namespace's, as in my_llama");
  if (!std::isupper(static_cast<unsigned char>(prefix[0])) ||
      !std::ranges::all_of(prefix, [](unsigned char c) { return std::isalnum(c); }))
    throw std::runtime_error("'" + prefix + "' cannot begin the names of classes: a prefix is written as in MyLlama");
}

/// One base, and what its names become.
class Base {
 public:
  Base(const Output& base, std::string prefix)
      : model_(*base.model), outline_(*base.outline), family_(base.family), prefix_(std::move(prefix)) {}

  std::string renamed(const std::string& class_name) const { return prefix_ + class_name.substr(model_.prefix.size()); }

  /// What MODEL_ENTRY says of an entry: its task, and the name that config.json has for it where that is another.
  std::string entry_arguments(const Class& entry) const {
    const std::vector<std::string>& given = find_annotation(entry.annotations, "entry")->arguments;
    std::string text = "\"" + given[0] + "\"";
    if (given.size() > 1) text += ", \"" + (given[1].starts_with(model_.prefix) ? renamed(given[1]) : given[1]) + "\"";
    return text;
  }

  /// Whether a member has the base family's name, as the encoder in BertForMaskedLM is called `bert`: the state dict of
  /// a new family has its own name there.
  bool has_member_of_its_name() const {
    return std::ranges::any_of(model_.classes, [&](const Class& one) {
      return !one.is_config && std::ranges::count(one.fields, family_, &Field::name) > 0;
    });
  }

  /// What a class of the new family derives from: "llama::LlamaMLPImpl"; what the base only infers is its Its<…>.
  std::string named(const Class& one) const {
    const ClassOutline* outline = make_outline(one);
    // The alias of a holder names no Impl.
    const bool has_name = !outline || (outline->declared && (!outline->alias || one.holder.empty()));
    if (has_name || outline->bases.empty()) return family_ + "::" + one.name;
    return family_ + "::Its<" + outline->bases.front() + (one.holder.empty() ? "" : "Impl") + ">";
  }

  /// The class name that inherited members are reached by in C++.
  std::string injected(const Class& one) const {
    const ClassOutline* outline = make_outline(one);
    if (!outline) return one.name;
    if (outline->declared && !outline->alias) return one.name;
    const std::string& origin = outline->bases.front();
    return origin.substr(origin.rfind(':') + 1) + (one.holder.empty() ? "" : "Impl");
  }

  const Class* config() const {
    for (const EntryPlan& plan : model_.plans)
      for (const Class& one : model_.classes)
        if (one.name == plan.config) return &one;
    const auto found = std::ranges::find_if(model_.classes, &Class::is_config);
    return found == model_.classes.end() ? nullptr : &*found;
  }

  /// The modules that are not entries, with the methods that one may redefine.
  std::vector<const Class*> modules() const {
    std::vector<const Class*> found;
    for (const Class& one : model_.classes)
      if (!one.holder.empty() && !find_annotation(one.annotations, "entry") && !methods(one).empty())
        found.push_back(&one);
    return found;
  }

  static std::vector<const Function*> methods(const Class& one) {
    std::vector<const Function*> found;
    for (const Function& function : one.functions)
      if (!function.is_constructor && function.name != "reset_parameters" && !function.name.starts_with("inherited_") &&
          function.name.find('~') == std::string::npos)
        found.push_back(&function);
    return found;
  }

  std::vector<const Class*> entries() const {
    std::vector<const Class*> found;
    for (const Class& one : model_.classes)
      if (find_annotation(one.annotations, "entry")) found.push_back(&one);
    return found;
  }

  /// A type as the new family calls it.
  std::string type(const std::string& text) const {
    Names from, to;
    from.prefix = model_.prefix;
    to.prefix = prefix_;
    from.snake = from.upper = from.model_type = to.snake = to.upper = to.model_type = "";
    std::string result;
    uint32_t copied = 0;
    for (const RawToken& token : raw_tokens(text, 0, static_cast<uint32_t>(text.size()))) {
      if (token.kind != RawToken::Kind::identifier) continue;
      const std::string word = text.substr(token.begin, token.end - token.begin);
      const bool is_own =
          std::ranges::any_of(model_.classes, [&](const Class& one) { return one.name == word || one.holder == word; });
      result.append(text, copied, token.begin - copied).append(is_own ? renamed(word) : word);
      copied = token.end;
    }
    return result.append(text, copied);
  }

  const FamilyModel& model() const { return model_; }

 private:
  const ClassOutline* make_outline(const Class& one) const {
    const std::string& name = one.holder.empty() ? one.name : one.holder;
    const auto found = std::ranges::find(outline_.classes, name, &ClassOutline::name);
    return found == outline_.classes.end() ? nullptr : &*found;
  }

  const FamilyModel& model_;
  const FamilyOutline& outline_;
  std::string family_, prefix_;
};

/// `words` after `head`, in lines of at most 118 columns that begin with `indent`, deeper from the second on.
std::string wrapped(const std::string& indent, const std::string& head, const std::vector<std::string>& words) {
  std::string text, line = indent + head;
  for (size_t index = 0; index < words.size(); ++index) {
    const std::string word = words[index] + (index + 1 < words.size() ? "," : "");
    if (line.size() + 1 + word.size() > 118) {
      text.append(line).append("\n");
      line = indent;
      line.append("    ").append(word);
    } else {
      line.append(" ").append(word);
    }
  }
  return text + line + "\n";
}

std::string get_parameters(const Function& method) {
  std::string text;
  for (const Parameter& parameter : method.parameters) text.append(text.empty() ? "" : ", ").append(parameter.name);
  return text;
}

/// A class that calls its base's method and so changes nothing, as comment lines.
std::string example(const Base& base, const Class& one) {
  const auto methods = Base::methods(one);
  const auto forward = std::ranges::find(methods, "forward", [](const Function* method) { return method->name; });
  const Function& method = forward == methods.end() ? *methods.front() : **forward;
  std::string signature;
  for (const Parameter& parameter : method.parameters)
    signature.append(signature.empty() ? "" : ", ")
        .append(base.type(parameter.type))
        .append(" ")
        .append(parameter.name);
  const std::string name = base.renamed(one.name), injected = base.injected(one);
  std::string text = "//   class " + name + " : public " + base.named(one) + " {\n//    public:\n";
  text.append("//     using ").append(injected).append("::").append(injected).append(";\n");
  text.append("//     ").append(base.type(method.return_type)).append(" ").append(method.name).append("(");
  text.append(signature).append(") {\n//       return ").append(injected).append("::").append(method.name);
  text.append("(").append(get_parameters(method)).append(");\n//     }\n//   };\n//   TORCH_MODULE(");
  return text + base.renamed(one.holder) + ");\n";
}

std::string menu(const Base& base) {
  const std::vector<const Class*> modules = base.modules();
  if (modules.empty()) return "";
  std::string text;
  for (const Class* one : modules) {
    std::vector<std::string> methods;
    for (const Function* method : Base::methods(*one))
      methods.push_back(method->name + "(" + get_parameters(*method) + ")");
    text += wrapped("//   ", base.renamed(one->holder) + ":", methods);
  }
  return text + "// The smallest redefinition of one of them, for the namespace below, changes nothing yet:\n" +
         example(base, *modules.front());
}

}  // namespace

std::string starting_spec(const NewFamily& family, const std::vector<Output>& bases) {
  const std::string prefix = family.prefix.empty() ? camel_case(family.name) : family.prefix;
  check_names(family, prefix);
  const Base first(bases.front(), prefix);
  std::string text =
      "// " + prefix + ": what it has that " + first.model().prefix + " does not have.\n#pragma once\n\n";
  std::vector<std::string> includes;
  for (const Output& base : bases) includes.push_back("#include \"modular/" + base.family + ".h\"\n");
  std::ranges::sort(includes);
  for (const std::string& include : includes) text += include;

  text += "\n// All classes and functions come along with the entries below. These are the modules:\n" + menu(first);
  if (const Class* config = first.config()) {
    std::vector<std::string> fields;
    for (const Field& field : config->fields) fields.push_back(field.name);
    text += wrapped("// ", "Fields of the config that one may redeclare, with another default:", fields);
  }
  for (size_t index = 1; index < bases.size(); ++index) {
    // Another base's classes are distinguished by its prefix, until they are given a better one.
    const Base other(bases[index], prefix + bases[index].model->prefix);
    text += "// and of " + other.model().prefix + ", whose prefix here says what they are for:\n" + menu(other);
  }

  text += "\nnamespace modular::" + family.name + " {\nMODULAR_FAMILY(" + prefix;
  if (first.has_member_of_its_name())
    text += ", .members = {{\"" + bases.front().family + "\", \"" + family.name + "\"}}";
  text += ");\n\n";
  if (const Class* config = first.config()) {
    text += "/// Fields of config.json that " + first.model().prefix +
            " does not have, or for which it has other defaults.\n";
    text += "struct " + first.renamed(config->name) + " : " + first.named(*config) + " {};\n\n";
  }
  for (const Class* entry : first.entries()) {
    text += "using " + first.renamed(entry->holder) + " MODEL_ENTRY(" + first.entry_arguments(*entry) + ") = ";
    text += bases.front().family + "::" + entry->holder + ";\n";
  }
  if (first.entries().empty())
    for (const Class* one : first.modules())
      text += "using " + first.renamed(one->name) + " = " + first.named(*one) + ";\n";
  return text + "}  // namespace modular::" + family.name + "\n";
}

}  // namespace modgen
