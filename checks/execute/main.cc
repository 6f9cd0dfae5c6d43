// The program that `modcheck --execute` builds with a generated file: runs each entry on simulated ranks and compares
// it with one process. Given `INDEX COUNT`, it runs the entries INDEX, INDEX + COUNT, … only, a line each.
#include <ATen/Parallel.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "checks/execute/executed_entry.h"

namespace modular::execute {
namespace {

/// Executes one entry and prints a line. Returns whether it computes the same everywhere.
bool execute(const Entry& entry) {
  const auto begin = std::chrono::steady_clock::now();
  std::string line = "generated/" + std::string(entry.family) + ".h: " + std::string(entry.architecture) + ": ";
  bool is_same = false;
  try {
    ExecutedEntry executed(entry);
    const std::string difference = executed.find_difference();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    is_same = difference.empty();
    line = "generated/" + std::string(entry.family) + ".h: " + executed.name() + ": " +
           (is_same ? c10::str("the same in ", executed.comparisons(), " runs of ", executed.configs(), " configs, ",
                               std::llround(seconds.count() * 10) / 10.0, " s")
                    : difference);
  } catch (const std::exception& error) {
    const std::string problem = error.what();
    line += "cannot be executed: " + problem.substr(0, problem.find('\n'));
  }
  std::puts(line.c_str());
  std::fflush(stdout);
  return is_same;
}

}  // namespace
}  // namespace modular::execute

int main(int, char** arguments) {
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  at::set_num_threads(1);
  const size_t index = std::stoul(arguments[1]), count = std::stoul(arguments[2]);
  const std::vector<modular::Entry>& entries = modular::entries();
  if (entries.empty() && index == 0) std::puts("the family has no entry: nothing is executed");
  bool is_same = true;
  for (size_t i = index; i < entries.size(); i += count) is_same = modular::execute::execute(entries[i]) && is_same;
  return is_same ? 0 : 1;
}
