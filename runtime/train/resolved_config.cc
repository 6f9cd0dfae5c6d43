#include "runtime/train/resolved_config.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/config/config_field.h"
#include "runtime/mesh/libraries.h"
#include "runtime/parallel/pipeline/known_schedules.h"
#include "runtime/parallel/pipeline/pipeline_options.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSampled = 16;           // sampled files per list, at most
constexpr size_t kSampleBytes = 1 << 12;  // at the start and the end of a file

/// Digest of the start and the end of a file; 0 if it cannot be read, which its reader reports.
uint64_t sample_file(const fs::path& path, uint64_t size) {
  std::array<char, 2 * kSampleBytes> bytes{};
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return 0;
  const ssize_t head = ::pread(file, bytes.data(), kSampleBytes, 0);
  const ssize_t tail = size > kSampleBytes ? ::pread(file, bytes.data() + kSampleBytes, kSampleBytes,
                                                     static_cast<off_t>(size - kSampleBytes))
                                           : 0;
  ::close(file);
  return head < 0 || tail < 0 ? 0 : XXH3_64bits(bytes.data(), bytes.size());
}

std::string make_description(const fs::path& file, bool is_sampled) {
  std::error_code error;
  const uintmax_t size = fs::file_size(file, error);
  if (error) return fmt::format("{}, which cannot be read", file.filename().string());
  std::string text = fmt::format("{} of {} bytes", file.filename().string(), size);
  if (is_sampled) text += fmt::format(", digest {:016x}", sample_file(file, size));
  return text;
}

/// Configuration of the loaded libtorch, not of its headers: "TORCH_VERSION=2.11.0, …".
std::string libtorch() {
  const std::string config = at::show_config();
  const size_t settings = config.find("Build settings:");
  return settings == std::string::npos ? TORCH_VERSION
                                       : config.substr(settings, config.find('\n', settings) - settings);
}

std::vector<fs::path> weight_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".safetensors" || entry.path().extension() == ".json")
      files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace

void add_files(ResolvedConfig& settings, const std::string& key, const std::vector<fs::path>& files) {
  settings.emplace_back(
      key, files.size() == 1 ? make_description(files.front(), true) : fmt::format("{} files", files.size()));
  if (files.size() < 2) return;
  const size_t every = (files.size() + kSampled - 1) / kSampled;
  for (size_t index = 0; index < files.size(); ++index)
    settings.emplace_back(fmt::format("{} (file {})", key, index + 1),
                          make_description(files[index], index % every == 0));
}

ResolvedConfig resolved_config(int64_t ranks, RunConfig config, const std::vector<RunDataset>& sets,
                               bool reads_weights) {
  ResolvedConfig settings;
  if (ranks == 1) return settings;
  const fs::path checkpoint = config.model.checkpoint, schedule = config.parallel.schedule,
                 backend = config.parallel.backend;
  const bool all_read_weights = reads_weights && !config.first_reads();
  const bool has_schedule = is_schedule_file(config.parallel.schedule),
             has_library = config.parallel.has_backend_library();
  // These may have another path on each machine.
  for (std::string* path : {&config.train.dir, &config.model.checkpoint, &config.model.base, &config.model.tokenizer,
                            &config.sample.python, &config.metrics.python})
    path->clear();
  config.data.paths.clear();
  for (SetOptions& set : config.data.sets) set.paths.clear();
  for (std::string& path : config.data.validation)
    if (path.starts_with('/')) path = fs::path(path).filename().string();
  config.checkpoint.shared = true;  // check_shared() gives better advice
  config.data.partitions = 0;       // a resumed run reads it from its folder, on rank 0 only
  if (has_schedule) config.parallel.schedule = "a file";
  if (has_library) config.parallel.backend = "a library";

  auto fields = section_fields(config);
  const auto of_model = model_fields(*config.network.config);
  fields.insert(fields.end(), of_model.begin(), of_model.end());
  for (const ConfigField& field : fields) settings.emplace_back(field.path, toml_value(field.value));

  for (const RunDataset& set : sets) {
    std::vector<fs::path> files;
    for (const auto* list : {&set.files.training, &set.files.validation})
      for (const DataFile& file : *list) files.push_back(file.path);
    add_files(settings, set.name.empty() ? "data.paths" : fmt::format("data.sets.{}.paths", set.name), files);
  }
  if (!checkpoint.empty() && all_read_weights) {
    const fs::path found = find_checkpoint(checkpoint);
    add_files(settings, "model.checkpoint", weight_files(found.empty() ? checkpoint : found));
  }
  if (has_schedule) add_files(settings, "parallel.schedule", {schedule});
  if (has_library) add_files(settings, "parallel.backend", {backend});
  settings.emplace_back("libtorch", libtorch());
  add_files(settings, "the program", {own_program()});
  return settings;
}

}  // namespace modular
