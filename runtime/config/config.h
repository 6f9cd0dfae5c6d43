// All settings of a run, in sections as the TOML file has them, and what they mean.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/data/batches.h"
#include "runtime/data/files.h"
#include "runtime/data/masking.h"
#include "runtime/data/packing.h"
#include "runtime/evaluation/metric.h"
#include "runtime/mesh/mesh.h"
#include "runtime/optim/options.h"
#include "runtime/optim/schedule.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// What a text names that modrun runs: a program, or a library where it is a path. Such fields are not taken from a
/// run's folder (ConfigSource).
enum class Names { nothing, program, library };

/// What is asked of a field's value in addition to its type.
struct FieldRule {
  FieldRule() = default;
  FieldRule(double least) : at_least(least) {}
  FieldRule(Names what) : names(what) {}

  std::optional<double> at_least, at_most;
  Names names = Names::nothing;
};

// Each section lists its fields as visit(name, value, what it means[, FieldRule[, the largest value]]). A largest value
// is far above any use: numbers up to it neither overflow when multiplied nor make a run that starts and never ends.
constexpr double kMostSteps = 0x1p53, kMostSamples = 0x1p24, kMostTokens = 0x1p30, kMostMinutes = 525'600;  // a year

struct ModelSection {
  std::string entry, checkpoint, base, tokenizer, readers = "all";
  bool resize_embeddings = false;
  int64_t pad_vocab_to_multiple_of = 0;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("entry", entry, "the model's class or family: modrun entries lists them");
    visit("checkpoint", checkpoint, "start from these weights: a checkpoint, a Hugging Face folder or a PEFT folder");
    visit("base", base,
          "of a PEFT folder: the folder of its base model; what its adapter_config.json names when empty");
    visit(
        "tokenizer", tokenizer,
        "folder of the tokenizer that the data's ids are of, which is kept with the model: that beside the data, or of "
        "the checkpoint, when empty");
    visit("readers", readers, "which ranks read these weights: all, or the first, which hands them to the others");
    visit("resize_embeddings", resize_embeddings,
          "add rows to these weights' token tables and heads, up to the tokenizer's ids or model.config.vocab_size");
    visit("pad_vocab_to_multiple_of", pad_vocab_to_multiple_of,
          "resize_embeddings: add rows up to a multiple of this; 0: not", 0, kMostTokens);
  }
};

/// A table of [data.sets].
struct SetOptions {
  std::string name;
  std::vector<std::string> paths;
  double weight = 1.0;
  std::optional<std::string> format;  // or data.format
  std::string loss;                   // of sentence embeddings; sentences.loss, or what suits its data, when empty
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
          "several sets, each step from one of them, e.g. {web = {paths = ['web'], weight = 2, format = 'tokens'}}, "
          "instead of paths");
    visit("suffixes", suffixes, "which files of a folder count; all when empty");
    visit("held_out_every", held_out_every, "hold out every n-th file; 0 for none", 0, kMostSamples);
    visit("held_out", held_out, "hold out the files whose path matches one of these globs");
    visit("held_out_part", held_out_part, "hold out this share of the samples, the last ones, instead; 0 for none", 0);
    visit("pack", pack, "texts: the documents of a row do not see each other");
    visit("end_of_text", end_of_text, "pack: the id of the token that ends a document; -1: files alone end one", -1);
    visit("trim", trim, "examples: leave out the padding that no row of a step needs, by attention_mask");
    visit("group_by_length", group_by_length, "examples: rows of similar length come together, by attention_mask");
    visit(
        "order", order,
        "rows (any row may follow any other) or partitions (parquet: each data-parallel rank reads full row groups of "
        "its own)");
    visit("partitions", partitions, "order: how many partitions; 0: the data-parallel ranks of the run's start", 0,
          kMostSamples);
    visit("repartition", repartition,
          "order: cut the files into other row groups, in train.dir, where partitions do not divide their number");
    visit("mask_probability", mask_probability,
          "masked-lm and masked-item: share of the tokens or items that are to be predicted", 0);
    visit("mask_token", mask_token, "masked-lm: the id that replaces a masked token", -1);
  }
};

