// The command line of modrun, after the launcher's flags.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace modular {

/// Machine description for `modrun advise`, as given on the command line.
struct AdviseArguments {
  int64_t nodes = 1, top = 5;
  std::optional<int64_t> per_node;
  std::string device, memory, link, between, host = "25GB/s", memory_speed;
  std::optional<double> flops, attained;
  double reserve = 0.08, cost = 0.0;
  std::string format = "text";
  bool as_is = false;         // use the config's own mesh instead of searching
  std::filesystem::path out;  // config to write; empty for none
};

/// Arguments of `modrun prepare`.
struct PrepareArguments {
  std::vector<std::string> sources, texts, prompt_names;
  std::string entry, label, prompt, chat, documents = "files", python = "python3";
  std::filesystem::path tokenizer, out;
  std::optional<int64_t> seq_len;
  int64_t jobs = 2, shard_bytes = int64_t{8} << 20;
};

/// Arguments of `modrun repartition`.
struct RepartitionArguments {
  std::vector<std::string> files;
  int64_t rows = 10'000;
  std::filesystem::path out;
};

/// Parsed command line. Each command reads some of the members.
struct Arguments {
  std::string command;  // "train", "eval", …

  std::filesystem::path config;       // a TOML file, or a run's folder with its config.toml; may be empty
  std::vector<std::string> settings;  // "key=value"
  bool trust_folder = false;          // whether to execute programs that a run's folder names
  std::string resume;                 // train: "yes", "auto" (resume if possible), or a checkpoint's name; "" for no
  bool overwrite = false;             // train

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
  int64_t ranks = 0;                             // plan, bench; 0: from the launcher's flags, or 2
  bool json = false;                             // entries
  int64_t steps = 50, warm_up = 3;               // bench (of all rounds), measure
  int64_t rounds = 5;                            // bench
  std::vector<std::string> strategies = {"none", "dp", "ddp", "zero1", "zero2", "fsdp", "tp", "pp"};  // bench
  std::string format = "markdown";                                                                    // bench
  std::filesystem::path report;                                                                       // measure
  std::vector<std::filesystem::path> folders;  // report: runs and searches; outputs is the page
  int64_t trials = 0;                          // search; 0: from the config
  int64_t workers = 1;                         // search: trials at a time
  AdviseArguments advise;
  PrepareArguments prepare;
  RepartitionArguments repartition;
};

/// The words that pass the same config and options to another command.
std::vector<std::string> split_words(const std::string& command, const Arguments& arguments);

/// Parses `arguments` (without the program and the launcher's flags). Returns an exit status if the command line is
/// invalid (2), or asks for help or the version (0), both of which are printed.
struct ParsedCommandLine {
  Arguments arguments;
  std::optional<int> exit_status;
};
ParsedCommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace modular
