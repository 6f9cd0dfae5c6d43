// `modrun predict`: classes, numbers, items or embeddings for rows, from a model's logits.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/examples.h"
#include "runtime/data/masking.h"
#include "runtime/data/model_inputs.h"
#include "runtime/evaluation/evaluation.h"
#include "runtime/mesh/collectives.h"
#include "runtime/mesh/print.h"
#include "runtime/mesh/status.h"
#include "runtime/model/tasks.h"
#include "runtime/model/tensors.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/train/preflight.h"
#include "runtime/train/resolved_config.h"

namespace modular {

namespace {

/// Tensors by their names in a file of predictions, with one row per sample.
using Predictions = std::vector<std::pair<std::string, at::Tensor>>;

using at::Tensor;

constexpr int64_t kItems = 20;

Predictions most_likely(const Tensor& logits) {
  const Tensor scores = logits.softmax(-1);
  return {{"labels", scores.argmax(-1)}, {"scores", scores}};
}

Predictions predict_rows(const ModelConfig& model, const Batch&, int64_t, const Tensor& logits) {
  const std::string problem = find_problem(model);
  if (problem == "regression") return {{"scores", logits}};
  if (problem.empty()) return most_likely(logits);
  return {{"labels", logits.gt(0.0).to(at::kLong)}, {"scores", logits.sigmoid()}};
}

Predictions predict_tokens(const ModelConfig&, const Batch&, int64_t, const Tensor& logits) {
  const auto [scores, labels] = logits.softmax(-1).max(-1);
  return {{"labels", labels}, {"scores", scores}};
}

Predictions predict_sessions(const ModelConfig&, const Batch& batch, int64_t, const Tensor& logits) {
  const Tensor is_item = (batch.attention_mask.defined() ? batch.attention_mask : batch.input_ids).cpu().ne(0);
  const Tensor last = (is_item.to(at::kLong) * at::arange(is_item.size(1))).argmax(1);
  const Tensor scores = logits.index({at::arange(last.size(0)), last}).softmax(-1);
  const auto [best, items] = scores.topk(std::min(kItems, scores.size(-1)), -1);
  return {{"items", items}, {"scores", best}};
}

Predictions predict_sentences(const ModelConfig&, const Batch&, int64_t samples, const Tensor& logits) {
  return {{"embeddings", logits.size(0) == samples ? logits : logits.unflatten(0, {samples, -1})}};
}

using Predictor = Predictions (*)(const ModelConfig&, const Batch&, int64_t, const Tensor&);

Predictor find(std::string_view task) {
  static constexpr std::pair<std::string_view, Predictor> kinds[] = {{"sequence-classification", predict_rows},
                                                                     {"sentence-pair-classification", predict_rows},
                                                                     {"image-classification", predict_rows},
                                                                     {"token-classification", predict_tokens},
                                                                     {"masked-lm", predict_tokens},
                                                                     {"next-item", predict_sessions},
                                                                     {"masked-item", predict_sessions},
                                                                     {"sentence-embedding", predict_sentences}};
  const auto found = std::ranges::find(kinds, task, [](const auto& kind) { return kind.first; });
  return found == std::end(kinds) ? nullptr : found->second;
}

/// Predictions for a batch of `samples` samples, in host memory:
/// - classifiers: "labels" [samples] int64, the most likely class, and "scores" [samples, labels], the probabilities;
///   with several labels per row, "labels" is [samples, labels] of 0 and 1; for regression only "scores" [samples,
///   numbers]
/// - token classifiers, masked-lm: "labels" and "scores" [samples, seq] of each token's most likely class
/// - next-item, masked-item: "items" and "scores" [samples, items], the most likely items after the session's last
/// item, at most 20
/// - sentence-embedding: "embeddings" [samples, hidden] or [samples, texts, hidden]
Predictions to_predictions(const ModelConfig& model, const Batch& batch, int64_t samples, const Tensor& logits) {
  return find(model.entry->task)(model, batch, samples, logits.cpu().to(at::kFloat));
}

/// An error message if the entry has no predictions, else empty.
std::string prediction_error(const ModelConfig& model) {
  if (find(model.entry->task)) return {};
  return fmt::format(
      "{} is for {}: use `modrun sample` to generate text with a language model, or `modrun forward` to write logits",
      model.entry->architecture, model.entry->task);
}

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct PredictArguments : ConfigArguments {
  fs::path inputs, outputs;
  int64_t batch_size = 32;
};

constexpr auto kBetweenLines = std::chrono::seconds(10);

/// Samples of one forward on a data-parallel rank, the same number on each rank.
struct Turn {
  std::vector<int64_t> rows;  // of the files; padded by repeating the last one
  int64_t first = 0, count = 0;
};

Turn make_turn(int64_t number, int64_t batch, int64_t dp_rank, int64_t dp_size, int64_t all) {
  Turn turn;
  turn.first = std::min((number * dp_size + dp_rank) * batch, all);
  turn.count = std::min(batch, all - turn.first);
  turn.rows.resize(static_cast<size_t>(batch), all - 1);
  std::iota(turn.rows.begin(), turn.rows.begin() + turn.count, turn.first);
  return turn;
}

SafetensorsWriter create(const fs::path& path, const Predictions& of_a_batch, int64_t samples) {
  std::vector<SafetensorsWriter::Tensor> headers;
  for (const auto& [name, tensor] : of_a_batch) {
    std::vector<int64_t> shape = tensor.sizes().vec();
    shape[0] = samples;
    headers.push_back({name, tensor.scalar_type(), shape});
  }
  return SafetensorsWriter::create(path, headers, {});
}

void write(SafetensorsWriter& writer, const Predictions& predictions, const Turn& turn) {
  for (const auto& [name, tensor] : predictions) {
    std::vector<int64_t> offset(static_cast<size_t>(tensor.dim()), 0);
    offset[0] = turn.first;
    if (turn.count > 0) writer.write(name, offset, tensor.narrow(0, 0, turn.count).contiguous());
  }
}

void predict_into(const fs::path& partial, ParallelModel& model, const ModelConfig& network, const Examples& examples,
                  int64_t batch_size, Mesh& mesh) {
  const int64_t dp_size = mesh.size(kRowAxes), dp_rank = mesh.coordinate(kRowAxes);
  const int64_t all = examples.size();
  const int64_t batch = std::min(batch_size, (all + dp_size - 1) / dp_size);
  const int64_t turns = (all + batch * dp_size - 1) / (batch * dp_size);
  std::optional<SafetensorsWriter> writer;
  auto said = Clock::now();
  for (int64_t number = 0; number < turns; ++number) {
    const Turn turn = make_turn(number, batch, dp_rank, dp_size, all);
    Batch asked = examples.read(turn.rows);
    asked.labels.reset();
    if (network.entry->task == "masked-item")
      asked = with_next_hidden(asked, longest_sequence(network).value_or(std::numeric_limits<int64_t>::max()));
    std::optional<Predictions> found;
    model.evaluate({&asked, 1}, [&](const Batch& seen, const at::Tensor& logits) {
      if (mesh.coordinate({Axis::cp, Axis::tp}) == 0) found = to_predictions(network, seen, batch, logits);
    });
    if (number == 0) {
      // Only ranks with predictions know the shapes; one of them creates the file for all.
      if (found && dp_rank == 0) writer.emplace(create(partial, *found, all));
      barrier(mesh.control(), "the creation of the predictions' file");
      if (found && !writer) writer.emplace(SafetensorsWriter::open(partial));
    }
    if (found) write(*writer, *found, turn);
    const int64_t done = std::min((number + 1) * batch * dp_size, all);
    set_phase(fmt::format("predicting, {} of {} samples done", done, all));
    if (mesh.rank() != 0 || Clock::now() < said + kBetweenLines || done == all) continue;
    print_to(stdout, "predicted {} of {} samples\n", done, all);
    said = Clock::now();
  }
  if (writer) writer->close();
  barrier(mesh.control(), "the predictions");
}

void predict(ParallelModel& model, const ModelConfig& network, const Examples& examples, int64_t batch_size,
             const fs::path& outputs, Mesh& mesh) {
  fs::path partial = outputs;
  partial += ".partial";
  try {
    predict_into(partial, model, network, examples, batch_size, mesh);
  } catch (...) {
    std::error_code ignored;
    fs::remove(partial, ignored);  // on a full disk it would use the remaining space
    throw;
  }
  if (mesh.rank() != 0) return;
  fs::rename(partial, outputs);
  print_to(stdout, "wrote predictions for {} samples to {}\n", examples.size(), outputs.string());
}

PreparedCommand prepare_predict(const PredictArguments& arguments, const Environment& env) {
  const auto trained = std::make_shared<TrainedModel>(prepare_model(arguments, env.world_size));
  const ModelConfig& network = trained->config.network;
  if (const std::string error = prediction_error(network); !error.empty()) throw ConfigError(error);
  const auto examples =
      std::make_shared<Examples>(std::vector<fs::path>{arguments.inputs}, network, Examples::Labels::not_needed);
  if (examples->size() == 0)
    throw DataError(fmt::format("{} has no examples: write at least one row", arguments.inputs.string()));
  examples->check_ids();
  const auto shape = examples->row_shape("input_ids");
  if (const auto longest = longest_sequence(network); !shape.empty() && longest && shape.back() > *longest)
    throw DataError(fmt::format("{} has {} tokens per row, and {} has positions for {}: write shorter ones",
                                arguments.inputs.string(), shape.back(), network.entry->architecture, *longest));
  const fs::path folder = fs::absolute(arguments.outputs).parent_path();
  if (!fs::is_directory(folder) || fs::is_directory(arguments.outputs))
    throw ConfigError(
        fmt::format("--outputs {} cannot be written: name a file in an existing folder", arguments.outputs.string()));
  PreparedCommand command;
  command.mesh = trained->mesh;
  command.options = trained->config.mesh_options();
  command.options.resolved_config = resolved_config(env.world_size, trained->config, {});
  add_files(command.options.resolved_config, "--inputs", {arguments.inputs});
  command.options.resolved_config.emplace_back("--batch-size", std::to_string(arguments.batch_size));
  command.note = model_note(network, trained->config.model.checkpoint);
  command.run = [=](Mesh& mesh) {
    const auto model = load_model(trained->config, mesh);
    predict(*model, trained->config.network, *examples, arguments.batch_size, arguments.outputs, mesh);
    return 0;
  };
  return command;
}

}  // namespace

ParsedCommand declare_predict(CLI::App& app) {
  const auto arguments = std::make_shared<PredictArguments>();
  add_config_options(app, *arguments);
  add_checkpoint_option(app, *arguments);
  app.add_option("--inputs", arguments->inputs, "safetensors file of examples, with or without labels")->required();
  app.add_option("--outputs", arguments->outputs, "safetensors file to write: labels and scores, items or embeddings")
      ->required();
  app.add_option("--batch-size", arguments->batch_size, "samples per forward and rank")
      ->check(above_zero())
      ->capture_default_str();
  return RankCommand([arguments](const Environment& env) { return prepare_predict(*arguments, env); });
}

}  // namespace modular
