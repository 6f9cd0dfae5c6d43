// From Clang's syntax tree to a plain body.
#pragma once

#include "generator/model/body.h"

namespace clang {
class FunctionDecl;
}

namespace modgen {

/// The body of `function`, whose definition lies in one file. Spans are offsets into that file and name it `file`.
Body read_body(const clang::FunctionDecl& function, uint32_t file);

}  // namespace modgen
