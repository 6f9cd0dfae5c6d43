// Config of a run, in sections as in its TOML file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/data/batches.h"
#include "runtime/data/data_formats.h"
#include "runtime/evaluation/metric.h"
#include "runtime/mesh/mesh.h"
#include "runtime/optim/options.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// What kind of program modrun would load from a value: a program, or a library if the value is a path. Such fields are
/// not taken from a run's folder (ConfigSource).
enum class Names { nothing, program, library };

/// Constraints on a field's value beyond its type.
struct FieldRule {
  FieldRule() = default;
  FieldRule(double least) : at_least(least) {}
  FieldRule(Names what) : names(what) {}

  std::optional<double> at_least, at_most;
  Names names = Names::nothing;
};

// Each section lists its fields as visit(name, value, help[, FieldRule[, maximum]]). Maxima are far above any use:
// values up to them neither overflow in products nor make a run that starts and never ends.
constexpr double kMostSteps = 0x1p53, kMostSamples = 0x1p24, kMostTokens = 0x1p30, kMostMinutes = 525'600;  // a year

struct ModelSection {
  std::string entry, checkpoint, base, tokenizer, readers = "all";
  bool resize_embeddings = false;
  int64_t pad_vocab_to_multiple_of = 0;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("entry", entry, "the model's class or family: modrun entries lists them");
    visit("checkpoint", checkpoint, "start from these weights: a checkpoint, a Hugging Face folder or a PEFT folder");
    visit("base", base, "base model's folder of a PEFT folder; from its adapter_config.json if empty");
    visit("tokenizer", tokenizer,
          "folder of the tokenizer that produced the data's ids, which is saved with the model; next to the data, or "
          "in the checkpoint, if empty");
    visit("readers", readers, "ranks that read these weights: all, or first (rank 0 sends them to the others)");
    visit("resize_embeddings", resize_embeddings,
          "add rows to these weights' token tables and heads, up to the tokenizer's ids or model.config.vocab_size");
    visit("pad_vocab_to_multiple_of", pad_vocab_to_multiple_of,
          "resize_embeddings: pad the rows to a multiple of this; 0 for no padding", 0, kMostTokens);
  }
};

/// A table of [data.sets].
struct SetOptions {
  std::string name;
  std::vector<std::string> paths;
  double weight = 1.0;
  std::optional<std::string> format;  // or data.format
  std::string loss;  // for sentence embeddings; if empty, sentences.loss or the loss that suits the data
};

struct DataSection : DataOptions {
  std::vector<SetOptions> sets;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("format", format,
          "bytes (a token is a byte), tokens, nanogpt, llm.c or megatron (files of ids), examples (rows of "
          "safetensors files), parquet (rows of Parquet files) or images (JPEG and PNG, in a folder for each class)");
    visit("paths", paths, "files, folders, globs and manifests");
    visit("sets", sets,
          "several sets, one of which is sampled at each step, e.g. {web = {paths = ['web'], weight = 2, format = "
          "'tokens'}}, instead of paths");
    visit("suffixes", suffixes, "suffixes of the files that are read in a folder; all if empty");
    visit("validation_every", validation_every, "every n-th file is for validation; 0 for none", 0, kMostSamples);
    visit("validation", validation,
          "validation data: globs that select files of paths, or other files, folders and globs");
    visit("validation_fraction", validation_fraction,
          "fraction of the samples, the last ones, for validation instead of files; 0 for none", 0);
    visit("pack", pack, "texts: mask attention between the documents of a row");
    visit("end_of_text", end_of_text, "pack: id of the token that ends a document; -1 if only the end of a file does",
          -1);
    visit("trim", trim, "examples: trim each step to its longest row, by attention_mask");
    visit("group_by_length", group_by_length, "examples: batch rows of similar length, by attention_mask");
    visit("order", order,
          "rows (shuffle all rows) or partitions (parquet: each data-parallel rank reads full row groups of its own)");
    visit("partitions", partitions,
          "order: number of partitions; 0 for the data-parallel ranks at the start of the run", 0, kMostSamples);
    visit("repartition", repartition,
          "order: if partitions do not divide the number of row groups, rewrite the files with others, into train.dir");
    visit("mask_probability", mask_probability, "masked-lm and masked-item: fraction of the tokens or items to predict",
          0);
    visit("mask_token", mask_token, "masked-lm: id that replaces a masked token", -1);
  }
};

