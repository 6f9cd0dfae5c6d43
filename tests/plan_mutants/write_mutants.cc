// Writes the generated files of mutants that modgen accepts, so that a program can run them: write_mutants FOLDER
// GROUPS [family…]. Mutants that do not overlap are combined in one family; each family gives up to GROUPS of them.
// Also writes the generated model itself with removable woven calls.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "generator/model/model.h"
#include "generator/print/print.h"
#include "generator/weave/weave.h"
#include "tests/generator/plan_mutants.h"
#include "tests/plan_mutants/woven_calls.h"

namespace fs = std::filesystem;

namespace modgen {
namespace {

struct Group {
  std::vector<Change> changes;
  std::vector<std::string> names;
  bool splits = false, wraps = false;  // splits more layers; wraps values of layers
};

/// Whether the mutant splits a layer that was not split: mutants that need full values cannot be combined with it.
bool splits(const Mutant& mutant) { return mutant.name.ends_with(" added"); }

bool overlaps(const Group& group, const Mutant& mutant) {
  if ((group.splits && !mutant.method.empty()) || (group.wraps && splits(mutant))) return true;
  for (const Change& existing : group.changes)
    for (const Change& added : mutant.changes) {
      const uint32_t begin = std::max(existing.where.begin, added.where.begin);
      const uint32_t end = std::min(existing.where.end, added.where.end);
      if (begin <= end) return true;  // also if they touch: insertions at one position have no order
    }
  return false;
}

/// Accepted mutants in up to `count` groups, in a different order for each family, so that all families together cover
/// most.
std::vector<Group> make_groups(std::vector<Mutant> mutants, size_t count, const std::string& family) {
  std::erase_if(mutants, [](const Mutant& mutant) { return mutant.verdict != Verdict::accepted; });
  std::mt19937 order(std::hash<std::string>()(family));
  std::shuffle(mutants.begin(), mutants.end(), order);
  std::vector<Group> groups(count);
  for (const Mutant& mutant : mutants) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return !overlaps(g, mutant); });
    if (group == groups.end()) continue;
    group->changes.insert(group->changes.end(), mutant.changes.begin(), mutant.changes.end());
    group->names.push_back(mutant.name);
    group->splits = group->splits || splits(mutant);
    group->wraps = group->wraps || !mutant.method.empty();
  }
  std::erase_if(groups, [](const Group& group) { return group.names.empty(); });
  return groups;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// Writes generated/<family>.h with woven.h's calls, and their list.
void write_switched(const std::string& family, const fs::path& folder) {
  const std::string text = read(fs::path(MODULAR_SOURCE_DIR) / "generated" / (family + ".h"));
  std::vector<Change> changes;
  std::string list;
  for (const WovenCall& call : woven_calls(family, text)) {
    changes.insert(changes.end(), call.switching.begin(), call.switching.end());
    list += "    \"" + call.name + "\",\n";
  }
  const std::string header = family + "_switched.h";
  write(folder / header, changed(text, changes));
  write(folder / (family + "_switched.cc"), "#include \"tests/plan_mutants/woven.h\"\n#include \"" + header +
                                                "\"\n\nstatic const bool " + family +
                                                "_listed = modular::woven::list({\n" + list + "});\n");
}

size_t write_family(const std::string& family, size_t count, const fs::path& folder) {
  GenerateOptions options;
  options.root = MODULAR_SOURCE_DIR;
  options.families = {family};
  const FlattenedSpec spec = flatten_specs(options).front();
  const std::vector<Group> groups =
      make_groups(make_mutants(spec, read_flattened(options, {spec}).front()), count, family);
  std::vector<FlattenedSpec> specs;
  for (const Group& group : groups) {
    FlattenedSpec changed_spec = spec;
    changed_spec.text = changed(spec.text, group.changes);
    specs.push_back(renamed(changed_spec, family + "_" + std::to_string(specs.size())));
  }
  std::vector<FamilyModel> models = read_flattened(options, specs);
  size_t mutants = 0;
  for (size_t i = 0; i < models.size(); ++i) {
    for (const Finding& finding : weave(models[i]))
      throw std::runtime_error(specs[i].family + " is rejected: " + finding.message);
    write(folder / (specs[i].family + ".h"), print(models[i]));
    write(folder / (specs[i].family + ".cc"), "#include \"" + specs[i].family + ".h\"\n");
    std::string list;
    for (const std::string& name : groups[i].names) list += name + "\n";
    write(folder / (specs[i].family + ".txt"), list);
    mutants += groups[i].names.size();
  }
  return mutants;
}

}  // namespace
}  // namespace modgen

int main(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "write_mutants FOLDER GROUPS [family…]\n";
    return 2;
  }
  try {
    const fs::path folder = arguments[1];
    fs::remove_all(folder);
    fs::create_directories(folder);
    std::vector<std::string> families(arguments + 3, arguments + count);
    if (families.empty()) families = modgen::families_in(MODULAR_SOURCE_DIR);
    size_t mutants = 0;
    for (const std::string& family : families) {
      mutants += modgen::write_family(family, std::stoul(arguments[2]), folder);
      modgen::write_switched(family, folder);
    }
    std::cout << mutants << " accepted mutants of " << families.size() << " families are in " << folder.string()
              << "\n";
  } catch (const std::exception& error) {
    std::cerr << "write_mutants: " << error.what() << "\n";
    return 1;
  }
}
