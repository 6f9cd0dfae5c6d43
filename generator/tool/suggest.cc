#include "generator/tool/suggest.h"

#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

namespace modgen {

namespace {

using Tokens = std::vector<std::string>;

/// Twice the length of the longest common subsequence, divided by the sum of the lengths.
double likeness(const Tokens& a, const Tokens& b) {
  if (a.empty() && b.empty()) return 1.0;
  std::vector<size_t> above(b.size() + 1), row(b.size() + 1);
  for (const std::string& token : a) {
    for (size_t at = 0; at < b.size(); ++at)
      row[at + 1] = token == b[at] ? above[at] + 1 : std::max(row[at], above[at + 1]);
    above.swap(row);
  }
  return 2.0 * static_cast<double>(above[b.size()]) / static_cast<double>(a.size() + b.size());
}

/// A declaration counts as its type, its name and its semicolon.
double weight(const MemberCode& member) { return static_cast<double>(member.tokens.size()) + 2.0; }
double weight(const MethodCode& method) { return static_cast<double>(method.tokens.size()); }

/// The method of `others` with the same name that is most similar to `method`; null if none is left.
const MethodCode* counterpart(const MethodCode& method, const std::vector<MethodCode>& others,
                              const std::set<const MethodCode*>& taken) {
  const MethodCode* best = nullptr;
  double most = -1.0;
  for (const MethodCode& other : others) {
    if (other.name != method.name || taken.count(&other)) continue;
    if (const double alike = likeness(method.tokens, other.tokens); alike > most) best = &other, most = alike;
  }
  return best;
}

Candidate compare(const ClassCode& own, const ClassCode& base) {
  Candidate result;
  result.base = &base;
  double both = 0.0, all = 0.0;
  for (const MemberCode& member : own.members) {
    const auto other = std::ranges::find(base.members, member.name, &MemberCode::name);
    if (other == base.members.end()) {
      result.to_add.push_back(member.type + " " + member.name);
      all += weight(member);
      continue;
    }
    const bool same = other->tokens == member.tokens;
    (same ? result.same_members : result.other_types).push_back(member.name);
    const double larger = std::max(weight(member), weight(*other));
    all += larger;
    both += same ? larger : larger / 2.0;
  }
  std::set<const MethodCode*> taken;
  for (const MethodCode& method : own.methods) {
    const MethodCode* other = counterpart(method, base.methods, taken);
    if (!other) {
      result.to_add.push_back(method.name + "()");
      all += weight(method);
      continue;
    }
    taken.insert(other);
    const double alike = likeness(method.tokens, other->tokens), larger = std::max(weight(method), weight(*other));
    result.methods.push_back({method.name, alike});
    all += larger;
    both += alike * larger;
  }
  for (const MemberCode& member : base.members)
    if (std::ranges::find(own.members, member.name, &MemberCode::name) == own.members.end()) {
      result.to_remove.push_back(member.name);
      all += weight(member);
    }
  for (const MethodCode& method : base.methods)
    if (!taken.count(&method)) {
      // reset_parameters() belongs to the runtime's contract; plain libtorch code does not have it.
      if (method.name == "reset_parameters") continue;
      result.to_remove.push_back(method.name + "()");
      all += weight(method);
    }
  result.alike = all > 0.0 ? both / all : 0.0;
  return result;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

int percent(double alike) {
  // Never 100 if anything differs.
  return alike >= 1.0 ? 100 : std::min(99, static_cast<int>(std::lround(alike * 100.0)));
}

std::string to_text(const Location& where) { return where.path + ":" + std::to_string(where.line); }

std::string get_text(const Candidate& candidate) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::format("  %3d %% ", percent(candidate.alike)) << candidate.base->family << "::" << candidate.base->name
      << "  (" << to_text(candidate.base->where) << ")\n";
  std::vector<std::string> same = candidate.same_members, redefine;
  for (const MethodLikeness& method : candidate.methods)
    if (method.alike >= 1.0)
      same.push_back(method.name + "()");
    else
      redefine.push_back(method.name + "() (" + std::to_string(percent(method.alike)) + " % alike)");
  for (const std::string& member : candidate.other_types) redefine.push_back(member);
  const auto line = [&](const char* what, const std::vector<std::string>& words) {
    if (!words.empty()) out << "        " << what << listed(words) << "\n";
  };
  line("inherited: ", same);
  line("to redefine: ", redefine);
  line("to add: ", candidate.to_add);
  line("to remove: ", candidate.to_remove);
  return text;
}

void write(llvm::json::OStream& json, const Candidate& candidate) {
  const auto list = [&](llvm::StringRef key, const std::vector<std::string>& words) {
    json.attributeArray(key, [&] {
      for (const std::string& word : words) json.value(word);
    });
  };
  json.attribute("family", candidate.base->family);
  json.attribute("class", candidate.base->name);
  json.attribute("file", candidate.base->where.path);
  json.attribute("line", candidate.base->where.line);
  json.attribute("percent", percent(candidate.alike));
  list("same_members", candidate.same_members);
  list("members_of_other_types", candidate.other_types);
  json.attributeArray("methods", [&] {
    for (const MethodLikeness& method : candidate.methods)
      json.object([&] {
        json.attribute("name", method.name);
        json.attribute("percent", percent(method.alike));
      });
  });
  list("to_add", candidate.to_add);
  list("to_remove", candidate.to_remove);
}

}  // namespace

std::string common_prefix(const std::vector<ClassCode>& classes, const std::vector<ClassCode>& catalogue,
                          const std::vector<std::string>& catalogue_prefixes) {
  std::set<std::string> rests;  // "Attention", "DecoderLayer"
  for (const ClassCode& one : catalogue)
    for (const std::string& prefix : catalogue_prefixes)
      if (one.name.starts_with(prefix) && one.name.size() > prefix.size()) rests.insert(one.name.substr(prefix.size()));
  std::map<std::string, int> votes;
  for (const ClassCode& one : classes) {
    std::string longest;
    for (const std::string& rest : rests)
      if (one.name.ends_with(rest) && one.name.size() > rest.size() && rest.size() > longest.size()) longest = rest;
    if (!longest.empty()) ++votes[one.name.substr(0, one.name.size() - longest.size())];
  }
  const auto most = std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
  return most == votes.end() ? "" : most->first;
}

std::vector<Suggestion> suggest(const std::vector<ClassCode>& classes, const std::vector<ClassCode>& catalogue,
                                double least, size_t most) {
  std::vector<Suggestion> suggestions;
  for (const ClassCode& own : classes) {
    Suggestion suggestion{&own, {}};
    for (const ClassCode& base : catalogue)
      if (Candidate candidate = compare(own, base); candidate.alike >= least)
        suggestion.candidates.push_back(std::move(candidate));
    std::ranges::stable_sort(suggestion.candidates, std::greater<>(), &Candidate::alike);
    if (suggestion.candidates.size() > most) suggestion.candidates.resize(most);
    suggestions.push_back(std::move(suggestion));
  }
  return suggestions;
}

std::string suggestions_text(const std::vector<Suggestion>& suggestions) {
  std::string text;
  for (const Suggestion& suggestion : suggestions) {
    text.append(to_text(suggestion.hand_written->where))
        .append(": ")
        .append(suggestion.hand_written->name)
        .append("\n");
    if (suggestion.candidates.empty()) text += "  nothing in the catalogue is similar to it\n";
    for (const Candidate& candidate : suggestion.candidates) text += get_text(candidate);
  }
  return text;
}

std::string suggestions_json(const std::vector<Suggestion>& suggestions, const std::string& prefix) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::json::OStream json(out, 2);
  json.object([&] {
    json.attribute("prefix", prefix);
    json.attributeArray("classes", [&] {
      for (const Suggestion& suggestion : suggestions)
        json.object([&] {
          json.attribute("name", suggestion.hand_written->name);
          json.attribute("file", suggestion.hand_written->where.path);
          json.attribute("line", suggestion.hand_written->where.line);
          json.attributeArray("candidates", [&] {
            for (const Candidate& candidate : suggestion.candidates) json.object([&] { write(json, candidate); });
          });
        });
    });
  });
  out << "\n";
  out.flush();
  return text;
}

}  // namespace modgen
