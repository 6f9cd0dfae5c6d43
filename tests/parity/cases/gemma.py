import torch
from transformers import GemmaConfig, GemmaForCausalLM, GemmaForSequenceClassification, GemmaForTokenClassification

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, tokens

FAMILY = Family(
    config=GemmaConfig,
    models=[GemmaForCausalLM, GemmaForSequenceClassification, GemmaForTokenClassification],
    small=SMALL_DECODER,
    offset_norms=True,
    cases={
        **classifiers(GemmaForSequenceClassification, GemmaForTokenClassification),
        "plain": Case(head_dim=16),
        "untied": Case(tie_word_embeddings=False, meshes=True, export=True),
        "biases": Case(attention_bias=True, meshes=True, export=True),
        "one-key-head": Case(num_key_value_heads=1, head_dim=16),
        "padded-left": Case(batch=tokens(padding="left"), meshes=True),
        "padded-right": Case(batch=tokens(padding="right"), tie_word_embeddings=False),
        "rope-linear": Case(**ROPE["linear"]),
        "bfloat16": Case(dtype=torch.bfloat16),
    },
    published={
        "7b": {
            "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 2, "eos_token_id": 1, "head_dim": 256,
            "hidden_act": "gelu", "hidden_activation": None, "hidden_size": 3072, "initializer_range": 0.02,
            "intermediate_size": 24576, "max_position_embeddings": 8192, "num_attention_heads": 16, "num_hidden_layers": 28,
            "num_key_value_heads": 16, "pad_token_id": 0, "rms_norm_eps": 1e-06, "rope_scaling": None,
            "rope_theta": 10000.0, "torch_dtype": "bfloat16", "transformers_version": "4.38.0.dev0", "use_cache": True,
            "vocab_size": 256000,
        },
        "2b": {
            "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": 2048, "intermediate_size": 16384, "num_attention_heads": 8, "num_hidden_layers": 18,
            "num_key_value_heads": 1, "pad_token_id": 0,
        },
    },
)
