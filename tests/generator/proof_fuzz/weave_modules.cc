// Weaves the families of a folder of specs separately:
//   weave_modules [--wrong RULE | --regardless GUESS] ROOT OUT FAMILY…
// Accepted families are written to OUT. Prints a line for each family: "accepted", "accepted by rows" if data-parallel
// ranks may divide its rows, or why it is rejected. With --regardless all families are written, with guesses for the
// types of rejected operations.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "generator/generate.h"
#include "generator/print/print.h"
#include "generator/weave/readings.h"
#include "generator/weave/weave.h"
#include "tests/generator/proof_fuzz/regardless.h"
#include "tests/generator/proof_fuzz/wrong_rules.h"

namespace fs = std::filesystem;

namespace modgen {
namespace {

const std::map<std::string_view, Guess> kGuesses = {{"same", Guess::same}, {"partial", Guess::partial}};

void write(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

/// Why `model` is rejected; empty if it is accepted.
std::string error(FamilyModel& model) {
  for (const Finding& finding : check_constructors(model))
    if (finding.is_error) return finding.message;
  for (const Finding& finding : weave(model))
    if (finding.is_error) return finding.message;
  return "";
}

void weave_families(const std::string& root, const fs::path& out, std::vector<std::string> families) {
  GenerateOptions options;
  options.root = root;
  options.families = std::move(families);
  const std::vector<FlattenedSpec> specs = flatten_specs(options);
  std::vector<FamilyModel> models = read_flattened(options, specs);
  for (size_t i = 0; i < models.size(); ++i) {
    if (guesses()) weave_regardless(models[i]);
    const std::string why = guesses() ? "" : error(models[i]);
    const bool divides_rows =
        !guesses() && why.empty() && std::ranges::none_of(check_readings(models[i]), &Finding::is_error);
    std::cout << specs[i].family << '\t'
              << (!why.empty()   ? why
                  : divides_rows ? "accepted by rows"
                                 : "accepted")
              << '\n';
    if (why.empty()) write(out / (specs[i].family + ".h"), print(models[i]));
  }
}

}  // namespace
}  // namespace modgen

int main(int count, char** arguments) {
  try {
    std::vector<std::string> given(arguments + 1, arguments + count);
    if (given.size() > 1 && given[0] == "--wrong") {
      modgen::plant(given[1]);
      given.erase(given.begin(), given.begin() + 2);
    }
    if (given.size() > 1 && given[0] == "--regardless") {
      const auto guess = modgen::kGuesses.find(given[1]);
      if (guess == modgen::kGuesses.end()) throw std::runtime_error("unknown guess: " + given[1]);
      modgen::guess_types(guess->second);
      given.erase(given.begin(), given.begin() + 2);
    }
    if (given.size() == 1 && given[0] == "--list") {
      for (const modgen::WrongRule& rule : modgen::wrong_rules()) std::cout << rule.name << '\t' << rule.rules << '\n';
      return 0;
    }
    if (given.size() < 3) {
      std::cerr << "weave_modules [--wrong RULE | --regardless GUESS] ROOT OUT FAMILY…\nweave_modules --list\n";
      return 2;
    }
    modgen::weave_families(given[0], given[1], {given.begin() + 2, given.end()});
  } catch (const std::exception& error) {
    std::cerr << "weave_modules: " << error.what() << '\n';
    return 1;
  }
}
