"""Ports of families, and where the generated files have the calls that the ports have.

A port has one layer of each stack, with the names that the plan's parameters have.
"""

from dataclasses import dataclass, field
from typing import Callable

import torch
from blocks import HEADS, HIDDEN, INNER, LABELS, POSITIONS, VOCAB, WIDTH, lookup, product
from torch.nn.functional import gelu, silu

EXPERTS, CHOSEN = 4, 2


@dataclass
class Family:
    name: str
    entry: str
    port: Callable
    classes: list  # of the generated file that the port runs
    calls: dict  # the class and the text of each call of the port
    places: dict = field(default_factory=dict)  # a file, the line before which statements are added, and the value
    annotations: dict = field(default_factory=dict)  # changes of the spec, and of the port
    alternatives: tuple = ()  # parameters of layers that the entry has instead of the port's
    readings: tuple = ()  # that the port cannot run


# ---- Llama ----


def llama_attention(rank, name, x, attend=None):
    x = rank.enter("attention", x)
    query, key, value = (
        rank.heads(rank.linear(f"{name}.{part}_proj", x, HEADS * WIDTH, HIDDEN, "columns", bias=rank.has_biases))
        for part in "qkv"
    )
    rank.place("heads", key)
    if attend:
        query, key = attend(query, key)
    mixed = rank.attention(rank.rotary(query), rank.rotary(key), value)
    return rank.linear(f"{name}.o_proj", mixed, HIDDEN, HEADS * WIDTH, "rows", bias=rank.has_biases, call="o_proj")


def llama_mlp(rank, name, x, bias, activation=silu):
    x = rank.enter("mlp", x)
    gate = rank.linear(f"{name}.gate_proj", x, INNER, HIDDEN, "columns", bias)
    up = rank.linear(f"{name}.up_proj", x, INNER, HIDDEN, "columns", bias)
    return rank.linear(f"{name}.down_proj", activation(gate) * up, HIDDEN, INNER, "rows", bias, call="down_proj")


def llama_head(rank, x):
    x = rank.place("after layers", x)
    logits = rank.linear("lm_head", rank.shared("head", x), VOCAB, HIDDEN, "columns")
    loss = rank.cross_entropy("loss", logits)
    rank.finish(rank.change_loss(x) if rank.change_loss else loss)


def llama_model(rank):
    rank.has_biases = True
    name = "model.layers.*"
    x = rank.part("part", rank.embedding("embedding", "model.embed_tokens"))
    x = x + llama_attention(rank, f"{name}.self_attn", rank.rms_norm(f"{name}.input_layernorm", x))
    x = rank.place("between layers", x)
    x = x + llama_mlp(rank, f"{name}.mlp", rank.rms_norm(f"{name}.post_attention_layernorm", x), bias=True)
    return rank.rms_norm("model.norm", rank.whole("whole", x))


def llama(rank):
    llama_head(rank, llama_model(rank))


def llama_classifier(rank):
    """A loss per row, which all ranks of cp have."""
    rank.finish(rank.label_loss(rank.linear("score", rank.pooled(llama_model(rank)), LABELS, HIDDEN)))


def llama_calls(prefix):
    return {
        "embedding": (f"{prefix}Model", "tp::embedding(embed_tokens, input_ids)"),
        "part": (f"{prefix}Model", "tp::part(embed(batch.input_ids))"),
        "attention": (f"{prefix}Attention", "auto hidden_states_tp = tp::enter(hidden_states);"),
        "o_proj": (f"{prefix}Attention", "tp::exit(o_proj, attend("),
        "mlp": (f"{prefix}MLP", "auto x_tp = tp::enter(x);"),
        "down_proj": (f"{prefix}MLP", "tp::exit(down_proj, gated_activation("),
        "whole": (f"{prefix}Model", "norm(tp::whole(hidden_states))"),
        "head": (f"{prefix}ForCausalLM", "lm_head(tp::shared(hidden_states))"),
        "loss": (f"{prefix}ForCausalLM", "tp::cross_entropy_outputs("),
    }