struct TrainSection {
  std::string dir = "runs/default", device = "auto", on_nonfinite = "stop";
  double epochs = 0.0;
  int64_t steps = 1000, batch_size = 16, batch_size_per_rank = 0, micro_batches = 1, seq_len = 256, seed = 1;
  bool deterministic = false;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("dir", dir, "folder of the run's files");
    visit("steps", steps, "optimizer steps of the whole run", 1, kMostSteps);
    visit("epochs", epochs, "passes over the data, instead of steps; 0: not", 0);
    visit("batch_size", batch_size, "samples of a step, over all ranks", 1, kMostSamples);
    visit("batch_size_per_rank", batch_size_per_rank,
          "the same on each data-parallel rank, instead of batch_size; 0: not", 0, kMostSamples);
    visit("micro_batches", micro_batches,
          "forwards that a rank's share of a step is cut into; 0 for as few as fit into parallel.memory", 0,
          kMostSamples);
    visit("seq_len", seq_len, "tokens of a sample that is cut out of a text", 2, kMostTokens);
    visit("seed", seed, "of the initial weights, the data's order and sampling", 0);
    visit("deterministic", deterministic, "on GPUs: take only operations whose results are the same in every run");
    visit("device", device, "auto (a GPU for each rank where there are GPUs), cpu or cuda");
    visit(
        "on_nonfinite", on_nonfinite,
        "after a step whose loss or gradient is no finite number: stop, skip it, or rollback to the newest checkpoint");
  }
};

struct OptimSection : OptimizerOptions {
  double lr = 3e-4, min_lr = 0.0, max_grad_norm = 1.0;
  std::string schedule = "cosine";
  std::vector<std::string> frozen;
  int64_t warmup_steps = 0, decay_steps = 0;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("name", name, "what updates the parameters: adamw, sgd, adafactor or muon");
    visit("lr", lr, "highest learning rate", 0);
    visit("min_lr", min_lr, "learning rate at the end of the schedule", 0);
    visit("schedule", schedule, "after the warm-up: cosine, linear, constant, wsd or inverse-sqrt");
    visit("warmup_steps", warmup_steps, "steps of linear warm-up", 0, kMostSteps);
    visit("decay_steps", decay_steps, "wsd: the last steps, in which the rate falls linearly", 0, kMostSteps);
    visit("beta1", beta1, "adamw, and muon but for matrices of layers: decay of the first moment", 0);
    visit("beta2", beta2, "adamw, and muon but for matrices of layers: decay of the second moment", 0);
    visit("eps", eps, "adamw, and muon but for matrices of layers: epsilon", 0);
    visit("momentum", momentum, "sgd and muon: momentum", 0);
    visit("nesterov", nesterov, "sgd and muon: Nesterov's momentum");
    visit("beta2_decay", beta2_decay, "adafactor: the second moment decays by 1 - t^beta2_decay at step t");
    visit("eps1", eps1, "adafactor: the least root of a second moment", 0);
    visit("eps2", eps2, "adafactor: the least root mean square of a parameter, with which its rate grows", 0);
    visit("clip_threshold", clip_threshold, "adafactor: the most that an update's root mean square may be", 1);
    visit("ns_steps", ns_steps, "muon: steps of Newton and Schulz's iteration", 1, 100);
    visit("adjust_lr", adjust_lr, "muon: size of an update: match_rms_adamw (as AdamW's) or original");
    visit("weight_decay", weight_decay,
          "decay of matrices and tables, of sgd in the gradient; norms, biases and A_log have none", 0);
    visit("groups", groups,
          "rates and decays of their own, e.g. [{match = ['model.layers.*.mlp'], lr_scale = 0.1, weight_decay = 0}]; "
          "the last that matches counts");
    visit("frozen", frozen,
          "modules and parameters that are not trained, e.g. ['model.embed_tokens', 'model.layers.*.mlp']");
    visit("max_grad_norm", max_grad_norm, "clip the gradient to this norm; 0 for never", 0);
  }
};

