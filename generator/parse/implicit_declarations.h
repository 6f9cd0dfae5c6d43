// What C++ asks for and a spec may leave out, as it follows from the spec's classes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "generator/source/parsed.h"

namespace modgen {

/// What `spec`, a spec's text, leaves out, in source order:
///
/// - `TORCH_MODULE(X);` after a module class;
/// - `using YImpl::YImpl;` in a module class that derives from YImpl and declares no constructor;
/// - `register_module("member", …)` around what a constructor makes for a member that holds a module.
///
/// `modules` are the names of other module classes that the spec sees. Text that is no C++ gets nothing.
std::vector<ImplicitText> find_implicit_text(const std::string& spec, const std::set<std::string>& modules);

/// The holders that find_implicit_text supplies for `spec`: "LlamaMLP".
std::vector<std::string> find_implicit_holders(const std::string& spec);

/// The names of the module classes that `text`, of a spec or of the contract, declares, aliases among them.
std::set<std::string> declared_modules(const std::string& text, const std::set<std::string>& modules);

/// The specs that `spec` includes: "llama".
std::vector<std::string> included_specs(const std::string& spec);

}  // namespace modgen
