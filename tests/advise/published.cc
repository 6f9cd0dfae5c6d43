#include "tests/advise/published.h"

#include "runtime/advise/step_time.h"

namespace modular::testing {
namespace {

constexpr Recompute kNothing = {"none", 0.0}, kAll = {"full", 1.0}, kEverySecondLayer = {"2", 0.5};
// torchtitan's "selective op" saves every second matmul.
constexpr Recompute kEverySecondMatmul = {"every second matmul", 0.45};
// Korthikanti et al.: attention scores and their results are recomputed, 2.7 % of the FLOPs of their 175B.
constexpr Recompute kScores = {"attention", 0.08};

/// Selene: DGX A100, 8 x HDR InfiniBand (200 Gb/s each) per node.
Cluster selene() {
  return {
      .per_node = 8, .memory = 80 * 0x1p30, .link = 300e9, .between = 25e9, .flops = 312e12, .memory_speed = 2.0e12};
}

/// Grand Teton: H100 with HBM2e at 500 W, 400 Gb/s per device between hosts.
Cluster grand_teton() {
  return {
      .per_node = 8, .memory = 96 * 0x1p30, .link = 450e9, .between = 50e9, .flops = 989e12, .memory_speed = 2.4e12};
}

/// A row with tokens/s per device, as torchtitan reports. Its tensor parallelism divides the positions between layers,
/// and its cp ranks gather keys.
PublishedStep titan(const std::string& source, const std::string& name, const DecoderSizes& sizes, int64_t tokens,
                    Recompute recompute, Layout layout, double local_batch, double tokens_per_second) {
  const double rows = local_batch / static_cast<double>(layout.micro_batches);
  const double tokens_per_device =
      local_batch * static_cast<double>(tokens) / static_cast<double>(layout.pp * layout.cp * layout.tp);
  return {source,           name, sizes, tokens, recompute, layout, rows, tokens_per_device / tokens_per_second,
          /*sequence=*/true};
}

/// A row of Narayanan et al.'s table 1: FLOP/s per device by their formula, with full recomputation.
PublishedStep megatron(const std::string& name, const DecoderSizes& sizes, Layout layout, double batch, double flops) {
  constexpr double kTokens = 2048;
  const auto layers = static_cast<double>(sizes.layers), hidden = static_cast<double>(sizes.hidden);
  const double all =
      96.0 * batch * kTokens * layers * hidden * hidden *
      (1.0 + kTokens / (6.0 * hidden) + static_cast<double>(sizes.vocabulary) / (16.0 * layers * hidden));
  const double rows = batch / static_cast<double>(layout.data_parallel() * layout.micro_batches);
  return {"2104.04473 table 1",
          name,
          sizes,
          2048,
          kAll,
          layout,
          rows,
          all / (flops * static_cast<double>(layout.devices()))};
}

/// A row of Korthikanti et al.'s tables 3 and 5: seconds per iteration. Full recomputation is their baseline, without
/// sequence parallelism; selective recomputation is with it.
PublishedStep korthikanti(const std::string& name, const DecoderSizes& sizes, Recompute recompute, Layout layout,
                          double rows, double seconds) {
  return {"2205.05198 table 5",
          name,
          sizes,
          2048,
          recompute,
          layout,
          rows,
          seconds,
          /*sequence=*/recompute.recomputed < 1.0};
}

Layout fsdp(int64_t ranks) { return {.dp_shard = ranks}; }

Layout three_dimensional(int64_t pp, int64_t dp, int64_t tp, int64_t micro_batches, int64_t stages) {
  return {.pp = pp,
          .dp_replicate = dp,
          .tp = tp,
          .micro_batches = micro_batches,
          .schedule = stages > 1 ? "interleaved" : "1f1b",
          .stages_of_rank = stages};
}

}  // namespace

const std::vector<PublishedTable>& published_tables() {
  const std::string h100 = "torchtitan llama3_h100_202412", a100 = "torchtitan docs/performance.md";
  static const std::vector<PublishedTable> tables = {
      {"H100, eager",
       grand_teton(),
       false,
       {titan(h100, "8B, FSDP 8", kLlama3_8B, 8192, kEverySecondMatmul, fsdp(8), 2, 5762),
        titan(h100, "8B, FSDP 128", kLlama3_8B, 8192, kEverySecondMatmul, fsdp(128), 2, 5605)}},
      {"H100, compiled",
       grand_teton(),
       false,
       {titan(h100, "8B, FSDP 8", kLlama3_8B, 8192, kEverySecondMatmul, fsdp(8), 2, 6667),
        titan(h100, "8B, FSDP 128", kLlama3_8B, 8192, kEverySecondMatmul, fsdp(128), 2, 6514)}},
      {"H100, compiled, Float8",
       grand_teton(),
       false,
       {titan(h100, "8B, FSDP 8", kLlama3_8B, 8192, kEverySecondMatmul, fsdp(8), 2, 8532),
        titan(h100, "8B, FSDP 128", kLlama3_8B, 8192, kEverySecondMatmul, fsdp(128), 2, 8380),
        titan(h100, "70B, FSDP 32 x TP 8", kLlama3_70B, 8192, kAll, {.dp_shard = 32, .tp = 8}, 16, 829),
        titan(h100, "405B, FSDP 8 x TP 8 x PP 8, 1F1B", kLlama3_405B, 8192, kAll,
              {.pp = 8, .dp_shard = 8, .tp = 8, .micro_batches = 8}, 32, 100),
        titan(h100, "405B, the same, interleaved", kLlama3_405B, 8192, kAll,
              {.pp = 8, .dp_shard = 8, .tp = 8, .micro_batches = 8, .schedule = "interleaved"}, 32, 128)}},
      {"H100, compiled, Float8, long sequences",
       grand_teton(),
       false,
       {titan(h100, "8B, 32,768 tokens, FSDP 8", kLlama3_8B, 32768, kAll, fsdp(8), 1, 3890),
        titan(h100, "8B, 65,536 tokens, FSDP 4 x CP 2", kLlama3_8B, 65536, kAll, {.dp_shard = 4, .cp = 2}, 1, 2540),
        titan(h100, "8B, 131,072 tokens, FSDP 2 x CP 4", kLlama3_8B, 131072, kAll, {.dp_shard = 2, .cp = 4}, 1, 1071),
        titan(h100, "8B, 262,144 tokens, CP 8", kLlama3_8B, 262144, kAll, {.cp = 8}, 1, 548),
        titan(h100, "405B, 32,768 tokens, FSDP 8 x TP 8 x PP 8", kLlama3_405B, 32768, kAll,
              {.pp = 8, .dp_shard = 8, .tp = 8, .micro_batches = 8}, 8, 76),
        titan(h100, "405B, 65,536 tokens, FSDP 4 x CP 2 x TP 8 x PP 8", kLlama3_405B, 65536, kAll,
              {.pp = 8, .dp_shard = 4, .cp = 2, .tp = 8, .micro_batches = 8}, 8, 47),
        titan(h100, "405B, 131,072 tokens, FSDP 2 x CP 4 x TP 8 x PP 8", kLlama3_405B, 131072, kAll,
              {.pp = 8, .dp_shard = 2, .cp = 4, .tp = 8, .micro_batches = 8}, 8, 31),
        titan(h100, "405B, 262,144 tokens, CP 8 x TP 8 x PP 8", kLlama3_405B, 262144, kAll,
              {.pp = 8, .cp = 8, .tp = 8, .micro_batches = 8}, 8, 16)}},
      {"A100, FSDP 64",
       selene(),
       false,
       {titan(a100, "Llama 3 8B, selective op", kLlama3_8B, 8192, kEverySecondMatmul, fsdp(64), 1, 2973),
        titan(a100, "Llama 3 8B, selective layer", kLlama3_8B, 8192, kEverySecondLayer, fsdp(64), 1, 2904),
        titan(a100, "Llama 3 70B, full", kLlama3_70B, 8192, kAll, fsdp(64), 1, 331),
        titan(a100, "Llama 2 13B, none", kLlama2_13B, 4096, kNothing, fsdp(64), 2, 2162),
        titan(a100, "Llama 2 13B, selective layer", kLlama2_13B, 4096, kEverySecondLayer, fsdp(64), 2, 1914),
        titan(a100, "Llama 2 13B, selective op", kLlama2_13B, 4096, kEverySecondMatmul, fsdp(64), 2, 1904),
        titan(a100, "Llama 2 70B, selective op", kLlama2_70B, 4096, kEverySecondMatmul, fsdp(64), 1, 355),
        titan(a100, "Llama 2 70B, full", kLlama2_70B, 4096, kAll, fsdp(64), 2, 353)}},
      {"A100, Megatron-LM 2021",
       selene(),
       true,
       {megatron("1.7B, DP 32", gpt(24, 2304, 24), three_dimensional(1, 32, 1, 1, 1), 512, 137e12),
        megatron("3.6B, DP 32 x TP 2", gpt(30, 3072, 32), three_dimensional(1, 32, 2, 2, 1), 512, 138e12),
        megatron("7.5B, DP 32 x TP 4", gpt(36, 4096, 32), three_dimensional(1, 32, 4, 4, 1), 512, 142e12),
        megatron("18.4B, DP 32 x TP 8", gpt(40, 6144, 48), three_dimensional(1, 32, 8, 8, 1), 1024, 135e12),
        megatron("39.1B, DP 32 x TP 8 x PP 2", gpt(48, 8192, 64), three_dimensional(2, 32, 8, 24, 2), 1536, 138e12),
        megatron("76.1B, DP 32 x TP 8 x PP 4", gpt(60, 10240, 80), three_dimensional(4, 32, 8, 28, 3), 1792, 140e12),
        megatron("145.6B, DP 24 x TP 8 x PP 8", gpt(80, 12288, 96), three_dimensional(8, 24, 8, 48, 2), 2304, 148e12),
        megatron("310.1B, DP 15 x TP 8 x PP 16", gpt(96, 16384, 128), three_dimensional(16, 15, 8, 144, 3), 2160,
                 155e12),
        megatron("529.6B, DP 9 x TP 8 x PP 35", gpt(105, 20480, 128), three_dimensional(35, 9, 8, 280, 3), 2520,
                 163e12),
        megatron("1008.0B, DP 6 x TP 8 x PP 64", gpt(128, 25600, 160), three_dimensional(64, 6, 8, 512, 2), 3072,
                 163e12)}},
      {"A100, Megatron-LM 2022",
       selene(),
       true,
       {korthikanti("22B, TP 8, full", gpt(48, 6144, 64), kAll, three_dimensional(1, 1, 8, 1, 1), 4, 1.42),
        korthikanti("22B, TP 8, selective", gpt(48, 6144, 64), kScores, three_dimensional(1, 1, 8, 1, 1), 4, 1.10),
        korthikanti("175B, TP 8 x PP 8, full", gpt(96, 12288, 96), kAll, three_dimensional(8, 1, 8, 64, 3), 1, 18.13),
        korthikanti("175B, TP 8 x PP 8, selective", gpt(96, 12288, 96), kScores, three_dimensional(8, 1, 8, 64, 3), 1,
                    13.75),
        korthikanti("530B, TP 8 x PP 35, full", gpt(105, 20480, 128), kAll, three_dimensional(35, 1, 8, 280, 3), 1,
                    49.05),
        korthikanti("530B, TP 8 x PP 35, selective", gpt(105, 20480, 128), kScores, three_dimensional(35, 1, 8, 280, 3),
                    1, 37.83),
        korthikanti("1T, TP 8 x PP 64, full", gpt(128, 25600, 160), kAll, three_dimensional(64, 1, 8, 512, 1), 1,
                    94.42),
        korthikanti("1T, TP 8 x PP 64, selective", gpt(128, 25600, 160), kScores, three_dimensional(64, 1, 8, 512, 1),
                    1, 71.49)}},
  };
  return tables;
}

double predicted_seconds(const PublishedTable& table, const PublishedStep& step, double attained) {
  Cluster cluster = table.cluster;
  cluster.nodes = (step.layout.devices() + cluster.per_node - 1) / cluster.per_node;
  cluster.attained = attained;
  PipelineClock clock;
  ModelProfile model = decoder_profile(step.sizes, step.tokens, {step.recompute}, table.keeps_scores, step.sequence,
                                       /*waits_to_regather=*/false);
  if (step.layout.cp > 1) add_contexts(model, step.sizes, {step.layout.cp}, {step.layout.tp}, /*exchanges=*/false);
  return step_time(model, step.layout, step.rows, cluster, clock).total;
}

double fitted_fraction(const PublishedTable& table) {
  const PublishedStep& first = table.steps.front();
  double low = 0.01, high = 3.0;  // Float8 attains more than the peak of bfloat16
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (predicted_seconds(table, first, middle) > first.seconds ? low : high) = middle;
  }
  return low;
}

}  // namespace modular::testing
