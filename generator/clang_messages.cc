// Replaces messages of Clang by their causes, adds advice, and drops messages that follow from another one.
#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <clang/AST/DeclCXX.h>

#include "generator/family_job.h"
#include "generator/source/families.h"
#include "generator/source/fixes.h"
#include "generator/source/names.h"

namespace modgen {
namespace {

/// The quoted text that follows `words` in `message`; empty if there is none.
std::string quoted_after(const std::string& message, const std::string& words) {
  const size_t at = message.find(words + "'");
  if (at == std::string::npos) return "";
  const size_t begin = at + words.size() + 1;
  return message.substr(begin, message.find('\'', begin) - begin);
}

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The name before `at`, ignoring spaces; empty if there is none.
std::string name_before(const std::string& text, uint32_t at) {
  while (at > 0 && text[at - 1] == ' ') --at;
  uint32_t begin = at;
  while (begin > 0 && is_name_character(text[begin - 1])) --begin;
  return text.substr(begin, at - begin);
}

/// The name at `at`; empty if there is none.
std::string name_at(const std::string& text, uint32_t at) {
  uint32_t end = at;
  while (end < text.size() && is_name_character(text[end])) ++end;
  return text.substr(at, end - at);
}

constexpr std::string_view kNoClassName = "expected class name";

/// The name that is not declared, according to a remark; empty for other remarks.
std::string undeclared_name(const Remark& remark, const Parsed& parsed) {
  const std::string& message = remark.message;
  if (message == kNoClassName) return name_at(parsed.sources[remark.where.file].text, remark.where.begin);
  static const std::string kinds[] = {"unknown type name ", "unknown class name ", "use of undeclared identifier ",
                                      "no type named ",     "no template named ",  "member initializer ",
                                      "no member named "};
  for (const std::string& kind : kinds) {
    if (!message.starts_with(kind)) continue;
    // A member of an object is not a name of the family.
    if (kind == "no member named " && message.find("' in namespace '") == std::string::npos) return "";
    return quoted_after(message, kind);
  }
  return message.starts_with("initializer '") ? quoted_after(message, "initializer ") : "";
}

bool names_no_type(const std::string& message) {
  static constexpr std::string_view kinds[] = {"unknown type name ", "unknown class name ", "no type named ",
                                               "no template named ", kNoClassName};
  return std::ranges::any_of(kinds, [&](std::string_view kind) { return message.starts_with(kind); });
}

/// The specs that were read, by their text: an error in one may have ended the parse.
class SpecTexts {
 public:
  explicit SpecTexts(const Parsed& parsed) : parsed_(parsed) {
    for (uint32_t file = 1; file < parsed.sources.size(); ++file) {
      constexpr std::string_view kMacro = "MODULAR_FAMILY(";
      const std::string &text = parsed.sources[file].text, &path = parsed.sources[file].path;
      const size_t at = text.find(kMacro), slash = path.rfind('/') + 1;
      if (at == std::string::npos || parsed.sources[file].absolute.empty()) continue;
      specs_.push_back({file, path.substr(slash, path.rfind('.') - slash),
                        name_at(text, static_cast<uint32_t>(at + kMacro.size()))});
    }
  }

  struct Spec {
    uint32_t file;
    std::string family, prefix;
  };

  /// The spec whose classes `name` may belong to, by its prefix; null if there is none.
  const Spec* owner(const std::string& name) const {
    const Spec* found = nullptr;
    for (const Spec& spec : specs_)
      if (!spec.prefix.empty() && name.starts_with(spec.prefix) && name.size() > spec.prefix.size() &&
          (!found || found->prefix.size() < spec.prefix.size()))
        found = &spec;
    return found;
  }
  const Spec* of_file(uint32_t file) const {
    const auto found = std::ranges::find(specs_, file, &Spec::file);
    return found == specs_.end() ? nullptr : &*found;
  }

