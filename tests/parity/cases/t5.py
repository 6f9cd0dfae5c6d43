import json

import torch
from transformers import T5Config, T5EncoderModel, T5ForConditionalGeneration, T5ForSequenceClassification, T5ForTokenClassification

from oracle import VOCAB, Case, Family, encoder_tokens, pairs_of_texts

SMALL = dict(
    vocab_size=VOCAB, d_model=32, d_kv=6, d_ff=48, num_layers=3, num_decoder_layers=2, num_heads=4, decoder_start_token_id=0,
    relative_attention_num_buckets=8, relative_attention_max_distance=20,
)
WIDE = dict(d_model=128, d_kv=32, d_ff=160)


def untie(model):
    """For published checkpoints whose config says that nothing is tied: transformers ties tensors that their files lack."""
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.all_tied_weights_keys = {
        name: source for name, source in model.all_tied_weights_keys.items() if name != "lm_head.weight"
    }


def say_untied(folder):
    config = json.loads((folder / "config.json").read_text())
    config["tie_word_embeddings"] = False
    del config["scale_decoder_outputs"]
    (folder / "config.json").write_text(json.dumps(config))


def with_ends(batch):
    """Each row ends twice, at different positions."""

    def make(config):
        made = batch(config)
        ids = made["input_ids"]
        ids[ids == config.eos_token_id] = config.eos_token_id + 1
        for row, ends in enumerate([(4, 23), (7, 20), (2, 13), (9, 22)]):
            ids[row, list(ends)] = config.eos_token_id
        return made

    return make


FAMILY = Family(
    config=T5Config,
    models=[T5ForConditionalGeneration, T5ForSequenceClassification, T5ForTokenClassification, T5EncoderModel],
    small=SMALL,
    wide=WIDE,
    cases={
        "texts": Case(batch=pairs_of_texts()),
        "texts-padded": Case(batch=pairs_of_texts(padding=True), feed_forward_proj="gated-gelu", meshes=True),
        "texts-untied": Case(
            batch=pairs_of_texts(padding=True), tie_word_embeddings=False, feed_forward_proj="gated-silu", meshes=True,
            prepare=untie, rewrite=say_untied, export=True,
        ),
        "texts-dropout": Case(batch=pairs_of_texts(padding=True), dropout_rate=0.2, drops=True, meshes=True),
        "texts-dropout-gated": Case(batch=pairs_of_texts(), dropout_rate=0.2, feed_forward_proj="gated-gelu", drops=True),
        "texts-unscaled": Case(batch=pairs_of_texts(labels=False), tie_word_embeddings=False, feed_forward_proj="gelu"),
        "texts-longer": Case(batch=pairs_of_texts(targets=40), num_decoder_layers=None, decoder_start_token_id=3, pad_token_id=2),
        "sequences": Case(
            T5ForSequenceClassification, with_ends(encoder_tokens(padding="right", labels="rows")), num_labels=3, meshes=True,
        ),
        "numbers": Case(
            T5ForSequenceClassification, with_ends(encoder_tokens(labels="numbers")), num_labels=2, problem_type="regression", meshes=True,
        ),
        "sequences-of-two": Case(
            T5ForSequenceClassification, with_ends(encoder_tokens(labels="rows")), feed_forward_proj="gated-gelu",
        ),
        "tokens": Case(T5ForTokenClassification, encoder_tokens(padding="left", labels="classes"), num_labels=5, meshes=True),
        "sequences-dropout": Case(
            T5ForSequenceClassification, with_ends(encoder_tokens(labels="rows")), num_labels=3, classifier_dropout=0.3, drops=True,
        ),
        "tokens-of-two": Case(T5ForTokenClassification, encoder_tokens(labels="classes"), feed_forward_proj="gated-relu"),
        "sentences": Case(T5EncoderModel, encoder_tokens(padding="right", labels="pairs")),
        "sentences-whole": Case(T5EncoderModel, encoder_tokens(labels="pairs"), feed_forward_proj="gated-gelu"),
    },
    published={
        "small": {
            "d_ff": 2048, "d_kv": 64, "d_model": 512, "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
            "initializer_factor": 1.0, "is_encoder_decoder": True, "layer_norm_epsilon": 1e-06, "n_positions": 512,
            "num_heads": 8, "num_layers": 6, "output_past": True, "pad_token_id": 0, "relative_attention_num_buckets": 32,
            "task_specific_params": {"summarization": {"early_stopping": True, "max_length": 200, "prefix": "summarize: "}},
            "vocab_size": 32128,
        },
        "flan-base": {
            "d_ff": 2048, "d_kv": 64, "d_model": 768, "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
            "feed_forward_proj": "gated-gelu", "initializer_factor": 1.0, "is_encoder_decoder": True,
            "layer_norm_epsilon": 1e-06, "n_positions": 512, "num_decoder_layers": 12, "num_heads": 12, "num_layers": 12,
            "output_past": True, "pad_token_id": 0, "relative_attention_max_distance": 128,
            "relative_attention_num_buckets": 32, "tie_word_embeddings": False, "transformers_version": "4.23.1",
            "use_cache": True, "vocab_size": 32128,
        },
        "flan-base-of-today": {
            "architectures": ["T5ForConditionalGeneration"], "classifier_dropout": 0.0, "d_ff": 2048, "d_kv": 64,
            "d_model": 768, "decoder_start_token_id": 0, "dense_act_fn": "gelu_new", "dropout_rate": 0.1, "dtype": "float32",
            "eos_token_id": 1, "feed_forward_proj": "gated-gelu", "initializer_factor": 1.0, "is_encoder_decoder": True,
            "is_gated_act": True, "layer_norm_epsilon": 1e-06, "num_decoder_layers": 12, "num_heads": 12, "num_layers": 12,
            "pad_token_id": 0, "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32,
            "scale_decoder_outputs": False, "tie_word_embeddings": True, "transformers_version": "5.23.0", "vocab_size": 32128,
        },
    },
    otherwise={"flan-base": {"tie_word_embeddings": False}},  # transformers says True, and ties tensors that the file does not have
)
