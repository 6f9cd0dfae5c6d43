// Context parallelism: the same training as on one process, with dropout and clipping; and what it sends.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/mesh/collectives.h"
#include "runtime/parallel/tensor/context_parallel.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

using Layout = ContextOptions::Layout;
using Attention = ContextOptions::Attention;

MeshShape mesh(int64_t cp, int64_t tp = 1, int64_t dp_replicate = 1, int64_t dp_shard = 1, int64_t pp = 1) {
  return {.size = {pp, dp_replicate, dp_shard, cp, tp}};
}

/// Trains with two micro-batches.
Variant variant(const char* name, const Fields& fields, ContextOptions context = {}, bool recompute = false) {
  Variant made{.name = name, .fields = fields, .micro_batches = 2};
  made.options.context = context;
  made.options.recompute = recompute;
  return made;
}

const Fields kLlama = {{"attention_dropout", 0.2}};

TEST(ContextParallel, TrainsTheSameOnTwoRanks) {
  expect_same_training("LlamaForCausalLM", mesh(2),
                       {variant("zigzag", kLlama, {Layout::zigzag, Attention::all_gather}),
                        variant("contiguous", kLlama, {Layout::contiguous, Attention::all_gather}, /*recompute=*/true),
                        variant("heads", kLlama, {Layout::zigzag, Attention::all_to_all})});
}

TEST(ContextParallel, TrainsTheSameOnFourRanks) {
  Variant zigzag = variant("zigzag", kLlama);
  zigzag.sequence = 16;
  expect_same_training("LlamaForCausalLM", mesh(4), {zigzag});
}

TEST(ContextParallel, TrainsDocumentsAndPaddingTheSame) {
  Variant documents = variant("documents", kLlama), left = variant("left", kLlama);
  documents.documents = left.left_padding = true;
  expect_same_training("LlamaForCausalLM", mesh(2), {documents, left});
}

TEST(ContextParallel, TrainsTheSameOnOtherAxesToo) {
  const Variant one = variant("zigzag", kLlama);
  expect_same_training("LlamaForCausalLM", mesh(2, 2), {one});
  expect_same_training("LlamaForCausalLM", mesh(2, 1, 2), {one});
  expect_same_training("LlamaForCausalLM", mesh(2, 1, 1, 2), {one});
  expect_same_training("LlamaForCausalLM", mesh(2, 1, 1, 1, 2), {one});
}

/// With sequence parallelism, tp ranks divide the positions of a cp rank.
TEST(ContextParallel, TrainsTheSameWithSequenceParallelism) {
  const Fields fields = {{"intermediate_size", int64_t{48}}, {"hidden_dropout", 0.1}, {"attention_dropout", 0.2}};
  expect_same_training("PositionsForCausalLM", mesh(2, 2), {variant("zigzag", fields)});
  Variant experts = variant("experts", fields);
  experts.fields["num_experts"] = int64_t{4};
  experts.options.router = {.aux_loss = 0.02, .by_sequence = true, .z_loss = 0.01};
  expect_same_training("PositionsForCausalLM", mesh(2, 2), {experts});
}

struct Family {
  std::string entry;
  Fields fields;
};

class ContextParallelFamilies : public ::testing::TestWithParam<Family> {};

TEST_P(ContextParallelFamilies, TrainTheSame) {
  const auto& [entry, fields] = GetParam();
  Variant documents = variant("documents", fields, {.attention = Attention::all_gather});
  documents.documents = true;
  expect_same_training(entry, mesh(2), {variant("automatic", fields), documents});
}

const Fields kBert = {{"hidden_dropout_prob", 0.1}, {"attention_probs_dropout_prob", 0.1}, {"num_labels", int64_t{3}}};
const Fields kGpt2 = {{"n_embd", int64_t{36}},      {"n_layer", int64_t{2}}, {"n_head", int64_t{4}},
                      {"n_positions", int64_t{64}}, {"resid_pdrop", 0.1},    {"embd_pdrop", 0.1},
                      {"attn_pdrop", 0.1}};

std::string name_of(const ::testing::TestParamInfo<Family>& info) { return info.param.entry; }

// A masked model, rows with labels, and windows with soft-capped scores.
INSTANTIATE_TEST_SUITE_P(
    Kinds, ContextParallelFamilies,
    ::testing::Values(Family{"BertForMaskedLM", kBert}, Family{"BertForSequenceClassification", kBert},
                      Family{"Gemma2ForCausalLM", {{"query_pre_attn_scalar", int64_t{8}}, {"attention_dropout", 0.1}}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(Release, ContextParallelFamilies,
                         ::testing::Values(Family{"BertForTokenClassification", kBert},
                                           Family{"GPT2LMHeadModel", kGpt2},
                                           Family{"GPTNeoXForCausalLM", {{"attention_dropout", 0.1}}},
                                           Family{"MistralForCausalLM", kLlama}, Family{"MPNetForMaskedLM", kBert},
                                           Family{"Olmo2ForCausalLM", kLlama}, Family{"PhiForCausalLM", kLlama},
                                           Family{"MixtralForCausalLM", {{"num_local_experts", int64_t{3}}}},
                                           Family{"GptOssForCausalLM", {{"num_local_experts", int64_t{3}}}}),
                         name_of);

}  // namespace
}  // namespace modular::testing
