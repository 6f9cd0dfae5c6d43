#include "generator/tool/commands.h"

#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <set>
#include <stdexcept>

#include "checks/digest.h"
#include "generator/parse/project_files.h"
#include "generator/source/files.h"

namespace modgen {

std::string find_holders(const std::filesystem::path& root, const std::vector<std::string>& families) {
  std::string text =
      "// Written by modgen --compile-commands: holders that specs leave out.\n#include \"modular/modular.h\"\n";
  for (const std::string& family : families) {
    std::string space;
    for (const std::string& holder : find_implicit_holders(read_file(root / "modular" / (family + ".h"))))
      space += llvm::formatv(
          "class {0}Impl;\nclass {0} : public EarlyHolder<{0}Impl> {{ using EarlyHolder::EarlyHolder; };\n", holder);
    if (!space.empty()) text += "namespace modular::" + family + " {\n" + space + "}\n";
  }
  return text;
}

std::string with_specs(const std::string& before, const SpecFlags& flags, const std::vector<std::string>& families) {
  llvm::json::Array entries;
  std::set<std::string> files;
  for (const std::string& family : families) files.insert((flags.root / "modular" / (family + ".h")).string());
  if (!before.empty()) {
    auto parsed = llvm::json::parse(before);
    if (!parsed || !parsed->getAsArray()) {
      std::string why = parsed ? "not a list" : llvm::toString(parsed.takeError());
      throw std::runtime_error("this is not a compilation database: " + why);
    }
    for (llvm::json::Value& entry : *parsed->getAsArray()) {
      const auto* object = entry.getAsObject();
      const auto file = object ? object->getString("file") : std::nullopt;
      if (!file || !files.count(file->str())) entries.push_back(std::move(entry));
    }
  }
  const std::filesystem::path torch = flags.torch / "include";
  for (const std::string& file : files) {
    llvm::json::Array arguments{"clang++", "-xc++-header", "-std=c++20", "-Wno-pragma-once-outside-header",
                                "-I" + flags.root.string()};
    if (flags.shipped != flags.root) arguments.push_back("-I" + flags.shipped.string());
    for (const std::string& argument :
         {std::string("-isystem"), torch.string(), std::string("-isystem"), (torch / "torch/csrc/api/include").string(),
          std::string("-include"), flags.holders.string(), std::string("-fsyntax-only"), file})
      arguments.push_back(argument);
    entries.push_back(
        llvm::json::Object{{"directory", flags.root.string()}, {"file", file}, {"arguments", std::move(arguments)}});
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}", llvm::json::Value(std::move(entries))) << "\n";
  return text;
}

}  // namespace modgen