struct LoraSection : LoraOptions {
  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("layers", layers,
          "linear layers that get adapters, which alone are trained: paths as of optim.frozen, or parts of them, e.g. "
          "['q_proj', 'mlp'], or ['all-linear'], all within the layers; none when empty");
    visit("rank", rank, "rows of A, and columns of B", 1, 0x1p20);
    visit("alpha", alpha, "an adapter adds alpha / rank times its product");
    visit("dropout", dropout, "of an adapter's input", 0);
    visit("trained", trained, "modules and parameters that are trained besides, e.g. ['score']");
  }
};

struct RouterSection {
  std::optional<double> aux_loss;
  std::string balance = "batch";
  double z_loss = 0.0, bias_speed = 0.0;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit(
        "aux_loss", aux_loss,
        "coefficient of the loss that balances experts, 0 for none; router_aux_loss_coef where the model's config has "
        "output_router_logits = true when not given",
        0);
    visit("balance", balance, "over what that loss is: batch (all layers and samples of a step) or sequence (each)");
    visit("z_loss", z_loss, "coefficient of the loss that keeps routers' logits small", 0);
    visit("bias_speed", bias_speed, "what biases of routers rise or fall by after a step, to balance experts", 0);
  }
};

struct SentencesSection : SentenceOptions {
  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("loss", loss,
          "of entries for sentence-embedding: supervised (one text a sample), in-batch (two or more), contrastive or "
          "cosine (two), triplet (three); what suits the data when empty");
    visit("scale", scale, "supervised and in-batch: of cosines in their softmax, one over the temperature", 0);
    visit("margin", margin, "contrastive (0.5 when not given) and triplet (5): of distances", 0);
    visit("distance", distance, "contrastive (cosine when empty) and triplet (euclidean): cosine or euclidean");
  }
};

struct SampledSoftmaxSection : SampledSoftmaxOptions {
  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("samples", samples,
          "next-item and masked-item: how many items the training loss of a step compares each target with, about so "
          "many; 0 for all items",
          0);
    visit("distribution", distribution,
          "what they are drawn from: log-uniform (by id, the most popular item being 1) or uniform");
  }
};

struct ParallelSection {
  int64_t pp = 1, dp_replicate = 1, dp_shard = -1, tp = 1, zero_stage = 3, prefetch = 1, timeout_minutes = 10;
  int64_t frozen_seconds = 30;
  int64_t stages_per_rank = 0, dp_threads = 1;
  std::string schedule = "1f1b", backend = "auto", memory;
  std::vector<int64_t> cuts;
  bool bf16 = false;
  Recomputation recompute;
  std::vector<std::string> units = {"*"}, offload, float8;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("pp", pp, "pipeline ranks", 1);
    visit(
        "schedule", schedule,
        "order of a pipeline's work: gpipe, 1f1b, interleaved, looped-bfs, interleaved-zero-bubble, zbv, dualpipev, or "
        "a .csv file");
    visit("stages_per_rank", stages_per_rank, "pipeline stages of a pp rank; 0 for what the schedule usually has", 0,
          2048);
    visit("cuts", cuts, "the layers at which the later pipeline stages begin, e.g. [12, 20]; by cost when empty");
    visit("dp_replicate", dp_replicate, "data-parallel replicas (DDP; HSDP with dp_shard)", 1);
    visit("dp_shard", dp_shard, "ranks that shard the parameters (FSDP); -1 for all that the other axes leave", -1);
    visit("tp", tp, "tensor-parallel ranks", 1);
    visit("zero_stage", zero_stage, "what dp_shard divides: 1 optimizer state, 2 gradients too, 3 parameters too", 1,
          3);
    visit("prefetch", prefetch, "units gathered ahead of use under zero_stage 3", 0, 0x1p20);
    visit("dp_threads", dp_threads,
          "replicas on threads of one process instead of ranks, to compare with (DataParallel)", 1, 64);
    visit("units", units, "unit classes that are units of FSDP and of recomputation; ['*'] is all, [] none");
    visit("recompute", recompute,
          "computed again in the backward: none, full (every unit), n (every n-th), or operations of all units: "
          "['attention', 'norm', 'activation']");
    visit("offload", offload, "kept in host memory until needed: some of ['optimizer', 'parameters', 'activations']");
    visit(
        "backend", backend,
        "what moves the data between ranks: gloo (on CPUs), nccl (on GPUs), auto (what suits the device), or the path "
        "of a shared library",
        Names::library);
    visit("memory", memory,
          "what a rank may hold, e.g. '16GiB': a run whose plan needs more is rejected; any when empty");
    visit("timeout_minutes", timeout_minutes, "after which a collective that has not ended is an error", 1,
          kMostMinutes);
    visit("frozen_seconds", frozen_seconds,
          "after which a rank whose process shows no sign of life ends the job, under modrun's launcher; 0 for never",
          0, 60 * kMostMinutes);
    visit("bf16", bf16,
          "compute in bfloat16, and what tp ranks sum; sums over tokens, micro-batches and other ranks are float32, "
          "and so "
          "are parameters and the optimizer");
    visit("float8", float8,
          "linear layers that are multiplied in float8, with bf16: paths as of optim.frozen, e.g. ['model.layers']; "
          "none when empty");
  }
};

