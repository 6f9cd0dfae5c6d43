// Classes in the form that `modgen --suggest` compares: members and methods as tokens, with family names, libtorch
// namespaces and naming style normalized.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generator/generate.h"

namespace modgen {

struct MemberCode {
  std::string name;  // without a trailing underscore
  std::string type;  // as written
  std::vector<std::string> tokens;
};

struct MethodCode {
  std::string name;  // "constructor" for constructors
  std::string text;  // as written
  std::vector<std::string> tokens;
};

struct ClassCode {
  std::string name;    // without Impl
  std::string family;  // family in the catalogue; empty for hand-written code
  Location where;
  std::vector<MemberCode> members;
  std::vector<MethodCode> methods;
};

/// Converts `code` to comparable tokens; `prefix` is the class-name prefix of its family.
std::vector<std::string> comparable(const std::string& code, const std::string& prefix);

/// The flattened module classes that the output's own spec declares.
std::vector<ClassCode> find_classes(const Output& output);

/// The classes of `file` that derive from torch::nn::Module. `prefix` may be empty.
struct HandWritten {
  std::vector<ClassCode> classes;
  std::vector<Diagnostic> errors;  // Clang's errors; `classes` is empty if there are any
};
HandWritten read_hand_written(const GenerateOptions& options, const std::string& file);

/// Fills in the tokens of hand-written classes once the prefix is known.
void make_comparable(std::vector<ClassCode>& classes, const std::string& prefix);

}  // namespace modgen
