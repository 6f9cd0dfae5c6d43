from transformers import MixtralConfig, MixtralForCausalLM, MixtralForSequenceClassification, MixtralForTokenClassification

from oracle import SMALL_DECODER, Case, Family, classifiers, tokens

FAMILY = Family(
    config=MixtralConfig,
    models=[MixtralForCausalLM, MixtralForSequenceClassification, MixtralForTokenClassification],
    small={**SMALL_DECODER, "num_local_experts": 4},
    rounds_elsewhere=True,  # experts are summed in another order
    cases={
        **classifiers(MixtralForSequenceClassification, MixtralForTokenClassification),
        "plain": Case(meshes=True),
        "window-padded-left": Case(sliding_window=7, batch=tokens(padding="left"), meshes=True, export=True),
        "tied-padded-right": Case(
            tie_word_embeddings=True, num_local_experts=3, batch=tokens(padding="right"), export=True
        ),
        "balanced-padded-left": Case(
            output_router_logits=True, router_aux_loss_coef=0.3, batch=tokens(padding="left"), meshes=True
        ),
        "balanced-by-sequence": Case(
            router=dict(aux_loss=0.4, balance="sequence", z_loss=0.05), batch=tokens(padding="right"), meshes=True
        ),
        "dropout": Case(attention_dropout=0.3, drops=True),
        "sharded": Case(max_shard_size="20KB", num_experts_per_tok=3),
    },
    published={
        "8x7b": {
            "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
            "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
            "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
            "num_local_experts": 8, "output_router_logits": False, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
            "router_aux_loss_coef": 0.02, "sliding_window": None, "tie_word_embeddings": False,
            "torch_dtype": "bfloat16", "transformers_version": "4.36.0.dev0", "use_cache": True, "vocab_size": 32000,
        },
        "other-name": {"num_experts": 16, "sliding_window": 4096},
    },
)
