#include "checks/records.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "checks/build_identity.h"
#include "checks/digest.h"
#include "generator/source/families.h"
#include "generator/source/files.h"

namespace modgen {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kShipped = "<shipped>/";
constexpr std::string_view kFirstLine =
    "# What generated/*.h of the same name was made from. Written by modgen, verified by modcheck; commit it.";
constexpr std::string_view kFormat = "1";

/// The path relative to `folder`, or "" if it is elsewhere.
std::string below(const fs::path& path, const fs::path& folder) {
  const std::string relative = path.lexically_relative(folder).generic_string();
  return relative.starts_with("..") ? "" : relative;
}

}  // namespace

std::string Tree::name_for(const fs::path& path) const {
  if (path.is_relative()) return path.lexically_normal().generic_string();
  const fs::path normal = path.lexically_normal();
  if (std::string name = below(normal, fs::absolute(root).lexically_normal()); !name.empty()) return name;
  if (std::string name = below(normal, fs::absolute(shipped).lexically_normal()); !name.empty())
    return std::string(kShipped) + name;
  throw std::runtime_error(path.string() +
                           ": a spec depends on this file, which is neither in the project nor shipped with modgen: "
                           "move it into the project");
}

fs::path Tree::path_to(std::string_view name) const {
  if (name.starts_with(kShipped)) return shipped / name.substr(kShipped.size());
  return root / name;
}

fs::path program_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

fs::path shipped_tree(const fs::path& root) {
  // A copy of the prelude alone does not make a tree that ships it.
  if (fs::exists(root / "modular" / "modular.h") && fs::exists(root / "runtime" / "model")) return root;
  const fs::path installed = program_folder().parent_path() / "include" / "modular";
  return fs::exists(installed / "modular" / "modular.h") ? installed : fs::path(MODULAR_SOURCE_FOLDER);
}

GeneratorIdentity built_generator() { return {MODULAR_GENERATOR_DIGEST, MODULAR_LLVM_RELEASE, MODULAR_TORCH_RELEASE}; }

const std::optional<std::string>& TreeFiles::digest(const std::string& name) {
  const auto [known, is_new] = digests_.try_emplace(name);
  if (is_new)
    if (const std::optional<std::string> text = read_file_if_any(tree_.path_to(name)))
      known->second = digest_of_text(*text);
  return known->second;
}

bool TreeFiles::exists(const std::string& name) {
  const auto [known, is_new] = exists_.try_emplace(name);
  if (std::error_code unreadable; is_new) known->second = fs::is_regular_file(tree_.path_to(name), unreadable);
  return known->second;
}

Record make_record(TreeFiles& files, const std::string& family, std::string_view output_bytes,
                   const std::vector<std::string>& read, const std::vector<std::string>& absent) {
  const GeneratorIdentity generator = built_generator();
  Record record{.generator = generator.sources,
                .llvm = generator.llvm,
                .torch = generator.torch,
                .output = digest(output_bytes),
                .spec = {},
                .read = {},
                .absent = {}};
  const Tree& tree = files.tree();
  const auto compute_digest = [&](const std::string& name) {
    if (const std::optional<std::string>& known = files.digest(name)) return *known;
    throw std::runtime_error(tree.path_to(name).string() + " is gone");
  };
  record.spec = {spec_name(family), compute_digest(spec_name(family))};
  for (const std::string& path : read) {
    std::string name = tree.name_for(path);
    if (name != record.spec.name) record.read.push_back({name, compute_digest(name)});
  }
  for (const std::string& path : absent) record.absent.push_back(tree.name_for(path));
  std::ranges::sort(record.read, {}, &FileDigest::name);
  std::ranges::sort(record.absent);
  record.absent.erase(std::ranges::unique(record.absent).begin(), record.absent.end());
  return record;
}

