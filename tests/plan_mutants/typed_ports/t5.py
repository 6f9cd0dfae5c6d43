"""A port of T5: an encoder, a decoder that attends to it, and biases by distance from a table that is split by heads."""

from blocks import CP_EXCHANGE, HEADS, HIDDEN, INNER, POSITIONS, ROWS, WIDTH
from families import Family, llama_head
from torch.nn.functional import gelu, relu

BUCKETS = 5


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
