// Runs modrun as a user does, with a small model and its own data.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/files/open_file.h"
#include "tests/data/temporary_folder.h"

namespace modular {

struct Finished {
  int status = 0;      // as in a shell; 124 if it timed out
  std::string output;  // standard output and error
};

/// Runs modrun with `arguments` and stops it after `seconds`.
inline Finished modrun(const std::vector<std::string>& arguments, int seconds = 120) {
  std::string command = "timeout -k 5 " + std::to_string(seconds) + " " MODRUN;
  for (const auto& argument : arguments) {
    command += " '";
    for (const char c : argument) command += c == '\'' ? "'\\''" : std::string(1, c);
    command += "'";
  }
  Finished result;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  for (size_t count; (count = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    result.output.append(buffer.data(), count);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

/// Concatenates the words of a command line.
inline std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A folder with training text and a config for a Llama with steps of milliseconds.
class ModrunTest : public testing::Test {
 protected:
  ModrunTest() {
    for (int file = 0; file < 8; ++file) {
      std::string text;
      for (int line = 0; line < 40; ++line)
        text += "line " + std::to_string(line * (file + 3)) + " of file " + std::to_string(file) + "\n";
      folder_.write("data/" + std::to_string(file) + ".txt", text);
    }
    config_ = folder_.write("tiny.toml",
                            "[model]\nentry = 'llama'\n"
                            "[model.config]\nvocab_size = 256\nhidden_size = 32\nintermediate_size = 48\n"
                            "num_hidden_layers = 2\nnum_attention_heads = 4\n"
                            "[train]\nsteps = 10\nbatch_size = 8\nseq_len = 32\n"
                            "[optim]\nlr = 3e-3\nwarmup_steps = 2\n"
                            "[eval]\nsamples = 8\n"
                            "[data]\nvalidation_every = 4\npaths = ['" +
                                (folder_.path() / "data").string() + "']\n");
  }

  std::filesystem::path run_folder(const std::string& name) const { return folder_.path() / "runs" / name; }

  /// Arguments of modrun: [launcher flags] train tiny.toml, into run_folder(name).
  std::vector<std::string> training(const std::string& name, const std::vector<std::string>& options = {},
                                    const std::vector<std::string>& launcher = {}) const {
    std::vector<std::string> arguments = launcher;
    arguments.insert(arguments.end(), {"train", config_.string(), "--set", "train.dir=" + run_folder(name).string()});
    arguments.insert(arguments.end(), options.begin(), options.end());
    return arguments;
  }

  /// Runs that command to its end.
  Finished train(const std::string& name, const std::vector<std::string>& options = {},
                 const std::vector<std::string>& launcher = {}) const {
    return modrun(training(name, options, launcher));
  }

  static std::string get_bytes(const std::filesystem::path& path) { return read_file(path); }

  /// Expects the tensors of the given checkpoint of two runs to be bit-identical.
  void expect_same_checkpoint(const std::string& one, const std::string& other, const std::string& checkpoint) const {
    int files = 0;
    for (const auto& file : std::filesystem::directory_iterator(run_folder(one) / "checkpoints" / checkpoint)) {
      if (file.path().extension() != ".safetensors") continue;
      ++files;
      EXPECT_TRUE(get_bytes(file.path()) ==
                  get_bytes(run_folder(other) / "checkpoints" / checkpoint / file.path().filename()))
          << file.path();
    }
    EXPECT_GT(files, 0);
  }

  /// Number of steps that a run in progress has written; the last line may be incomplete.
  int64_t steps_so_far(const std::string& name) const {
    std::ifstream in(run_folder(name) / "metrics.jsonl");
    int64_t count = 0;
    for (std::string line; std::getline(in, line) && !in.eof();) count += line.find("\"event\"") == line.npos ? 1 : 0;
    return count;
  }

  /// The lines of metrics.jsonl that are steps.
  std::vector<nlohmann::json> steps(const std::string& name) const {
    std::vector<nlohmann::json> result;
    std::ifstream in(run_folder(name) / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      auto json = nlohmann::json::parse(line);
      if (!json.contains("event")) result.push_back(std::move(json));
    }
    return result;
  }

  /// The loss of each step.
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> found;
    for (const auto& step : steps(name)) found.push_back(step["loss"].get<double>());
    return found;
  }

  /// Config values as words of a command line.
  static std::vector<std::string> set(const std::vector<std::string>& settings) {
    std::vector<std::string> words;
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    return words;
  }

  /// The lines with that event.
  std::vector<nlohmann::json> events(const std::string& name, const std::string& event) const {
    return events_in(run_folder(name), event);
  }
  static std::vector<nlohmann::json> events_in(const std::filesystem::path& run, const std::string& event) {
    std::vector<nlohmann::json> result;
    std::ifstream in(run / "metrics.jsonl");
    for (std::string line; std::getline(in, line);)
      if (auto json = nlohmann::json::parse(line); json.value("event", "") == event) result.push_back(std::move(json));
    return result;
  }

  TemporaryFolder folder_;
  std::filesystem::path config_;
};

}  // namespace modular