struct CheckpointSection {
  int64_t every = 0, every_minutes = 10, keep = 2;
  bool background = true, shared = true;
  std::string form = "sharded", best;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("every", every, "steps between checkpoints; 0 for those of every_minutes and the last, -1 for none at all",
          -1, kMostSteps);
    visit("every_minutes", every_minutes, "minutes after which a checkpoint is due in any case; 0 for never", 0,
          kMostMinutes);
    visit("keep", keep, "how many of the newest to keep; 0 for all", 0, kMostSteps);
    visit("best", best,
          "what the best checkpoint is chosen by and kept beside the newest, at checkpoints/best: loss (of held-out "
          "samples) or one of eval.metrics; none when empty");
    visit("background", background, "write from a copy in memory while the steps continue; false to wait for each");
    visit("shared", shared,
          "all machines see train.dir; false where rank 0's alone has it, which then writes and reads for all");
    visit("form", form, "sharded, or full: with the parameters as a Hugging Face folder besides");
  }
};

struct EvalSection {
  int64_t every = 0, samples = 64;
  int64_t patience = 0;
  std::vector<std::string> metrics;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("every", every, "steps between evaluations on held-out files; 0 for one at the end only", 0, kMostSteps);
    visit("samples", samples, "held-out samples of an evaluation; 0 for all", 0, kMostSteps);
    visit("metrics", metrics,
          "beside the loss: perplexity, accuracy, f1, recall@k, mrr@k, ndcg@k, pearson, spearman, mse, mae; those that "
          "are usual for the model's "
          "task when empty");
    visit("patience", patience,
          "evaluations without a better one, by checkpoint.best or else the loss, after which a run ends; 0 for never",
          0, kMostSteps);
  }
};

