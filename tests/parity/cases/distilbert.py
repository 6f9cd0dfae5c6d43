from transformers import DistilBertConfig, DistilBertForMaskedLM, DistilBertForSequenceClassification, DistilBertForTokenClassification, DistilBertModel

from oracle import VOCAB, Case, Family, encoder_tokens

FAMILY = Family(
    config=DistilBertConfig,
    models=[DistilBertForMaskedLM, DistilBertForSequenceClassification, DistilBertForTokenClassification, DistilBertModel],
    small=dict(vocab_size=VOCAB, dim=32, hidden_dim=48, n_layers=3, n_heads=4, max_position_embeddings=64),
    wide=dict(dim=128, hidden_dim=160, sinusoidal_pos_embds=True),
    cases={
        "masked-lm": Case(batch=encoder_tokens()),
        "masked-lm-padded": Case(batch=encoder_tokens(padding="right"), meshes=True),
        "masked-lm-untied": Case(
            batch=encoder_tokens(padding="left"), tie_word_embeddings=False, pad_token_id=None, activation="relu", meshes=True, export=True,
        ),
        "masked-lm-dropout": Case(batch=encoder_tokens(padding="right"), dropout=0.2, attention_dropout=0.25, drops=True, meshes=True),
        "masked-lm-positions": Case(batch=encoder_tokens(positions=True), activation="gelu_new"),
        "sequences": Case(
            DistilBertForSequenceClassification, encoder_tokens(padding="right", labels="rows"), num_labels=3, meshes=True
        ),
        "sequences-of-two": Case(DistilBertForSequenceClassification, encoder_tokens(labels="rows")),
        "numbers": Case(DistilBertForSequenceClassification, encoder_tokens(padding="right", labels="numbers"), num_labels=1),
        "sequences-dropout": Case(
            DistilBertForSequenceClassification, encoder_tokens(labels="rows"), seq_classif_dropout=0.4, drops=True, meshes=True
        ),
        "tokens": Case(
            DistilBertForTokenClassification, encoder_tokens(padding="right", labels="classes"), num_labels=5, meshes=True
        ),
        "tokens-dropout": Case(DistilBertForTokenClassification, encoder_tokens(labels="classes"), dropout=0.3, drops=True),
        "sentences": Case(DistilBertModel, encoder_tokens(padding="right", labels="pairs")),
        "sentences-whole": Case(DistilBertModel, encoder_tokens(labels="pairs")),
    },
    published={
        "base-uncased": {
            "activation": "gelu", "attention_dropout": 0.1, "dim": 768, "dropout": 0.1,
            "hidden_dim": 3072, "initializer_range": 0.02, "max_position_embeddings": 512, "n_heads": 12, "n_layers": 6,
            "pad_token_id": 0, "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False,
            "tie_weights_": True, "transformers_version": "4.10.0.dev0", "vocab_size": 30522,
        },
        "sst-2": {
            "activation": "gelu", "architectures": ["DistilBertForSequenceClassification"], "attention_dropout": 0.1, "dim": 768,
            "dropout": 0.1, "finetuning_task": "sst-2", "hidden_dim": 3072, "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
            "initializer_range": 0.02, "label2id": {"NEGATIVE": 0, "POSITIVE": 1}, "max_position_embeddings": 512, "n_heads": 12,
            "n_layers": 6, "output_past": True, "pad_token_id": 0, "qa_dropout": 0.1, "seq_classif_dropout": 0.2,
            "sinusoidal_pos_embds": False, "tie_weights_": True, "vocab_size": 30522,
        },
    },
)
