// Declarations that C++ requires but a spec may omit. They follow from the spec's classes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "generator/source/parsed.h"

namespace modgen {

/// The declarations that the text `spec` omits, in source order:
///
/// - `TORCH_MODULE(X);` after a module class;
/// - `using YImpl::YImpl;` in a module class that derives from YImpl and declares no constructor;
/// - `register_module("member", …)` around a module that a constructor creates for a member.
///
/// `modules` are the names of other module classes that the spec sees. Text that is not C++ gets none.
std::vector<ImplicitText> find_implicit_text(const std::string& spec, const std::set<std::string>& modules);

/// The holders that find_implicit_text declares for `spec`: "LlamaMLP".
std::vector<std::string> find_implicit_holders(const std::string& spec);

/// The names of the module classes that `text`, a spec or the contract, declares, including aliases.
std::set<std::string> declared_modules(const std::string& text, const std::set<std::string>& modules);

/// The specs that `spec` includes: "llama".
std::vector<std::string> included_specs(const std::string& spec);

}  // namespace modgen
