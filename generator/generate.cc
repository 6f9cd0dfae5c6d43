#include "generator/generate.h"

#include <clang/Frontend/CompilerInstance.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

#include "generator/advice.h"
#include "generator/build_config.h"
#include "generator/flatten/family.h"
#include "generator/model/check_code.h"
#include "generator/model/model.h"
#include "generator/parse/parse.h"
#include "generator/print/check_woven.h"
#include "generator/print/print.h"
#include "generator/print/print_plan.h"
#include "generator/resolved.h"
#include "generator/result_bytes.h"
#include "generator/source/apply_fixes.h"
#include "generator/source/cache_folder.h"
#include "generator/validate/validate.h"
#include "generator/weave/constructor_checks.h"
#include "generator/weave/weave.h"
#include "generator/workers.h"

namespace fs = std::filesystem;

namespace modgen {
namespace {

std::string real_folder(const std::string& path, const char* what) {
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  if (failed || !fs::is_directory(real)) throw std::runtime_error(std::string(what) + " " + path + " is not a folder");
  return real.string();
}

}  // namespace

ParseOptions resolved(const GenerateOptions& options) {
  const auto or_else = [](const std::string& given, const char* otherwise) {
    return given.empty() ? std::string(otherwise) : given;
  };
  ParseOptions result;
  result.root = real_folder(options.root, "the root");
  result.shipped = real_folder(or_else(options.shipped, MODGEN_SHIPPED), "modgen's own tree");
  result.torch = real_folder(or_else(options.torch, MODGEN_TORCH), "torch's folder");
  result.clang_resources =
      real_folder(or_else(options.clang_resources, MODGEN_CLANG_RESOURCES), "Clang's resource folder");
  const fs::path cache = options.cache.empty() ? cache_folder().value_or("") : fs::path(options.cache);
  if (!cache.empty()) result.cache = fs::absolute(cache).string();
  return result;
}

namespace {

std::string without_extra_namespace(std::string text) {
  constexpr std::string_view kExtra = "modular::flattened::";
  for (size_t at; (at = text.find(kExtra)) != std::string::npos;) text.replace(at, kExtra.size(), "modular::");
  return text;
}

/// Number of families whose syntax trees, plans and formatting fit into one process of about 200 MiB.
constexpr size_t kMostInWorker = 32;

/// One parse of some families and all later stages. While the specs are read one after another, up to `jobs` other
/// processes already flatten families that have been read and run their later stages.
class Generation {
 public:
  Generation(const ParseOptions& options, std::vector<std::string> families, size_t jobs, bool keep_models)
      : options_(options), families_(std::move(families)), jobs_(jobs), keep_models_(keep_models), workers_(jobs) {}

  GenerateResult make() {
    try {
      GenerateResult result = make_here();
      if (workers_.is_child()) workers_.succeed(to_bytes(result));
      return gathered(std::move(result));
    } catch (const std::exception& error) {
      if (workers_.is_child()) workers_.fail(error.what());
      throw;
    }
  }

 private:
  GenerateResult make_here() {
    std::vector<std::string> paths;
    for (const std::string& family : families_) paths.push_back("modular/" + family + ".h");
    ParseSteps steps;
    steps.stops_at = [&](clang::CompilerInstance& compiler, Parsed& parsed, size_t specs) {
      return read_new_specs(compiler, parsed) && continue_in_worker(specs);
    };
    steps.flatten = [&](clang::CompilerInstance& compiler, Parsed& parsed) { return flatten(compiler, parsed); };
    steps.finish = [&](clang::CompilerInstance& compiler, Parsed& parsed, const std::vector<uint32_t>& files) {
      finish(compiler, parsed, files);
    };
    Parsed parsed = parse(options_, paths, steps);
    check_cycles(parsed);

    GenerateResult result;
    result.notices = parsed.notices;
    std::stable_sort(parsed.remarks.begin(), parsed.remarks.end(), [](const Remark& a, const Remark& b) {
      return std::tie(a.where.file, a.where.begin) < std::tie(b.where.file, b.where.begin);
    });
    const auto is_family = [&](const std::string& name) {
      return !name.empty() && find_spec(options_.root, options_.shipped, name);
    };
    for (Remark& remark : parsed.remarks) advise(remark, parsed, is_family);
    for (const Remark& remark : parsed.remarks) result.diagnostics.push_back(diagnostic(parsed, remark));
    for (size_t index = 0; index < families_.size(); ++index)
      result.outputs.push_back(output(parsed, index, result.ok()));
    return result;
  }