LLAMA_LAYER = "    return residual + mlp(post_attention_layernorm(residual));\n"
LLAMA_HEADS = "    return o_proj(attend(query, key, value, rotary_embeddings, mask));\n"
LLAMA_END = "    return cross_entropy_outputs(project(hidden_states), batch, next_tokens);\n"
LLAMA_PLACES = {
    "between layers": ("llama.h", LLAMA_LAYER, "residual"),
    "heads": ("llama.h", LLAMA_HEADS, "key"),
    "after layers": ("llama.h", LLAMA_END, "hidden_states"),
}


def full(layer, kind, file="llama.h", holder="nn::Linear"):
    return (file, f"{kind} {holder} {layer};", f"{holder} {layer};")


GATE, UP, DOWN = (f"model.layers.*.mlp.{part}_proj" for part in ("gate", "up", "down"))
ATTENTION = "model.layers.*.self_attn"
LLAMA_ANNOTATIONS = {
    "up_proj full": ([full("up_proj", "TP_COLWISE")], {UP: None}, set()),
    # modgen weaves no call where unsharded layers read a value that is the same on all ranks.
    "gate_proj and up_proj full": (
        [full("up_proj", "TP_COLWISE"), full("gate_proj", "TP_COLWISE")],
        {UP: None, GATE: None},
        {"mlp"},
    ),
    "mlp full": (
        [full("up_proj", "TP_COLWISE"), full("gate_proj", "TP_COLWISE"), full("down_proj", "TP_ROWWISE")],
        {UP: None, GATE: None, DOWN: None},
        {"mlp"},
    ),
    "down_proj full": ([full("down_proj", "TP_ROWWISE")], {DOWN: None}, set()),
    "o_proj full": ([full("o_proj", "TP_ROWWISE")], {f"{ATTENTION}.o_proj": None}, set()),
    "k_proj full": ([full("k_proj", "TP_COLWISE")], {f"{ATTENTION}.k_proj": None}, set()),
    "gate_proj by rows": (
        [("llama.h", "TP_COLWISE nn::Linear gate_proj;", "TP_ROWWISE nn::Linear gate_proj;")],
        {GATE: "rows"},
        set(),
    ),
    "down_proj by columns": (
        [("llama.h", "TP_ROWWISE nn::Linear down_proj;", "TP_COLWISE nn::Linear down_proj;")],
        {DOWN: "columns"},
        set(),
    ),
}

LLAMA = Family(
    "llama",
    "LlamaForCausalLM",
    llama,
    ["LlamaRMSNorm", "LlamaMLP", "LlamaAttention", "LlamaDecoderLayer", "LlamaModel", "LlamaForCausalLM"],
    llama_calls("Llama"),
    LLAMA_PLACES,
    LLAMA_ANNOTATIONS,
)

LLAMA_CLASSIFIER = Family(
    "llama",
    "LlamaForSequenceClassification",
    llama_classifier,
    [name for name in LLAMA.classes if name != "LlamaForCausalLM"] + ["LlamaForSequenceClassification"],
    {name: call for name, call in LLAMA.calls.items() if name not in ("head", "loss")},
)

# ---- GPT-2: biases, layer norms, positions in a table, a fused layer that is split by parts ----


def gpt2_attention(rank, name, x):
    x = rank.enter("attention", x)
    if rank.shardings.get(f"{name}.c_attn") == "columns":
        fused = rank.linear(f"{name}.c_attn", x, 3 * HEADS * WIDTH, HIDDEN, "columns", bias=True, transposed=True)
        parts = fused.unflatten(-1, (3, -1)).unbind(2)
    else:
        # [inputs, 3, outputs]: the parts have a dimension of their own, because a rank has a piece of each.
        fused = rank.read(
            f"{name}.c_attn.weight",
            (HIDDEN, 3, HEADS * WIDTH),
            lambda weight: (x.unsqueeze(-1).unsqueeze(-1) * weight).sum(2),
            split=2,
        )
        fused = rank.read(f"{name}.c_attn.bias", (3, HEADS * WIDTH), lambda bias: fused + bias, split=1)
        parts = fused.unbind(2)
    query, key, value = (rank.heads(part) for part in parts)
    rank.place("heads", key)
    mixed = rank.attention(query, key, value)
    return rank.linear(
        f"{name}.c_proj", mixed, HIDDEN, HEADS * WIDTH, "rows", bias=True, call="attn.c_proj", transposed=True
    )


