"""The published folders that layouts.py rebuilds: their config.json, their class, and the files' differences from what transformers writes."""

import dataclasses
from collections.abc import Callable

import torch
from cases.llava import texts_with_images
from cases.t5 import untie, with_ends
from oracle import SMALL_DECODER, SMALL_PAIR, encoder_tokens, images, pairs, pairs_of_texts, tokens
from transformers import (
    ArceeForCausalLM, BambaForCausalLM, BartForConditionalGeneration, BartForSequenceClassification, BertForMaskedLM, BertForSequenceClassification, BertForTokenClassification, BertModel,
    BloomForCausalLM, CLIPModel, DebertaV2ForSequenceClassification, DebertaV2Model, DeepseekV2ForCausalLM, DeepseekV3ForCausalLM, Dinov2ForImageClassification, Dinov2Model,
    DistilBertForMaskedLM, DistilBertForSequenceClassification, DistilBertModel, FalconForCausalLM,
    Gemma2ForCausalLM, Gemma3ForCausalLM, GemmaForCausalLM, GlmForCausalLM, GPT2LMHeadModel, GPTNeoXForCausalLM, GptOssForCausalLM, JambaForCausalLM,
    LlamaForCausalLM, LlavaForConditionalGeneration, Mamba2ForCausalLM, MetaClip2Model, MistralForCausalLM, MixtralForCausalLM,
    ModernBertForMaskedLM, ModernBertModel, MPNetForMaskedLM, MPNetModel, MT5ForConditionalGeneration, Olmo2ForCausalLM, Phi3ForCausalLM,
    PhiForCausalLM, Qwen2ForCausalLM, Qwen2MoeForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, RobertaForMaskedLM,
    RobertaForSequenceClassification, RobertaModel, SiglipModel, T5EncoderModel, T5ForConditionalGeneration, ViTForImageClassification,
    ViTModel, XLMRobertaForMaskedLM, XLMRobertaModel,
)


@dataclasses.dataclass
class Layout:
    """family, published: the case in cases/ whose config.json it has
    edits: changes of the tensors that transformers writes, one after the other
    config: keys to add or replace; without: keys that the published config does not have
    files: "single", "shards" with an index, or "both", whose shards hold other values
    head: the class to train, if the folder's class has no head
    lacks_pooler: transformers initializes a pooler that the file does not have
    """

    family: str
    published: str
    model: type
    batch: Callable
    edits: tuple = ()
    config: dict = dataclasses.field(default_factory=dict)
    without: tuple = ()
    dtype: torch.dtype = torch.float32
    files: str = "single"
    tokenizer: str | None = "bytes"
    head: type | None = None
    lacks_pooler: bool = False
    prepare: Callable | None = None

    def tensors(self, tensors):
        for edit in self.edits:
            tensors = edit(tensors)
        return tensors


def renamed(*pairs):
    def edit(tensors):
        for old, new in pairs:
            tensors = {name.replace(old, new): tensor for name, tensor in tensors.items()}
        return tensors

    return edit


def unprefixed(prefix):
    return lambda tensors: {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}


def prefixed(prefix):
    return lambda tensors: {prefix + name: tensor for name, tensor in tensors.items()}


def added(**shapes):
    """Adds tensors that the class does not use: "__" stands for dots in their names. A tensor may be given as a function of the others."""

    def edit(tensors):
        for name, shape in shapes.items():
            tensors[name.replace("__", ".")] = shape(tensors) if callable(shape) else torch.randn(shape)
        return tensors

    return edit


def each_layer(path, count=2, **find_tensors):
    """The tensor in each layer."""
    return lambda tensors: tensors | {
        f"{path}.{layer}.{name.replace('__', '.')}": make() for layer in range(count) for name, make in find_tensors.items()
    }


def without(*beginnings):
    return lambda tensors: {name: tensor for name, tensor in tensors.items() if not name.startswith(beginnings)}


def get_copy(name):
    return lambda tensors: tensors[name].clone()


def pooler(prefix=""):
    return lambda tensors: tensors | {f"{prefix}pooler.dense.weight": torch.randn(32, 32), f"{prefix}pooler.dense.bias": torch.randn(32)}


def positions(prefix=""):
    return lambda tensors: tensors | {f"{prefix}embeddings.position_ids": torch.arange(64)[None]}


