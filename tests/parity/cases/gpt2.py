from transformers import GPT2Config, GPT2ForSequenceClassification, GPT2ForTokenClassification, GPT2LMHeadModel

from oracle import VOCAB, Case, Family, classifiers, encoder_tokens, tokens

FAMILY = Family(
    config=GPT2Config,
    models=[GPT2LMHeadModel, GPT2ForSequenceClassification, GPT2ForTokenClassification],
    small=dict(vocab_size=VOCAB, n_embd=32, n_layer=3, n_head=4, n_positions=64),
    wide=dict(n_embd=128),
    rounds_elsewhere=True,  # gelu_new is a single function here
    cases={
        **classifiers(GPT2ForSequenceClassification, GPT2ForTokenClassification, meshes=True),
        "numbers": Case(GPT2ForSequenceClassification, encoder_tokens(padding="left", labels="numbers"), num_labels=1, pad_token_id=0),
        "plain": Case(meshes=True),
        "untied-padded-left": Case(tie_word_embeddings=False, batch=tokens(padding="left"), meshes=True, export=True),
        "padded-right": Case(batch=tokens(padding="right"), n_inner=40, activation_function="gelu"),
        "dropout": Case(resid_pdrop=0.1, embd_pdrop=0.2, attn_pdrop=0.3, drops=True, meshes=True),
        "tokens-dropout": Case(GPT2ForTokenClassification, encoder_tokens(labels="classes"), drops=True),
        "positions": Case(batch=tokens(positions=True)),
        "unscaled": Case(scale_attn_weights=False),
        "scaled-by-layer": Case(scale_attn_by_inverse_layer_idx=True),
    },
    published={
        "small": {
            "activation_function": "gelu_new", "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1,
            "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "n_ctx": 1024, "n_embd": 768,
            "n_head": 12, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": None,
            "summary_first_dropout": 0.1, "summary_proj_to_labels": True, "summary_type": "cls_index",
            "summary_use_proj": True, "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
            "vocab_size": 50257,
        },
        "other-names": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16},
    },
)