struct TrainSection {
  std::string dir = "runs/default", device = "auto", on_nonfinite = "stop";
  double epochs = 0.0;
  int64_t steps = 1000, batch_size = 16, batch_size_per_rank = 0, micro_batches = 1, seq_len = 256, seed = 1;
  bool deterministic = false;

  std::filesystem::path checkpoints() const { return std::filesystem::path(dir) / "checkpoints"; }
  std::filesystem::path event_files() const { return std::filesystem::path(dir) / "tensorboard"; }
  std::filesystem::path traces() const { return std::filesystem::path(dir) / "trace"; }
  /// Number of samples in `epochs` passes over `samples`. Throws ConfigError if it overflows.
  int64_t samples_of_epochs(int64_t samples) const;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("dir", dir, "folder of the run's files");
    visit("steps", steps, "optimizer steps of the run", 1, kMostSteps);
    visit("epochs", epochs, "passes over the data, instead of steps; 0 for steps", 0);
    visit("batch_size", batch_size, "samples per step, over all ranks", 1, kMostSamples);
    visit("batch_size_per_rank", batch_size_per_rank,
          "samples per step and data-parallel rank, instead of batch_size; 0 for batch_size", 0, kMostSamples);
    visit("micro_batches", micro_batches, "micro-batches per step and rank; 0 for as few as fit into parallel.memory",
          0, kMostSamples);
    visit("seq_len", seq_len, "tokens per sample of texts", 2, kMostTokens);
    visit("seed", seed, "random seed of the initial weights, the data's order and sampling", 0);
    visit("deterministic", deterministic, "on GPUs: use only deterministic operations");
    visit("device", device, "auto (one GPU per rank if there are GPUs), cpu or cuda");
    visit(
        "on_nonfinite", on_nonfinite,
        "after a step with a loss or gradient that is not finite: stop, skip it, or rollback to the newest checkpoint");
  }
};

struct OptimSection : OptimizerOptions {
  double lr = 3e-4, min_lr = 0.0, max_grad_norm = 1.0;
  std::string schedule = "cosine";
  std::vector<std::string> frozen;
  int64_t warmup_steps = 0, decay_steps = 0;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("name", name, "optimizer: adamw, sgd, adafactor or muon");
    visit("lr", lr, "highest learning rate", 0);
    visit("min_lr", min_lr, "learning rate at the end of the schedule", 0);
    visit("schedule", schedule, "after the warm-up: cosine, linear, constant, wsd or inverse-sqrt");
    visit("warmup_steps", warmup_steps, "steps of linear warm-up", 0, kMostSteps);
    visit("decay_steps", decay_steps, "wsd: final steps, in which the rate decays linearly", 0, kMostSteps);
    visit("beta1", beta1, "adamw, and muon except for layers' matrices: decay of the first moment", 0);
    visit("beta2", beta2, "adamw, and muon except for layers' matrices: decay of the second moment", 0);
    visit("eps", eps, "adamw, and muon except for layers' matrices: epsilon", 0);
    visit("momentum", momentum, "sgd and muon: momentum", 0);
    visit("nesterov", nesterov, "sgd and muon: Nesterov's momentum");
    visit("beta2_decay", beta2_decay, "adafactor: the second moment decays by 1 - t^beta2_decay at step t");
    visit("eps1", eps1, "adafactor: lower bound of the root of a second moment", 0);
    visit("eps2", eps2, "adafactor: lower bound of a parameter's root mean square, which scales its rate", 0);
    visit("clip_threshold", clip_threshold, "adafactor: upper bound of an update's root mean square", 1);
    visit("ns_steps", ns_steps, "muon: Newton-Schulz iterations", 1, 100);
    visit("adjust_lr", adjust_lr, "muon: scale of updates: match_rms_adamw (that of AdamW) or original");
    visit(
        "weight_decay", weight_decay,
        "weight decay of matrices and tables (sgd: in the gradient); norms, biases and rates of state spaces have none",
        0);
    visit("groups", groups,
          "parameters with other rates and decays, e.g. [{match = ['model.layers.*.mlp'], lr_scale = 0.1, weight_decay "
          "= 0}]; the last match wins");
    visit("frozen", frozen,
          "modules and parameters that are not trained, e.g. ['model.embed_tokens', 'model.layers.*.mlp']");
    visit("max_grad_norm", max_grad_norm, "clip the gradient to this norm; 0 for never", 0);
  }
};

