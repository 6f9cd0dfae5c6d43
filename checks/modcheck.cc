// modcheck's command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>

#include "checks/check.h"
#include "checks/execute.h"
#include "checks/print.h"
#include "generator/source/files.h"

namespace {

constexpr int kClean = 0, kDrift = 1, kUnchecked = 2, kDiffers = 3;

constexpr const char* kFooter =
    "exit codes: 0 clean, 1 generated/ is out of date with modular/, 2 it could not be checked,\n"
    "3 --execute found a difference\n"
    "Digests are not authentication: in continuous integration use --full, which ignores records.";

}  // namespace

int main(int count, char** arguments) try {
  modgen::let_writes_fail();
  modgen::CheckOptions options;
  std::string root = ".", shipped, torch, format = "text";
  bool no_diff = false, version = false, executes = false;
  CLI::App app("modcheck: checks that generated/ is up to date with modular/");
  app.footer(kFooter);
  app.add_option("families", options.families, "check only these families, by spec name");
  app.add_option("--root", root, "the folder that contains modular/ and generated/")->capture_default_str();
  app.add_option("--changed-since", options.changed_since,
                 "check only families that changes since this git revision affect")
      ->excludes("families");
  app.add_flag("--full", options.full, "regenerate everything and compare, regardless of the records");
  app.add_flag("--fix", options.fix, "write the correct files; exits with 0 if everything could be fixed");
  app.add_flag(
      "--execute", executes,
      "if they are up to date, also compile the generated files and compare simulated meshes with one process");
  app.add_flag("--no-diff", no_diff, "list differences without diffs");
  app.add_option("--format", format, "text, json, github (annotations) or sarif (2.1.0)")
      ->check(CLI::IsMember({"text", "json", "github", "sarif"}))
      ->capture_default_str();
  app.add_option("--modgen", options.modgen, "the modgen executable to use (default: the one next to modcheck)");
  app.add_option("--shipped", shipped,
                 "the tree that contains the prelude and runtime/model/ (default: modcheck's own)");
  app.add_option("--torch", torch, "folder of an installed torch (default: as configured)");
  app.add_flag("--version", version, "print the generator and releases that modcheck was built with");
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kClean : kUnchecked;
  }
  if (version) {
    const modgen::GeneratorIdentity generator = modgen::built_generator();
    std::printf("modcheck: generator %s, LLVM %s, torch %s\n", generator.sources.c_str(), generator.llvm.c_str(),
                generator.torch.c_str());
    return kClean;
  }
  options.tree = {root, shipped.empty() ? modgen::shipped_tree(root) : std::filesystem::path(shipped)};
  if (options.modgen.empty()) options.modgen = modgen::program_folder() / "modgen";
  if (!torch.empty()) options.modgen_arguments = {"--torch", torch};

  const auto [differences, notices, families] = modgen::check(options);
  for (const std::string& notice : notices) std::fprintf(stderr, "modcheck: %s\n", notice.c_str());
  std::fputs(modgen::print(differences, format, !no_diff, options.tree.root).c_str(), stdout);
  modgen::check_standard_output();
  auto any = [&](modgen::Verdict verdict) {
    return std::ranges::count(differences, verdict, &modgen::Difference::verdict) > 0;
  };
  if (any(modgen::Verdict::unchecked) || any(modgen::Verdict::rejected)) return kUnchecked;
  if (any(modgen::Verdict::drift)) return kDrift;
  if (executes && !modgen::execute({options.tree, families, modgen::execute_flags(), !options.full})) return kDiffers;
  return kClean;
} catch (const std::exception& error) {
  std::fprintf(stderr, "modcheck: %s\n", error.what());
  return kUnchecked;
}
