from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertForTokenClassification, BertModel

from oracle import SMALL_ENCODER, WIDE_ENCODER, Case, Family, encoder_tokens

FAMILY = Family(
    config=BertConfig,
    models=[BertForMaskedLM, BertForSequenceClassification, BertForTokenClassification, BertModel],
    small=SMALL_ENCODER,
    wide=WIDE_ENCODER,
    cases={
        "masked-lm": Case(batch=encoder_tokens()),
        "masked-lm-padded": Case(batch=encoder_tokens(padding="right", segments=True), meshes=True),
        "masked-lm-untied": Case(
            batch=encoder_tokens(padding="left"), tie_word_embeddings=False, pad_token_id=None, hidden_act="gelu_new",
            meshes=True, export=True,
        ),
        "masked-lm-dropout": Case(
            batch=encoder_tokens(padding="right"), hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.25, drops=True, meshes=True,
        ),
        "masked-lm-positions": Case(batch=encoder_tokens(positions=True), type_vocab_size=1, hidden_act="relu"),
        "sequences": Case(
            BertForSequenceClassification, encoder_tokens(padding="right", segments=True, labels="rows"), num_labels=3,
            meshes=True,
        ),
        "sequences-of-two": Case(BertForSequenceClassification, encoder_tokens(labels="rows")),
        "numbers": Case(BertForSequenceClassification, encoder_tokens(padding="right", labels="numbers"), num_labels=1, meshes=True),
        "two-numbers": Case(
            BertForSequenceClassification, encoder_tokens(labels="numbers"), num_labels=2, problem_type="regression", meshes=True,
        ),
        "several-labels": Case(
            BertForSequenceClassification, encoder_tokens(padding="right", labels="sets"), num_labels=5, problem_type="multi_label_classification",
            meshes=True,
        ),
        "tokens": Case(
            BertForTokenClassification, encoder_tokens(padding="right", labels="classes"), num_labels=5, meshes=True,
        ),
        "tokens-of-two": Case(BertForTokenClassification, encoder_tokens(segments=True, labels="classes")),
        "sentences": Case(BertModel, encoder_tokens(padding="right", segments=True, labels="pairs")),
        "sentences-whole": Case(BertModel, encoder_tokens(labels="pairs")),
        "sequences-dropout": Case(
            BertForSequenceClassification, encoder_tokens(labels="rows"), classifier_dropout=0.4, drops=True, meshes=True,
        ),
        "tokens-dropout": Case(
            BertForTokenClassification, encoder_tokens(labels="classes"), hidden_dropout_prob=0.3, drops=True,
        ),
    },
    published={
        "base-uncased": {
            "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False, "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
            "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12,
            "pad_token_id": 0, "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0",
            "type_vocab_size": 2, "use_cache": True, "vocab_size": 30522,
        },
        "large-cased-ner": {
            "architectures": ["BertForTokenClassification"], "_num_labels": 9, "attention_probs_dropout_prob": 0.1,
            "directionality": "bidi", "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 1024,
            "id2label": {str(label): name for label, name in enumerate(
                ["O", "B-MISC", "I-MISC", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"])},
            "initializer_range": 0.02, "intermediate_size": 4096, "label2id": {"O": 0, "B-MISC": 1, "I-MISC": 2, "B-PER": 3,
            "I-PER": 4, "B-ORG": 5, "I-ORG": 6, "B-LOC": 7, "I-LOC": 8}, "layer_norm_eps": 1e-12,
            "max_position_embeddings": 512, "num_attention_heads": 16, "num_hidden_layers": 24, "pad_token_id": 0,
            "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
            "pooler_size_per_head": 128, "pooler_type": "first_token_transform", "type_vocab_size": 2, "vocab_size": 28996,
        },
    },
)
