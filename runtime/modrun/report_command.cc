// `modrun report`: runs and searches as one HTML file to look at.
#include <fmt/format.h>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/config/config.h"
#include "runtime/data/files.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/report/page.h"

namespace modular {

namespace fs = std::filesystem;

void write_report(const Arguments& arguments) {
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
  const fs::path out = arguments.outputs.empty() ? "report.html" : arguments.outputs;
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

}  // namespace modular