struct LoraSection : LoraOptions {
  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("layers", layers,
          "linear layers that get adapters, the only parameters that are then trained: paths as in optim.frozen, or "
          "parts of them, e.g. ['q_proj', 'mlp'], or ['all-linear'], all within the layers; none if empty");
    visit("rank", rank, "rows of A, and columns of B", 1, 0x1p20);
    visit("alpha", alpha, "adapters are scaled by alpha / rank");
    visit("dropout", dropout, "dropout of an adapter's input", 0);
    visit("trained", trained, "modules and parameters to train in addition, e.g. ['score']");
  }
};

struct RouterSection {
  std::optional<double> aux_loss;
  std::string balance = "batch";
  double z_loss = 0.0, bias_speed = 0.0;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("aux_loss", aux_loss,
          "coefficient of the load-balancing loss, 0 for none; if not set, router_aux_loss_coef of a model's config "
          "with output_router_logits = true",
          0);
    visit("balance", balance, "scope of that loss: batch (all layers and samples of a step) or sequence (each)");
    visit("z_loss", z_loss, "coefficient of the loss that keeps routers' logits small", 0);
    visit("bias_speed", bias_speed, "change of router biases after a step, to balance experts", 0);
  }
};

struct SentencesSection : SentenceOptions {
  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("loss", loss,
          "sentence-embedding entries: supervised (one text per sample), in-batch (two or more), contrastive or cosine "
          "(two), triplet (three); inferred from the data if empty");
    visit("scale", scale, "supervised and in-batch: scale of cosines in the softmax, the inverse of the temperature",
          0);
    visit("margin", margin, "contrastive (default 0.5) and triplet (default 5): margin of distances", 0);
    visit("distance", distance, "contrastive (cosine when empty) and triplet (euclidean): cosine or euclidean");
  }
};

struct SampledSoftmaxSection : SampledSoftmaxOptions {
  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("samples", samples,
          "next-item and masked-item: approximate number of sampled items in the training loss; 0 for all items", 0);
    visit("distribution", distribution,
          "sampling distribution: log-uniform (over ids, sorted by popularity from 1) or uniform");
  }
};

struct ParallelSection {
  int64_t pp = 1, dp_replicate = 1, dp_shard = -1, cp = 1, tp = 1, zero_stage = 3, prefetch = 1, timeout_minutes = 10;
  int64_t frozen_seconds = 30;
  int64_t stages_per_rank = 0, dp_threads = 1;
  std::string schedule = "1f1b", backend = "auto", memory, cp_layout = "auto", cp_attention = "auto";
  std::vector<int64_t> cuts;
  bool bf16 = false;
  std::optional<bool> sequence;
  Recomputation recompute;
  std::vector<std::string> units = {"*"}, offload, float8;

