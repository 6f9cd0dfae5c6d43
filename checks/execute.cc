#include "checks/execute.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "checks/digest.h"
#include "checks/local_record.h"
#include "checks/regenerate.h"
#include "checks/traced_text.h"
#include "checks/written_text.h"
#include "generator/process.h"
#include "generator/source/files.h"

namespace modgen {

namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

constexpr size_t kMostPrograms = 4;    // processes that run the entries of one family; few families have more entries
constexpr size_t kOtherContracts = 3;  // precompiled contracts that the cache keeps in addition to the latest

/// The groups of words in a file execute.flags.
std::map<std::string, Words> read_flags(const fs::path& path) {
  const std::optional<std::string> text = read_file_if_any(path);
  if (!text)
    throw std::runtime_error("there is no " + path.string() + ": build the target modular_execute, and install it");
  std::map<std::string, Words> groups;
  std::string group, line;
  for (std::istringstream lines(*text); std::getline(lines, line);) {
    if (line.empty()) continue;
    if (line.front() == '[') {
      group = line.substr(1, line.size() - 2);
      continue;
    }
    if (line.starts_with("@folder@")) line.replace(0, 8, path.parent_path().string());
    groups[group].push_back(line);
  }
  for (const char* name : {"compiler", "compile", "link"})
    if (groups[name].empty()) throw std::runtime_error(path.string() + " has no [" + name + "]");
  for (const std::string& word : groups["link"])
    if (word.ends_with(".a") && !fs::exists(word))
      throw std::runtime_error("there is no " + word + ": build the target modular_execute, and install it");
  return groups;
}

struct Ended {
  bool succeeded = false;
  std::string output;
};

Ended run(const Words& words) {
  Program program(words, Program::Streams::together);
  const Ending ending = program.wait();
  Ended ended{ending.exit_code == 0, program.output()};
  if (ending.signal != 0) ended.output += words.front() + " " + describe(ending) + "\n";
  return ended;
}

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The source of a family's program.
std::string program_text(const std::string& family, const std::string& generated, const WrittenText& written) {
  std::string strings;
  for (const std::string& compared : compared_strings(generated)) strings += '"' + compared + "\", ";
  std::string text = "#define kFloat kDouble\n#define kFloat32 kDouble\n#include \"generated/" + family + ".h\"\n" +
                     "#include \"checks/execute/written_model.h\"\n";
  if (!written.spec.empty()) text += written.before + "#include \"written/" + family + ".h\"\n" + written.entries;
  text += "namespace modular::execute {\n";
  if (written.spec.empty()) text += "const std::vector<WrittenEntry> written_entries;\n";
  return text + "const std::vector<std::string> compared_strings = {" + strings + "};\n}\n";
}

/// The header of libtorch, with the instances that every program needs.
constexpr const char* kLibtorchHeaders = "cmake/pch.h";

class Executor {
 public:
  explicit Executor(const ExecuteOptions& options)
      : options_(options), flags_(read_flags(options.flags)), compiler_(flags_["compiler"].front()) {
    identity_ = read_file(options_.flags);
    Words headers;
    for (const char* folder : {"runtime/model", "checks/execute"})
      for (const auto& file : fs::directory_iterator(options_.tree.shipped / folder))
        if (file.path().extension() == ".h") headers.push_back(fs::canonical(file.path()).string());
    headers.push_back(fs::canonical(options_.tree.shipped / kLibtorchHeaders).string());
    std::ranges::sort(headers);
    for (const std::string& header : headers) identity_ += header + digest(read_file(header));
    libraries_ = digest(read_file(options_.tree.shipped / "modular/modular.h"));
    for (const std::string& word : flags_.at("link"))
      if (word.ends_with(".a")) libraries_ += digest(read_file(word));
  }

  bool execute() {
    std::vector<std::optional<Ended>> results(options_.families.size());
    std::atomic<size_t> next = 0;
    std::mutex order;
    size_t printed = 0;
    bool all = true;
    const auto work = [&] {
      for (size_t index = next++; index < results.size(); index = next++) {
        Ended ended = execute_family(options_.families[index]);
        const std::lock_guard lock(order);
        results[index] = std::move(ended);
        for (; printed < results.size() && results[printed]; ++printed) {
          std::fputs(results[printed]->output.c_str(), stdout);
          std::fflush(stdout);
          all = all && results[printed]->succeeded;
        }
      }
    };
    const size_t cores = std::max(1u, std::thread::hardware_concurrency());
    const size_t families = std::clamp<size_t>(results.size(), 1, cores);  // at a time
    programs_ = std::min(cores / families, kMostPrograms);
    std::vector<std::jthread> workers;
    for (size_t worker = 0; worker < families; ++worker) workers.emplace_back(work);
    workers.clear();
    return all;
  }

 private:
  Words compile(const Words& more) const {
    Words words = joined({compiler_}, flags_.at("compile"));
    if (fs::exists(options_.tree.root / "runtime" / "model"))
      words = joined(std::move(words), {"-I", fs::canonical(options_.tree.root).string()});
    return joined(joined(std::move(words), {"-I", fs::canonical(options_.tree.shipped).string()}), more);
  }

