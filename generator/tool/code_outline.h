// Classes as `modgen --suggest` compares them: members and methods as tokens in which names of the family, of
// libtorch's namespaces and of style are normalized.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generator/generate.h"

namespace modgen {

struct MemberCode {
  std::string name;  // without the trailing underscore that some write
  std::string type;  // as written
  std::vector<std::string> tokens;
};

struct MethodCode {
  std::string name;  // "constructor" for one
  std::string text;  // as written
  std::vector<std::string> tokens;
};

struct ClassCode {
  std::string name;    // without Impl
  std::string family;  // of the catalogue; empty for hand-written code
  Location where;
  std::vector<MemberCode> members;
  std::vector<MethodCode> methods;
};

/// `code` as comparable tokens; `prefix` is what the names of its family's classes begin with.
std::vector<std::string> comparable(const std::string& code, const std::string& prefix);

/// The module classes that the output's spec itself declares, whole.
std::vector<ClassCode> find_classes(const Output& output);

/// The classes of `file` that derive from torch::nn::Module. `prefix` may be empty.
struct HandWritten {
  std::vector<ClassCode> classes;
  std::vector<Diagnostic> errors;  // what Clang says; classes are none then
};
HandWritten read_hand_written(const GenerateOptions& options, const std::string& file);

/// Fills in the tokens of hand-written classes, once the prefix is known.
void make_comparable(std::vector<ClassCode>& classes, const std::string& prefix);

}  // namespace modgen