struct SampleSection {
  std::string prompt, python = "python3";
  bool chat = false;
  int64_t tokens = 256, top_k = 0, batch = 16;
  double temperature = 1.0;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("prompt", prompt, "text that the model continues at the run's end; none when empty");
    visit("chat", chat, "the prompt is a user's message, which the tokenizer's chat template writes");
    visit("tokens", tokens, "tokens to write, unless one ends the text", 1, 0x1p20);
    visit("temperature", temperature, "0 always takes the likeliest token", 0);
    visit("top_k", top_k, "choose among the k likeliest tokens; 0 for all", 0, kMostTokens);
    visit("batch", batch, "texts that are continued at once, where several are given", 1, 0x1p16);
    visit("python", python, "the Python with the package tokenizers, of models that have a tokenizer", Names::program);
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
          "peak of one rank's device, for MFU; 0 for the known one of a GPU and the measured one of a CPU", 0);
    visit("tensorboard", tensorboard, "write event files for TensorBoard into train.dir/tensorboard");
    visit("wandb", wandb, "project of Weights & Biases that gets steps and evaluations; none when empty");
    visit("python", python, "the Python that has the package wandb", Names::program);
    visit("trace", trace,
          "first and last step that every rank traces into train.dir/trace, e.g. [10, 12]; none when empty");
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
  std::map<std::string, std::string> origins;    // where a key that is not at its default was set
  std::map<std::string, std::string> untrusted;  // keys of a run's folder that were not taken, and why in a sentence

  /// Calls visit(section's name, section) for each section.
  template <class Visitor>
  void sections(Visitor&& visit) {
    visit("model", model), visit("data", data), visit("train", train), visit("optim", optim);
    visit("lora", lora), visit("router", router), visit("sentences", sentences);
    visit("sampled_softmax", sampled_softmax), visit("parallel", parallel), visit("checkpoint", checkpoint),
        visit("eval", eval), visit("sample", sample);
    visit("metrics", metrics);
  }

  /// eval.metrics, or the usual ones of the model's task.
  std::vector<Metric> eval_metrics() const;

  /// The formats of all data: data.format, or those of data.sets.
  std::vector<std::string> data_formats() const;
  bool reads(std::string_view format) const;

  Schedule schedule() const;
  /// How many samples train.epochs passes over `samples` are. Throws ConfigError where these are too many to count.
  int64_t samples_of_epochs(int64_t samples) const;
  ParallelOptions parallel_options() const;
  /// Loads the library of parallel.backend, where that is one. Throws ConfigError where it cannot be used, and where a
  /// run's folder names one that was not taken.
  MeshOptions mesh_options() const;
  /// Whether rank 0 alone reads model.checkpoint, and hands the others what they need of it.
  bool first_reads() const { return model.readers == "first" || !checkpoint.shared; }
  bool has_backend_library() const { return parallel.backend.find('/') != std::string::npos; }
  std::filesystem::path checkpoints() const { return std::filesystem::path(train.dir) / "checkpoints"; }
  std::filesystem::path event_files() const { return std::filesystem::path(train.dir) / "tensorboard"; }
  std::filesystem::path traces() const { return std::filesystem::path(train.dir) / "trace"; }

  /// The mesh on `world_size` ranks. Throws ConfigError where the axes do not make that many.
  MeshShape mesh_shape(int64_t world_size) const;

  /// How a row's documents are kept apart; nothing where data.pack is not set. Positions are counted from 0.
  std::optional<Packing> packing() const;

  /// How targets are made of the data's tokens; nothing where each token is a target. For tasks that tokens alone
  /// train.
  std::optional<Masking> masking() const;

  /// What the rank at `dp_rank` reads of each step. Throws ConfigError where the batch does not divide, and where
  /// train.micro_batches is still 0.
  BatchShape batch_shape(const MeshShape& mesh, int64_t dp_rank) const;
};

/// Says in a sentence that no evaluation of the run has what checkpoint.best names, or nothing.
std::string checkpoint_best_error(const RunConfig& config);

/// The coefficient of the loss that balances experts where a config of transformers asks for one: of language models
/// alone, as there.
double configured_aux_loss(const ModelConfig& network);

/// The bytes that "16GiB", "500MB" or "1000" say; nothing where a text is no such number.
std::optional<int64_t> get_bytes(const std::string& text);

/// Who wrote a config. That of a run's folder may have been sent by a stranger: what it `Names` is not taken, and kept
/// in RunConfig::untrusted.
enum class ConfigSource { user, run_folder };

/// Reads `file` (TOML; none when empty), then `settings` ("a.b=c"; later ones win), and checks every value. model.entry
/// may be left out where model.checkpoint names a folder with a config.json. Paths are relative to the working
/// directory and come out absolute. Throws ConfigError saying where and, for an unknown key, which known one is
/// nearest.
RunConfig read_run_config(const std::filesystem::path& file, const std::vector<std::string>& settings,
                          ConfigSource source = ConfigSource::user);

/// The settings, as "a.b=c", of programs and libraries that are not at their defaults.
std::vector<std::string> program_options(RunConfig& config);

/// The config as a TOML file that reads back as the same config.
std::string format_toml(RunConfig& config);

/// The config as lines of key, value and where the value was set.
std::string format_table(RunConfig& config);

/// All keys with their defaults and meanings.
std::string format_reference(RunConfig& config);

}  // namespace modular