  bool declares_class(const Spec& spec, const std::string& name) const {
    const std::string& text = parsed_.sources[spec.file].text;
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      const size_t line = text.rfind('\n', at) + 1, end = at + name.size();
      if ((at > 0 && is_name_character(text[at - 1])) || (end < text.size() && is_name_character(text[end]))) continue;
      const std::string before = text.substr(line, at - line);
      if ((before.starts_with("class ") || before.starts_with("struct ")) && before.find(':') == std::string::npos)
        return true;
    }
    return false;
  }

  /// How code of `from` names the class that `family` infers under the name `name`: "llama::LlamaMLPImpl", or
  /// "gemma::Its<llama::LlamaMLPImpl>". Empty if no base of the family declares it.
  std::string inferred(const Spec& from, const Spec& family, const std::string& name) const {
    const bool is_impl = name.ends_with("Impl");
    for (const Spec& base : specs_) {
      const std::string declared = base.prefix + name.substr(family.prefix.size());
      if (base.prefix.empty() || &base == &family || !includes(family.file, base.file) ||
          !(declares_class(base, declared) || (!is_impl && declares_class(base, declared + "Impl"))))
        continue;
      const std::string direct = base.family + "::" + declared;
      if (&from != &family) return family.family + "::Its<" + direct + ">";
      // The family between this one and the base infers the class.
      for (const Inclusion& one : parsed_.inclusions)
        if (const Spec* next = one.file == from.file ? of_file(one.target) : nullptr;
            next && next != &base && includes(next->file, base.file))
          return next->family + "::Its<" + direct + ">";
      return direct;
    }
    return "";
  }

 private:
  bool includes(uint32_t file, uint32_t other, int depth = 0) const {
    return depth < 64 && std::ranges::any_of(
                             parsed_.inclusions,
                             [&](const Inclusion& one) {
                               return one.file == file && one.target != 0 &&
                                      (one.target == other || includes(one.target, other, depth + 1));
                             });
  }

