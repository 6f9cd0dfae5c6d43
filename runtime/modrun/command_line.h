// The command line of modrun, after the launcher's flags.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace modular {

/// What `modrun advise` is told of machines, as it was written.
struct AdviseArguments {
  int64_t nodes = 1, top = 5;
  std::optional<int64_t> per_node;
  std::string device, memory, link, between, host = "25GB/s", memory_speed;
  std::optional<double> flops, attained;
  double reserve = 0.08, cost = 0.0;
  std::string format = "text";
  bool as_is = false;         // the config's own mesh, instead of a search
  std::filesystem::path out;  // config to write; none when empty
};

/// What `modrun prepare` is asked for.
struct PrepareArguments {
  std::vector<std::string> sources, texts, prompt_names;
  std::string entry, label, prompt, chat, documents = "files", python = "python3";
  std::filesystem::path tokenizer, out;
  std::optional<int64_t> seq_len;
  int64_t jobs = 2, shard_bytes = int64_t{8} << 20;
};

/// What `modrun repartition` is asked for.
struct RepartitionArguments {
  std::vector<std::string> files;
  int64_t rows = 10'000;
  std::filesystem::path out;
};

/// What the command line asks for. Which members mean something depends on the command.
struct Arguments {
  std::string command;  // "train", "eval", …

  std::filesystem::path config;       // a TOML file, or a run's folder, whose config.toml counts; may be empty
  std::vector<std::string> settings;  // "key=value"
  bool trust_folder = false;          // whether programs that a run's folder names are run
  std::string resume;      // train: "yes", "auto" where there is something to resume, or a checkpoint's name; "" for no
  bool overwrite = false;  // train

  std::filesystem::path checkpoint;              // eval, sample, predict, forward, export
  std::vector<std::string> prompts;              // sample
  std::filesystem::path prompts_file;            // sample
  bool chat = false;                             // sample
  std::filesystem::path inputs, outputs;         // forward, predict; report has outputs
  int64_t batch_size = 32;                       // predict
  bool gradients = false;                        // forward
  std::filesystem::path source, target;          // export, import
  std::string dtype = "float32";                 // export
  bool adapter = false;                          // export
  std::string base_model;                        // export --adapter, and of PEFT folders
  uint64_t max_shard_bytes = uint64_t{5} << 30;  // export
  int64_t ranks = 0;                             // plan, bench; 0: those of the launcher's flags, or 2
  bool json = false;                             // entries
  int64_t steps = 50, warm_up = 3;               // bench (of all rounds), measure
  int64_t rounds = 5;                            // bench
  std::vector<std::string> strategies = {"none", "dp", "ddp", "zero1", "zero2", "fsdp", "tp", "pp"};  // bench
  std::string format = "markdown";                                                                    // bench
  std::filesystem::path report;                                                                       // measure
  std::vector<std::filesystem::path> folders;  // report: runs and searches; outputs is the page
  int64_t trials = 0;                          // search; 0: as the config says
  int64_t workers = 1;                         // search: trials at a time
  AdviseArguments advise;
  PrepareArguments prepare;
  RepartitionArguments repartition;
};

/// The words that give another command the same config and settings.
std::vector<std::string> split_words(const std::string& command, const Arguments& arguments);

/// Parses `arguments` (without the program and the launcher's flags). Returns an exit status instead where the command
/// line is wrong (2) or asked for help or the version (0), which are printed.
struct ParsedCommandLine {
  Arguments arguments;
  std::optional<int> exit_status;
};
ParsedCommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace modular