def gpt2(rank):
    name = "transformer.h.*"
    x = rank.embedding("embedding", "transformer.wte")
    at_positions = rank.data((POSITIONS, POSITIONS), positions=0)
    x = rank.read("transformer.wpe.weight", (POSITIONS, HIDDEN), lambda table: x + lookup(at_positions, table))
    x = rank.part("part", x)
    x = gpt2_attention(rank, f"{name}.attn", rank.layer_norm(f"{name}.ln_1", x)) + x
    x = rank.place("between layers", x)
    inner = rank.enter("mlp", rank.layer_norm(f"{name}.ln_2", x))
    inner = gelu(rank.linear(f"{name}.mlp.c_fc", inner, INNER, HIDDEN, "columns", bias=True, transposed=True))
    x = x + rank.linear(
        f"{name}.mlp.c_proj", inner, HIDDEN, INNER, "rows", bias=True, call="mlp.c_proj", transposed=True
    )
    llama_head(rank, rank.layer_norm("transformer.ln_f", rank.whole("whole", x)))


GPT2 = Family(
    "gpt2",
    "GPT2LMHeadModel",
    gpt2,
    ["GPT2Attention", "GPT2MLP", "GPT2Block", "GPT2Model", "GPT2LMHeadModel"],
    {
        "embedding": ("GPT2Model", "tp::embedding(wte, batch.input_ids)"),
        "part": ("GPT2Model", "tp::part(embed(batch))"),
        "attention": ("GPT2Attention", "c_attn(tp::enter(hidden_states))"),
        "attn.c_proj": ("GPT2Attention", "tp::exit(c_proj, tp::attention("),
        "mlp": ("GPT2MLP", "c_fc(tp::enter(hidden_states))"),
        "mlp.c_proj": ("GPT2MLP", "tp::exit(c_proj, activation("),
        "whole": ("GPT2Model", "ln_f(tp::whole(hidden_states))"),
        "head": ("GPT2LMHeadModel", "lm_head(tp::shared(hidden_states))"),
        "loss": ("GPT2LMHeadModel", "tp::cross_entropy_outputs("),
    },
    {
        "between layers": ("gpt2.h", "    return residual + mlp(ln_2(residual));\n", "residual"),
        "heads": ("gpt2.h", "    return resid_dropout(c_proj(attention(query, key,", "key"),
        "after layers": (
            "gpt2.h",
            "    return cross_entropy_outputs(lm_head(hidden_states), batch, next_tokens);\n",
            "hidden_states",
        ),
    },
    {
        "c_attn in one part": (
            [("gpt2.h", "TP_COLWISE_PARTS(config.n_embd, config.n_embd, config.n_embd) TransposedLinear c_attn;",
              "TP_COLWISE TransposedLinear c_attn;")],
            {"transformer.h.*.attn.c_attn": "columns"},
            set(),
        ),
        "c_fc full": ([full("c_fc", "TP_COLWISE", "gpt2.h", "TransposedLinear")],
                      {"transformer.h.*.mlp.c_fc": None}, {"mlp"}),
        "c_fc by rows": (
            [("gpt2.h", "TP_COLWISE TransposedLinear c_fc;", "TP_ROWWISE TransposedLinear c_fc;")],
            {"transformer.h.*.mlp.c_fc": "rows"},
            {"mlp"},
        ),
    },
)

# ---- Gemma 3: norms of split heads, whose scale is stored minus 1, and norms after each part of a layer ----


def gemma3(rank):
    name, attention = "model.layers.*", "model.layers.*.self_attn"
    rank.has_biases = True
    norm = lambda part, x: rank.rms_norm(f"{name}.{part}_layernorm", x, scale=lambda weight: weight + 1.0)

    def norm_heads(query, key):
        scale = lambda weight: rank.shared("norms of heads", weight + 1.0)
        return (rank.rms_norm(f"{attention}.{part}_norm", x, WIDTH, scale) for part, x in (("q", query), ("k", key)))

    x = rank.part("part", rank.embedding("embedding", "model.embed_tokens") * HIDDEN**0.5)
    mixed = llama_attention(rank, attention, norm("input", x), norm_heads)
    x = rank.place("between layers", x + norm("post_attention", mixed))
    inner = llama_mlp(rank, f"{name}.mlp", norm("pre_feedforward", x), bias=False, activation=gelu)
    x = rank.whole("whole", x + norm("post_feedforward", inner))
    llama_head(rank, rank.rms_norm("model.norm", x, scale=lambda weight: weight + 1.0))