  bool has_backend_library() const { return backend.find('/') != std::string::npos; }
  /// The mesh on `world_size` ranks. Throws ConfigError if the axes do not multiply to that number.
  MeshShape mesh_shape(int64_t world_size) const;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("pp", pp, "pipeline ranks", 1);
    visit("schedule", schedule,
          "pipeline schedule: gpipe, 1f1b, interleaved, looped-bfs, interleaved-zero-bubble, zbv, dualpipev, or a .csv "
          "file");
    visit("stages_per_rank", stages_per_rank, "pipeline stages per pp rank; 0 for the schedule's default", 0, 2048);
    visit("cuts", cuts, "first layers of the pipeline stages after the first, e.g. [12, 20]; by cost if empty");
    visit("dp_replicate", dp_replicate, "data-parallel replicas (DDP; HSDP with dp_shard)", 1);
    visit("dp_shard", dp_shard, "ranks that shard the parameters (FSDP); -1 for all ranks that the other axes leave",
          -1);
    visit("cp", cp, "context-parallel ranks, which each have some of the positions of every sequence", 1);
    visit("cp_layout", cp_layout,
          "positions of a cp rank: contiguous, zigzag, balanced, or auto (zigzag for language models)");
    visit("cp_attention", cp_attention, "attention over cp ranks: all-gather, all-to-all, or auto (what sends less)");
    visit("tp", tp, "tensor-parallel ranks", 1);
    visit("sequence", sequence,
          "sequence parallelism: tp ranks divide the positions between layers where tp divides the sequence; default: "
          "if the model supports it");
    visit("zero_stage", zero_stage, "dp_shard shards 1: optimizer state, 2: gradients too, 3: parameters too", 1, 3);
    visit("prefetch", prefetch, "units to prefetch (all-gather ahead of use) with zero_stage 3", 0, 0x1p20);
    visit("dp_threads", dp_threads,
          "replicas on threads of one process instead of ranks, for comparison (DataParallel)", 1, 64);
    visit("units", units, "classes that are units of FSDP and recomputation; ['*'] is all, [] none");
    visit("recompute", recompute,
          "recomputed in the backward: none, full (every unit), n (every n-th), or operations of all units: "
          "['attention', 'norm', 'activation']");
    visit("offload", offload, "kept in host memory until needed: some of ['optimizer', 'parameters', 'activations']");
    visit("backend", backend,
          "communication backend: gloo (CPU), nccl (GPU), auto (by device), or the path of a shared library",
          Names::library);
    visit("memory", memory,
          "memory limit of a rank, e.g. '16GiB': a run whose plan needs more is rejected; unlimited if empty");
    visit("timeout_minutes", timeout_minutes, "minutes until an unfinished collective is an error", 1, kMostMinutes);
    visit("frozen_seconds", frozen_seconds,
          "seconds without a heartbeat of a rank until modrun's launcher ends the job; 0 for never", 0,
          60 * kMostMinutes);
    visit("bf16", bf16,
          "compute, and reduce over tp ranks, in bfloat16; sums over tokens, micro-batches and other ranks, parameters "
          "and the optimizer are float32");
    visit("float8", float8,
          "linear layers with float8 matmuls, needs bf16: paths as in optim.frozen, e.g. ['model.layers']; none if "
          "empty");
  }
};

struct CheckpointSection {
  int64_t every = 0, every_minutes = 10, keep = 2;
  bool background = true, shared = true;
  std::string form = "sharded", best;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("every", every, "steps between checkpoints; 0 for every_minutes and the last step only, -1 for none", -1,
          kMostSteps);
    visit("every_minutes", every_minutes, "minutes between checkpoints, in addition to every; 0 for never", 0,
          kMostMinutes);
    visit("keep", keep, "number of newest checkpoints to keep; 0 for all", 0, kMostSteps);
    visit("best", best,
          "metric of the best checkpoint, kept in addition at checkpoints/best: loss (of validation) or one of "
          "eval.metrics; none if empty");
    visit("background", background,
          "write from a copy in memory while training continues; false to wait for each write");
    visit("shared", shared,
          "all machines share train.dir; false if only rank 0's machine has it and writes and reads for all");
    visit("form", form, "sharded, or full: with the parameters as a Hugging Face folder too");
  }
};

struct EvalSection {
  int64_t every = 0, samples = 64;
  int64_t patience = 0;
  std::vector<std::string> metrics;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("every", every, "steps between evaluations; 0 for one at the end only", 0, kMostSteps);
    visit("samples", samples, "validation samples per evaluation and set; 0 for all", 0, kMostSteps);
    visit("metrics", metrics,
          "in addition to the loss: perplexity, accuracy, f1, recall@k, mrr@k, ndcg@k, pearson, spearman, mse, mae; "
          "defaults of the model's task if empty");
    visit("patience", patience,
          "evaluations without improvement, by checkpoint.best or else the loss, until the run ends; 0 for never", 0,
          kMostSteps);
  }
};

struct SampleSection {
  std::string prompt, python = "python3";
  bool chat = false;
  int64_t tokens = 256, top_k = 0, batch = 16;
  double temperature = 1.0;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("prompt", prompt, "text that the model continues at the end of the run; none if empty");
    visit("chat", chat, "format the prompt as a user message with the tokenizer's chat template");
    visit("tokens", tokens, "maximum number of tokens to generate", 1, 0x1p20);
    visit("temperature", temperature, "sampling temperature; 0 for the likeliest token", 0);
    visit("top_k", top_k, "sample from the k likeliest tokens; 0 for all", 0, kMostTokens);
    visit("batch", batch, "number of prompts to continue at a time", 1, 0x1p16);
    visit("python", python, "Python with the package tokenizers, for models with a tokenizer", Names::program);
  }
};

