// modgen's command line. Everything is generated in memory first; files are written last, and only if there are no
// errors.
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/Signals.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>

#include "checks/records.h"
#include "checks/unified_diff.h"
#include "generator/generate.h"
#include "generator/source/files.h"
#include "generator/source/fixes.h"
#include "generator/source/parsed.h"
#include "generator/tool/commands.h"
#include "generator/tool/suggest.h"

namespace cl = llvm::cl;
namespace fs = std::filesystem;
using modgen::Emit, modgen::EmitFormat;

namespace {

cl::OptionCategory category("modgen options");
cl::list<std::string> families(cl::Positional, cl::desc("[family...]"), cl::cat(category));
cl::opt<bool> all("all", cl::desc("Generate every family of the root's modular/"), cl::cat(category));
cl::opt<std::string> root("root", cl::desc("The tree that holds modular/ and generated/ (default: .)"),
                          cl::value_desc("dir"), cl::init("."), cl::cat(category));
cl::opt<std::string> output_dir("output-dir", cl::desc("Write the generated files there (default: ROOT/generated)"),
                                cl::value_desc("dir"), cl::cat(category));
cl::opt<bool> check("check", cl::desc("Write nothing; exit with 1 if a generated file differs"), cl::cat(category));
cl::opt<bool> force("force", cl::desc("Write every file, even if nothing has changed"), cl::cat(category));
cl::opt<bool> diff("diff", cl::desc("Write nothing; print what would change as a unified diff"), cl::cat(category));
cl::opt<bool> apply_fixes("apply-fixes", cl::desc("Apply the fixes that errors suggest to the specs, then generate"),
                          cl::cat(category));
cl::opt<std::string> new_family("new",
                                cl::desc("Write a starting spec modular/FAMILY.h; existing files are never replaced"),
                                cl::value_desc("family"), cl::cat(category));
cl::list<std::string> from("from", cl::desc("The family or families that --new derives from"), cl::CommaSeparated,
                           cl::value_desc("family"), cl::cat(category));
cl::opt<std::string> prefix("prefix", cl::desc("Class-name prefix of --new (default: MyLlama for my_llama)"),
                            cl::value_desc("prefix"), cl::cat(category));
cl::opt<std::string> suggest(
    "suggest",
    cl::desc("List the classes of the catalogue, or of the given families, that the classes of a libtorch model "
             "could inherit from"),
    cl::value_desc("file"), cl::cat(category));
cl::opt<bool> watch("watch", cl::desc("Regenerate the families that a changed spec affects, until interrupted"),
                    cl::cat(category));
cl::opt<std::string> compile_commands(
    "compile-commands",
    cl::desc("Add the specs to a compilation database for clangd (default: ROOT/modular/compile_commands.json)"),
    cl::ValueOptional, cl::value_desc("file"), cl::cat(category));
cl::opt<Emit> emit("emit", cl::desc("Print to standard output instead of writing files"), cl::init(Emit::nothing),
                   cl::values(clEnumValN(Emit::deps, "deps",
                                         "families, their files and classes, and the classes' bases"),
                              clEnumValN(Emit::plan, "plan", "the parallel plans of the entries"),
                              clEnumValN(Emit::layout, "layout", "each parameter's shape, unit, split, stage and tie")),
                   cl::cat(category));
cl::opt<EmitFormat> format(
    "format", cl::desc("Output format of --emit, and of --suggest (whose default is text)"), cl::init(EmitFormat::json),
    cl::values(clEnumValN(EmitFormat::json, "json", "JSON (default)"),
               clEnumValN(EmitFormat::dot, "dot", "Graphviz, for deps and layout"),
               clEnumValN(EmitFormat::text, "text",
                          "for plan: the operations that are proven and those that are assumed")),
    cl::cat(category));
cl::opt<bool> explain("explain", cl::desc("List every change to inherited text that is not a resolved reference"),
                      cl::cat(category));
cl::opt<std::string> diagnostics("diagnostics", cl::desc("Also write errors and their fixes to FILE as JSON"),
                                 cl::value_desc("file"), cl::cat(category));
cl::opt<unsigned> jobs("jobs", cl::desc("Number of parallel processes (default: number of CPUs)"), cl::value_desc("n"),
                       cl::init(0), cl::cat(category));
cl::opt<std::string> cache_dir(
    "cache-dir", cl::desc("Cache of precompiled preludes (default: $XDG_CACHE_HOME/modgen or ~/.cache/modgen)"),
    cl::value_desc("dir"), cl::cat(category));
cl::opt<std::string> shipped("shipped",
                             cl::desc("The tree that contains the prelude and runtime/model/ (default: as built)"),
                             cl::value_desc("dir"), cl::cat(category));
cl::opt<std::string> torch("torch", cl::desc("Folder of an installed torch (default: as configured)"),
                           cl::value_desc("dir"), cl::cat(category));
cl::opt<std::string> resource_dir("resource-dir", cl::desc("Clang's resource folder (default: as configured)"),
                                  cl::value_desc("dir"), cl::cat(category));

constexpr int kDrift = 1, kFailed = 2;

void print_errors(const modgen::GenerateResult& result) {
  for (const std::string& notice : result.notices) std::cerr << "modgen: " << notice << "\n";
  for (const modgen::Diagnostic& diagnostic : result.diagnostics) std::cerr << modgen::to_text(diagnostic);
}

/// Applies fixes and regenerates until no fix is left, since one error may hide another. Prints the changes as a diff.
modgen::GenerateResult generate_with_fixes(const modgen::GenerateOptions& options) {
  constexpr int kRounds = 10;
  modgen::GenerateResult result = modgen::generate(options);
  for (int round = 0; round < kRounds && !result.ok(); ++round) {
    const std::vector<modgen::Diagnostic> fixed = modgen::mendable(result.diagnostics, options.root);
    const std::vector<modgen::MendedFile> files = modgen::apply_fixes(fixed);
    if (files.empty()) break;
    std::vector<std::pair<fs::path, std::string>> written;
    for (const modgen::MendedFile& file : files) written.emplace_back(file.path, file.after);
    modgen::write_files(written);
    for (const modgen::Diagnostic& diagnostic : fixed)
      std::cout << diagnostic.where.path << ":" << diagnostic.where.line << ":" << diagnostic.where.column
                << ": mended: " << diagnostic.message << "\n";
    for (const modgen::MendedFile& file : files) {
      const std::string name = fs::path(file.path).lexically_relative(fs::canonical(options.root)).string();
      std::cout << modgen::unified_diff(name, file.before, name, file.after);
    }
    result = modgen::generate(options);
  }
  return result;
}

std::string shipped_folder() {
  return shipped.empty() ? modgen::shipped_tree(root.getValue()).string() : shipped.getValue();
}

modgen::GenerateOptions generate_options(std::vector<std::string> names) {
  return {root, shipped_folder(), torch, resource_dir, cache_dir, std::move(names), emit != Emit::nothing, jobs};
}

fs::path output_folder() {
  return output_dir.empty() ? fs::path(root.getValue()) / "generated" : fs::path(output_dir.getValue());
}

int write_new_family() {
  if (from.empty()) throw std::runtime_error("--new needs a family to derive from: modgen --new my_llama --from llama");
  const std::string name = "modular/" + new_family + ".h";
  const fs::path path = fs::path(root.getValue()) / name;
  for (const fs::path& tree : {fs::path(root.getValue()), fs::path(shipped_folder())})
    if (fs::exists(fs::symlink_status(tree / name)))
      throw std::runtime_error((tree / name).string() + " exists already");
  modgen::GenerateOptions options = generate_options({from.begin(), from.end()});
  options.keep_models = true;
  const modgen::GenerateResult bases = modgen::generate(options);
  print_errors(bases);
  if (!bases.ok()) return kFailed;
  modgen::write_file(path, modgen::starting_spec({new_family, prefix}, bases.outputs));
  std::cout << path.string() << " is written. Edit it, then run modgen " << new_family.getValue() << "\n";
  return 0;
}

/// The families given on the command line, or all families of the root and the shipped tree.
std::vector<std::string> catalogue() {
  if (!families.empty()) return {families.begin(), families.end()};
  std::set<std::string> names;
  for (const fs::path& tree : {fs::path(root.getValue()), fs::path(shipped_folder())})
    if (fs::is_directory(tree / "modular"))
      for (const std::string& family : modgen::families_in(tree)) names.insert(family);
  return {names.begin(), names.end()};
}

int suggest_bases() {
  if (format == EmitFormat::dot) throw std::runtime_error("--suggest prints text, or JSON with --format json");
  modgen::GenerateOptions options = generate_options(catalogue());
  options.keep_models = true;
  modgen::HandWritten hand_written = modgen::read_hand_written(options, suggest);
  for (const modgen::Diagnostic& error : hand_written.errors) std::cerr << modgen::to_text(error);
  if (!hand_written.errors.empty()) return kFailed;
  if (hand_written.classes.empty())
    throw std::runtime_error(suggest + " has no class that derives from torch::nn::Module");
  const modgen::GenerateResult result = modgen::generate(options);
  print_errors(result);
  if (!result.ok()) return kFailed;
  std::vector<modgen::ClassCode> bases;
  std::vector<std::string> prefixes;
  for (const modgen::Output& output : result.outputs) {
    prefixes.push_back(output.model->prefix);
    for (modgen::ClassCode& code : modgen::find_classes(output)) bases.push_back(std::move(code));
  }
  const std::string own_prefix = modgen::common_prefix(hand_written.classes, bases, prefixes);
  modgen::make_comparable(hand_written.classes, own_prefix);
  const auto suggestions = modgen::suggest(hand_written.classes, bases);
  std::cout << (format.getNumOccurrences() ? modgen::suggestions_json(suggestions, own_prefix)
                                           : modgen::suggestions_text(suggestions));
  return 0;
}

int watch_specs() {
  const modgen::ParseOptions folders = modgen::resolved(generate_options({}));
  modgen::WatchOptions options{{folders.root, folders.shipped},
                               output_folder(),
                               {families.begin(), families.end()},
                               fs::read_symlink("/proc/self/exe"),
                               {"--root", root, "--shipped", shipped_folder(), "--output-dir", output_folder()}};
  for (const auto& [flag, value] :
       {std::pair{"--torch", torch.getValue()}, std::pair{"--resource-dir", resource_dir.getValue()},
        std::pair{"--cache-dir", cache_dir.getValue()}})
    if (!value.empty()) options.arguments.insert(options.arguments.end(), {flag, value});
  return modgen::watch(options);
}

int write_compile_commands() {
  const fs::path path = compile_commands.empty() ? fs::path(root.getValue()) / "modular/compile_commands.json"
                                                 : fs::path(compile_commands.getValue());
  const std::string before = modgen::read_file_if_any(path).value_or("");
  const modgen::ParseOptions folders = modgen::resolved(generate_options({}));
  const std::vector<std::string> specs = modgen::families_in(root.getValue());
  try {
    const fs::path holders = fs::absolute(fs::weakly_canonical(path).parent_path() / "spec_holders.inc");
    if (const std::string text = modgen::find_holders(root.getValue(), specs);
        modgen::read_file_if_any(holders).value_or("") != text)
      modgen::write_file(holders, text);
    const std::string after =
        modgen::with_specs(before, {folders.root, folders.shipped, folders.torch, holders}, specs);
    // A link to a build folder's database stays a link.
    if (after != before) modgen::write_file(fs::weakly_canonical(path), after);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
  std::cout << path.string() << " says how to read " << specs.size() << " specs\n";
  return 0;
}

int run() {
  const int modes = !new_family.empty() + !suggest.empty() + watch + (compile_commands.getNumOccurrences() > 0);
  if (modes > 1 || (modes == 1 && (check || diff || explain || apply_fixes || emit != Emit::nothing)))
    throw std::runtime_error(
        "--new, --suggest, --watch and --compile-commands cannot be combined with each other, nor with --check, "
        "--diff, "
        "--explain, --apply-fixes or --emit");
  if ((!from.empty() || !prefix.empty()) && new_family.empty())
    throw std::runtime_error("--from and --prefix require --new");
  if (!new_family.empty()) return write_new_family();
  if (!suggest.empty()) return suggest_bases();
  if (watch) return watch_specs();
  if (compile_commands.getNumOccurrences() > 0) return write_compile_commands();
  if (force && (check || diff || explain || emit != Emit::nothing))
    throw std::runtime_error("--force writes files and cannot be combined with --check, --diff, --explain or --emit");
  if (check && diff)
    throw std::runtime_error("--check and --diff exclude each other: --diff shows what --check would find");
  if (apply_fixes && (check || diff || explain || emit != Emit::nothing))
    throw std::runtime_error(
        "--apply-fixes writes specs and cannot be combined with --check, --diff, --explain or --emit");
  if (!families.empty() && all) throw std::runtime_error("give either families or --all, not both");
  modgen::GenerateOptions options = generate_options({families.begin(), families.end()});
  if (all) options.families = modgen::families_in(root.getValue());
  if (options.families.empty()) throw std::runtime_error("nothing to do: name a family (modgen gemma) or give --all");
  if (emit == Emit::nothing)
    for (const std::string& family : options.families)
      if (const auto spec = modgen::find_spec(root.getValue(), options.shipped, family);
          spec && *spec != root.getValue() / fs::path(modgen::spec_name(family)))
        throw std::runtime_error(modgen::spec_name(family) + " is shipped with modgen, and " + root.getValue() +
                                 " has no spec of that name: modgen --new my_" + family + " --from " + family +
                                 " writes one that derives from it");

  const modgen::GenerateResult result = apply_fixes ? generate_with_fixes(options) : modgen::generate(options);
  print_errors(result);
  if (!diagnostics.empty()) modgen::write_file(diagnostics.getValue(), modgen::to_json(result.diagnostics));
  if (!result.ok()) {
    std::cerr << (apply_fixes ? "modgen: nothing was generated\n" : "modgen: nothing was written\n");
    if (const size_t count = modgen::mendable(result.diagnostics, options.root).size(); count && !apply_fixes)
      std::cerr << "modgen --apply-fixes can mend " << count << " of these errors\n";
    return kFailed;
  }
  if (explain)
    for (const modgen::Output& output : result.outputs)
      for (const modgen::Explanation& change : output.explanations)
        std::cout << output.path << ": " << change.where.path << ":" << change.where.line << ":" << change.where.column
                  << ": " << change.before << "\n    becomes " << change.after << "\n";
  if (emit != Emit::nothing) {
    std::cout << modgen::describe(result, emit, format);
    return 0;
  }
  const fs::path folder = output_folder();
  modgen::TreeFiles files({fs::canonical(root.getValue()), fs::canonical(options.shipped)});
  bool differs = false;
  std::vector<std::pair<fs::path, std::string>>
      to_write;  // written together, so that either all families are written or none
  for (const modgen::Output& output : result.outputs) {
    const modgen::Record record = modgen::make_record(files, output.family, output.bytes, output.read, output.absent);
    for (const auto& [name, bytes] :
         {std::pair{output.family + ".h", output.bytes}, std::pair{output.family + ".lock", modgen::to_text(record)}}) {
      const std::string path = (folder / name).string();
      const std::optional<std::string> before = modgen::read_file_if_any(path);
      if (before == bytes && !force) continue;
      differs = true;
      if (diff)
        std::cout << modgen::unified_diff(path, before.value_or(""), path + " (generated)", bytes);
      else if (check)
        std::cerr << path << (before ? " is not what modular/" : " does not exist; it would come from modular/")
                  << output.family << ".h" << (before ? " says" : "") << "\n";
      else if (!explain)
        to_write.emplace_back(path, bytes);
    }
  }
  modgen::write_files(to_write);
  return differs && (check || diff) ? kDrift : 0;
}

}  // namespace

int main(int argc, char** argv) {
  // For tests: crashes of Clang on text that is not C++ are caught, but crashes of modgen must not be hidden.
  if (std::getenv("MODGEN_SHOW_CRASHES")) llvm::sys::PrintStackTraceOnErrorSignal(argv[0]);
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream& out) { out << modgen::generator_version() << "\n"; });
  // Clang and LLVM exit with 1 when they give up.
  llvm::install_fatal_error_handler([](void*, const char* why, bool) {
    std::cerr << "modgen: " << why << "\n";
    std::_Exit(kFailed);
  });
  modgen::let_writes_fail();
  if (!cl::ParseCommandLineOptions(
          argc, argv,
          "modgen: flattens modular specs (modular/<family>.h) into self-contained models (generated/<family>.h)\n\n"
          "exit codes: 0 done, 1 --check or --diff found a difference, 2 an error\n",
          &llvm::errs()))
    return kFailed;
  try {
    const int exit_code = run();
    modgen::check_standard_output();
    return exit_code;
  } catch (const std::exception& error) {
    std::cerr << "modgen: " << error.what() << "\n";
    return kFailed;
  }
}
