#include "generator/parse/project_files.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "generator/source/slices.h"

namespace modgen {
namespace {

constexpr std::string_view kImpl = "Impl";

bool is_impl(std::string_view name) { return name.size() > kImpl.size() && name.ends_with(kImpl); }

std::string to_holder(std::string_view impl) { return std::string(impl.substr(0, impl.size() - kImpl.size())); }

/// The last token of the directive that begins at `at`; nullopt if none does.
std::optional<size_t> find_directive_end(const Tokens& tokens, size_t at) {
  const std::string& text = tokens.text();
  if (tokens.word(at) != "#") return std::nullopt;
  const size_t before = tokens.begin(at) == 0 ? std::string::npos : text.find_last_not_of(" \t", tokens.begin(at) - 1);
  if (before != std::string::npos && text[before] != '\n') return std::nullopt;
  size_t line = text.find('\n', tokens.begin(at));
  while (line != std::string::npos && text[line - 1] == '\\') line = text.find('\n', line + 1);
  while (at + 1 < tokens.size() && tokens.begin(at + 1) < line) ++at;
  return at;
}

/// A base as written, "llama::LlamaModelImpl", and the last name in it.
struct WrittenBase {
  std::string type, name;
  bool is_template = false;
};

/// A class at namespace scope. Positions are token indices.
struct WrittenClass {
  std::string name;
  bool is_struct = false;
  std::vector<WrittenBase> bases;
  size_t open = 0, close = 0;        // token indices of its braces
  std::vector<size_t> constructors;  // token indices of their names
  bool inherits_constructors = false;

  const WrittenBase* module_base() const {
    const auto base =
        std::ranges::find_if(bases, [](const WrittenBase& one) { return one.name == "Module" || is_impl(one.name); });
    return is_impl(name) && base != bases.end() ? &*base : nullptr;
  }
};

/// Finds a spec's declarations at namespace scope.
class Scanner {
 public:
  explicit Scanner(const Tokens& tokens) : tokens_(tokens) {
    // others: open braces that do not belong to a namespace
    for (size_t at = 0, others = 0; at < tokens_.size(); ++at) {
      const std::string_view word = tokens_.word(at);
      if (const auto last = find_directive_end(tokens_, at)) {
        at = *last;
      } else if (word == "{") {
        ++others;
      } else if (word == "}") {
        others -= others > 0;
      } else if (others > 0) {
        continue;
      } else if (word == "namespace") {
        while (at + 1 < tokens_.size() && tokens_.word(at) != "{" && tokens_.word(at) != ";") ++at;
      } else if (word == "using") {
        const size_t alias = at + 1;
        while (at + 1 < tokens_.size() && tokens_.word(at + 1) != ";") ++at;
        aliases[std::string(tokens_.word(alias))] = last_name(alias + 1, at + 1);
      } else if (word == "TORCH_MODULE") {
        holders.insert(std::string(tokens_.word(at + 2)));
      } else if (word == "TORCH_MODULE_IMPL") {
        holders.insert(std::string(tokens_.word(at + 2)));
        held.insert(std::string(tokens_.word(at + 4)));
      } else if ((word == "class" || word == "struct") && !is_enum_or_parameter(at)) {
        at = scan_class(at);
      }
    }
  }

  std::vector<WrittenClass> classes;
  std::map<std::string, std::string> aliases;  // alias to the last name of its target
  std::set<std::string> holders;               // names in TORCH_MODULE
  std::set<std::string> held;                  // class names in TORCH_MODULE_IMPL

 private:
  /// Whether the keyword is part of `enum class` or a template parameter.
  bool is_enum_or_parameter(size_t at) const {
    const std::string_view before = at > 0 ? tokens_.word(at - 1) : std::string_view();
    return before == "enum" || before == "<" || before == ",";
  }

  std::string last_name(size_t begin, size_t end) const {
    std::string name;
    for (size_t at = begin; at < end; ++at)
      if (tokens_.is_name(at)) name = tokens_.word(at);
    return name;
  }

