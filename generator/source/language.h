// The language of specs, for lexing text without a compiler.
#pragma once

#include <clang/Basic/LangOptions.h>

namespace modgen {

/// The C++20 options of the compiler that reads specs.
const clang::LangOptions& language_of_specs();

}  // namespace modgen
