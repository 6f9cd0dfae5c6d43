from cases.t5 import with_ends
from transformers import BartConfig, BartForConditionalGeneration, BartForSequenceClassification

from oracle import VOCAB, Case, Family, encoder_tokens, pairs_of_texts

FAMILY = Family(
    config=BartConfig,
    models=[BartForConditionalGeneration, BartForSequenceClassification],
    small=dict(
        vocab_size=VOCAB, d_model=32, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=8,
        encoder_ffn_dim=48, decoder_ffn_dim=40, max_position_embeddings=64,
    ),
    wide=dict(d_model=128, encoder_ffn_dim=160, decoder_ffn_dim=192),
    cases={
        "texts": Case(batch=pairs_of_texts()),
        "texts-padded": Case(batch=pairs_of_texts(padding=True), scale_embedding=True, meshes=True),
        "texts-relu": Case(batch=pairs_of_texts(padding=True), activation_function="relu", meshes=True, export=True),
        "texts-dropout": Case(
            batch=pairs_of_texts(padding=True), dropout=0.2, attention_dropout=0.25, activation_dropout=0.3, drops=True, meshes=True
        ),
        "texts-longer": Case(batch=pairs_of_texts(targets=40), decoder_start_token_id=3, pad_token_id=0),
        "texts-given": Case(batch=pairs_of_texts(labels=False), activation_function="gelu_new"),
        "sequences": Case(
            BartForSequenceClassification, with_ends(encoder_tokens(padding="right", labels="rows")), num_labels=3, meshes=True
        ),
        "numbers": Case(
            BartForSequenceClassification, with_ends(encoder_tokens(labels="numbers")), num_labels=5, problem_type="regression",
        ),
        "sequences-dropout": Case(
            BartForSequenceClassification, with_ends(encoder_tokens(labels="rows")), dropout=0.0, classifier_dropout=0.3, drops=True
        ),
    },
    published={
        "base": {
            "activation_dropout": 0.1, "activation_function": "gelu", "add_bias_logits": False, "add_final_layer_norm": False,
            "architectures": ["BartForConditionalGeneration"], "attention_dropout": 0.1, "bos_token_id": 0, "classif_dropout": 0.1,
            "classifier_dropout": 0.0, "d_model": 768, "decoder_attention_heads": 12, "decoder_ffn_dim": 3072,
            "decoder_layerdrop": 0.0, "decoder_layers": 6, "decoder_start_token_id": 2, "dropout": 0.1, "early_stopping": True,
            "encoder_attention_heads": 12, "encoder_ffn_dim": 3072, "encoder_layerdrop": 0.0, "encoder_layers": 6,
            "eos_token_id": 2, "forced_bos_token_id": 0, "forced_eos_token_id": 2, "gradient_checkpointing": False,
            "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, "init_std": 0.02, "is_encoder_decoder": True,
            "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}, "max_position_embeddings": 1024, "no_repeat_ngram_size": 3,
            "normalize_before": False, "normalize_embedding": True, "num_beams": 4, "num_hidden_layers": 6, "pad_token_id": 1,
            "scale_embedding": False, "torch_dtype": "float32", "transformers_version": "4.12.0.dev0", "use_cache": True,
            "vocab_size": 50265,
        },
        "large-mnli": {
            "_num_labels": 3, "activation_dropout": 0.0, "activation_function": "gelu", "add_final_layer_norm": False,
            "architectures": ["BartForSequenceClassification"], "attention_dropout": 0.0, "bos_token_id": 0, "classif_dropout": 0.0,
            "classifier_dropout": 0.0, "d_model": 1024, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096,
            "decoder_layerdrop": 0.0, "decoder_layers": 12, "decoder_start_token_id": 2, "dropout": 0.1,
            "encoder_attention_heads": 16, "encoder_ffn_dim": 4096, "encoder_layerdrop": 0.0, "encoder_layers": 12,
            "eos_token_id": 2, "forced_eos_token_id": 2, "gradient_checkpointing": False,
            "id2label": {"0": "contradiction", "1": "neutral", "2": "entailment"}, "init_std": 0.02, "is_encoder_decoder": True,
            "label2id": {"contradiction": 0, "entailment": 2, "neutral": 1}, "max_position_embeddings": 1024,
            "normalize_before": False, "num_hidden_layers": 12, "output_past": False, "pad_token_id": 1, "scale_embedding": False,
            "transformers_version": "4.7.0.dev0", "use_cache": True, "vocab_size": 50265,
        },
    },
)