  /// Returns the last token of the class's head or, if it has a body, of its definition.
  size_t scan_class(size_t at) {
    WrittenClass one;
    one.is_struct = tokens_.word(at) == "struct";
    for (++at; at < tokens_.size(); ++at) {
      const std::string_view word = tokens_.word(at);
      if (word == "(" || word == "[") {
        at = tokens_.closing(at);
        continue;
      }
      if (word == ";" || word == "<" || word == "=") return at;
      if (word == ":" || word == "{") break;
      if (tokens_.is_name(at) && word != "final") one.name = word;
    }
    if (tokens_.word(at) == ":") at = scan_bases(at + 1, one.bases);
    if (tokens_.word(at) != "{") return at;
    one.open = at;
    one.close = tokens_.closing(at);
    if (one.close >= tokens_.size() || tokens_.word(one.close + 1) != ";") return one.close;
    scan_body(one);
    classes.push_back(std::move(one));
    return classes.back().close + 1;
  }

  /// Returns the index of the brace after the bases.
  size_t scan_bases(size_t at, std::vector<WrittenBase>& bases) const {
    static const std::set<std::string_view> kNoType = {"public", "protected", "private", "virtual"};
    int angles = 0;
    bases.emplace_back();
    for (; at < tokens_.size(); ++at) {
      const std::string_view word = tokens_.word(at);
      if (word == "{" || word == ";") break;
      angles += word == "<" ? 1 : word == ">" ? -1 : word == ">>" ? -2 : 0;
      if (word == "," && angles == 0) {
        bases.emplace_back();
        continue;
      }
      if (kNoType.count(word)) continue;
      bases.back().type += word;
      bases.back().is_template |= word == "<";
      if (tokens_.is_name(at)) bases.back().name = word;
    }
    return at;
  }

  void scan_body(WrittenClass& one) const {
    for (size_t at = one.open + 1; at < one.close; ++at) {
      const std::string_view word = tokens_.word(at);
      if (word == one.name && tokens_.word(at + 1) == "(" && tokens_.word(at - 1) != "~")
        one.constructors.push_back(at);
      if (word == "using") {
        while (at + 1 < one.close && tokens_.word(at + 1) != ";") ++at;
        one.inherits_constructors |= tokens_.word(at) == tokens_.word(at - 2) && tokens_.word(at - 1) == "::";
      }
      if (tokens_.opens(at)) at = tokens_.closing(at);
    }
  }

  const Tokens& tokens_;
};

/// The using-declaration, inserted after `public:` if the class begins with it, otherwise after its brace between
/// access specifiers.
ImplicitText constructors(const Tokens& tokens, const WrittenClass& one, const WrittenBase& base) {
  const std::string use = " using " + (base.is_template ? base.name : base.type) + "::" + base.name + ";";
  if (one.is_struct) return {tokens.end(one.open), use};
  if (tokens.word(one.open + 1) == "public" && tokens.word(one.open + 2) == ":") return {tokens.end(one.open + 2), use};
  return {tokens.end(one.open), " public:" + use + " private:"};
}

/// `member(value)` of a constructor. Positions are token indices.
struct WrittenInitializer {
  size_t member = 0, open = 0, close = 0;
};

struct WrittenConstructor {
  std::vector<WrittenInitializer> initializers;
  size_t body = 0;  // its opening brace; the last token if it has none
  size_t last = 0;  // its closing brace, or the last token of its declaration
};

/// Reads the constructor whose name is at `at`.
WrittenConstructor read_constructor(const Tokens& tokens, size_t at) {
  WrittenConstructor result;
  at = tokens.closing(at + 1);
  while (at + 1 < tokens.size() && tokens.word(at + 1) != ":" && tokens.word(at + 1) != "{" &&
         tokens.word(at + 1) != ";")
    ++at;
  result.last = at;
  if (tokens.word(at + 1) == ":") {
    do {
      WrittenInitializer one;
      one.member = at + 2;
      for (one.open = one.member; one.open < tokens.size() && !tokens.opens(one.open);) ++one.open;
      one.close = at = tokens.closing(one.open);
      result.initializers.push_back(one);
    } while (tokens.word(at + 1) == ",");
    result.last = at;
  }
  result.body = tokens.word(at + 1) == "{" ? at + 1 : result.last;
  if (result.body > at) result.last = tokens.closing(result.body);
  return result;
}

/// The members of a class that hold modules, judging by their declared types.
class ModuleMembers {
 public:
  ModuleMembers(const Tokens& tokens, const WrittenClass& one, const std::set<std::string>& modules)
      : tokens_(tokens), modules_(modules) {
    for (size_t at = one.open + 1, begin = at; at < one.close; ++at) {
      const std::string_view word = tokens.word(at);
      if (std::ranges::count(one.constructors, at)) {
        at = read_constructor(tokens, at).last;
        begin = at + 1;
      } else if (tokens.opens(at)) {
        const bool is_body = word == "{" && follows_parameters(at);
        at = tokens.closing(at);
        if (is_body) begin = at + 1;
      } else if (word == ";") {
        read_declaration(begin, at);
        begin = at + 1;
      } else if (word == ":" && at > begin && is_access(tokens.word(at - 1))) {
        begin = at + 1;
      }
    }
  }

