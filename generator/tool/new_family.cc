#include "generator/tool/commands.h"

#include <clang/Basic/IdentifierTable.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <stdexcept>
#include <string_view>

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

/// Names that mean something else where code of a family is read: namespaces that it uses, and macros.
bool is_taken(std::string_view name) {
  static const std::set<std::string_view> names = {
      "std",    "torch", "at",     "c10",    "caffe2",   "nn",     "init",    "modular",   "flattened",
      "detail", "tp",    "fsdp",   "pp",     "dp",       "cache",  "routing", "sentences", "errno",
      "assert", "stdin", "stdout", "stderr", "offsetof", "setjmp", "signbit", "linux",     "unix"};
  return names.contains(name);
}

void check_names(const NewFamily& family, const std::string& prefix) {
  const auto is_lower = [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_'; };
  clang::IdentifierTable words(language_of_specs());
  if (family.name.empty() || !std::islower(static_cast<unsigned char>(family.name[0])) ||
      !std::ranges::all_of(family.name, is_lower) || words.get(family.name).getTokenID() != clang::tok::identifier)
    throw std::runtime_error(
        "'" + family.name +
        "' cannot be a family: the name has to be valid for a file and a namespace, as in my_llama");
  if (is_taken(family.name))
    throw std::runtime_error("'" + family.name +
                             "' cannot be a family: its code uses a namespace or macro of that name; take another, as "
                             "in my_" +
                             family.name);
  if (!std::isupper(static_cast<unsigned char>(prefix[0])) ||
      !std::ranges::all_of(prefix, [](unsigned char c) { return std::isalnum(c); }))
    throw std::runtime_error("'" + prefix +
                             "' cannot begin the names of classes: write the prefix in camel case, as in MyLlama");
}

/// A base family, and the renaming of its classes.
class Base {
 public:
  Base(const Output& base, std::string prefix)
      : model_(*base.model), outline_(*base.outline), family_(base.family), prefix_(std::move(prefix)) {}

  std::string renamed(const std::string& class_name) const { return prefix_ + class_name.substr(model_.prefix.size()); }

  /// The arguments of an entry's MODEL_ENTRY: its task, and its name in config.json if that differs.
  std::string entry_arguments(const Class& entry) const {
    const std::vector<std::string>& given = find_annotation(entry.annotations, AnnotationKind::entry)->arguments;
    std::string text = "\"" + given[0] + "\"";
    if (given.size() > 1) text += ", \"" + (given[1].starts_with(model_.prefix) ? renamed(given[1]) : given[1]) + "\"";
    return text;
  }

  /// Whether a member is named after the base family, such as `bert` in BertForMaskedLM: the new family's state dict
  /// uses its own name there.
  bool has_member_named_after_family() const {
    return std::ranges::any_of(model_.classes, [&](const Class& owner) {
      return !owner.is_config && std::ranges::count(owner.fields, family_, &Field::name) > 0;
    });
  }

  /// The base of a class of the new family: "llama::LlamaMLPImpl", or Its<…> for a class that the base only infers.
  std::string named(const Class& one) const {
    const ClassOutline* outline = make_outline(one);
    // The alias of a holder does not declare an Impl.
    const bool has_name = !outline || (outline->declared && (!outline->alias || one.holder.empty()));
    if (has_name || outline->bases.empty()) return family_ + "::" + one.name;
    return family_ + "::Its<" + outline->bases.front() + (one.holder.empty() ? "" : "Impl") + ">";
  }

  /// The injected class name by which C++ code refers to inherited members.
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

  /// The modules that are not entries and have methods to redefine.
  std::vector<const Class*> modules() const {
    std::vector<const Class*> found;
    for (const Class& one : model_.classes)
      if (!one.holder.empty() && !find_annotation(one.annotations, AnnotationKind::entry) && !methods(one).empty())
        found.push_back(&one);
    return found;
  }

  /// Whether another class of the family derives from it: a redefinition leaves that one without its base.
  bool is_base(const Class& one) const {
    const auto names = [&](const std::string& base) { return base.substr(base.rfind(':') + 1) == one.holder; };
    return std::ranges::any_of(outline_.classes, [&](const ClassOutline& other) {
      return other.name != one.holder && std::ranges::any_of(other.bases, names);
    });
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
      if (find_annotation(one.annotations, AnnotationKind::entry)) found.push_back(&one);
    return found;
  }

  /// A type with the new family's names.
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

/// `head` and `words`, wrapped at 118 columns. Lines begin with `indent`, continuation lines are indented further.
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

/// Comment lines with a class that only calls its base's method, and so changes nothing.
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
         example(base, **std::ranges::find_if_not(modules, [&](const Class* one) { return base.is_base(*one); }));
}

}  // namespace

std::string starting_spec(const NewFamily& family, const std::vector<Output>& bases) {
  const std::string prefix = family.prefix.empty() ? camel_case(family.name) : family.prefix;
  check_names(family, prefix);
  const Base first(bases.front(), prefix);
  std::string text = "// " + prefix + ": changes relative to " + first.model().prefix + ".\n#pragma once\n\n";
  std::vector<std::string> includes;
  for (const Output& base : bases) includes.push_back("#include \"modular/" + base.family + ".h\"\n");
  std::ranges::sort(includes);
  for (const std::string& include : includes) text += include;

  text += "\n// The entries below include all classes and functions. These are the modules:\n" + menu(first);
  if (const Class* config = first.config()) {
    std::vector<std::string> fields;
    for (const Field& field : config->fields) fields.push_back(field.name);
    text += wrapped("// ", "Config fields that can be redeclared with another default:", fields);
  }
  for (size_t index = 1; index < bases.size(); ++index) {
    // Classes of further bases keep their base's prefix until they are renamed.
    const Base other(bases[index], prefix + bases[index].model->prefix);
    text += "// and of " + other.model().prefix + ", with its prefix in their names:\n" + menu(other);
  }

  text += "\nnamespace modular::" + family.name + " {\nMODULAR_FAMILY(" + prefix;
  if (first.has_member_named_after_family())
    text += ", .members = {{\"" + bases.front().family + "\", \"" + family.name + "\"}}";
  text += ");\n\n";
  if (const Class* config = first.config()) {
    text +=
        "/// Fields of config.json that " + first.model().prefix + " lacks, or that have different defaults there.\n";
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