OLD_NORMS = renamed(("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta"))
NEXT_SENTENCE = added(cls__seq_relationship__weight=(2, 32), cls__seq_relationship__bias=(2,))
BERT = dict(tokenizer="wordpiece")
SEGMENTS = encoder_tokens(padding="right", segments=True)
SENTENCES = encoder_tokens(padding="right", labels="pairs")
ROWS = encoder_tokens(padding="right", labels="rows")
FREQUENCIES = dict(self_attn__rotary_emb__inv_freq=lambda: torch.rand(4))
CAUSAL = dict(attn__bias=lambda: torch.ones(64, 64).tril()[None, None])
DEBERTA_HEADS = added(
    lm_predictions__lm_head__dense__weight=(32, 32), lm_predictions__lm_head__bias=(96,), mask_predictions__classifier__weight=(1, 32),
    mask_predictions__dense__bias=(32,),
)
TABLE_COPIES = added(encoder__embed_tokens__weight=get_copy("shared.weight"), decoder__embed_tokens__weight=get_copy("shared.weight"))
PAIR = dict(batch=pairs(padding="right"), tokenizer="bytes")
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)
LLAVA = dict(
    text_config=dict(SMALL_DECODER, model_type="llama", torch_dtype="float16", _name_or_path="lmsys/vicuna-7b-v1.5"),
    vision_config=dict(SMALL_PAIR["vision_config"], model_type="clip_vision_model", projection_dim=16, vocab_size=32000),
    image_token_index=95, pad_token_id=94, vocab_size=96, image_seq_length=9,
)
BF16, FP16 = torch.bfloat16, torch.float16


def sentences(model=BertModel, family="bert", published="base-uncased", edits=(positions(),), **overrides):
    """A folder of a Sentence Transformers model: the base model alone, without a prefix."""
    return Layout(family, published, model, SENTENCES, edits, **{**BERT, **overrides})