  bool count(std::string_view member) const { return members_.count(member) != 0; }

 private:
  static bool is_access(std::string_view word) { return word == "public" || word == "protected" || word == "private"; }

  /// Whether the brace at `at` follows a function's parameters.
  bool follows_parameters(size_t at) const {
    static const std::set<std::string_view> kBetween = {"const", "noexcept", "override", "final", "&", "&&"};
    while (kBetween.count(tokens_.word(at - 1))) --at;
    if (tokens_.word(at - 1) == ")") return true;
    while (at > 0 && (tokens_.is_name(at - 1) || tokens_.word(at - 1) == "::")) --at;  // a type after ->
    return tokens_.word(at - 1) == "->";
  }

  /// Reads one declaration of one or more members: `TP_COLWISE nn::Linear q_proj, k_proj{nullptr};`.
  void read_declaration(size_t begin, size_t end) {
    std::string_view before;  // the last name, or the template's argument
    bool in_nn = false, holds = false, is_holder = false, in_value = false;
    int angles = 0;
    for (size_t at = begin; at < end; ++at) {
      const std::string_view word = tokens_.word(at), next = at + 1 < end ? tokens_.word(at + 1) : ";";
      if (tokens_.opens(at)) {
        at = tokens_.closing(at);
      } else if (in_value) {
        in_value = word != ",";
      } else if (word == "=") {
        in_value = true;
      } else if (word == "<") {
        // Its<X> is X. ModuleListOf and OneOf are modules; other templates are not.
        if (angles++ == 0) {
          is_holder = before == "ModuleListOf" || before == "OneOf";
          in_nn = false;
          holds = is_holder || before == "Its";
        }
      } else if (word == ">" || word == ">>") {
        angles -= static_cast<int>(word.size());
      } else if (tokens_.is_name(at)) {
        const bool declares = angles == 0 && (next == "," || next == "{" || next == "=" || next == ";");
        if (declares && (is_holder || in_nn || modules_.count(std::string(before))) && (holds || !follows_template(at)))
          members_.insert(word);
        if (angles == 0 && word == "nn" && next == "::") in_nn = true;
        if (!declares) before = word;
      }
    }
  }

  /// Whether the name at `at`, or the first name of its list, is declared with a template type.
  bool follows_template(size_t at) const {
    while (tokens_.word(at - 1) == ",") at -= 2;
    return tokens_.word(at - 1) == ">";
  }