  /// Adds the workers' results, as if this process had computed them.
  GenerateResult gathered(GenerateResult result) {
    std::map<std::string, Output> outputs;
    for (const std::string& bytes : workers_.results()) {
      GenerateResult part = result_from(bytes);
      std::move(part.diagnostics.begin(), part.diagnostics.end(), std::back_inserter(result.diagnostics));
      for (Output& one : part.outputs) outputs[one.family] = std::move(one);
    }
    for (Output& one : result.outputs) {
      if (const auto found = outputs.find(one.family); found != outputs.end()) one = std::move(found->second);
      if (!result.ok()) one.bytes.clear(), one.plan_json.clear(), one.proof.clear(), one.explanations.clear();
    }
    return result;
  }

  /// Number of families per worker: enough to be worth starting it, and few enough that all end at about the same time.
  size_t families_per_worker() const { return std::clamp<size_t>(families_.size() / (2 * jobs_), 1, kMostInWorker); }

  /// Called after `specs` specs have been read. True in a new worker, which continues with families that no other
  /// worker has.
  bool continue_in_worker(size_t specs) {
    if (keep_models_) return false;  // models cannot be sent between processes
    // The first worker starts early; later ones get more families each.
    const size_t waiting = specs - handed_over_, least = std::min(workers_.started() + 1, families_per_worker());
    if (waiting < least || (waiting < kMostInWorker && workers_.running() + 1 >= jobs_)) return false;
    return hand_over(handed_over_ + std::min(waiting, families_per_worker()));
  }

  /// Hands the families before index `end` to a new worker. True in the worker.
  bool hand_over(size_t end) {
    const size_t begin = std::exchange(handed_over_, end);
    if (!workers_.start()) return false;
    families_ = {families_.begin() + static_cast<long>(begin), families_.begin() + static_cast<long>(end)};
    return true;
  }

  /// Hands the remaining families to workers, unless there is only enough work for one process. True in the workers,
  /// and if none was started.
  bool continue_with_the_rest() {
    if (keep_models_ || families_.size() == 1 || (jobs_ == 1 && families_.size() <= kMostInWorker)) return true;
    while (handed_over_ < families_.size())
      if (hand_over(std::min(families_.size(), handed_over_ + families_per_worker()))) return true;
    return false;
  }

  /// False if a spec has an error.
  bool read_new_specs(clang::CompilerInstance& compiler, Parsed& parsed) {
    if (!specs_) specs_ = std::make_unique<Specs>(compiler, parsed);
    specs_->read_new();
    return !parsed.has_errors();
  }

  std::vector<std::string> flatten(clang::CompilerInstance& compiler, Parsed& parsed) {
    if (!workers_.is_child() && !(read_new_specs(compiler, parsed) && continue_with_the_rest())) return {};
    std::vector<std::string> texts;
    for (const std::string& name : families_) {
      auto& family = flattened_.emplace_back(std::make_unique<Family>(*specs_, *specs_->family(name)));
      fragments_.push_back(family->flatten());
      renamings_.push_back(family->renamings());
      prefixes_.push_back(family->spec().prefix);
      model_types_.push_back(family->spec().names.model_type);
      family_lines_.push_back(family->spec().family);
      spec_files_.push_back(family->spec().file);
      outlines_.push_back(std::make_shared<FamilyOutline>(make_outline(*family)));
      texts.push_back(fragments_.back().text());
    }
    return parsed.has_errors() ? std::vector<std::string>{} : texts;
  }

  void finish(clang::CompilerInstance& compiler, Parsed& parsed, const std::vector<uint32_t>& files) {
    files_ = files;
    for (const uint32_t file : files) check_code(compiler, parsed, file);
    if (parsed.has_errors()) return;
    for (size_t index = 0; index < files.size(); ++index)
      validations_.push_back(validate(*flattened_[index], fragments_[index], files[index]));
    if (parsed.has_errors()) return;
    models_.resize(files.size());
    for (size_t index = 0; index < files.size(); ++index) {
      FamilyModel& model = models_[index];
      model = read_model(compiler, parsed, files[index], families_[index], prefixes_[index]);
      model.model_type = model_types_[index];
      for (const Finding& finding : check_constructors(model)) parsed.remarks.push_back(remark(finding));
      std::vector<Finding> findings = weave(model);
      if (std::ranges::none_of(findings, &Finding::is_error)) check_woven(model, woven_text(model), findings);
      for (const Finding& finding : findings) parsed.remarks.push_back(remark(finding));
    }
  }

