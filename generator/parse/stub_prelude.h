// Short declarations of the templates that each class of a spec instantiates again: libstdc++'s optional and
// shared_ptr, libtorch's ModuleHolder and the contract's ModuleListOf and OneOf. Parsing the real ones would take most
// of the time. These declare what models use of them, without definitions, because nothing here runs. Generated files,
// clangd and the tests that compile golden families see the real ones.
#pragma once

#include <string_view>

namespace modgen {

/// Comes before modular/modular.h in the precompiled prelude.
extern const std::string_view kAbridgedLibrary;
/// Comes after modular/modular.h in the precompiled prelude.
extern const std::string_view kAbridged;

/// Comes last in the precompiled prelude: uses of what nearly every spec uses. What Clang derives to compile them,
/// such as the special members of Tensor, is then in the prelude and not derived again in each run.
extern const std::string_view kUsedByMost;

}  // namespace modgen