  const Tokens& tokens_;
  const std::set<std::string>& modules_;
  std::set<std::string_view> members_;
};

/// Adds register_module calls around the modules that the constructor whose name is at `at` creates for `members`, in
/// initializers and in assignments.
void add_registrations(const Tokens& tokens, size_t at, const ModuleMembers& members,
                       std::vector<ImplicitText>& insertions) {
  const WrittenConstructor constructor = read_constructor(tokens, at);
  const auto add = [&](std::string_view member, size_t first, size_t end) {
    bool creates = false, registers = false;
    for (size_t inside = first; inside < end; ++inside) {
      creates |= tokens.word(inside) == "(";
      registers |= tokens.word(inside).starts_with("register_") || tokens.word(inside) == "remake";
    }
    if (!creates || registers) return;
    insertions.push_back({tokens.begin(first), "register_module(\"" + std::string(member) + "\", "});
    insertions.push_back({tokens.begin(end), ")"});
  };
  for (const WrittenInitializer& one : constructor.initializers)
    if (one.open == one.member + 1 && tokens.word(one.open) == "(" && members.count(tokens.word(one.member)))
      add(tokens.word(one.member), one.open + 1, one.close);
  static const std::set<std::string_view> kBeforeStatement = {"{", "}", ";", ")", "else"};
  for (size_t name = constructor.body + 1; name < constructor.last; ++name) {
    if (tokens.word(name + 1) != "=" || !kBeforeStatement.count(tokens.word(name - 1)) ||
        !members.count(tokens.word(name)))
      continue;
    size_t end = name + 2;
    while (end < constructor.last && tokens.word(end) != ";")
      end = tokens.opens(end) ? tokens.closing(end) + 1 : end + 1;
    if (end < constructor.last) add(tokens.word(name), name + 2, end);
  }
}

bool lacks_holder(const Scanner& scanner, const WrittenClass& module) {
  const std::string name = to_holder(module.name);
  return !scanner.holders.count(name) && !scanner.aliases.count(name) && !scanner.held.count(module.name) &&
         std::ranges::none_of(scanner.classes, [&](const WrittenClass& one) { return one.name == name; });
}

std::set<std::string> find_modules(const Scanner& scanner, const std::set<std::string>& others) {
  std::set<std::string> modules = scanner.holders;
  for (const WrittenClass& one : scanner.classes)
    if (one.module_base()) modules.insert(to_holder(one.name));
  for (const auto& [alias, name] : scanner.aliases)
    if (others.count(name) || modules.count(name)) modules.insert(alias);
  return modules;
}

}  // namespace

std::vector<ImplicitText> find_implicit_text(const std::string& spec, const std::set<std::string>& modules) {
  const Tokens tokens(spec);
  const Scanner scanner(tokens);
  std::set<std::string> all = find_modules(scanner, modules);
  all.insert(modules.begin(), modules.end());
  std::vector<ImplicitText> insertions;
  for (const WrittenClass& one : scanner.classes) {
    const WrittenBase* base = one.module_base();
    if (!base) continue;
    if (one.constructors.empty() && !one.inherits_constructors && base->name != "Module")
      insertions.push_back(constructors(tokens, one, *base));
    const ModuleMembers members(tokens, one, all);
    for (const size_t constructor : one.constructors) add_registrations(tokens, constructor, members, insertions);
    if (lacks_holder(scanner, one))
      insertions.push_back({tokens.end(one.close + 1), " TORCH_MODULE(" + to_holder(one.name) + ");"});
  }
  return insertions;
}

std::vector<std::string> find_implicit_holders(const std::string& spec) {
  const Tokens tokens(spec);
  const Scanner scanner(tokens);
  std::vector<std::string> holders;
  for (const WrittenClass& one : scanner.classes)
    if (one.module_base() && lacks_holder(scanner, one)) holders.push_back(to_holder(one.name));
  return holders;
}

std::set<std::string> declared_modules(const std::string& text, const std::set<std::string>& modules) {
  const Tokens tokens(text);
  return find_modules(Scanner(tokens), modules);
}

std::vector<std::string> included_specs(const std::string& spec) {
  constexpr std::string_view kInclude = "#include \"modular/", kEnd = ".h\"";
  std::vector<std::string> names;
  for (size_t at = 0; (at = spec.find(kInclude, at)) != std::string::npos;) {
    at += kInclude.size();
    if (const size_t end = spec.find(kEnd, at); end < spec.find('\n', at)) names.push_back(spec.substr(at, end - at));
  }
  std::erase(names, "modular");
  return names;
}

}  // namespace modgen
