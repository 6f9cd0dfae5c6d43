"""Ports of five families, and where the generated files have the calls that the ports have.

A port has one layer of each stack, with the names that the plan's parameters have.
"""

from dataclasses import dataclass, field
from typing import Callable

import torch
from blocks import CP_EXCHANGE, HEADS, HIDDEN, INNER, LABELS, POSITIONS, ROWS, VOCAB, WIDTH, lookup, product
from torch.nn.functional import gelu, relu, silu

EXPERTS, CHOSEN, BUCKETS = 4, 2, 5


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

# ---- T5: an encoder, a decoder that attends to it, and biases by distance from a split table ----


def t5_attention(rank, call, name, x, states, mask):
    """Attention to `states` of all ranks; to `x` itself, without them."""
    entered = rank.enter(f"{call}.q", x)
    other = rank.enter(f"{call}.kv", x) if states is None else rank.shared(f"{call}.kv", states)
    query, key, value = (
        rank.heads(rank.linear(f"{name}.{part}", read, HEADS * WIDTH, HIDDEN, "columns"))
        for part, read in (("q", entered), ("k", other), ("v", other))
    )
    if name.startswith("encoder"):
        rank.place("heads", key)
    mixed = rank.attention(query, key, value, mask, is_causal=False)
    return rank.linear(f"{name}.o", mixed, HIDDEN, HEADS * WIDTH, "rows", call=f"{call}.o")


def t5_biases(rank, name):
    """The biases by distance between keys and the rank's queries: [1, heads, queries, keys]."""
    distances = rank.data((POSITIONS, POSITIONS, BUCKETS), positions=0)
    visible = rank.data((ROWS, 1, POSITIONS, POSITIONS), rows=0, positions=2)

    def biases(table):
        rows = (distances.unsqueeze(-1) * table).sum(-2)
        return rows.permute(2, 0, 1).unsqueeze(0) + visible

    return rank.read(f"{name}.relative_attention_bias.weight", (BUCKETS, HEADS), biases, split=1)


def t5_feed_forward(rank, name, x, is_gated):
    normed = rank.rms_norm(f"{name}.layer_norm", x)
    dense, call = f"{name}.DenseReluDense", "gated" if is_gated else "dense"
    entered = rank.enter(call, normed)
    inner = [
        rank.linear(f"{dense}.{part}", entered, INNER, HIDDEN, "columns")
        for part in (("wi_0", "wi_1") if is_gated else ("wi",))
    ]
    inner = gelu(inner[0]) * inner[1] if is_gated else relu(inner[0])
    return x + rank.linear(f"{dense}.wo", inner, HIDDEN, INNER, "rows", call=f"{call}.wo")


def t5_stack(rank, stack, states=None):
    name = f"{stack}.block.*.layer"
    biases = t5_biases(rank, f"{name}.0.SelfAttention")
    x = rank.part(f"{stack}.part", rank.embedding(f"{stack}.embedding", "shared"))
    normed = rank.rms_norm(f"{name}.0.layer_norm", x)
    x = x + t5_attention(rank, "self", f"{name}.0.SelfAttention", normed, None, biases)
    if states is None:
        x = t5_feed_forward(rank, f"{name}.1", rank.place("between layers", x), is_gated=True)
    else:
        visible = rank.data((ROWS, 1, 1, POSITIONS), rows=0)
        normed = rank.rms_norm(f"{name}.1.layer_norm", x)
        x = x + t5_attention(rank, "cross", f"{name}.1.EncDecAttention", normed, states, visible)
        x = t5_feed_forward(rank, f"{name}.2", x, is_gated=False)
    return rank.rms_norm(f"{stack}.final_layer_norm", rank.whole(f"{stack}.whole", x))


def t5(rank):
    llama_head(rank, t5_stack(rank, "decoder", t5_stack(rank, "encoder")))


T5_MODEL = "T5ForConditionalGeneration"

T5 = Family(
    "t5",
    T5_MODEL,
    t5,
    ["T5LayerNorm", "T5DenseActDense", "T5DenseGatedActDense", "T5LayerFF", "T5RelativeAttentionBias", "T5Attention",
     "T5SelfAttention", "T5LayerSelfAttention", "T5LayerCrossAttention", "T5Encoder", "T5Decoder", T5_MODEL],
    {
        "encoder.embedding": (T5_MODEL, "encoder->dropout(tp::embedding(shared, batch.input_ids))"),
        "encoder.part": (T5_MODEL, "tp::part(encoder->dropout("),
        "encoder.whole": (T5_MODEL, "encoder->finish(tp::whole(hidden_states))"),
        "decoder.embedding": (T5_MODEL, "decoder->dropout(tp::embedding(shared, decoder_input_ids))"),
        "decoder.part": (T5_MODEL, "tp::part(decoder->dropout("),
        "decoder.whole": (T5_MODEL, "decoder->finish(tp::whole(hidden_states))"),
        "self.q": ("T5SelfAttention", "q(tp::enter(hidden_states))"),
        "self.kv": ("T5SelfAttention", "auto states_tp = tp::enter(states);"),
        "self.o": ("T5SelfAttention", "tp::exit(o, tp::attention("),
        "cross.q": ("T5Attention", "q(tp::enter(hidden_states))"),
        "cross.kv": ("T5Attention", "auto states_tp = tp::shared(states);"),
        "cross.o": ("T5Attention", "tp::exit(o, tp::attention("),
        "gated": ("T5DenseGatedActDense", "auto hidden_states_tp = tp::enter(hidden_states);"),
        "gated.wo": ("T5DenseGatedActDense", "tp::exit(wo, "),
        "dense": ("T5DenseActDense", "wi(tp::enter(hidden_states))"),
        "dense.wo": ("T5DenseActDense", "tp::exit(wo, "),
        "head": (T5_MODEL, "lm_head(tp::shared(scaled(hidden_states)))"),
        "loss": (T5_MODEL, "tp::cross_entropy_outputs("),
    },
    {
        "between layers": (
            "t5.h", "    return hidden_states + dropout(DenseReluDense(layer_norm(hidden_states)));\n", "hidden_states"
        ),
        "heads": ("t5.h", "    return o(attention(query, key, value, mask, /*scale=*/1.0, dropout));\n", "key"),
        "after layers": (
            "t5.h",
            "    return cross_entropy_outputs(lm_head(scaled(hidden_states)), batch, same_labels);\n",
            "hidden_states",
        ),
    },
    {
        "biases full": (
            [("t5.h", "TP_SHARD(1) Tensor weight;  // [buckets, heads]", "Tensor weight;")],
            {
                f"{stack}.block.*.layer.0.SelfAttention.relative_attention_bias.weight": None
                for stack in ("encoder", "decoder")
            },
            set(),
        ),
    },
    alternatives=(
        "encoder.block.*.layer.1.DenseReluDense.wi.weight",
        "decoder.block.*.layer.2.DenseReluDense.wi_0.weight",
        "decoder.block.*.layer.2.DenseReluDense.wi_1.weight",
    ),
    readings=(CP_EXCHANGE,),  # attention with biases gathers
)

FAMILIES = (LLAMA, LLAMA_CLASSIFIER, GPT2, GEMMA3, MIXTRAL, T5)
