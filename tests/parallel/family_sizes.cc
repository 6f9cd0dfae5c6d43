#include "tests/parallel/family_sizes.h"

namespace modular::testing {
namespace {

/// Sizes under the names of all families. Two and four tp ranks divide what they split.
const Fields kSmall = {{"hidden_size", int64_t{32}},
                       {"d_model", int64_t{32}},
                       {"n_embd", int64_t{32}},
                       {"dim", int64_t{32}},
                       {"intermediate_size", int64_t{48}},
                       {"d_ff", int64_t{48}},
                       {"n_inner", int64_t{48}},
                       {"hidden_dim", int64_t{48}},
                       {"ffn_hidden_size", int64_t{48}},
                       {"encoder_ffn_dim", int64_t{48}},
                       {"decoder_ffn_dim", int64_t{48}},
                       {"num_hidden_layers", int64_t{2}},
                       {"n_layer", int64_t{2}},
                       {"n_layers", int64_t{2}},
                       {"num_layers", int64_t{2}},
                       {"num_decoder_layers", int64_t{2}},
                       {"encoder_layers", int64_t{2}},
                       {"decoder_layers", int64_t{2}},
                       {"num_attention_heads", int64_t{4}},
                       {"num_key_value_heads", int64_t{4}},
                       {"n_head", int64_t{4}},
                       {"n_heads", int64_t{4}},
                       {"num_heads", int64_t{4}},
                       {"encoder_attention_heads", int64_t{4}},
                       {"decoder_attention_heads", int64_t{4}},
                       {"n_positions", int64_t{64}},
                       {"num_labels", int64_t{3}},
                       {"d_kv", int64_t{8}},
                       {"relative_attention_num_buckets", int64_t{8}},
                       {"relative_attention_max_distance", int64_t{20}},
                       {"query_pre_attn_scalar", int64_t{8}},
                       {"num_experts", int64_t{4}},
                       {"num_local_experts", int64_t{4}},
                       {"n_routed_experts", int64_t{4}},
                       {"num_experts_per_tok", int64_t{2}},
                       {"n_group", int64_t{2}},
                       {"topk_group", int64_t{1}},
                       {"moe_intermediate_size", int64_t{24}},
                       {"shared_expert_intermediate_size", int64_t{24}},
                       {"first_k_dense_replace", int64_t{1}},
                       {"kv_lora_rank", int64_t{10}},
                       {"q_lora_rank", int64_t{6}},
                       {"qk_nope_head_dim", int64_t{6}},
                       {"qk_rope_head_dim", int64_t{4}},
                       {"v_head_dim", int64_t{8}},
                       {"item_dim", int64_t{16}},
                       {"feature_dim", int64_t{8}},
                       {"image_size", int64_t{12}},
                       {"patch_size", int64_t{4}},
                       // ReLU has a kink, where rounding decides the gradient.
                       {"feed_forward_proj", "gelu"},
                       {"attention_dropout", 0.1},
                       {"hidden_dropout", 0.1},
                       {"hidden_dropout_prob", 0.1},
                       {"attention_probs_dropout_prob", 0.1},
                       {"resid_pdrop", 0.1},
                       {"embd_pdrop", 0.1},
                       {"attn_pdrop", 0.1},
                       {"dropout_rate", 0.1},
                       {"dropout", 0.1},
                       {"mlp_dropout", 0.1},
                       {"embedding_dropout", 0.1},
                       {"classifier_dropout", 0.1}};

}  // namespace

Fields fields_of(std::string_view family) {
  Fields fields = kSmall;
  static const std::map<std::string_view, std::map<std::string, double>> changes = {
      {"mamba2", {{"num_heads", 8}, {"state_size", 6}, {"n_groups", 4}, {"chunk_size", 8}}},
      {"bamba", {{"mamba_n_heads", 8}, {"mamba_d_head", 8}, {"mamba_d_state", 6}, {"mamba_chunk_size", 8}}},
      {"jamba",
       {{"mamba_d_state", 6},
        {"mamba_dt_rank", 4},
        {"attn_layer_period", 2},
        {"attn_layer_offset", 1},
        {"expert_layer_period", 2},
        {"expert_layer_offset", 1}}},
      {"mpnet", {{"relative_attention_num_buckets", 32}}},
      {"falcon", {{"num_kv_heads", 4}}},
      {"glm", {{"pad_token_id", 0}}},
      {"llava", {{"image_token_index", 61}}},
      {"modernbert", {{"pad_token_id", 0}}},
      {"phi3", {{"pad_token_id", 0}}}};
  if (family == "falcon") fields["new_decoder_architecture"] = true;
  if (family == "gpt_oss") fields["attention_dropout"] = 0.0;  // attention with sinks has none
  if (const auto found = changes.find(family); found != changes.end())
    for (const auto& [name, size] : found->second) fields[name] = static_cast<int64_t>(size);
  return fields;
}

}  // namespace modular::testing
