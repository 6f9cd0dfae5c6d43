"""A second implementation of dropout as described in docs/guide/training.md: which elements are dropped depends on the seed, the layer's path, how many times it
ran before in the forward, the row of the batch, and the element's index. With it, transformers' models drop the same elements as the generated ones."""

import contextlib
import sys

import numpy
import torch

WORD = 0xFFFFFFFF


def crc64(text):
    """CRC-64 with Jones' coefficients, reflected, from 0."""
    value = 0
    for byte in text.encode():
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x95AC9329AC4BC9B5 if value & 1 else 0)
    return value


def mixed(value):
    """SplitMix64 (Steele et al.)."""
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) % 2**64
    return value ^ (value >> 31)


def philox(counter, key):
    """Philox4x32-10 (Salmon et al.) of four arrays of counters."""
    a, b, c, d = (numpy.asarray(each, dtype=numpy.uint64) for each in counter)
    first, second = key & WORD, key >> 32
    for _ in range(10):
        even, odd = a * numpy.uint64(0xD2511F53), c * numpy.uint64(0xCD9E8D57)
        a, b, c, d = (odd >> 32) ^ b ^ numpy.uint64(first), odd & WORD, (even >> 32) ^ d ^ numpy.uint64(second), even & WORD
        first, second = (first + 0x9E3779B9) & WORD, (second + 0xBB67AE85) & WORD
    return a, b, c, d


def kept(key, samples, planes, rows, columns, p):
    """Which elements of [samples, planes, rows, columns] are kept."""
    sample, plane, row, column = numpy.meshgrid(
        *(numpy.arange(count) for count in (samples, planes, rows, columns)), indexing="ij"
    )
    words = numpy.stack(philox((column // 64 * 16 + column % 16, row, sample, plane), key))
    word = numpy.take_along_axis(words, (column // 16 % 4)[None], axis=0)[0]
    return torch.from_numpy(word >= round(p * 2**32))


# Layers of generated models in the order in which these classes of transformers call F.dropout.
CALLED_IN_ORDER = {
    "BartEncoder": ("dropout",),
    "BartDecoder": ("dropout",),
    "BartEncoderLayer": ("dropout", "activation_dropout", "final_dropout"),
    "BartDecoderLayer": ("dropout", "encoder_attn_dropout", "activation_dropout", "final_dropout"),
}


def find_layer(frame, paths, calls):
    """The path of the layer that F.dropout was called for by the code in `frame`. `calls` counts those of each module."""
    local = frame.f_locals
    if order := CALLED_IN_ORDER.get(type(local.get("self")).__name__):
        path = paths[local["self"]]
        call = calls[path] = calls.get(path, -1) + 1
        return f"{path}.{order[call % len(order)]}"
    if frame.f_code.co_name == "dropout_add":  # BLOOM's function
        return paths[frame.f_back.f_locals["self"]] + ".hidden_dropout"
    if frame.f_code.co_name == "forward":  # torch.nn.Dropout's forward
        return paths[local["self"]]
    module = local["module"]  # an eager_attention_forward
    name = next(name for name in ("attention_dropout", "attn_dropout", "dropout") if hasattr(module, name))
    return f"{paths[module]}.{name}"


@contextlib.contextmanager
def by_counter(model, seed):
    """`model` in training mode, with eager attention and counter-based dropout."""
    paths = {module: name for name, module in model.named_modules()}
    # A stack of T5 applies the same layer twice; the generated one has two layers, which different pipeline stages
    # hold.
    stacks = {f"{name}.dropout" for module, name in paths.items() if type(module).__name__.endswith("T5Stack")}
    runs, calls = {}, {}
    original = torch.nn.functional.dropout

    def dropout(x, p=0.5, training=True, inplace=False):
        if not training or p == 0.0:
            return x
        path = find_layer(sys._getframe(1), paths, calls)
        if path in stacks and path in runs:
            path = path.removesuffix("dropout") + "final_dropout"
        run = runs[path] = runs.get(path, -1) + 1
        key = mixed((mixed(mixed(seed) ^ crc64(path)) + run) % 2**64)
        is_attention = not path.endswith("hidden_dropout") and x.dim() == 4
        planes = x.shape[1] if is_attention else 1
        mask = kept(key, x.shape[0], planes, x[0].numel() // (planes * x.shape[-1]), x.shape[-1], p)
        return x * mask.reshape(x.shape) / (1.0 - p)

    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    model.train()
    torch.nn.functional.dropout = dropout
    try:
        yield
    finally:
        torch.nn.functional.dropout = original
        model.train(False)
        model.set_attn_implementation(before)