  const Parsed& parsed_;
  std::vector<Spec> specs_;
};

void replace(Remark& remark, std::string message, std::string advice) {
  remark.message = std::move(message);
  remark.advice = std::move(advice);
  remark.notes.clear();
  remark.fix.clear();
}

/// Explains a name of a class that a family infers and does not declare. Returns whether `name` is one.
bool explain_inferred_class(Remark& remark, const SpecTexts& specs, const std::string& name) {
  const SpecTexts::Spec *from = specs.of_file(remark.where.file), *family = specs.owner(name);
  if (!from || !family || specs.declares_class(*family, name) || specs.declares_class(*family, name + "Impl"))
    return false;
  const std::string spelled = specs.inferred(*from, *family, name);
  if (spelled.empty()) return false;
  replace(remark, "family '" + family->family + "' does not declare '" + name + "': it only infers it",
          "write '" + spelled + "'");
  return true;
}

/// Explains a call of a member that has the base's class where the author may mean the family's own.
void explain_call(Remark& remark, const Parsed& parsed, const SpecTexts& specs, const std::string& type) {
  const std::string& text = parsed.sources[remark.where.file].text;
  const std::string member = name_at(text, remark.where.begin);
  const SpecTexts::Spec *from = specs.of_file(remark.where.file), *owner = specs.owner(type);
  if (member.empty() || !from || !owner) return;
  const std::string own = from->prefix + type.substr(owner->prefix.size());
  const bool has_own = from != owner && specs.declares_class(*from, own + "Impl");
  replace(remark, "the forward of '" + member + "', of type " + type + ", does not take these arguments",
          has_own ? "if it is this family's " + own + " here, redeclare it: '" + own + " " + member + "{nullptr};'"
                  : "pass what " + type + "Impl::forward takes, or give the member another class by redeclaring it");
}

/// The type that is quoted after `words` in `message`: without aliases, and that which a pointer of the standard
/// library points to.
std::string type_after(const std::string& message, const std::string& words) {
  std::string type = quoted_after(message, words);
  const std::string alias = words + "'" + type + "' (aka ";
  if (!type.empty() && message.find(alias) != std::string::npos) type = quoted_after(message, alias);
  for (const std::string_view pointer : {"shared_ptr<", "unique_ptr<", "_NonArray<"})
    if (const size_t at = type.find(pointer); at != std::string::npos) {
      type.erase(0, at + pointer.size());
      type.erase(std::min(type.find_first_of(",>"), type.size()));
    }
  return type;
}

/// Explains a conversion to a base that the flattened class does not have. `job` is the family of the remark.
void explain_lost_base(Remark& remark, const FamilyJob& job) {
  const auto find = [&](std::string type) -> const Entity* {
    for (const char* part : {"const ", " &&", " &", " *"})
      if (const size_t at = type.find(part); at != std::string::npos) type.erase(at, std::string_view(part).size());
    for (const auto& entity : job.family->entities())
      if (entity->name == unqualified(type) || entity->name + "Impl" == unqualified(type)) return entity.get();
    return nullptr;
  };
  std::vector<const std::string*> messages = {&remark.message};
  for (const Remark& note : remark.notes) messages.push_back(&note.message);
  for (const std::string& reason : remark.reasons) messages.push_back(&reason);
  for (const std::string* message : messages) {
    const Entity *from = find(type_after(*message, "from ")), *to = find(type_after(*message, "to "));
    if (!from) from = find(type_after(*message, "of type "));
    if (!to) to = find(type_after(*message, "return type "));
    if (!from || !to || from == to) continue;
    const Symbol* base = to->levels.front().symbol;
    if (std::ranges::none_of(from->levels, [&](const Level& one) { return one.symbol == base; })) continue;
    return replace(remark,
                   "'" + from->name + "' does not convert to '" + to->name +
                       "': flattened, it has the members of this base, but not the base",
                   "make '" + to->name + "' a member of '" + from->name + "', and name that member here");
  }
}

/// The base's class whose constructors `type`, a class of the family without constructors, does not inherit; empty for
/// other classes.
std::string base_of_constructors(const FamilyJob& job, const std::string& type) {
  for (const auto& entity : job.family->entities()) {
    const bool is_it = entity->name == unqualified(type) || entity->name + "Impl" == unqualified(type);
    const clang::CXXRecordDecl* record = is_it ? entity->levels.front().symbol->record : nullptr;
    if (!record || entity->levels.size() == 1 || record->hasUserDeclaredConstructor()) continue;
    return entity->levels[1].symbol->record->getName().str();
  }
  return "";
}

void advise(Remark& remark, const Parsed& parsed, const SpecTexts& specs, const FamilyJob* job,
            const std::function<bool(const std::string&)>& is_family) {
  if (!remark.advice.empty() || remark.severity != Diagnostic::Severity::error) return;
  if (job) explain_lost_base(remark, *job);
  const std::string& message = remark.message;
  if (const std::string name = undeclared_name(remark, parsed);
      !name.empty() && explain_inferred_class(remark, specs, name))
    return;
  if (const std::string name = quoted_after(message, "use of undeclared identifier "); is_family(name)) {
    remark.message = "family '" + name + "' is used without its spec";
    remark.advice = "add #include \"modular/" + name + ".h\"";
    remark.fix = include_spec(parsed, remark.where.file, name);
  } else if (const std::string base = quoted_after(message, "must explicitly initialize the base class ");
             !base.empty()) {
    const std::string impl(unqualified(base));
    remark.advice = "call the base's constructor: ': ";
    remark.advice += impl + "(…)', or an ancestor's: ': " + impl + "(skip_to<" + impl + ", …>(…))'";
  } else if (const std::string member = quoted_after(message, "no member named ");
             !member.empty() && quoted_after(message, "' in ").ends_with("Config") &&
             message.find("did you mean") == std::string::npos) {
    remark.advice = "declare '" + member + "' in the config, or redefine the code that reads it";
    if (job && job->text.origin(remark.where.begin).file != job->family->spec().file)
      remark.advice +=
          "; if the field has another name here, write .members = {{\"" + member + "\", \"NAME\"}} in MODULAR_FAMILY";
  } else if (const std::string type = quoted_after(message, "no matching function for call to object of type ");
             !type.empty()) {
    explain_call(remark, parsed, specs, std::string(unqualified(type)));
  } else if (const std::string type = quoted_after(message, "no matching constructor for initialization of ");
             !type.empty()) {
    const std::string base = job ? base_of_constructors(*job, type) : "";
    remark.advice = (base.empty() ? "give '" + std::string(unqualified(type)) + "' a constructor with these parameters"
                                  : "inherit its base's constructors: 'using " + base + "::" + base + ";'") +
                    ", or redefine the code that constructs it";
  } else if (message == "no viable overloaded '='") {
    const std::string name = name_before(parsed.sources[remark.where.file].text, remark.where.begin);
    if (name.empty()) return;
    replace(remark, "'" + name + "' cannot hold the value that is assigned to it",
            "if this class gives an inherited member another type, redeclare it: 'TYPE " + name + "{nullptr};'");
  } else if (message.starts_with("calling a private constructor") ||
             message.starts_with("calling a protected constructor")) {
    remark.advice = "write 'public:' above that constructor";
  }
}

/// The name before the `::` before a remark; empty if there is none.
std::string qualifier(const Remark& remark, const Parsed& parsed) {
  const std::string& text = parsed.sources[remark.where.file].text;
  const uint32_t at = remark.where.begin;
  return at >= 2 && text.compare(at - 2, 2, "::") == 0 ? name_before(text, at - 2) : "";
}

/// Drops errors that repeat a name that is not declared or that look into it, and those that follow from a member's
/// unknown type. Of a repeated name, the error at a type is kept, else the first one; those that can be mended are all
/// kept.
void drop_consequences(Parsed& parsed) {
  std::vector<Remark>& remarks = parsed.remarks;
  std::set<uint32_t> without_type;  // files
  std::set<std::pair<uint32_t, std::string>> names, types, seen;
  for (const Remark& remark : remarks) {
    names.emplace(remark.where.file, undeclared_name(remark, parsed));
    if (names_no_type(remark.message)) {
      without_type.insert(remark.where.file);
      types.emplace(remark.where.file, undeclared_name(remark, parsed));
    }
  }
  std::erase_if(remarks, [&](const Remark& remark) {
    if (remark.severity != Diagnostic::Severity::error || !remark.fix.empty()) return false;
    // A class with a member of an unknown type is not a module to Clang.
    if (remark.message.starts_with("no matching member function for call to 'register_"))
      return without_type.count(remark.where.file) != 0;
    if (const std::string around = qualifier(remark, parsed);
        !around.empty() && names.count({remark.where.file, around}))
      return true;
    const std::pair key(remark.where.file, undeclared_name(remark, parsed));
    if (key.second.empty()) return false;
    return (types.count(key) && !names_no_type(remark.message)) || !seen.insert(key).second;
  });
}

/// Reports instead of all errors in a text that is not C++ why it is none.
void report_encoding(Parsed& parsed) {
  std::set<uint32_t> files;
  for (const Remark& remark : parsed.remarks) files.insert(remark.where.file);
  for (const uint32_t file : files)
    if (auto error = encoding_error(file, parsed.sources[file].text)) {
      std::erase_if(parsed.remarks, [&](const Remark& remark) { return remark.where.file == file; });
      parsed.remarks.push_back(std::move(*error));
    }
}

}  // namespace

void explain_messages(Parsed& parsed, const ParseOptions& folders, const std::vector<FamilyJob>& jobs) {
  if (parsed.remarks.empty()) return;
  report_encoding(parsed);
  std::ranges::stable_sort(parsed.remarks, [](const Remark& a, const Remark& b) {
    return std::tie(a.where.file, a.where.begin) < std::tie(b.where.file, b.where.begin);
  });
  drop_consequences(parsed);
  const SpecTexts specs(parsed);
  const auto is_family = [&](const std::string& name) {
    return !name.empty() && find_spec(folders.root, folders.shipped, name);
  };
  for (Remark& remark : parsed.remarks) {
    const auto job = std::ranges::find_if(
        jobs, [&](const FamilyJob& one) { return one.file != 0 && one.file == remark.where.file; });
    advise(remark, parsed, specs, job == jobs.end() ? nullptr : &*job, is_family);
  }
}

}  // namespace modgen