  static Remark remark(const Finding& finding) {
    Remark result{finding.is_error ? Diagnostic::Severity::error : Diagnostic::Severity::warning,
                  finding.where,
                  finding.message,
                  finding.advice,
                  {}};
    for (const Finding& note : finding.notes) {
      result.notes.push_back(remark(note));
      result.notes.back().severity = Diagnostic::Severity::note;
    }
    return result;
  }

  /// Maps a remark on flattened text to the spec: to the text's own location or, if the text is inherited, to the code
  /// that needs it, with a note.
  Diagnostic diagnostic(const Parsed& parsed, const Remark& remark) const {
    Diagnostic result{remark.severity, {}, without_extra_namespace(remark.message), remark.advice, {}};
    SourceSpan where = remark.where;
    for (size_t index = 0; index < fragments_.size(); ++index) {
      if (where.file == 0 || parsed.sources[where.file].path != "/modgen-flattened/" + std::to_string(index) + ".h")
        continue;
      const SourceSpan origin = fragments_[index].origin(where.begin), cause = fragments_[index].cause(where.begin);
      where = origin;
      if (origin.file != spec_files_[index] && remark.severity != Diagnostic::Severity::note) {
        result.notes.push_back({Diagnostic::Severity::note,
                                parsed.sources.locate(origin),
                                "in this inherited code, as flattened for the family",
                                "",
                                {}});
        where = cause.file == spec_files_[index] ? cause : family_lines_[index];
      }
      break;
    }
    result.where = parsed.sources.locate(where);
    for (const Edit& edit : remark.fix)
      if (const std::optional<SourceSpan> on_disk = parsed.sources.on_disk(edit.where))
        result.fix.push_back(fix_it(parsed.sources[on_disk->file], {*on_disk, edit.text}));
    // Flattened text is not a file, so it cannot be fixed.
    if (std::any_of(result.fix.begin(), result.fix.end(), [](const FixIt& one) { return one.path.empty(); }))
      result.fix.clear();
    for (const Remark& note : remark.notes) {
      Diagnostic moved = diagnostic(parsed, note);
      if (!moved.where.path.empty()) result.notes.push_back(std::move(moved));
    }
    return result;
  }

  /// A cycle of specs causes errors about missing names; reports the cycle instead.
  void check_cycles(Parsed& parsed) const {
    std::set<uint32_t> done;
    std::vector<uint32_t> path;
    bool found = false;
    const std::function<void(uint32_t)> visit = [&](uint32_t file) {
      path.push_back(file);
      for (const Inclusion& inclusion : parsed.inclusions) {
        if (inclusion.file != file || inclusion.target == 0 || found) continue;
        const auto seen = std::find(path.begin(), path.end(), inclusion.target);
        if (seen != path.end()) {
          // Independent of where it is found: it begins with the first path.
          std::vector<uint32_t> circle(seen, path.end());
          std::rotate(
              circle.begin(),
              std::min_element(circle.begin(), circle.end(),
                               [&](uint32_t a, uint32_t b) { return parsed.sources[a].path < parsed.sources[b].path; }),
              circle.end());
          std::string names;
          for (const uint32_t one : circle) names += parsed.sources[one].path + " -> ";
          const uint32_t next = circle[circle.size() > 1 ? 1 : 0];
          const auto first =
              std::find_if(parsed.inclusions.begin(), parsed.inclusions.end(),
                           [&](const Inclusion& one) { return one.file == circle.front() && one.target == next; });
          parsed.remarks.clear();
          parsed.remarks.push_back(
              {Diagnostic::Severity::error,
               {first->file, first->offset, first->offset},
               "specs include each other in a cycle: " + names + parsed.sources[circle.front()].path,
               "move the declarations that both need into a separate spec",
               {}});
          found = true;
        } else if (!done.count(inclusion.target)) {
          visit(inclusion.target);
        }
      }
      path.pop_back();
      done.insert(file);
    };
    for (uint32_t file = 1; file < parsed.sources.size(); ++file)
      if (!done.count(file)) visit(file);
  }

  /// Sets the locations in the specs of the assumptions that a family's proofs trust.
  void locate_proofs(const Parsed& parsed, size_t index) {
    for (EntryPlan& plan : models_[index].plans)
      for (EntryPlan::Trust& trust : plan.proof.trusted) {
        const Location at = parsed.sources.locate(fragments_[index].origin(trust.where.begin));
        trust.place = at.path + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
      }
  }

