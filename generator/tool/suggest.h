// `modgen --suggest`: finds classes of the catalogue that hand-written classes could inherit from, by comparing tokens.
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
  double alike = 0.0;                     // similarity of the classes; 1: identical
  std::vector<std::string> same_members;  // members with the same name and type
  std::vector<std::string> other_types;   // members to redeclare with another type
  std::vector<std::string> to_add;        // members and methods that the base lacks
  std::vector<std::string> to_remove;     // members and methods that only the base has
  std::vector<MethodLikeness> methods;    // methods of both; those that differ have to be redefined
};

struct Suggestion {
  const ClassCode* hand_written = nullptr;
  std::vector<Candidate> candidates;  // most alike first
};

/// The common prefix of the class names, judging by the catalogue's names: "My" for MyAttention and MyDecoderLayer.
std::string common_prefix(const std::vector<ClassCode>& classes, const std::vector<ClassCode>& catalogue,
                          const std::vector<std::string>& catalogue_prefixes);

/// Compares every class with every class of the catalogue. Returns at most `most` candidates per class, with a
/// similarity of at least `least`.
std::vector<Suggestion> suggest(const std::vector<ClassCode>& classes, const std::vector<ClassCode>& catalogue,
                                double least = 0.4, size_t most = 5);

std::string suggestions_text(const std::vector<Suggestion>& suggestions);
std::string suggestions_json(const std::vector<Suggestion>& suggestions, const std::string& prefix);

}  // namespace modgen