GEMMA3 = Family(
    "gemma3_text",
    "Gemma3ForCausalLM",
    gemma3,
    ["Gemma3RMSNorm", "Gemma3MLP", "Gemma3Attention", "Gemma3DecoderLayer", "Gemma3Model", "Gemma3ForCausalLM"],
    llama_calls("Gemma3") | {"norms of heads": ("Gemma3RMSNorm", "tp::shared(weight.to(at::kFloat) + 1.0)")},
    {
        **LLAMA_PLACES,
        "between layers": (
            "gemma2.h",
            "    return residual + post_feedforward_layernorm(mlp(pre_feedforward_layernorm(residual)));\n",
            "residual",
        ),
    },
    {name: LLAMA_ANNOTATIONS[name] for name in ("o_proj full", "k_proj full", "gate_proj and up_proj full")},
)

# ---- Mixtral: a router, and experts whose inner features are split ----


def mixtral(rank):
    name = "model.layers.*"
    rank.has_biases = False
    x = rank.part("part", rank.embedding("embedding", "model.embed_tokens"))
    x = x + llama_attention(rank, f"{name}.self_attn", rank.rms_norm(f"{name}.input_layernorm", x))
    x = rank.place("between layers", x)
    x = x + mixtral_experts(rank, f"{name}.mlp", rank.rms_norm(f"{name}.post_attention_layernorm", x))
    llama_head(rank, rank.rms_norm("model.norm", rank.whole("whole", x)))


def mixtral_experts(rank, name, x):
    """The experts' outputs [rows, positions, hidden], weighted. The spec joins rows and positions; each is routed by
    itself, so that the port need not."""
    logits = rank.read(f"{name}.gate.weight", (EXPERTS, HIDDEN), lambda weight: product(x, weight))
    top, chosen = logits.softmax(-1).topk(CHOSEN, -1)
    weights = rank.enter("weights", top / top.sum(-1, keepdim=True))
    chosen, x = rank.whole("chosen", chosen, has_gradient=False), rank.enter("experts", x)

    def features(weight):
        """Those of gate and up of each expert: [rows, positions, experts, 2, inner]."""
        gate, up = (x.unsqueeze(2).unsqueeze(2).unsqueeze(2) * weight).sum(-1).unbind(3)
        return silu(gate) * up

    # [experts, 2, inner, hidden]: the parts have a dimension of their own, because a rank has a piece of each.
    inner = rank.read(f"{name}.experts.gate_up_proj", (EXPERTS, 2, INNER, HIDDEN), features, split=2)
    outputs = rank.read(
        f"{name}.experts.down_proj", (EXPERTS, HIDDEN, INNER), lambda weight: product_of_each(inner, weight), split=2
    )
    # DTensor's rule of stack() is wrong for negative dimensions.
    shares = torch.stack([(weights * (chosen == expert)).sum(-1) for expert in range(EXPERTS)], 2)
    return rank.exit("mixed", (outputs * shares.unsqueeze(-1)).sum(2))


def product_of_each(x, weight):
    """x [..., experts, inputs] times weight [experts, outputs, inputs]."""
    return (x.unsqueeze(-2) * weight).sum(-1)


def mixtral_calls():
    calls = llama_calls("Mixtral")
    del calls["mlp"], calls["down_proj"]
    return calls | {
        "experts": ("MixtralExperts", "mix_experts(hidden_act, tp::enter(hidden_states)"),
        "chosen": ("MixtralExperts", "tp::whole(chosen)"),
        "weights": ("MixtralExperts", "tp::enter(weights)"),
        "mixed": ("MixtralExperts", "tp::exit(mix_experts("),
    }


MIXTRAL = Family(
    "mixtral",
    "MixtralForCausalLM",
    mixtral,
    ["MixtralRMSNorm", "MixtralAttention", "MixtralExperts", "MixtralTopKRouter", "MixtralSparseMoeBlock",
     "MixtralDecoderLayer", "MixtralModel", "MixtralForCausalLM"],
    mixtral_calls(),
    LLAMA_PLACES,
    {name: LLAMA_ANNOTATIONS[name] for name in ("o_proj full",)},
)
