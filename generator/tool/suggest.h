// `modgen --suggest`: which classes of the catalogue hand-written ones could inherit from, found by comparing tokens.
#pragma once

#include <string>
#include <vector>

#include "generator/tool/code_outline.h"

namespace modgen {

struct MethodLikeness {
  std::string name;
  double alike = 0.0;  // 1: the same tokens
};

struct Candidate {
  const ClassCode* base = nullptr;
  double alike = 0.0;                     // of the whole class, 1: nothing would be left to write
  std::vector<std::string> same_members;  // of one name and type
  std::vector<std::string> other_types;   // members to redeclare
  std::vector<std::string> to_add;        // members and methods that the base lacks
  std::vector<std::string> to_remove;     // that only the base has
  std::vector<MethodLikeness> methods;    // that both have; what is not the same is to be redefined
};

struct Suggestion {
  const ClassCode* hand_written = nullptr;
  std::vector<Candidate> candidates;  // most alike first
};

/// What the class names begin with, as far as the catalogue's names tell: "My" of MyAttention and MyDecoderLayer.
std::string common_prefix(const std::vector<ClassCode>& classes, const std::vector<ClassCode>& catalogue,
                          const std::vector<std::string>& catalogue_prefixes);

/// Compares every class with every one of the catalogue; candidates below `least` alike are left out, and all but the
/// first `most` of them.
std::vector<Suggestion> suggest(const std::vector<ClassCode>& classes, const std::vector<ClassCode>& catalogue,
                                double least = 0.4, size_t most = 5);

std::string suggestions_text(const std::vector<Suggestion>& suggestions);
std::string suggestions_json(const std::vector<Suggestion>& suggestions, const std::string& prefix);

}  // namespace modgen
