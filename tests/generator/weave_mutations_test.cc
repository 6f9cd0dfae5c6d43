// Each mutation is a spec of Llama, or of a family in golden/parallel, that computes the same on a single process but a
// different result (or none) on some mesh. Each is rejected at the line of the error.
#include "tests/generator/weave_support.h"

namespace modgen {
namespace {

struct Mutation {
  const char* name;
  const char* from;  // occurs once in the spec
  const char* to;
  const char* message;  // part of the error
  const char* line;     // part of the line of the error
  const char* family = "llama";
};

void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

class WeaveMutation : public testing::TestWithParam<Mutation> {};

TEST_P(WeaveMutation, IsRejectedAtItsLine) {
  const Mutation& mutation = GetParam();
  const std::string family = mutation.family;
  const GenerateResult result =
      family == "llama" ? generate_spec(family, with(llama_spec(), mutation.from, mutation.to))
                        : generate_parallel(family, with(parallel_spec(family), mutation.from, mutation.to));
  EXPECT_FALSE(result.ok());
  for (const Output& output : result.outputs) EXPECT_TRUE(output.bytes.empty()) << "written despite an error";
  bool found = false;
  for (const Diagnostic& diagnostic : result.diagnostics)
    found |= diagnostic.message.find(mutation.message) != std::string::npos &&
             diagnostic.where.source_line.find(mutation.line) != std::string::npos;
  EXPECT_TRUE(found) << "expected: " << mutation.message << "\nat: " << mutation.line << "\ngot:\n"
                     << all_text(result.diagnostics);
}

const Mutation kTensorParallel[] = {
    {"ColumnLayerWithoutAnnotation", "TP_COLWISE nn::Linear up_proj", "nn::Linear up_proj",
     "full on every tp rank meets one that is split", "gated_activation("},
    {"RowLayerWithoutAnnotation", "TP_ROWWISE nn::Linear down_proj", "nn::Linear down_proj",
     "a layer without an annotation reads a value that is split", "return down_proj("},
    {"RowForColumn", "TP_COLWISE nn::Linear gate_proj", "TP_ROWWISE nn::Linear gate_proj",
     "split by input feature (TP_ROWWISE) reads a value that is full", "gated_activation("},
    {"ColumnForRow", "TP_ROWWISE nn::Linear down_proj", "TP_COLWISE nn::Linear down_proj",
     "split by output feature reads a value that is split", "return down_proj("},
    {"AttentionOutputColumnForRow", "TP_ROWWISE nn::Linear o_proj", "TP_COLWISE nn::Linear o_proj",
     "split by output feature reads a value that is split", "return o_proj("},
    {"QueryHeadsNotLocal", "TP_LOCAL int64_t num_heads;", "int64_t num_heads;", "without a tp-local count",
     "Tensor query = q_proj"},
    {"KeyHeadsNotLocal", "TP_LOCAL int64_t num_key_value_heads;", "int64_t num_key_value_heads;",
     "without a tp-local count", "Tensor key = k_proj"},
    {"KeyNotSplit", "TP_COLWISE nn::Linear k_proj", "nn::Linear k_proj",
     "a view by a tp-local count, of a value that is full", "Tensor key = k_proj"},
    {"HeadSizeLocalInsteadOfHeads", "int64_t head_dim;", "TP_LOCAL int64_t head_dim;", "two tp-local counts",
     "Tensor query = q_proj"},
    {"ViewOrder", "q_proj(hidden_states).view({batch, seq, num_heads, head_dim})",
     "q_proj(hidden_states).view({batch, seq, head_dim, num_heads})", "moves the tp-local count to dimension 3",
     "Tensor query = q_proj"},
    {"NoTranspose", "view({batch, seq, num_heads, head_dim}).transpose(1, 2)",
     "view({batch, seq, num_heads, head_dim})", "rotary positions of a value that is split", "rotary(query, cos, sin)"},
    {"EmbeddingNotSplitButTied", "TP_VOCAB nn::Embedding embed_tokens", "nn::Embedding embed_tokens",
     "which it is tied to, is full", "nn::Linear lm_head"},
    {"ProjectionNotSplitButTied", "TP_VOCAB TIED_TO(", "TIED_TO(", "lm_head.weight is full", "nn::Linear lm_head"},
    {"SoftmaxOverVocabulary", "cross_entropy_outputs(project(hidden_states),",
     "cross_entropy_outputs(torch::log_softmax(project(hidden_states), -1),",
     "log_softmax over dimension 2, which is split over tp", "torch::log_softmax"},
    {"MeanOverVocabulary", "return cross_entropy_outputs(project(hidden_states), batch, next_tokens);",
     "Tensor logits = project(hidden_states);\n    logits = logits - logits.mean(-1, true);\n    return "
     "cross_entropy_outputs(logits, batch, next_tokens);",
     "mean over a dimension that is split over tp", "logits.mean"},
    {"SplitSizeAsFactor", "return cross_entropy_outputs(project(hidden_states), batch, next_tokens);",
     "Tensor logits = project(hidden_states);\n    logits = logits / logits.size(-1);\n    return "
     "cross_entropy_outputs(logits, batch, next_tokens);",
     "a tp-local count is an operand of a tensor operation", "logits.size(-1)"},
    {"LocalCountAsScale", "mask, scaling,", "mask, scaling / num_heads,", "a tp-local count", "scaling / num_heads"},
    {"PartialLoss", "return cross_entropy_outputs(project(hidden_states), batch, next_tokens);",
     "Outputs outputs;\n    outputs.loss_sum = project(hidden_states).sum();\n    return outputs;",
     "output loss_sum is a partial sum over tp", "project(hidden_states).sum()"},
    {"ForgottenExit", "return residual + mlp(post_attention_layernorm(residual));",
     "return residual + torch::linear(mlp->up_proj(residual), mlp->down_proj->weight);",
     "a partial sum over tp meets a value that is full", "torch::linear"},
    {"NonLinearOfPartial", "return residual + mlp(post_attention_layernorm(residual));",
     "return residual + torch::silu(torch::linear(mlp->up_proj(residual), mlp->down_proj->weight));",
     "silu is not linear, and meets a partial sum", "torch::silu"},
    {"ProductOfPartials", "return residual + mlp(post_attention_layernorm(residual));",
     "const Tensor part = torch::linear(mlp->up_proj(residual), mlp->down_proj->weight);\n    return residual + part * "
     "part;",
     "a product of two partial sums", "part * part"},
    {"NormOfSplit", "query = q_proj(hidden_states)", "query = rms_norm(q_proj(hidden_states), hidden_states, 1e-6)",
     "a norm over the last dimension, which is split over tp", "rms_norm(q_proj"},
    {"ChunkOfSplit", "return down_proj(gated_activation(hidden_act, gate_proj(x), up_proj(x)));",
     "const auto halves = gate_proj(x).chunk(2, -1);\n    return down_proj(gated_activation(hidden_act, halves[0], "
     "up_proj(x)));",
     "chunk over dimension 2, which is split over tp", ".chunk(2, -1)"},
    {"UnknownOperation", "return down_proj(gated_activation(hidden_act, gate_proj(x), up_proj(x)));",
     "return down_proj(torch::fft_fft(gated_activation(hidden_act, gate_proj(x), up_proj(x))));",
     "unproven: no rule for fft_fft", "torch::fft_fft"},
    {"AnnotationOnNorm", "PP_LAST LlamaRMSNorm norm;", "PP_LAST TP_COLWISE LlamaRMSNorm norm;", "TP_COLWISE marks norm",
     "LlamaRMSNorm norm;"},
    {"AnnotationOnNumber", "  double scaling;", "  TP_LOCAL double scaling;", "TP_LOCAL marks scaling, a double",
     "double scaling"},
    {"LayerInALambda", "return down_proj(gated_activation(hidden_act, gate_proj(x), up_proj(x)));",
     "const auto up = [this](const Tensor& value) { return up_proj(value); };\n    return "
     "down_proj(gated_activation(hidden_act, gate_proj(x), up(x)));",
     "a lambda that captures a module whose parameters are split", "const auto up"},
    {"AllParameters", "return down_proj(gated_activation(hidden_act, gate_proj(x), up_proj(x)));",
     "return down_proj(gated_activation(hidden_act, gate_proj(x), up_proj(x))) * parameters()[0].mean();",
     "no rule for parameters", "parameters()[0]"},
    {"TwoLayouts", "TP_COLWISE nn::Linear gate_proj", "TP_COLWISE TP_ROWWISE nn::Linear gate_proj",
     "two annotations of one kind", "nn::Linear gate_proj"},
};

const Mutation kPipeline[] = {
    {"EmbeddingOnEveryStage", "PP_FIRST TP_VOCAB nn::Embedding", "TP_VOCAB nn::Embedding",
     "belong to no pipeline stage", "embed_tokens"},
    {"NormOnEveryStage", "PP_LAST LlamaRMSNorm norm;", "LlamaRMSNorm norm;",
     "the parameters of model.norm.weight belong to no pipeline stage", "Tensor weight;"},
    {"EmbeddingOnLastStage", "PP_FIRST TP_VOCAB nn::Embedding", "PP_LAST TP_VOCAB nn::Embedding",
     "is held by the last pipeline stage alone, but is used on the first stage only", "return embed_tokens("},
    {"NormOnFirstStage", "PP_LAST LlamaRMSNorm norm;", "PP_FIRST LlamaRMSNorm norm;",
     "model.norm.weight is held by the first pipeline stage alone, but is used on the last", "return rms_norm("},
    {"StagesWithoutSplit", "PP_SPLIT ModuleListOf", "ModuleListOf", "neither a PP_SPLIT list", "embed_tokens"},
    {"LoopByIndex", "for (auto& layer : *layers) hidden_states = layer(hidden_states, rotary_embeddings, mask);",
     "for (size_t i = 0; i < layers->size(); ++i) hidden_states = (*layers)[i](hidden_states, rotary_embeddings, "
     "mask);",
     "is accessed outside its loop", "(*layers)[i]"},
    {"TwoCarriedValues", "for (auto& layer : *layers) hidden_states = layer(hidden_states, rotary_embeddings, mask);",
     "Tensor sum = hidden_states;\n    for (auto& layer : *layers) {\n      hidden_states = layer(hidden_states, "
     "rotary_embeddings, mask);\n      sum = sum + hidden_states;\n    }",
     "carries several values: hidden_states, sum", "for (auto& layer : *layers)"},
    {"SplitListIsNotAList", "PP_LAST LlamaRMSNorm norm;", "PP_SPLIT LlamaRMSNorm norm;", "PP_SPLIT marks norm",
     "LlamaRMSNorm norm;"},
    {"InterruptedFeed", "const AttentionMask mask = attention_mask(batch);",
     "const AttentionMask mask = attention_mask(batch);\n    hidden_states = hidden_states * 2.0;",
     "is interrupted by other statements", "hidden_states * 2.0"},
    {"FedValueReadBeforeTheLoop", "const AttentionMask mask = attention_mask(batch);",
     "const AttentionMask mask = causal_mask(hidden_states.mean(-1), /*window=*/0);",
     "hidden_states is read before the loop over PP_SPLIT layers", "hidden_states.mean(-1)"},
    {"CountedLoop",
     "for (auto& layer : *layers) hidden_states = layer(hidden_states, rotary_embeddings, mask);\n    return "
     "norm(hidden_states);",
     "int64_t iterations = 0;\n    for (auto& layer : *layers) {\n      ++iterations;\n      hidden_states = "
     "layer(hidden_states, rotary_embeddings, mask);\n    }\n    return norm(hidden_states) * "
     "static_cast<double>(iterations);",
     "carries several values: hidden_states, iterations", "for (auto& layer : *layers)"},
    {"ResultWithoutName",
     "Tensor hidden_states = model(batch);\n    return cross_entropy_outputs(project(hidden_states),",
     "return cross_entropy_outputs(project(model(batch)),",
     "is passed to the next pipeline stage, but it is used at once", "project(model(batch))"},
};

const Mutation kViews[] = {
    {"SizesBeforeTheHeadsScaled", "q_proj(hidden_states).view({batch, seq, num_heads, head_dim})",
     "q_proj(hidden_states).view({batch, 2 * seq, num_heads, head_dim / 2})", "not known to be the value's own",
     "Tensor query = q_proj"},
    {"HeadsBeforePositions", "q_proj(hidden_states).view({batch, seq, num_heads, head_dim})",
     "q_proj(hidden_states).view({batch, num_heads, seq, head_dim})", "not known to be the value's own",
     "Tensor query = q_proj"},
    {"HeadsAsTheRest", "q_proj(hidden_states).view({batch, seq, num_heads, head_dim})",
     "q_proj(hidden_states).view({batch, seq, -1, head_dim})", "without a tp-local count", "Tensor query = q_proj"},
    {"MaskOfEachHead", "return o_proj(attention(query, key, value, mask, scaling));",
     "const Tensor bias = torch::zeros({1, 4, seq, seq});\n    return o_proj(attention(query, key, value, bias, "
     "scaling));",
     "a mask that is not known to be the same for every head", "return o_proj(", "tiny"},
    {"MaskOfALocalCount", "return o_proj(attention(query, key, value, mask, scaling));",
     "const Tensor bias = torch::zeros({1, num_heads, seq, seq});\n    return o_proj(attention(query, key, value, "
     "bias, "
     "scaling));",
     "zeros of a tp-local count", "const Tensor bias", "tiny"},
    {"JointNormWithAFullWeight", "TP_SHARD(0) Tensor weight;", "Tensor weight;",
     "which is split over tp, whose weight is full", "const Tensor query", "by_heads"},
    {"JointNormOfEachHead", "q_norm(q_proj(hidden_states)).view({batch, seq, num_heads, head_dim})",
     "q_norm(q_proj(hidden_states).view({batch, seq, num_heads, head_dim}))", "a norm whose weight is split",
     "const Tensor query", "by_heads"},
    {"SinksOfAllHeads", "TP_SHARD(0) Tensor sinks;", "Tensor sinks;", "with sinks that are full",
     "attention_with_sinks(", "by_heads"},
    {"BufferOfAllHeads", "TP_SHARD(0) Tensor gains;", "Tensor gains;", "full on every tp rank meets one that is split",
     "const Tensor slopes", "by_heads"},
    {"BufferSplitElsewhere", "TP_SHARD(0) Tensor gains;", "TP_SHARD(1) Tensor gains;",
     "operands are split over tp along different dimensions", "const Tensor slopes", "by_heads"},
    {"SlopesOfAllHeads", "alibi_slopes(num_heads, batch.input_ids.device()) * gains",
     "alibi_slopes(4, batch.input_ids.device())", "not known to be the same for every head", "const Tensor biased",
     "by_heads"},
    {"NormAcrossHeads", "q_norm(q_proj(hidden_states).view({batch, seq, num_heads, head_dim})).transpose(1, 2)",
     "q_norm(q_proj(hidden_states)).view({batch, seq, num_heads, head_dim}).transpose(1, 2)",
     "a norm over the last dimension, which is split over tp", "q_norm(q_proj(hidden_states))", "head_norms"},
    {"PartsInAnotherOrder", "{num_heads * head_dim, num_key_value_heads * head_dim,",
     "{num_key_value_heads * head_dim, num_heads * head_dim,", "by other sizes than its parts'",
     "qkv_proj(hidden_states)", "fused_parts"},
    {"HalvesOfThreeParts", "TP_COLWISE_PARTS(intermediate_size, intermediate_size)",
     "TP_COLWISE_PARTS(intermediate_size, intermediate_size, intermediate_size)", "which are not its parts",
     "gate_up_proj(x).chunk", "fused_parts"},
    {"UnequalHalves", "TP_COLWISE_PARTS(intermediate_size, intermediate_size)",
     "TP_COLWISE_PARTS(intermediate_size, 1)", "which are not its parts", "gate_up_proj(x).chunk", "fused_parts"},
    {"PartWithoutAMember", "TP_COLWISE_PARTS(intermediate_size, intermediate_size)",
     "TP_COLWISE_PARTS(intermediate_size, initializer_range > 0)", "cannot be traced to fields", "gate_up_proj;",
     "fused_parts"},
    {"FusedLayerIntoOutput", "const auto gate_and_up = gate_up_proj(x).chunk(2, -1);\n",
     "return down_proj(gate_up_proj(x));\n    const auto gate_and_up = gate_up_proj(x).chunk(2, -1);\n",
     "within the parts", "return down_proj(gate_up_proj(x))", "fused_parts"},
    {"NumberOfPartsAfterHeads", "view({batch, seq, 3, num_heads, head_dim}).unbind(2)",
     "view({batch, seq, num_heads, 3, head_dim}).unbind(3)", "its parts would interleave", "c_attn(hidden_states)",
     "transposed"},
    {"TableByRow", "TP_SHARD(1) nn::Embedding", "TP_SHARD(0) nn::Embedding", "splits by row", "position_bias(distance)",
     "transposed"},
    {"ScaleOfAllHeads", "TP_SHARD(1) Tensor head_scale", "Tensor head_scale", "full on every tp rank meets one",
     "matmul(weights, value) * head_scale", "transposed"},
    {"HeadsMergedInFrontOfPositions", "mixed.transpose(1, 2).reshape({batch, seq, -1})",
     "mixed.reshape({batch, seq, -1})", "of a value that is split over tp along dimension 1", "mixed.reshape",
     "transposed"},
};

const Mutation kSums[] = {
    {"GateAndUpSplitAsOne", "TP_SHARD(1, intermediate_size, intermediate_size) Tensor gate_up",
     "TP_SHARD(1) Tensor gate_up", "experts whose gate and up are split over tp along dimension 1, and",
     "const Tensor mixed", "one_sum"},
    {"DownFull", "TP_SHARD(2) Tensor down", "Tensor down", "and whose down is full", "const Tensor mixed", "one_sum"},
    {"GateAndUpFull", "TP_SHARD(1, intermediate_size, intermediate_size) Tensor gate_up", "Tensor gate_up",
     "experts whose gate and up are full", "const Tensor mixed", "one_sum"},
    {"DownByOutput", "TP_SHARD(2) Tensor down", "TP_SHARD(1) Tensor down", "and whose down is split over tp along",
     "const Tensor mixed", "one_sum"},
    {"ByExpert", "TP_SHARD(2) Tensor down", "TP_SHARD(0) Tensor down", "experts whose gate and up",
     "const Tensor mixed", "one_sum"},
    {"ExpertsOfUnequalParts", "TP_SHARD(1, intermediate_size, intermediate_size) Tensor gate_up",
     "TP_SHARD(1, intermediate_size, 2) Tensor gate_up", "experts whose gate and up are", "const Tensor mixed",
     "one_sum"},
    {"ProductInsteadOfALayer", "return once + down_again(activation(\"gelu\", up_again(once)));",
     "return once + torch::linear(activation(\"gelu\", up_again(once)), down_again->weight, down_again->bias);",
     "a bias is added to a partial sum", "return once +", "one_sum"},
    {"ChangedInPlace", "const Tensor once = down(activation(\"gelu\", up(hidden_states)));",
     "Tensor once = torch::linear(activation(\"gelu\", up(hidden_states)), down->weight);\n    once += hidden_states;",
     "a partial sum over tp meets a value that is full", "once += hidden_states", "one_sum"},
    {"SumOfARawParameterLeftOut", "TP_REDUCE(1) Tensor down", "TP_SHARD(1) Tensor down",
     "a partial sum over tp meets a value that is full", "torch::matmul(inner, down) + down_bias", "reduced"},
    {"BiasWithinTheSum", "torch::linear(inner, shared_down)", "torch::linear(inner, shared_down, down_bias.sum(0))",
     "a bias is added to a partial sum", "torch::linear(inner, shared_down", "reduced"},
};

const Mutation kStages[] = {
    {"NormInsideTheLoop", "hidden_states = layer(hidden_states, mask);",
     "hidden_states = norm(layer(hidden_states, mask));",
     "is held by the last pipeline stage alone, but is used within the loop", "LocalGlobal", "local_global"},
    {"NormBeforeTheLoop", "Tensor hidden_states = embedded * scale;", "Tensor hidden_states = norm(embedded * scale);",
     "is held by the last pipeline stage alone, but is used on the first stage only", "LocalGlobal", "local_global"},
    {"EmbeddingAfterTheLoop", "hidden_states = norm(hidden_states);",
     "hidden_states = norm(hidden_states + embed(batch.input_ids));",
     "is held by the first pipeline stage alone, but is used on the last stage only", "embed(batch.input_ids)",
     "local_global"},
    {"EmbeddingForEveryStage", "const AttentionMask full = causal_mask(batch.attention_mask, /*window=*/0);",
     "const AttentionMask full = causal_mask(batch.attention_mask, embed(batch.input_ids).size(1));",
     "is held by the first pipeline stage alone, but is used on every stage", "embed(batch.input_ids).size(1)",
     "local_global"},
    {"FeedAfterAMask", "Tensor hidden_states = embedded * scale;\n",
     "Tensor hidden_states = embedded;\n    const Tensor every = position_ids(batch);\n    hidden_states = "
     "hidden_states * "
     "scale;\n",
     "is interrupted by other statements", "hidden_states = hidden_states * scale", "local_global"},
    {"LoopInABranch", "for (auto& layer : *layers) {", "if (config.sliding_window > 0) for (auto& layer : *layers) {",
     "is inside another statement", "for (auto& layer : *layers)", "local_global"},
    {"TwoLoops", "hidden_states = norm(hidden_states);",
     "for (auto& layer : *layers) hidden_states = layer(hidden_states, full);\n    hidden_states = "
     "norm(hidden_states);",
     "a second loop over a PP_SPLIT list", "hidden_states = layer(hidden_states, full)", "local_global"},
};

/// The last member of the entry of two_towers, before which code is inserted.
const char* const kLastMember = "  TwoTowersModel model{nullptr};";

const Mutation kStacks[] = {
    {"TableOnFirstStage", "PP_ALL TP_VOCAB", "PP_FIRST TP_VOCAB",
     "model.gate, which the last pipeline stage alone holds, is used in one statement with model.table, which the "
     "first",
     "table(batch.input_ids) * gate", "two_towers"},
    {"TableOnNoStage", "PP_ALL TP_VOCAB", "TP_VOCAB", "the parameters of model.table belong to no pipeline stage",
     "nn::Embedding table", "two_towers"},
    {"FirstStackOnEveryStage", "PP_FIRST TwoTowersTower left", "PP_ALL TwoTowersTower left",
     "nor two stacks to cut between", "bridge;", "two_towers"},
    {"LastStackOnEveryStage", "PP_LAST TwoTowersTower right", "PP_ALL TwoTowersTower right",
     "nor two stacks to cut between", "TwoTowersTower left;", "two_towers"},
    {"FirstStackOnBothStages", "return right(again + crossing, mask);",
     "return right(again + left(crossing, mask), mask);", "is used in one statement with model.left.layers",
     "return right(", "two_towers"},
    {"FirstStackAfterTheLast", "return right(again + crossing, mask);",
     "const Tensor once = right(again + crossing, mask);\n    return left(once, mask);",
     "is held by the first pipeline stage alone, but is used after the last stage's computation", "return left(once",
     "two_towers"},
    {"LastStackBeforeTheFirst", "const Tensor states = read(batch, mask);",
     "const Tensor early = right(table(batch.input_ids), mask);\n    const Tensor states = read(batch, "
     "causal_mask(early.mean(-1), 0));",
     "is held by the last pipeline stage alone, but is used before the first stage's computation", "const Tensor early",
     "two_towers"},
    {"SecondValue", "Tensor crossing = states;",
     "const Tensor other = left(table(batch.input_ids), mask);\n    const Tensor both = batch.input_ids.unsqueeze(-1) "
     "+ other;\n    Tensor "
     "crossing = states;",
     "the first pipeline stage computes other in addition to crossing, which it passes on", "const Tensor other",
     "two_towers"},
    {"SeveralNames", "Tensor crossing = states;\n    crossing = crossing + bridge(states);",
     "const auto [crossing, other] = std::pair<Tensor, Tensor>(states, bridge(states));",
     "the first pipeline stage computes several values: crossing, other", "const auto [crossing, other]", "two_towers"},
    {"NotATensor",
     "Tensor crossing = states;\n    crossing = crossing + bridge(states);\n    const Tensor again = "
     "table(batch.input_ids) "
     "* gate;\n    return right(again + crossing, mask);",
     "const std::vector<Tensor> crossing = {states, bridge(states)};\n    const Tensor again = table(batch.input_ids) "
     "* "
     "gate;\n    return right(again + crossing[0], mask);",
     "crossing, which the first pipeline stage passes on, is not a Tensor", "const std::vector<Tensor> crossing",
     "two_towers"},
    {"NoName", "crossing = crossing + bridge(states);", "bridge(states);",
     "the output of bridge for the last pipeline stage is not assigned to a variable", "bridge(states);", "two_towers"},
    {"InterruptedFeed", "Tensor crossing = states;",
     "Tensor crossing = states;\n    const Tensor doubled = crossing * 2.0;",
     "the computation of crossing for the first stage is interrupted", "crossing = crossing + bridge(states)",
     "two_towers"},
    {"CallInABranch", kLastMember,
     "  Outputs forward(const Batch& batch) {\n    Outputs outputs;\n    if (batch.want_logits) outputs.logits = "
     "lm_head(model(batch));\n    return outputs;\n  }\n  TwoTowersModel model{nullptr};",
     "a call in which the model is cut between its stacks is inside another statement", "lm_head(model(batch))",
     "two_towers"},
    {"CallUsedAtOnce", kLastMember,
     "  Outputs forward(const Batch& batch) {\n    Outputs outputs;\n    outputs.logits = lm_head(model(batch));\n    "
     "return outputs;\n  }\n  TwoTowersModel model{nullptr};",
     "is passed to the next pipeline stage, but it is used at once", "lm_head(model(batch))", "two_towers"},
    {"CutTwice", kLastMember,
     "  Outputs forward(const Batch& batch) {\n    const Tensor once = model(batch);\n    const Tensor twice = "
     "model(batch);\n    Outputs outputs;\n    outputs.logits = lm_head(once + twice);\n    return outputs;\n  }\n  "
     "TwoTowersModel model{nullptr};",
     "the model is cut between its stacks more than once", "const Tensor twice", "two_towers"},
    {"FirstStackOutsideTheCall", kLastMember,
     "  Outputs forward(const Batch& batch) {\n    const Tensor hidden_states = model(batch);\n    Outputs outputs;\n  "
     "  "
     "outputs.logits = model->bridge(hidden_states);\n    return outputs;\n  }\n  TwoTowersModel model{nullptr};",
     "model.bridge is held by the first pipeline stage alone, but is used outside the call in which the model is cut",
     "model->bridge(hidden_states)", "two_towers"},
    {"HeadBeforeTheCall", kLastMember,
     "  Outputs forward(const Batch& batch) {\n    const Tensor scores = lm_head(model->table(batch.input_ids));\n    "
     "const Tensor hidden_states = model(batch);\n    Outputs outputs;\n    outputs.logits = scores;\n    return "
     "outputs;\n  }\n  TwoTowersModel model{nullptr};",
     "lm_head is held by the last pipeline stage alone, but is used before the call in which the model is cut",
     "const Tensor scores", "two_towers"},
    {"OnlyOneStackRun", kLastMember,
     "  Outputs forward(const Batch& batch) {\n    Outputs outputs;\n    outputs.logits = model->left("
     "model->table(batch.input_ids), whole_mask());\n    return outputs;\n  }\n  TwoTowersModel "
     "model{nullptr};",
     "the PP_FIRST and the PP_LAST modules of TwoTowersForCausalLM are not both run", "Outputs forward", "two_towers"},
};

const Mutation kCutStacks[] = {
    {"EndOfAStackUsedAtOnce", "const Tensor seen = left(table(batch.input_ids), mask);\n    return bridge(seen);",
     "return bridge(left(table(batch.input_ids), mask));",
     "is passed to the next pipeline stage, but it is used at once", "return bridge(left(", "split_towers"},
    {"EndOfAStackBeforeItsLoop", "left(table(batch.input_ids), mask);", "left(bridge(table(batch.input_ids)), mask);",
     "model.bridge is held by the last pipeline stage of its stack alone, but is used on every stage",
     "const Tensor seen = left(bridge(", "split_towers"},
    {"EndOfTheSecondStackBeforeItsLoop", "Tensor hidden_states = table(batch.input_ids);",
     "Tensor hidden_states = table(batch.input_ids) * gate;",
     "model.gate is held by the last pipeline stage of its stack alone, but is used on the first stage only",
     "table(batch.input_ids) * gate", "split_towers"},
    {"EndOfAStackOnNoStage", "PP_LAST tiny::TinyNorm norm;", "tiny::TinyNorm norm;",
     "the parameters of model.left.norm.weight belong to no pipeline stage", "tiny::TinyNorm(config.hidden_size)",
     "split_towers"},
    {"BothStacksLoopedInOneMethod", "const Tensor states = read(batch, mask);",
     "Tensor states = table(batch.input_ids);\n    for (auto& layer : *left->layers) states = layer(states, mask);",
     "a second loop over a PP_SPLIT list in one method", "for (auto& layer : *right->layers)", "split_towers"},
    {"StackLoopedTwice", "return bridge(seen);", "const Tensor again = left(seen, mask);\n    return bridge(again);",
     "the PP_SPLIT list layers is looped over more than once", "const Tensor again = left(seen", "split_towers"},
    {"TwoTensorsOfTheFirstStack", "Tensor crossing = states;",
     "const Tensor other = bridge(states);\n    const Tensor both = batch.input_ids.unsqueeze(-1) + other;\n    Tensor "
     "crossing = states;",
     "the first pipeline stage computes states in addition to crossing, which it passes on", "const Tensor states",
     "split_towers"},
    {"LayersAccessedByIndex", "return bridge(seen);", "return bridge(seen) + left->layers[0]->mlp(seen);",
     "is accessed outside its loop: a stage holds only some of its elements", "left->layers[0]", "split_towers"},
    {"CallInABranch", "const Tensor states = read(batch, mask);",
     "Tensor states = table(batch.input_ids);\n    if (batch.input_ids.size(1) > 0) states = read(batch, mask);",
     "a call that loops over the PP_SPLIT list is inside another statement", "states = read(batch, mask)",
     "split_towers"},
};

const Mutation kSharding[] = {
    {"ReadOutsideOfUnit", "    return norm(hidden_states);",
     "    Tensor sum;\n    for (auto& layer : *layers) sum = layer->mlp->up_proj->weight;\n    return "
     "norm(hidden_states) + sum.size(0);",
     "is read outside of the forward of its unit", "layer->mlp->up_proj->weight"},
    {"SubmoduleOfUnitCalled", "hidden_states = layer(hidden_states, rotary_embeddings, mask);",
     "hidden_states = layer->mlp(hidden_states);", "is read outside of the forward of its unit",
     "down_proj(gated_activation("},
    {"UnregisteredLayer", "gate_proj(linear(config.hidden_size, config.intermediate_size, config.mlp_bias))",
     "gate_proj(nullptr)", "gate_proj is not registered", "nn::Linear gate_proj"},
    {"UnregisteredParameter", "weight(register_parameter(\"weight\", torch::ones({hidden_size})))",
     "weight(torch::ones({hidden_size}))", "weight is not registered", "Tensor weight;"},
    {"UnitWithoutForward", "struct LlamaConfig : Config", "struct FSDP_UNIT LlamaConfig : Config",
     "which is not a module class", "LlamaConfig"},
};

/// Sums over a rank's rows where those of all rows are meant.
const Mutation kObjective[] = {
    {"LossDividedByTheTargetsOfARank", "return cross_entropy_outputs(project(hidden_states), batch, next_tokens);",
     "const Tensor logits = project(hidden_states), targets = next_tokens(batch.labels);\n    Outputs outputs;\n    "
     "outputs.token_count = count_targets(targets);\n    outputs.loss_sum = cross_entropy(logits, targets) / "
     "outputs.token_count;\n    return outputs;",
     "division by a sum over a rank's rows", "cross_entropy(logits, targets) / outputs.token_count"},
    {"LossOfARankAsAFactor", "return cross_entropy_outputs(project(hidden_states), batch, next_tokens);",
     "const Outputs first = cross_entropy_outputs(project(hidden_states), batch, next_tokens);\n    const "
     "Tensor scaled = hidden_states * first.loss_sum;\n    return cross_entropy_outputs(project(scaled), batch, "
     "next_tokens);",
     "a sum over a rank's rows of the batch meets a factor that is split", "hidden_states * first.loss_sum"},
};

const auto kName = [](const testing::TestParamInfo<Mutation>& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(TensorParallel, WeaveMutation, testing::ValuesIn(kTensorParallel), kName);
INSTANTIATE_TEST_SUITE_P(Pipeline, WeaveMutation, testing::ValuesIn(kPipeline), kName);
INSTANTIATE_TEST_SUITE_P(Views, WeaveMutation, testing::ValuesIn(kViews), kName);
INSTANTIATE_TEST_SUITE_P(Sums, WeaveMutation, testing::ValuesIn(kSums), kName);
INSTANTIATE_TEST_SUITE_P(Stages, WeaveMutation, testing::ValuesIn(kStages), kName);
INSTANTIATE_TEST_SUITE_P(Stacks, WeaveMutation, testing::ValuesIn(kStacks), kName);
INSTANTIATE_TEST_SUITE_P(CutStacks, WeaveMutation, testing::ValuesIn(kCutStacks), kName);
INSTANTIATE_TEST_SUITE_P(Objective, WeaveMutation, testing::ValuesIn(kObjective), kName);
INSTANTIATE_TEST_SUITE_P(Sharding, WeaveMutation, testing::ValuesIn(kSharding), kName);

}  // namespace
}  // namespace modgen
