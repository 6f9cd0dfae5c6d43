#include "generator/advice.h"

#include <cctype>

#include "generator/source/edits.h"
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

/// The name before `at`, ignoring spaces; empty if there is none.
std::string name_before(const std::string& text, uint32_t at) {
  while (at > 0 && text[at - 1] == ' ') --at;
  uint32_t begin = at;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text[begin - 1])) || text[begin - 1] == '_')) --begin;
  return text.substr(begin, at - begin);
}

}  // namespace

void advise(Remark& remark, const Parsed& parsed, const std::function<bool(const std::string&)>& is_family) {
  if (!remark.advice.empty() || remark.severity != Diagnostic::Severity::error) return;
  const std::string& message = remark.message;
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
  } else if (const std::string type = quoted_after(message, "no matching constructor for initialization of ");
             !type.empty()) {
    remark.advice = "give '" + std::string(unqualified(type)) +
                    "' a constructor with these parameters, or redefine the code that constructs it";
  } else if (message == "no viable overloaded '='") {
    const std::string name = name_before(parsed.sources[remark.where.file].text, remark.where.begin);
    if (name.empty()) return;
    remark.message = "'" + name + "' cannot hold the value that is assigned to it";
    remark.advice = "if this class gives an inherited member another type, redeclare it: 'TYPE " + name + "{nullptr};'";
    remark.notes.clear();
  } else if (message.starts_with("calling a private constructor") ||
             message.starts_with("calling a protected constructor")) {
    remark.advice = "write 'public:' above that constructor";
  }
}

}  // namespace modgen
