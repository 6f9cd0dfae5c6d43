// modcheck's command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>

#include "checks/check.h"
#include "checks/print.h"
#include "generator/source/files.h"

namespace {

constexpr int kClean = 0, kDrift = 1, kUnchecked = 2;

constexpr const char* kFooter =
    "exit codes: 0 clean, 1 generated/ is not what modular/ says, 2 it could not be checked\n"
    "Digests are not authentication: in continuous integration use --full, which trusts no record.";

}  // namespace

int main(int count, char** arguments) try {
  modgen::let_writes_fail();
  modgen::CheckOptions options;
  std::string root = ".", shipped, torch, format = "text";
  bool no_diff = false, version = false;
  CLI::App app("modcheck: proves that generated/ is what modular/ says");
  app.footer(kFooter);
  app.add_option("families", options.families, "check these only, by the names of their specs");
  app.add_option("--root", root, "the folder that holds modular/ and generated/")->capture_default_str();
  app.add_option("--changed-since", options.changed_since,
                 "check only families that a change since this git revision concerns")
      ->excludes("families");
  app.add_flag("--full", options.full, "generate everything again and compare, whatever the records say");
  app.add_flag("--fix", options.fix, "write what should be there; exits with 0 where all could be fixed");
  app.add_flag("--no-diff", no_diff, "name what differs without showing how");
  app.add_option("--format", format, "text, json, github (annotations) or sarif (2.1.0)")
      ->check(CLI::IsMember({"text", "json", "github", "sarif"}))
      ->capture_default_str();
  app.add_option("--modgen", options.modgen, "the modgen to generate with (default: the one beside modcheck)");
  app.add_option("--shipped", shipped, "the tree that ships the prelude and runtime/model/ (default: modcheck's own)");
  app.add_option("--torch", torch, "folder of an installed torch (default: as configured)");
  app.add_flag("--version", version, "print what modcheck was built from");
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

  const auto [differences, notices] = modgen::check(options);
  for (const std::string& notice : notices) std::fprintf(stderr, "modcheck: %s\n", notice.c_str());
  std::fputs(modgen::print(differences, format, !no_diff, options.tree.root).c_str(), stdout);
  modgen::check_standard_output();
  auto any = [&](modgen::Verdict verdict) {
    return std::ranges::count(differences, verdict, &modgen::Difference::verdict) > 0;
  };
  return any(modgen::Verdict::unchecked) || any(modgen::Verdict::rejected) ? kUnchecked
         : any(modgen::Verdict::drift)                                     ? kDrift
                                                                           : kClean;
} catch (const std::exception& error) {
  std::fprintf(stderr, "modcheck: %s\n", error.what());
  return kUnchecked;
}