std::string to_text(const Record& record) {
  std::ostringstream text;
  text << kFirstLine << "\nformat " << kFormat << "\ngenerator " << record.generator << "\nllvm " << record.llvm
       << "\ntorch " << record.torch << "\noutput " << record.output << "\nspec " << record.spec.digest << ' '
       << record.spec.name << '\n';
  for (const FileDigest& file : record.read) text << "read " << file.digest << ' ' << file.name << '\n';
  for (const std::string& name : record.absent) text << "absent " << name << '\n';
  return text.str();
}

Record parse_record(std::string_view text) {
  Record record;
  std::string format;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with('#')) continue;
    auto reject = [&]() -> std::runtime_error {
      return std::runtime_error("line " + std::to_string(number) +
                                " of the record is damaged: rerun modgen to rewrite it");
    };
    if (line.ends_with('\r')) throw reject();
    const size_t space = line.find(' ');
    if (space == std::string::npos) throw reject();
    const std::string key = line.substr(0, space), value = line.substr(space + 1);
    auto file = [&]() -> FileDigest {
      const size_t gap = value.find(' ');
      if (gap == std::string::npos) throw reject();
      return {value.substr(gap + 1), value.substr(0, gap)};
    };
    if (key == "format") {
      format = value;
      if (format != kFormat)
        throw std::runtime_error("the record has format " + format + ", but this modcheck supports format " +
                                 std::string(kFormat));
    } else if (key == "generator") {
      record.generator = value;
    } else if (key == "llvm") {
      record.llvm = value;
    } else if (key == "torch") {
      record.torch = value;
    } else if (key == "output") {
      record.output = value;
    } else if (key == "spec") {
      record.spec = file();
    } else if (key == "read") {
      record.read.push_back(file());
    } else if (key == "absent") {
      record.absent.push_back(value);
    } else {
      throw reject();
    }
  }
  if (format.empty() || record.spec.name.empty() || record.output.empty())
    throw std::runtime_error("the record is incomplete: rerun modgen to rewrite it");
  return record;
}

std::vector<std::string> reasons_to_regenerate(const Record& record, TreeFiles& files, const std::string& family,
                                               const fs::path& output_folder, const GeneratorIdentity& generator) {
  std::vector<std::string> reasons;
  if (record.generator != generator.sources) reasons.push_back("it was generated by another version of the generator");
  if (record.llvm != generator.llvm)
    reasons.push_back("it was generated with LLVM " + record.llvm + ", this is " + generator.llvm);
  if (record.torch != generator.torch)
    reasons.push_back("it was generated for torch " + record.torch + ", this is " + generator.torch);
  const std::optional<std::string> output = read_file_if_any(output_folder / (family + ".h"));
  if (!output) {
    reasons.push_back("it does not exist");
  } else if (digest(*output) != record.output) {
    reasons.push_back(output->find('\r') == std::string::npos ? "it was edited"
                                                              : "it was edited: it has carriage returns");
  }
  if (record.spec.name != spec_name(family)) reasons.push_back("its record is for " + record.spec.name);
  auto verify = [&](const FileDigest& file) {
    const std::optional<std::string>& now = files.digest(file.name);
    if (!now)
      reasons.push_back(file.name + " is gone");
    else if (*now != file.digest)
      reasons.push_back(file.name + " has changed");
  };
  verify(record.spec);
  for (const FileDigest& file : record.read) verify(file);
  for (const std::string& name : record.absent)
    if (files.exists(name)) reasons.push_back(name + " is new and shadows a file that was included");
  return reasons;
}

bool is_current(TreeFiles& files, const std::string& family, const fs::path& output_folder) {
  const std::optional<std::string> text = read_file_if_any(output_folder / (family + ".lock"));
  if (!text) return false;
  try {
    return reasons_to_regenerate(parse_record(*text), files, family, output_folder, built_generator()).empty();
  } catch (const std::runtime_error&) {
    return false;  // a damaged record is rewritten
  }
}

}  // namespace modgen
