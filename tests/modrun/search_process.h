// Runs modrun search as a user does, on the tests' Llama.
#pragma once

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {

class SearchCommand : public ModrunTest {
 protected:
  using Words = std::vector<std::string>;
  std::filesystem::path study() const { return folder_.path() / "study"; }

  /// The tests' Llama with a search.
  std::filesystem::path config(const std::string& search) const {
    return folder_.write("search.toml", get_bytes(config_) + "[checkpoint]\nevery = -1\n[search]\ndir = '" +
                                            study().string() + "'\n" + search);
  }

  Finished search(const std::string& text, const Words& more = {}, int ranks = 2) const {
    return modrun(with({"--nproc-per-node", std::to_string(ranks), "search", config(text).string()}, more));
  }

  /// The ended trials of the study in that folder.
  static std::vector<nlohmann::json> read_study(const std::filesystem::path& folder) {
    std::vector<nlohmann::json> found;
    std::ifstream in(folder / "trials.jsonl");
    for (std::string line; std::getline(in, line) && !in.eof();)  // the last line may be incomplete
      if (auto one = nlohmann::json::parse(line); one.contains("trial")) found.push_back(std::move(one));
    return found;
  }
  std::vector<nlohmann::json> trials() const { return read_study(study()); }

  /// Starts a search.
  testing::Started start(const std::filesystem::path& config, const Words& more = {}) const {
    return testing::start_program(with({MODRUN, "--nproc-per-node", "2", "search", config.string()}, more),
                                  folder_.path());
  }

  /// Starts a search, and kills it with all of its processes once its second trial has ended.
  void kill_after_two_trials(const std::filesystem::path& config, const Words& more = {}) const {
    const testing::Started started = start(config, more);
    testing::await(started, [&] { return trials().size() >= 2; });
    ::kill(started.pid, SIGKILL);
    testing::end_of_program(started);
  }

  /// The same by trial number, in any order of their ends.
  std::vector<nlohmann::json> trials_by_number() const {
    std::vector<nlohmann::json> all = trials();
    std::ranges::sort(all, {}, [](const nlohmann::json& one) { return one["trial"].get<int64_t>(); });
    return all;
  }

  std::filesystem::path trial_folder(int64_t number) const { return study() / fmt::format("trials/{:04}", number); }

  static double val_loss(const std::filesystem::path& run) { return events_in(run, "evaluation").back()["val_loss"]; }
};

inline constexpr const char* kSpace =
    "[search.space]\n'optim.lr' = { low = 1e-4, high = 1e-1, log = true }\ntrain.batch_size = [4, 8]\n";

}  // namespace modular