struct MetricsSection {
  int64_t every = 10;
  double peak_tflops = 0.0;
  bool tensorboard = false;
  std::string wandb, python = "python3";
  std::vector<int64_t> trace;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("every", every, "steps between lines on the terminal; metrics.jsonl has all steps", 1, kMostSteps);
    visit("peak_tflops", peak_tflops,
          "peak of one rank's device, for MFU; 0 to look it up for a GPU and to measure it on CPU", 0);
    visit("tensorboard", tensorboard, "write event files for TensorBoard into train.dir/tensorboard");
    visit("wandb", wandb, "Weights & Biases project for steps and evaluations; none if empty");
    visit("python", python, "Python with the package wandb", Names::program);
    visit("trace", trace,
          "first and last step to trace on every rank into train.dir/trace, e.g. [10, 12]; none if empty");
  }
};

struct RunConfig {
  ModelSection model;
  DataSection data;
  TrainSection train;
  OptimSection optim;
  LoraSection lora;
  RouterSection router;
  SentencesSection sentences;
  SampledSoftmaxSection sampled_softmax;
  ParallelSection parallel;
  CheckpointSection checkpoint;
  EvalSection eval;
  SampleSection sample;
  MetricsSection metrics;
  ModelConfig network;                           // model.entry with the fields of model.config, finished
  std::map<std::string, std::string> origins;    // location of each key that was set
  std::map<std::string, std::string> untrusted;  // keys of a run's folder that were ignored, with the reason
  std::vector<std::string> renamed;  // "run.toml:3:1: data.held_out is now data.validation", per renamed key

  /// Calls visit(section's name, section) for each section.
  template <class Visitor>
  void sections(Visitor&& visit) {
    visit("model", model), visit("data", data), visit("train", train), visit("optim", optim);
    visit("lora", lora), visit("router", router), visit("sentences", sentences);
    visit("sampled_softmax", sampled_softmax), visit("parallel", parallel), visit("checkpoint", checkpoint),
        visit("eval", eval), visit("sample", sample);
    visit("metrics", metrics);
  }

  /// eval.metrics, or the default metrics of the model's task.
  std::vector<Metric> eval_metrics() const;

  /// All data formats: data.format, or those of data.sets.
  std::vector<std::string> data_formats() const;
  /// Whether one of them has that property.
  bool reads(bool DataFormat::* property) const;

  Schedule schedule() const;
  ParallelOptions parallel_options() const;
  /// Loads the library of parallel.backend, if it names one. Throws ConfigError if the library cannot be used, or if it
  /// comes from a run's folder and was ignored.
  MeshOptions mesh_options() const;
  /// Whether rank 0 alone reads model.checkpoint and sends the others what they need.
  bool first_reads() const { return model.readers == "first" || !checkpoint.shared; }

  /// The samples of each step for the rank at `dp_rank`. Throws ConfigError if the batch does not divide evenly, or
  /// while train.micro_batches is 0.
  BatchShape batch_shape(const MeshShape& mesh, int64_t dp_rank) const;
};

/// Error message if no evaluation of the run has the metric that checkpoint.best names; empty otherwise.
std::string checkpoint_best_error(const RunConfig& config);

/// Coefficient of the load-balancing loss if a transformers config enables it, which, as there, only language models
/// do.
double configured_aux_loss(const ModelConfig& network);

/// Number of bytes in "16GiB", "500MB" or "1000"; nullopt if the text is not such a number.
std::optional<int64_t> get_bytes(const std::string& text);

/// Origin of a config. A run's folder may come from a stranger: programs and libraries that it names are ignored and
/// recorded in RunConfig::untrusted.
enum class ConfigSource { user, run_folder };

/// Reads `file` (TOML; none if empty), then `overrides` ("a.b=c"; later ones win), and checks every value. model.entry
/// is optional if model.checkpoint names a folder with a config.json. Relative paths are resolved against the working
/// directory. Throws ConfigError with the location and, for an unknown key, the nearest known one.
RunConfig read_run_config(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                          ConfigSource source = ConfigSource::user);

/// Config values, as "a.b=c", of programs and libraries that differ from their defaults.
std::vector<std::string> program_options(RunConfig& config);

/// The config as a TOML file that parses to the same config.
std::string format_toml(RunConfig& config);

/// The config as lines of key, value and location.
std::string format_table(RunConfig& config);

/// All keys with their defaults and help texts.
std::string format_reference(RunConfig& config);

}  // namespace modular