  /// Compiles the contract once per version of it: into the cache or, if that is not writable, into the folder for
  /// temporary files.
  void precompile() {
    const bool is_clang = compiler_.find("clang") != std::string::npos;
    fs::path precompiled;
    const auto exists_in = [&](const fs::path& cache) {
      header_ = cache / ("execute-" + digest(identity_)) / "contract.h";
      precompiled = header_.string() + (is_clang ? ".pch" : ".gch");
      return fs::exists(precompiled);
    };
    const std::optional<fs::path> cache = cache_folder();
    if (cache && exists_in(*cache)) return;
    if ((!cache || !check_writable(*cache).empty()) && exists_in(temporary_cache_folder())) return;
    const fs::path folder = header_.parent_path();
    write_file(header_, std::string("#include \"") + kLibtorchHeaders + "\"\n#include \"checks/execute/trace.h\"\n");
    const fs::path temporary = folder / ("contract." + std::to_string(getpid()));
    const Ended ended = run(compile({"-x", "c++-header", header_.string(), "-o", temporary.string()}));
    if (!ended.succeeded) throw std::runtime_error("the contract does not compile:\n" + ended.output);
    fs::rename(temporary, precompiled);
    remove_others(folder);
  }

  /// Removes the precompiled contracts of other versions, but for the latest few.
  static void remove_others(const fs::path& own) {
    std::vector<std::pair<fs::file_time_type, fs::path>> others;
    for (const auto& entry : fs::directory_iterator(own.parent_path()))
      if (entry.path().filename().string().starts_with("execute-") && entry.path() != own)
        others.emplace_back(entry.last_write_time(), entry.path());
    std::ranges::sort(others, std::greater<>());
    std::error_code ignored;  // another process may remove them too
    for (size_t i = kOtherContracts; i < others.size(); ++i) fs::remove_all(others[i].second, ignored);
  }

  Ended execute_family(const std::string& family) {
    const std::string name = "generated/" + family + ".h", record = family + ".executed";
    try {
      const std::string text = read_file(options_.tree.root / name);
      const std::string spec = read_file_if_any(options_.tree.root / "modular" / (family + ".h")).value_or("");
      const LocalRecord own{digest(identity_ + libraries_), digest(text + spec)};
      const std::optional<LocalRecord> passed = read_local_record(options_.tree.root, record);
      if (options_.trusts_records && passed && passed->tools == own.tools && passed->record == own.record)
        return {true, name + ": has not changed since it was executed\n"};
      std::call_once(precompiled_, [&] { precompile(); });
      Ended ended = compile_and_run(family, text, spec);
      if (ended.succeeded) remember(record, own);
      return ended;
    } catch (const std::exception& error) {
      return {false, name + ": " + error.what() + "\n"};
    }
  }

  void remember(const std::string& name, const LocalRecord& record) const try {
    write_local_record(options_.tree.root, name, record);
  } catch (const std::runtime_error&) {  // a cache that cannot be written costs time only
  }

  Ended compile_and_run(const std::string& family, const std::string& text, const std::string& spec) const {
    const TemporaryFolder folder;
    const std::string name = "generated/" + family + ".h";
    const fs::path program = folder.path() / "family";
    const auto build = [&](const std::string& given, const WrittenText& written) {
      const fs::path source = folder.path() / "family.cc";
      write_file(source, program_text(family, text, written));
      write_file(folder.path() / name, given);
      if (!written.spec.empty()) write_file(folder.path() / "written" / (family + ".h"), written.spec);
      return run(joined(compile({"-I", folder.path().string(), "-include", header_.string(), source.string(), "-o",
                                 program.string()}),
                        flags_.at("link")));
    };
    const std::string traced = traced_text(text);
    const WrittenText written = written_text(family, spec, text);
    Ended built;
    std::string lost;
    if (!written.spec.empty()) {
      built = build(traced, written);
      if (!built.succeeded) lost = name + ": its spec does not compile as C++ next to it, and is not compared\n";
    }
    if (!built.succeeded) built = build(traced, {});
    if (!built.succeeded) {
      built = build(text, {});
      lost += name + ": lines of differences are not located\n";
    }
    if (!built.succeeded) return {false, name + ": it does not compile:\n" + built.output};
    Ended ended = run_entries(program);
    ended.output.insert(0, lost);
    return ended;
  }

  /// Runs every programs_-th entry in a process of its own. The lines are in the order of the entries, unless a process
  /// is killed.
  Ended run_entries(const fs::path& program) const {
    std::vector<Program> running;
    for (size_t index = 0; index < programs_; ++index)
      running.emplace_back(Words{program.string(), std::to_string(index), std::to_string(programs_)},
                           Program::Streams::together);
    Ended ended{true, ""};
    std::vector<std::istringstream> outputs;
    std::string killed;
    for (Program& each : running) {
      const Ending ending = each.wait();
      outputs.emplace_back(each.output());
      ended.succeeded = ended.succeeded && ending.exit_code == 0;
      if (ending.signal != 0) killed += program.string() + " " + describe(ending) + "\n";
    }
    for (bool has_line = true; has_line;) {
      has_line = false;
      for (std::istringstream& output : outputs)
        if (std::string line; std::getline(output, line)) ended.output += line + "\n", has_line = true;
    }
    ended.output += killed;
    return ended;
  }

  const ExecuteOptions& options_;
  std::map<std::string, Words> flags_;
  std::string compiler_;
  std::string identity_;   // of the contract and of how it is compiled
  std::string libraries_;  // digests of the prelude and of what programs link
  fs::path header_;        // the contract, precompiled
  size_t programs_ = 1;    // processes that run the entries of a family
  std::once_flag precompiled_;
};

}  // namespace

fs::path execute_flags() {
  const fs::path folder = program_folder().parent_path() / "lib" / "modular";
  const fs::path of_build = folder / "built" / "execute.flags";
  return fs::exists(of_build) ? of_build : folder / "execute.flags";
}

bool execute(const ExecuteOptions& options) { return Executor(options).execute(); }

}  // namespace modgen
