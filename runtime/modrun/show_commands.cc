// `modrun report`, `modrun entries` and `modrun settings`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/data/files.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/report/page.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<fs::path> folders;  // of runs and searches
  fs::path out;                   // empty for report.html
};

void write_report(const ReportArguments& arguments) {
  std::vector<RunHistory> runs;
  std::vector<SearchHistory> searches;
  for (const fs::path& folder : arguments.folders) {
    if (fs::exists(folder / "trials.jsonl"))
      searches.push_back({folder, read_study(folder)});
    else if (fs::exists(folder / "metrics.jsonl"))
      runs.push_back(read_run_history(folder));
    else
      throw DataError(fmt::format("{} is {}: a run's folder has metrics.jsonl, and that of a search trials.jsonl",
                                  folder.string(), fs::exists(folder) ? "neither a run nor a search" : "not there"));
  }
  const std::string page = report_page(runs, searches);
  const fs::path out = arguments.out.empty() ? "report.html" : arguments.out;
  const auto reject = [&](const std::string& why) {
    throw ConfigError(fmt::format("--out {}: {}", out.string(), why));
  };
  if (fs::is_directory(out)) reject("is a folder: name a file in it");
  try {
    write_file(fs::absolute(out), page);
  } catch (const std::runtime_error& error) {
    reject(error.what());
  }
  print_result("{}: {} runs, {} searches, {:.1f} KiB\n", out.string(), runs.size(), searches.size(),
               static_cast<double>(page.size()) / 1024.0);
}

void show_entries(bool as_json) {
  auto list = entries();
  std::ranges::sort(list, {}, &Entry::architecture);
  auto json = nlohmann::ordered_json::array();
  for (const auto& entry : list) {
    if (as_json)
      json.push_back({{"architecture", entry.architecture},
                      {"family", entry.family},
                      {"task", entry.task},
                      {"model_type", entry.model_type}});
    else
      print_result("{:<32} {:<16} {}\n", entry.architecture, entry.family, entry.task);
  }
  if (as_json) print_data(json.dump(2) + "\n");
}

void show_settings(const ConfigArguments& arguments) {
  const bool has_model = !arguments.config.empty() || !arguments.overrides.empty();
  auto config = has_model ? read_run_config_for(arguments) : RunConfig{};
  print_result("{}", format_reference(config));
  if (!has_model)
    print_result(
        "  model.config.*                     the model's own keys: see them with `modrun settings --set "
        "model.entry=llama`\n");
}

}  // namespace

ParsedCommand declare_report(CLI::App& app) {
  const auto arguments = std::make_shared<ReportArguments>();
  app.add_option("FOLDER", arguments->folders, "folders of runs and searches")->required();
  app.add_option("--out", arguments->out, "HTML file to write; default: report.html");
  return LocalCommand([arguments](const LaunchOptions&, int64_t) { return write_report(*arguments), 0; });
}

ParsedCommand declare_entries(CLI::App& app) {
  const auto as_json = std::make_shared<bool>(false);
  app.add_flag("--json", *as_json, "as JSON");
  return LocalCommand([as_json](const LaunchOptions&, int64_t) { return show_entries(*as_json), 0; });
}

ParsedCommand declare_settings(CLI::App& app) {
  const auto arguments = std::make_shared<ConfigArguments>();
  add_config_options(app, *arguments);
  return LocalCommand([arguments](const LaunchOptions&, int64_t) { return show_settings(*arguments), 0; });
}

}  // namespace modular
