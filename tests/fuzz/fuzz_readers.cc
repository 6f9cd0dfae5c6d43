// Gives damaged files to the readers of user files, and checks that each is rejected or read.
//   fuzz_readers [--reader NAME]… [--count N] [--seed S] [--only INPUT] [--found FOLDER]
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include "tests/fuzz/campaign.h"

namespace modular::fuzz {
namespace {

struct Options {
  std::vector<std::string> readers;  // all if empty
  Campaign campaign{.count = 1000, .found = "found"};
};

uint64_t to_number(const std::string& flag, const std::string& text) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size())
    throw std::runtime_error(flag + " " + text + ": write a number");
  return number;
}

Options to_options(const std::vector<std::string>& words) {
  Options options;
  for (size_t at = 0; at < words.size(); at += 2) {
    const std::string& flag = words[at];
    if (at + 1 == words.size()) throw std::runtime_error(flag + ": what follows it is missing");
    const std::string& value = words[at + 1];
    Campaign& campaign = options.campaign;
    if (flag == "--reader")
      options.readers.push_back(value);
    else if (flag == "--count")
      campaign.count = to_number(flag, value);
    else if (flag == "--seed")
      campaign.seed = to_number(flag, value);
    else if (flag == "--only")
      campaign.first = to_number(flag, value), campaign.count = 1;
    else if (flag == "--found")
      campaign.found = value;
    else
      throw std::runtime_error(flag + ": the flags are --reader, --count, --seed, --only and --found");
  }
  options.campaign.found = std::filesystem::absolute(options.campaign.found);
  return options;
}

std::vector<Reader> all_readers() {
  std::vector<Reader> all;
  for (const auto& readers : {config_readers(), tensor_readers(), folder_readers(), data_readers(), report_readers()})
    all.insert(all.end(), readers.begin(), readers.end());
  return all;
}

std::vector<Reader> chosen_readers(const std::vector<std::string>& names) {
  const std::vector<Reader> all = all_readers();
  if (names.empty()) return all;
  std::vector<Reader> chosen;
  for (const std::string& name : names) {
    std::string known;
    const size_t before = chosen.size();
    for (const Reader& reader : all) {
      known += (known.empty() ? "" : ", ") + std::string(reader.name);
      if (reader.name == name) chosen.push_back(reader);
    }
    if (chosen.size() == before) throw std::runtime_error("--reader " + name + ": the readers are " + known);
  }
  return chosen;
}

void print(const Reader& reader, const Campaign& campaign, const Result& result) {
  std::printf(
      "%-12s %llu inputs: %llu accepted, %llu rejected in %llu kinds of sentences, %zu faults; %.0f s, %.2f s at "
      "most\n",
      std::string(reader.name).c_str(), static_cast<unsigned long long>(campaign.count),
      static_cast<unsigned long long>(result.accepted), static_cast<unsigned long long>(result.rejected),
      static_cast<unsigned long long>(result.kinds_of_errors), result.found.size(), result.time.count(),
      result.slowest);
  for (const auto& [key, found] : result.found)
    std::printf("  input %llu%s: %s\n", static_cast<unsigned long long>(found.input),
                found.more == 0 ? "" : (" and " + std::to_string(found.more) + " more").c_str(), found.what.c_str());
  std::fflush(stdout);
}

int run(const std::vector<std::string>& words) {
  const Options options = to_options(words);
  bool is_clean = true;
  for (const Reader& reader : chosen_readers(options.readers)) {
    const Result result = run_campaign(reader, options.campaign);
    print(reader, options.campaign, result);
    is_clean = is_clean && result.found.empty();
  }
  return is_clean ? 0 : 1;
}

}  // namespace
}  // namespace modular::fuzz

int main(int argc, char** argv) {
  try {
    return modular::fuzz::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz_readers: %s\n", error.what());
    return 2;
  }
}
