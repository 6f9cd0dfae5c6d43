#include "checks/written_text.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <vector>

namespace modgen {
namespace {

/// All matches of a pattern in a text, as their groups.
std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

/// A class of a spec or of a generated file, which has the layout that modgen and the formatter give it.
struct ClassText {
  std::string base, body;
  std::set<std::string> names;  // of its own methods and fields, but for virtual ones
};

/// The fields of a class: declarations of one name on a line of their own.
std::vector<std::string> find_fields(const std::string& body) {
  static const std::regex field(
      R"(\n  (?!return|using|friend|static|typedef)[^\n(){};=]*[\w>&*] (\w+)( = [^\n]*|\{[^\n]*\})?;)");
  std::vector<std::string> fields;
  for (const std::smatch& found : matches(body, field)) fields.push_back(found[1]);
  return fields;
}

std::map<std::string, ClassText> find_classes(const std::string& text) {
  static const std::regex head(R"((?:class|struct)[^;{}]*?\b(\w+)(?:\s*:\s*(?:public\s+)?([\w:]+))?\s*\{\n)");
  static const std::regex method(R"(\n  (?!return)[^\n(;=]*[\w>&*] (\w+)\(([^;{]*)\)([\w ]*)\{)");
  std::map<std::string, ClassText> classes;
  for (const std::smatch& found : matches(text, head)) {
    const auto begin = static_cast<size_t>(found.position() + found.length()) - 1;
    ClassText& added = classes[found[1]];
    added.base = found[2];
    added.body = text.substr(begin, text.find("\n};", begin) - begin);
    for (const std::smatch& one : matches(added.body, method))
      if (one[3].str().find("override") == std::string::npos) added.names.insert(one[1]);
    for (const std::string& field : find_fields(added.body)) added.names.insert(field);
  }
  return classes;
}

size_t count_words(const std::string& text, const std::string& word) {
  return matches(text, std::regex("\\b" + word + "\\b")).size();
}

/// Whether C++ gives a class of the spec, and all that it reaches, the meaning that modgen does.
class Meaning {
 public:
  explicit Meaning(const std::map<std::string, ClassText>& classes) : classes_(classes) {}

  bool coincides(const std::string& name) {
    if (const auto known = known_.find(name); known != known_.end()) return known->second;
    known_[name] = true;  // while it is looked at
    return known_[name] = of_class(classes_.at(name));
  }

 private:
  bool of_class(const ClassText& own) {
    // Constructs that only modgen understands.
    static const std::regex construct(R"(\b(remake|remove|own|skip_to|Its|Both|OneOf|STANDS_FOR)\b)");
    if (std::regex_search(own.body, construct)) return false;
    for (std::string base = own.base; classes_.contains(base); base = classes_.at(base).base)
      for (const std::string& name : own.names)
        if (count_words(classes_.at(base).body, name) > 1) return false;
    static const std::regex word(R"(\b\w+\b)");
    std::set<std::string> reached = {own.base};
    for (const std::smatch& found : matches(own.body, word)) reached.insert({found.str(), found.str() + "Impl"});
    return std::ranges::all_of(reached,
                               [&](const std::string& name) { return !classes_.contains(name) || coincides(name); });
  }

  const std::map<std::string, ClassText>& classes_;
  std::map<std::string, bool> known_;
};

}  // namespace

WrittenText written_text(const std::string& family, const std::string& spec, const std::string& generated) {
  WrittenText written;
  static const std::regex other_spec(R"(#include "modular/(?!modular\.h))");
  if (std::regex_search(spec, other_spec)) return written;
  const std::map<std::string, ClassText> classes = find_classes(spec);
  Meaning meaning(classes);
  static const std::regex entry(R"re(register_entry<(\w+), (\w+)>\(\s*"[^"]*",\s*"([^"]*)",\s*"([^"]*)")re");
  const std::string space = "written_" + family;
  std::string entries;
  for (const std::smatch& found : matches(generated, entry)) {
    const std::string impl = found[1].str() + "Impl", config = found[2];
    if (!classes.contains(impl) || !classes.contains(config) || !meaning.coincides(impl)) continue;
    entries += "    written_entry<" + family + "::" + config + ", " + family + "::" + impl + ", " + space +
               "::" + config + ", " + space + "::" + impl + ">(\"" + found[3].str() + "\", \"" + found[4].str() +
               "\"),\n";
  }
  if (entries.empty()) return written;

  written.spec =
      std::regex_replace(spec, std::regex("namespace modular::" + family + "\\b"), "namespace modular::" + space);
  written.spec = std::regex_replace(written.spec, std::regex("\\b" + family + "::"), space + "::");
  written.before = "namespace modular::" + space + " {\n";
  static const std::regex holder(R"(TORCH_MODULE\((\w+)\);)");
  for (const std::smatch& found : matches(generated, holder))
    if (spec.find(found.str()) == std::string::npos)
      written.before += "class " + found[1].str() + "Impl;\nclass " + found[1].str() + " : public EarlyHolder<" +
                        found[1].str() + "Impl> { using EarlyHolder::EarlyHolder; };\n";
  written.before += "}\n";

  // In the namespace of the spec, where the templates of checks/execute/written_model.h find them by their arguments.
  written.entries = "namespace modular::" + space + " {\n";
  for (const auto& [name, text] : find_classes(generated)) {
    if (!classes.contains(name)) continue;
    const bool is_module = name.ends_with("Impl");
    const std::string types = is_module ? name + "& to, " + family + "::" + name + "& from, execute::Adopted& adopted"
                                        : name + "& to, const " + family + "::" + name + "& from";
    // A template, in which members that the spec does not have are left out.
    written.entries += "template <class To, class From>\nvoid adopt_each_of_" + name + "(To& to, From& from" +
                       (is_module ? ", execute::Adopted& adopted" : "") + ") {\n";
    for (const std::string& field : find_fields(text.body))
      written.entries += "  if constexpr (requires { to." + field + "; }) execute::" +
                         (is_module ? "adopt(to." + field + ", from." + field + ", adopted);\n"
                                    : "adopt_value(to." + field + ", from." + field + ");\n");
    written.entries += "}\ninline void " + std::string(is_module ? "adopt_members(" : "adopt_fields(") + types +
                       ") { adopt_each_of_" + name + "(to, from" + (is_module ? ", adopted" : "") + "); }\n";
  }
  written.entries +=
      "}\nnamespace modular::execute {\nconst std::vector<WrittenEntry> written_entries = {\n" + entries + "};\n}\n";
  return written;
}

}  // namespace modgen