  Output output(const Parsed& parsed, size_t index, bool ok) {
    Output result;
    result.family = families_[index];
    result.path = "generated/" + families_[index] + ".h";
    if (ok && index < models_.size()) {
      result.bytes = print(models_[index]);
      locate_proofs(parsed, index);
      result.plan_json = plan_json(models_[index]);
      result.proof = to_text(validations_[index]) + proof_text(models_[index]);
      for (const Renaming& renaming : renamings_[index])
        result.explanations.push_back({parsed.sources.locate(renaming.where), renaming.before, renaming.after});
      if (keep_models_) {
        result.model = std::make_shared<FamilyModel>(models_[index]);
        result.outline = outlines_[index];
      }
    }
    const auto shown = [&](const std::string& path) {
      const std::string root = options_.root + "/";
      return path.compare(0, root.size(), root) == 0 ? path.substr(root.size()) : path;
    };
    std::set<uint32_t> reached;
    std::vector<uint32_t> next;
    for (const std::string& tree : {options_.root, options_.shipped})
      if (const uint32_t file = parsed.sources.find(tree + "/modular/" + families_[index] + ".h")) next.push_back(file);
    while (!next.empty()) {
      const uint32_t file = next.back();
      next.pop_back();
      if (!reached.insert(file).second) continue;
      for (const Inclusion& inclusion : parsed.inclusions)
        if (inclusion.file == file && inclusion.target != 0) next.push_back(inclusion.target);
    }
    std::set<std::string> read, absent;
    for (const uint32_t file : reached) read.insert(parsed.sources[file].path);
    for (const std::string& path : parsed.prelude) read.insert(shown(path));
    for (const Parsed::Absent& one : parsed.absent)
      if (one.file == 0 || reached.count(one.file)) absent.insert(shown(one.path));
    result.read.assign(read.begin(), read.end());
    result.absent.assign(absent.begin(), absent.end());
    return result;
  }

  const ParseOptions& options_;
  std::vector<std::string> families_;  // in a worker, those of its part
  size_t jobs_;
  bool keep_models_;
  std::unique_ptr<Specs> specs_;
  std::vector<std::unique_ptr<Family>> flattened_;
  std::vector<Fragment> fragments_;
  std::vector<Validation> validations_;
  std::vector<std::vector<Renaming>> renamings_;
  std::vector<std::string> prefixes_;
  std::vector<std::string> model_types_;
  std::vector<SourceSpan> family_lines_;
  std::vector<uint32_t> spec_files_;
  std::vector<uint32_t> files_;
  std::vector<FamilyModel> models_;
  std::vector<std::shared_ptr<const FamilyOutline>> outlines_;
  Workers workers_;
  size_t handed_over_ = 0;  // number of families handed to workers
};

bool same(const Diagnostic& a, const Diagnostic& b) {
  return a.where.path == b.where.path && a.where.line == b.where.line && a.where.column == b.where.column &&
         a.message == b.message;
}

}  // namespace

bool GenerateResult::ok() const {
  return std::none_of(diagnostics.begin(), diagnostics.end(),
                      [](const Diagnostic& one) { return one.severity == Diagnostic::Severity::error; });
}

GenerateResult generate(const GenerateOptions& options) {
  const ParseOptions where = resolved(options);
  for (const std::string& family : options.families)
    if (!find_spec(where.root, where.shipped, family))
      throw std::runtime_error("there is no spec " + spec_name(family) + " below " + where.root);
  const size_t jobs = options.jobs ? options.jobs : std::max(1u, std::thread::hardware_concurrency());
  GenerateResult result = Generation(where, options.families, jobs, options.keep_models).make();
  if (result.ok() || options.families.size() == 1) return result;
  // One spec's error may hide another's or cause it, so each is parsed on its own.
  Workers workers(jobs);
  for (const std::string& family : options.families) {
    if (!workers.start()) continue;
    try {
      workers.succeed(to_bytes(Generation(where, {family}, 1, false).make()));
    } catch (const std::exception& error) {
      workers.fail(error.what());
    }
  }
  std::vector<Diagnostic> all;
  for (const std::string& bytes : workers.results())
    for (Diagnostic& one : result_from(bytes).diagnostics)
      if (std::none_of(all.begin(), all.end(), [&](const Diagnostic& known) { return same(known, one); }))
        all.push_back(std::move(one));
  if (!all.empty()) result.diagnostics = std::move(all);
  return result;
}

std::string generator_version() { return "modgen " MODGEN_VERSION ", LLVM " MODGEN_LLVM_VERSION; }

}  // namespace modgen
