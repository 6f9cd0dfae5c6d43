from transformers import MT5Config, MT5EncoderModel, MT5ForConditionalGeneration, MT5ForSequenceClassification, MT5ForTokenClassification

from cases.t5 import SMALL, WIDE, with_ends
from oracle import Case, Family, encoder_tokens, pairs_of_texts

FAMILY = Family(
    config=MT5Config,
    models=[MT5ForConditionalGeneration, MT5ForSequenceClassification, MT5ForTokenClassification, MT5EncoderModel],
    small=SMALL,
    wide=WIDE,
    rounds_elsewhere=True,  # gelu_new is a single function here
    cases={
        "texts": Case(batch=pairs_of_texts(padding=True), meshes=True),
        "texts-plain": Case(batch=pairs_of_texts(), feed_forward_proj="relu", meshes=True),
        "sequences": Case(MT5ForSequenceClassification, with_ends(encoder_tokens(labels="rows")), num_labels=3),
        "tokens": Case(MT5ForTokenClassification, encoder_tokens(padding="left", labels="classes"), num_labels=5),
        "sentences": Case(MT5EncoderModel, encoder_tokens(padding="right", labels="pairs")),
    },
    published={
        "small": {
            "architectures": ["MT5ForConditionalGeneration"], "d_ff": 1024, "d_kv": 64, "d_model": 512,
            "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1, "feed_forward_proj": "gated-gelu",
            "initializer_factor": 1.0, "is_encoder_decoder": True, "layer_norm_epsilon": 1e-06, "num_decoder_layers": 8,
            "num_heads": 6, "num_layers": 8, "pad_token_id": 0, "relative_attention_num_buckets": 32,
            "tie_word_embeddings": False, "tokenizer_class": "T5Tokenizer", "vocab_size": 250112,
        },
    },
    otherwise={"small": {"tie_word_embeddings": False}},  # transformers says True, and ties tensors that the file does not have
)
