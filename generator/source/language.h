// The language that specs are written in, for lexing text without a compiler.
#pragma once

#include <clang/Basic/LangOptions.h>

namespace modgen {

/// C++20, as the compiler that reads specs has it.
const clang::LangOptions& language_of_specs();

}  // namespace modgen
