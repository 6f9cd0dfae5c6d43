#include "runtime/modrun/prompts.h"

#include <fmt/format.h>

#include "runtime/checkpoint/json_text.h"
#include "runtime/files/open_file.h"
#include "runtime/model/config.h"

namespace modular {
namespace {

std::string read_prompt(const std::string& line, const std::string& location) {
  const nlohmann::json value = parse_json(line);
  if (value.is_discarded()) throw ConfigError(fmt::format("{}: {}", location, json_problem(std::string_view(line))));
  if (!value.is_object() || !value.contains("prompt") || !value["prompt"].is_string())
    throw ConfigError(
        fmt::format("{}: {} has no text at \"prompt\": write {{\"prompt\": \"…\"}}", location, shown(value)));
  return value["prompt"].get<std::string>();
}

}  // namespace

std::vector<std::string> read_prompts(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path))
    throw ConfigError(fmt::format("--prompts {} is not a file: name one with one text per line", path.string()));
  LineReader lines(path, Links::followed);
  std::vector<std::string> prompts;
  int64_t number = 0;
  for (std::string line; lines.next(line);) {
    const std::string location = fmt::format("{}:{}", path.string(), ++number);
    if (line.ends_with('\r')) line.pop_back();
    prompts.push_back(path.extension() == ".jsonl" ? read_prompt(line, location) : line);
    if (prompts.back().empty())
      throw ConfigError(fmt::format("{}: there is no text to continue: write one, or leave the line out", location));
  }
  if (prompts.empty())
    throw ConfigError(fmt::format("--prompts {} is empty: write one text to continue per line", path.string()));
  return prompts;
}

}  // namespace modular
