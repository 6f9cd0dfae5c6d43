// Stub declarations of the templates that each class of a spec instantiates again: libstdc++'s optional and shared_ptr,
// libtorch's ModuleHolder and the contract's ModuleListOf and OneOf. Parsing the real ones would take most of the time.
// The stubs declare the parts that models use, without definitions, because nothing here runs. Generated files, clangd
// and the tests that compile golden families see the real ones.
#pragma once

#include <string_view>

namespace modgen {

/// Precedes modular/modular.h in the precompiled prelude.
extern const std::string_view kStubLibrary;
/// Follows modular/modular.h in the precompiled prelude.
extern const std::string_view kStubPrelude;

/// Comes last in the precompiled prelude: uses of declarations that nearly every spec uses. Anything that Clang derives
/// to compile them, such as the special members of Tensor, is then in the prelude and not derived again in each run.
extern const std::string_view kUsedByMost;

}  // namespace modgen
