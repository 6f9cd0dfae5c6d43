#include "generator/advice.h"

#include "generator/source/edits.h"

namespace modgen {
namespace {

/// What stands in quotes behind `words` in `message`; empty where they do not stand there.
std::string quoted_behind(const std::string& message, const std::string& words) {
  const size_t at = message.find(words + "'");
  if (at == std::string::npos) return "";
  const size_t begin = at + words.size() + 1;
  return message.substr(begin, message.find('\'', begin) - begin);
}

std::string unqualified(const std::string& name) {
  const size_t colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

void advise(Remark& remark, const Parsed& parsed, const std::function<bool(const std::string&)>& is_family) {
  if (!remark.advice.empty() || remark.severity != Diagnostic::Severity::error) return;
  const std::string& message = remark.message;
  if (const std::string name = quoted_behind(message, "use of undeclared identifier "); is_family(name)) {
    remark.message = "family '" + name + "' is used without its spec";
    remark.advice = "add #include \"modular/" + name + ".h\"";
    remark.fix = include_spec(parsed, remark.where.file, name);
  } else if (const std::string base = quoted_behind(message, "must explicitly initialize the base class ");
             !base.empty()) {
    const std::string impl = unqualified(base);
    remark.advice = "run the base's constructor: ': ";
    remark.advice += impl + "(…)', or an ancestor's: ': " + impl + "(skip_to<" + impl + ", …>(…))'";
  } else if (const std::string member = quoted_behind(message, "no member named ");
             !member.empty() && ends_with(quoted_behind(message, "' in "), "Config") &&
             message.find("did you mean") == std::string::npos) {
    remark.advice = "declare '" + member + "' in the config, or redefine the code that reads it";
  } else if (const std::string made = quoted_behind(message, "no matching constructor for initialization of ");
             !made.empty()) {
    remark.advice =
        "give '" + unqualified(made) + "' a constructor with these parameters, or redefine the code that constructs it";
  } else if (message.starts_with("calling a private constructor") ||
             message.starts_with("calling a protected constructor")) {
    remark.advice = "write 'public:' above that constructor";
  }
}

}  // namespace modgen
