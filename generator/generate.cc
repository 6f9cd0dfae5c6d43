#include "generator/generate.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <utility>

#include "generator/build_config.h"
#include "generator/family_job.h"
#include "generator/family_workers.h"
#include "generator/print/print.h"
#include "generator/print/print_plan.h"
#include "generator/source/families.h"
#include "generator/source/files.h"

namespace fs = std::filesystem;

namespace modgen {
namespace {

std::string real_folder(const std::string& path, const char* what) {
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  if (failed || !fs::is_directory(real)) throw std::runtime_error(std::string(what) + " " + path + " is not a folder");
  return real.string();
}

/// Reads the specs of all families, and starts workers that continue with those that have been read. Returns whether
/// this process continues with workers.families().
bool read_specs(Session& session, Specs& specs, FamilyWorkers& workers) {
  while (session.read_spec()) {
    specs.read_new();
    if (session.parsed().has_errors() || !session.has_next_spec()) continue;
    if (workers.starts_worker(session.specs_read())) return true;
  }
  return !session.parsed().has_errors() && workers.continues_here();
}

/// The generated file of `job`, with the locations in the specs of what its proofs name.
Output print_output(const Parsed& parsed, FamilyJob& job, bool keep_models) {
  Output output;
  output.bytes = print(job.model);
  const auto locate = [&](EntryPlan::Trust& trust) {
    const Location at = parsed.sources.locate(job.text.origin(trust.where.begin));
    trust.location = at.path + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
  };
  for (EntryPlan& plan : job.model.plans) {
    std::ranges::for_each(plan.proof.trusted, locate);
    std::ranges::for_each(plan.proof.obstacles, locate);
  }
  output.plan_json = plan_json(job.model);
  output.proof = to_text(job.validation) + proof_text(job.model);
  for (const Renaming& renaming : job.family->renamings())
    output.explanations.push_back({parsed.sources.locate(renaming.where), renaming.before, renaming.after});
  if (keep_models) output.model = std::make_shared<FamilyModel>(job.model), output.outline = job.outline;
  return output;
}

GenerateResult to_result(Parsed& parsed, const ParseOptions& folders, const std::vector<std::string>& families,
                         std::vector<FamilyJob>& jobs, bool keep_models) {
  GenerateResult result;
  result.notices = parsed.notices;
  result.diagnostics = to_diagnostics(parsed, folders, jobs);
  for (size_t index = 0; index < families.size(); ++index) {
    Output& output = result.outputs.emplace_back();
    if (result.ok() && index < jobs.size()) output = print_output(parsed, jobs[index], keep_models);
    output.family = families[index];
    output.path = "generated/" + families[index] + ".h";
  }
  set_dependencies(parsed, folders, result.outputs);
  return result;
}

/// The stages, for the families of `workers`.
GenerateResult run_stages(const ParseOptions& folders, FamilyWorkers& workers, bool keep_models) {
  std::vector<std::string> paths;
  for (const std::string& family : workers.families()) paths.push_back(spec_name(family));
  Session session(folders, paths);
  Specs specs(session.compiler(), session.parsed());
  const bool continues = read_specs(session, specs, workers);
  std::vector<FamilyJob> jobs = flatten(session, specs, continues ? workers.families() : std::vector<std::string>());
  validate(session, jobs);
  read_models(session, jobs);
  weave(session, jobs);
  return to_result(session.parsed(), folders, workers.families(), jobs, keep_models);
}

/// Generates `families` from one parse.
GenerateResult generate_together(const ParseOptions& folders, const std::vector<std::string>& families, size_t jobs,
                                 bool keep_models) {
  FamilyWorkers workers(families, jobs, keep_models);
  try {
    return workers.gathered(run_stages(folders, workers, keep_models));
  } catch (const std::exception& error) {
    workers.fail(error.what());
    throw;
  }
}

bool same(const Diagnostic& a, const Diagnostic& b) {
  return a.where.path == b.where.path && a.where.line == b.where.line && a.where.column == b.where.column &&
         a.message == b.message;
}

/// The diagnostics of `families`, each parsed on its own: one spec's error may hide another's or cause it.
std::vector<Diagnostic> diagnostics_of_each(const ParseOptions& folders, const std::vector<std::string>& families,
                                            size_t jobs) {
  std::vector<Diagnostic> all;
  for (GenerateResult& result : in_workers(
           families, jobs, [&](const std::string& family) { return generate_together(folders, {family}, 1, false); }))
    for (Diagnostic& one : result.diagnostics)
      if (std::ranges::none_of(all, [&](const Diagnostic& known) { return same(known, one); }))
        all.push_back(std::move(one));
  return all;
}

}  // namespace

ParseOptions resolved(const GenerateOptions& options) {
  const auto or_else = [](const std::string& given, const char* otherwise) {
    return given.empty() ? std::string(otherwise) : given;
  };
  ParseOptions result;
  result.root = real_folder(options.root, "the root");
  result.shipped = real_folder(or_else(options.shipped, MODGEN_SHIPPED), "modgen's own tree");
  const fs::path prelude = "modular/modular.h";
  if (!fs::exists(result.shipped / prelude) || !fs::is_directory(result.shipped / fs::path("runtime/model")))
    throw std::runtime_error("modgen's own tree " + result.shipped + " does not contain " + prelude.string() +
                             " and runtime/model/: set --shipped to the tree that does");
  if (fs::exists(result.root / prelude) && !fs::equivalent(result.root / prelude, result.shipped / prelude))
    throw std::runtime_error((result.root / prelude).string() + " hides the prelude that modgen ships, " +
                             (result.shipped / prelude).string() + ": remove it");
  result.torch = real_folder(or_else(options.torch, MODGEN_TORCH), "torch's folder");
  result.clang_resources =
      real_folder(or_else(options.clang_resources, MODGEN_CLANG_RESOURCES), "Clang's resource folder");
  const fs::path cache = options.cache.empty() ? cache_folder().value_or("") : fs::path(options.cache);
  if (!cache.empty()) result.cache = fs::absolute(cache).string();
  return result;
}

bool GenerateResult::ok() const {
  return std::none_of(diagnostics.begin(), diagnostics.end(),
                      [](const Diagnostic& one) { return one.severity == Diagnostic::Severity::error; });
}

GenerateResult generate(const GenerateOptions& options) {
  const ParseOptions folders = resolved(options);
  for (const std::string& family : options.families)
    if (!find_spec(folders.root, folders.shipped, family))
      throw std::runtime_error("there is no spec " + spec_name(family) + " below " + folders.root);
  const size_t jobs = options.jobs ? options.jobs : std::max(1u, std::thread::hardware_concurrency());
  GenerateResult result = generate_together(folders, options.families, jobs, options.keep_models);
  if (result.ok() || options.families.size() == 1) return result;
  if (std::vector<Diagnostic> all = diagnostics_of_each(folders, options.families, jobs); !all.empty())
    result.diagnostics = std::move(all);
  return result;
}

std::string generator_version() { return "modgen " MODGEN_VERSION ", LLVM " MODGEN_LLVM_VERSION; }

}  // namespace modgen