LAYOUTS = {
    # Encoders.
    "bert-base-uncased": Layout("bert", "base-uncased", BertForMaskedLM, SEGMENTS, (pooler("bert."), NEXT_SENTENCE, OLD_NORMS), **BERT),
    "bert-base-cased": Layout(
        "bert", "base-uncased", BertForMaskedLM, SEGMENTS,
        (pooler("bert."), NEXT_SENTENCE, added(cls__predictions__decoder__weight=get_copy("bert.embeddings.word_embeddings.weight")), OLD_NORMS),
        **BERT,
    ),
    "bert-base-german-cased": Layout(  # a config without a class
        "bert", "base-uncased", BertModel, SENTENCES, (prefixed("bert."), positions("bert."), NEXT_SENTENCE, OLD_NORMS),
        without=("architectures",), **BERT,
    ),
    "dslim-bert-large-NER": Layout(
        "bert", "large-cased-ner", BertForTokenClassification, encoder_tokens(padding="right", labels="classes"), (pooler("bert."), positions("bert.")), **BERT
    ),
    "ms-marco-MiniLM": Layout(
        "bert", "base-uncased", BertForSequenceClassification, encoder_tokens(padding="right", labels="numbers"), (positions("bert."),),
        config={"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, **BERT,
    ),
    "all-MiniLM-L6-v2": sentences(config={"_name_or_path": "nreimers/MiniLM-L6-H384-uncased"}),
    "bge-base-en": sentences(files="both", config={"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "classifier_dropout": None, "torch_dtype": "float32"}),
    "e5-base": sentences(edits=(positions(), OLD_NORMS)),
    "gte-base": sentences(dtype=FP16, config={"torch_dtype": "float16"}),
    "mxbai-embed-large": sentences(dtype=FP16, edits=(), config={"torch_dtype": "float16", "use_cache": False}),
    "snowflake-arctic-embed": sentences(edits=(without("pooler"),), lacks_pooler=True),
    "LaBSE": sentences(edits=(prefixed("bert."),)),
    "roberta-base": Layout(
        "roberta", "base", RobertaForMaskedLM, encoder_tokens(padding="right"),
        (pooler("roberta."), positions("roberta."), added(lm_head__decoder__weight=get_copy("roberta.embeddings.word_embeddings.weight"))),
    ),
    "roberta-large-mnli": Layout("roberta", "large-mnli", RobertaForSequenceClassification, ROWS, (pooler("roberta."), positions("roberta."))),
    "all-distilroberta-v1": sentences(RobertaModel, "roberta", "base", tokenizer="bytes"),
    "xlm-roberta-base": Layout(
        "xlm_roberta", "base", XLMRobertaForMaskedLM, encoder_tokens(padding="right"), (pooler("roberta."), positions("roberta.")), tokenizer="unigram"
    ),
    "multilingual-e5-base": sentences(XLMRobertaModel, "xlm_roberta", "base", tokenizer="unigram"),
    "distilbert-base-uncased": Layout(
        "distilbert", "base-uncased", DistilBertForMaskedLM, encoder_tokens(padding="right"),
        (added(vocab_projector__weight=get_copy("distilbert.embeddings.word_embeddings.weight")),), **BERT,
    ),
    "distilbert-sst-2": Layout("distilbert", "sst-2", DistilBertForSequenceClassification, ROWS, **BERT),
    "msmarco-distilbert": sentences(DistilBertModel, "distilbert"),
    "deberta-v3-base": Layout(
        "deberta_v2", "v3-base", DebertaV2Model, ROWS, (prefixed("deberta."), positions("deberta."), DEBERTA_HEADS), head=DebertaV2ForSequenceClassification,
        config={"architectures": ["DebertaV2Model"]}, tokenizer=None,
    ),
    "mpnet-base": Layout("mpnet", "base", MPNetForMaskedLM, encoder_tokens(padding="right"), (pooler("mpnet."), positions("mpnet.")), **BERT),
    "all-mpnet-base-v2": sentences(MPNetModel, "mpnet", "base"),
    "ModernBERT-base": Layout("modernbert", "base", ModernBertForMaskedLM, encoder_tokens(padding="right")),
    "modernbert-embed-base": Layout("modernbert", "base", ModernBertModel, SENTENCES, config={"architectures": ["ModernBertModel"]}),
    # Decoders.
    "gpt2": Layout("gpt2", "small", GPT2LMHeadModel, tokens(), (unprefixed("transformer."), each_layer("h", **CAUSAL))),
    "distilgpt2": Layout(
        "gpt2", "small", GPT2LMHeadModel, tokens(),
        (each_layer("transformer.h", **CAUSAL, attn__masked_bias=lambda: torch.tensor(-1e4)), added(lm_head__weight=get_copy("transformer.wte.weight"))),
    ),
    "pythia-70m": Layout(
        "gpt_neox", "pythia-70m", GPTNeoXForCausalLM, tokens(),
        (each_layer("gpt_neox.layers", attention__bias=lambda: torch.ones(1, 1, 64, 64), attention__masked_bias=lambda: torch.tensor(-1e4),
                    attention__rotary_emb__inv_freq=lambda: torch.rand(1)),),
        dtype=FP16,
    ),
    "falcon-7b": Layout("falcon", "7b", FalconForCausalLM, tokens(), (added(lm_head__weight=get_copy("transformer.word_embeddings.weight")),), dtype=BF16),
    "falcon-40b": Layout("falcon", "40b", FalconForCausalLM, tokens(), dtype=BF16, files="shards"),
    "falcon-11B": Layout("falcon", "11b", FalconForCausalLM, tokens(), dtype=BF16),
    "falcon-rw-1b": Layout("falcon", "rw-1b", FalconForCausalLM, tokens(), dtype=BF16),
    "gpt-oss-20b-BF16": Layout(
        "gpt_oss", "20b-unquantized", GptOssForCausalLM, tokens(), dtype=BF16, files="shards",
        config={"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "bloom-560m": Layout("bloom", "560m", BloomForCausalLM, tokens(), (unprefixed("transformer."),)),
    "llama-7b": Layout(
        "llama", "2", LlamaForCausalLM, tokens(), (each_layer("model.layers", **FREQUENCIES),), files="shards", tokenizer="bpe",
        config={"architectures": ["LLaMAForCausalLM"], "max_sequence_length": 64}, without=("num_key_value_heads", "pretraining_tp", "rope_scaling"),
    ),
    "Llama-2-7b-hf": Layout(
        "llama", "2", LlamaForCausalLM, tokens(), (each_layer("model.layers", **FREQUENCIES),), dtype=FP16, files="shards", tokenizer="bpe"
    ),
    "TinyLlama-1.1B": Layout("llama", "2", LlamaForCausalLM, tokens(), files="both", tokenizer="bpe"),
    "Llama-3.1-8B": Layout("llama", "3.1", LlamaForCausalLM, tokens(), dtype=BF16, files="shards"),
    "Llama-3.2-1B": Layout("llama", "3.1", LlamaForCausalLM, tokens(), config={"tie_word_embeddings": True, "head_dim": 8}),
    "Mistral-7B-v0.1": Layout("mistral", "7b-v0.1", MistralForCausalLM, tokens(), dtype=BF16, config={"sliding_window": 8}, tokenizer="bpe"),
    "Mistral-7B-v0.3": Layout("mistral", "7b-v0.3", MistralForCausalLM, tokens(), files="shards", tokenizer="bpe"),
    "Mixtral-8x7B": Layout("mixtral", "8x7b", MixtralForCausalLM, tokens(), config={"num_local_experts": 4}, files="shards", tokenizer="bpe"),
    "Qwen2-7B": Layout("qwen2", "7b", Qwen2ForCausalLM, tokens(), dtype=BF16),
    "Qwen2.5-0.5B": Layout("qwen2", "7b", Qwen2ForCausalLM, tokens(), config={"tie_word_embeddings": True, "use_mrope": False}),
    "Qwen3-0.6B": Layout(
        "qwen3", "0.6b", Qwen3ForCausalLM, tokens(), (added(lm_head__weight=get_copy("model.embed_tokens.weight")),), dtype=BF16
    ),
    "Qwen1.5-MoE-A2.7B": Layout("qwen2_moe", "1.5-a2.7b", Qwen2MoeForCausalLM, tokens(), config={**EXPERTS, "shared_expert_intermediate_size": 40}),
    "Qwen3-30B-A3B": Layout("qwen3_moe", "30b-a3b", Qwen3MoeForCausalLM, tokens(), config=EXPERTS, files="shards"),
    "gemma-2b": Layout("gemma", "7b", GemmaForCausalLM, tokens(), dtype=BF16, tokenizer="bpe"),
    "gemma-2-9b": Layout("gemma2", "9b", Gemma2ForCausalLM, tokens(), config={"sliding_window": 8, "query_pre_attn_scalar": 8}, tokenizer="bpe"),
    "gemma-3-1b": Layout(
        "gemma3_text", "1b", Gemma3ForCausalLM, tokens(), config={"sliding_window": 8, "query_pre_attn_scalar": 8, "num_key_value_heads": 1}, tokenizer="bpe"
    ),
    "phi-2": Layout("phi", "2", PhiForCausalLM, tokens(), config={"partial_rotary_factor": 0.5}, dtype=FP16),
    "Phi-3-mini-4k": Layout(
        "phi3", "mini-4k", Phi3ForCausalLM, tokens(), tokenizer="bpe",
        config={"original_max_position_embeddings": 64, "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}, "sliding_window": 20},
    ),
    "Phi-3-mini-128k": Layout(
        "phi3", "mini-4k", Phi3ForCausalLM, tokens(), tokenizer="bpe",
        config={"original_max_position_embeddings": 16, "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [1.0, 2.0, 3.0, 5.0]}},
    ),
    "glm-4-9b-hf": Layout("glm", "4-9b", GlmForCausalLM, tokens(), dtype=BF16),
    "OLMo-2-1124-7B": Layout("olmo2", "1124-7b", Olmo2ForCausalLM, tokens(), files="shards"),
    "AFM-4.5B": Layout(
        "arcee", "4.5b", ArceeForCausalLM, tokens(),
        config={"rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 16, "rope_type": "yarn", "type": "yarn"}},
    ),
    "DeepSeek-V2-Lite": Layout(
        "deepseek_v2", "v2", DeepseekV2ForCausalLM, tokens(),
        config=dict(
            auto_map={"AutoConfig": "configuration_deepseek.DeepseekV2Config"}, q_lora_rank=None, kv_lora_rank=20, qk_nope_head_dim=6,
            qk_rope_head_dim=8, v_head_dim=10, n_routed_experts=8, num_experts_per_tok=3, n_group=1, topk_group=1, topk_method="greedy",
            moe_intermediate_size=24, num_key_value_heads=4, routed_scaling_factor=1.0,
            rope_scaling={"beta_fast": 32, "beta_slow": 1, "factor": 4, "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 16, "type": "yarn"},
        ),
    ),
    "DeepSeek-V3": Layout(
        "deepseek_v3", "v3-unquantized", DeepseekV3ForCausalLM, tokens(),
        (each_layer("model.layers", 3, eh_proj__weight=lambda: torch.rand(32, 64)), without("model.layers.0.eh", "model.layers.1.eh")),
        config=dict(
            q_lora_rank=12, kv_lora_rank=20, qk_nope_head_dim=6, qk_rope_head_dim=8, v_head_dim=10, n_routed_experts=8, num_experts_per_tok=3,
            n_group=4, topk_group=2, moe_intermediate_size=24, num_key_value_heads=4, first_k_dense_replace=1,
        ),
    ),
    "Jamba-v0.1": Layout(
        "jamba", "v0.1", JambaForCausalLM, tokens(), tokenizer="bpe",
        config=dict(num_experts=4, attn_layer_period=2, attn_layer_offset=1, mamba_d_state=6, mamba_dt_rank=5, use_mamba_kernels=False),
    ),
    "Mamba-Codestral-7B": Layout(
        "mamba2", "codestral-7b", Mamba2ForCausalLM, tokens(), tokenizer="bpe",
        config=dict(num_heads=8, head_dim=8, n_groups=2, state_size=6, chunk_size=10, intermediate_size=64, time_step_rank=2),
    ),
    "Bamba-9B": Layout(
        "bamba", "9b", BambaForCausalLM, tokens(),
        config=dict(attn_layer_indices=[1], attn_rotary_emb=4, mamba_n_heads=8, mamba_d_head=8, mamba_d_state=6, mamba_chunk_size=10),
    ),
    # Encoders with decoders.
    "t5-small": Layout("t5", "small", T5ForConditionalGeneration, pairs_of_texts(padding=True), (TABLE_COPIES,), files="both", tokenizer="unigram"),
    "flan-t5-base": Layout(
        "t5", "flan-base", T5ForConditionalGeneration, pairs_of_texts(padding=True), (TABLE_COPIES,), tokenizer="unigram", prepare=untie
    ),
    "flan-t5-xl-encoder": Layout(  # the table only under the name of its copy
        "t5", "flan-base", T5EncoderModel, SENTENCES, (TABLE_COPIES, without("shared", "decoder")), tokenizer="unigram",
        config={"architectures": ["T5EncoderModel"]},
    ),
    "mt5-small": Layout("mt5", "small", MT5ForConditionalGeneration, pairs_of_texts(padding=True), tokenizer="unigram", prepare=untie),
    "bart-base": Layout(  # the base model's names, with copies of its table
        "bart", "base", BartForConditionalGeneration, pairs_of_texts(padding=True),
        (added(model__encoder__embed_tokens__weight=get_copy("model.shared.weight"), model__decoder__embed_tokens__weight=get_copy("model.shared.weight")),),
    ),
    "bart-large-mnli": Layout("bart", "large-mnli", BartForSequenceClassification, with_ends(ROWS), config={"eos_token_id": 2}),
    # Images.
    "clip-vit-base-patch32": Layout("clip", "vit-base-patch32", CLIPModel, edits=(positions("text_model."), added(vision_model__embeddings__position_ids=lambda _: torch.arange(10)[None])), **PAIR),
    "siglip-base-patch16-224": Layout(
        "siglip", "base-patch16-224", SiglipModel, pairs(), tokenizer="unigram",
        config=dict(
            text_config=dict(SMALL_PAIR["text_config"], model_type="siglip_text_model", projection_size=24),
            vision_config=dict(SMALL_PAIR["vision_config"], model_type="siglip_vision_model"),
        ),
    ),
    "metaclip-2-worldwide": Layout("metaclip_2", "worldwide-huge-quickgelu", MetaClip2Model, **PAIR),
    "vit-base-patch16-224": Layout("vit", "base-patch16-224", ViTForImageClassification, images(), (pooler("vit."),), tokenizer=None),
    "vit-base-patch16-224-in21k": Layout(
        "vit", "base-patch16-224", ViTModel, images(), head=ViTForImageClassification, tokenizer=None, without=("id2label",)
    ),
    "dinov2-base": Layout(
        "dinov2", "base", Dinov2Model, images(), head=Dinov2ForImageClassification, tokenizer=None,
        config={"out_features": ["stage2"], "out_indices": [2], "stage_names": ["stem", "stage1", "stage2"]},
    ),
    "dinov2-base-imagenet1k": Layout("dinov2", "giant-imagenet1k-1-layer", Dinov2ForImageClassification, images(), tokenizer=None, config={"patch_size": 4}),
    "llava-1.5-7b-hf": Layout(
        "llava", "1.5-7b-hf", LlavaForConditionalGeneration, texts_with_images(), dtype=FP16, tokenizer="bpe", config=LLAVA
    ),
    "llava-of-transformers-5.10": Layout(  # the release that wrote one name twice
        "llava", "1.5-7b-hf", LlavaForConditionalGeneration, texts_with_images(), (renamed(("language_model.model.", "model.language_model.model.")),),
        tokenizer="bpe", config=LLAVA,
    ),
}
