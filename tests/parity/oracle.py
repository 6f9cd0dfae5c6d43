"""Building blocks of the files in cases/, and transformers' computation of the numbers that a generated model must match."""

import copy
import dataclasses
import importlib
import inspect
import json
import math
import pathlib
import sys
import types
import zlib
from collections.abc import Callable

import torch
from safetensors.torch import save_file
from transformers import GenerationMixin

import dropout
import routers

VOCAB, BATCH, SEQ = 96, 4, 24
PROMPT = 10  # tokens before those that cached generation processes one by one
SMALL_DECODER = dict(
    vocab_size=VOCAB,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=64,
)

SMALL_ENCODER = dict(
    vocab_size=VOCAB,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    max_position_embeddings=64,
)
WIDE_ENCODER = dict(hidden_size=128, intermediate_size=160)
SMALL_VISION = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    image_size=12,
    patch_size=4,
)
WIDE_VISION = dict(hidden_size=128, intermediate_size=160)
# A text tower and an image tower; the last id ends a text.
SMALL_PAIR = dict(
    text_config=dict(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        eos_token_id=VOCAB - 1,
    ),
    vision_config=dict(
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=2,
        image_size=12,
        patch_size=4,
    ),
)
WIDE_PAIR = dict(
    text_config=dict(hidden_size=128, intermediate_size=160), vision_config=dict(hidden_size=144, intermediate_size=192)
)


def rope(kind, **parameters):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=1000.0, **parameters))


# RoPE parameters of each kind in transformers; sequences are longer than the original context of all of them.
ROPE = {
    "theta": rope("default"),
    "linear": rope("linear", factor=2.5),
    "dynamic": dict(max_position_embeddings=16, **rope("dynamic", factor=3.0)),
    "yarn": rope("yarn", factor=4.0, original_max_position_embeddings=16),
    "yarn-all": rope(
        "yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=8.0, beta_slow=2.0, mscale=0.8,
        mscale_all_dim=0.5, truncate=False,
    ),
    "yarn-attention": rope("yarn", factor=4.0, original_max_position_embeddings=16, attention_factor=1.2),
    "longrope-long": rope(
        "longrope", factor=4.0, original_max_position_embeddings=16, short_factor=[1.0, 1.1, 1.2, 1.3],
        long_factor=[1.0, 2.0, 3.0, 5.0],
    ),
    "longrope-short": rope(
        "longrope", original_max_position_embeddings=32, short_factor=[1.0, 1.1, 1.2, 1.3],
        long_factor=[1.0, 2.0, 3.0, 5.0],
    ),
    "llama3": rope(
        "llama3", factor=8.0, original_max_position_embeddings=32, low_freq_factor=1.0, high_freq_factor=4.0
    ),
}


def tokens(padding=None, positions=False):
    """A batch for a language model; `padding` is "left" or "right"; `positions` gives positions other than 0, 1, …"""

    def make(config):
        batch = {"input_ids": torch.randint(0, config.vocab_size, (BATCH, SEQ))}
        batch["labels"] = batch["input_ids"].clone()
        batch["labels"][torch.rand(BATCH, SEQ) < 0.15] = -100
        if padding:
            mask = torch.ones(BATCH, SEQ, dtype=torch.int64)
            for row, count in enumerate([0, 3, 10, 1]):
                mask[row, slice(0, count) if padding == "left" else slice(SEQ - count, SEQ)] = 0
            batch["attention_mask"] = mask
            batch["labels"][mask == 0] = -100
        if positions:
            batch["position_ids"] = torch.stack([torch.arange(SEQ) + start for start in (0, 3, 17, 1)])
        return batch

    return make


SEGMENTS = [24, 9, 5, 12]


def encoder_tokens(padding=None, segments=False, labels="tokens", positions=False):
    """A batch for an encoder; `labels` are "tokens" (prediction of masked ones), "rows" or "classes" of config.num_labels,
    "numbers" or "sets" for each row, or "pairs" of rows that belong together."""

    def make(config):
        batch = tokens(padding, positions)(config)
        shape = (BATCH,) if labels in ("rows", "pairs") else (BATCH, SEQ)
        if labels == "pairs":
            batch["labels"] = torch.tensor([3, 7, 3, 3])
        elif labels in ("numbers", "sets"):
            batch["labels"] = torch.randn(BATCH, config.num_labels) if labels == "numbers" else torch.randint(0, 2, (BATCH, config.num_labels)).float()
        elif labels == "tokens":
            batch["labels"][torch.rand(BATCH, SEQ) < 0.7] = -100
        else:
            ignored = batch["labels"] == -100
            batch["labels"] = torch.randint(0, config.num_labels, shape)
            if labels == "classes":
                batch["labels"][ignored] = -100
        if segments:
            batch["token_type_ids"] = torch.stack([(torch.arange(SEQ) >= start).long() for start in SEGMENTS])
        # Only padding has the padding id, as in a tokenizer's output: models count positions by it.
        pad = config.pad_token_id or 0
        batch["input_ids"][batch["input_ids"] == pad] = pad + 1
        if padding:
            batch["input_ids"][batch["attention_mask"] == 0] = pad
        return batch

    return make


def pairs_of_texts(targets=17, padding=False, labels=True):
    """A batch for an encoder with a decoder; without `labels` the target rows are the decoder's input."""

    def make(config):
        batch = tokens("right" if padding else None)(config)
        target = torch.randint(2, config.vocab_size, (BATCH, targets))
        batch["labels"] = target.masked_fill(torch.rand(BATCH, targets) < 0.15, -100)
        if not labels:
            batch["decoder_input_ids"] = target
        if padding:
            mask = torch.ones(BATCH, targets, dtype=torch.int64)
            for row, count in enumerate([3, 0, 1, 7]):
                mask[row, targets - count :] = 0
            batch["decoder_attention_mask"] = mask
            batch["labels"][mask == 0] = -100
        return batch

    return make


def images(height=None, width=None, sets=False):
    """A batch for a classifier of images, of the config's size by default; with `sets` of labels."""

    def make(config):
        vision = getattr(config, "vision_config", config)
        size = (height or vision.image_size, width or vision.image_size)
        return {
            "pixel_values": torch.randn(BATCH, vision.num_channels, *size),
            "labels": torch.randint(0, 2, (BATCH, config.num_labels)).float() if sets else torch.randint(0, config.num_labels, (BATCH,)),
        }

    return make


def pairs(padding=None, positions=False, end=None):
    """A batch of texts and their images. `end`, the last id of the vocabulary by default, ends a text."""

    def make(config):
        batch = tokens(padding, positions)(config.text_config)
        last = config.text_config.vocab_size - 1
        batch["input_ids"] %= last
        batch["input_ids"][batch["input_ids"] == end] = last
        lengths = batch.get("attention_mask", torch.ones(BATCH, SEQ)).sum(1).long()
        batch["input_ids"][torch.arange(BATCH), lengths - 1] = last if end is None else end
        return {**batch, **images()(config), "labels": torch.arange(BATCH)}

    return make


def compute(model, batch):
    """Logits and loss. For pairs, the logits of images against texts. For a base model, sentence embeddings (the mean over the tokens) and the supervised contrastive loss of Khosla et
    al. by cosines at a temperature of 0.05 (in sentence-transformers: models.Pooling)."""
    if "labels" in inspect.signature(model.forward).parameters:
        outputs = model(**batch)
        return outputs.logits, outputs.loss
    if "return_loss" in inspect.signature(model.forward).parameters:
        outputs = model(**{name: tensor for name, tensor in batch.items() if name != "labels"}, return_loss=True)
        return outputs.logits_per_image, outputs.loss
    labels = batch["labels"]
    hidden = model(**{name: tensor for name, tensor in batch.items() if name != "labels"}).last_hidden_state
    mask = batch.get("attention_mask", torch.ones(hidden.shape[:2])).unsqueeze(-1)
    embeddings = (hidden * mask).sum(1) / mask.sum(1)
    exact = embeddings.double()  # at a temperature of 0.05, rounding errors are twenty times those of the cosines
    losses = []
    for row in range(len(labels)):
        others = [other for other in range(len(labels)) if other != row]
        scores = torch.cosine_similarity(exact[row], exact[others], dim=-1) / 0.05
        positives = [index for index, other in enumerate(others) if labels[other] == labels[row]]
        if positives:
            losses.append(-scores.log_softmax(-1)[positives].mean())
    return embeddings, torch.stack(losses).mean()


def generates(model, batch):
    """Whether the model generates from a cache, with the results of full sequences: not with RoPE tables that depend on their length, nor
    with limits of Mamba-2's steps, which transformers does not apply to single tokens."""
    config = model.config
    if not isinstance(model, GenerationMixin) or config.is_encoder_decoder or config.sub_configs:
        return False
    ropes = getattr(config, "rope_parameters", None) or {}
    kinds = {each.get("rope_type") for each in (ropes, *ropes.values()) if isinstance(each, dict)}
    limits = tuple(getattr(config, "time_step_limit", None) or (0.0, math.inf))
    alike = not kinds & {"dynamic", "longrope"} and limits == (0.0, math.inf)
    return alike and batch.keys() == {"input_ids", "labels"}


def cached_logits(model, input_ids):
    """The logits of a prompt, and then of one token after the other."""
    parameters = inspect.signature(model.forward).parameters
    name = "cache_params" if "cache_params" in parameters else "past_key_values"
    logits, kept = [], {}
    for part in torch.arange(input_ids.shape[1]).tensor_split(list(range(PROMPT, input_ids.shape[1]))):
        positions = {"position_ids": part.unsqueeze(0)} if "position_ids" in parameters else {}
        outputs = model(input_ids=input_ids[:, part], use_cache=True, **positions, **kept)
        logits.append(outputs.logits)
        kept = {name: outputs[name]}
    return torch.cat(logits, dim=1)


class Case:
    """A tiny model with random parameters, and a batch.

    model: transformers' class; the family's first one by default
    batch: creates the batch from the model's config
    meshes: also compare on two and four ranks
    export: train it here, export it, and load the export with transformers; always done for the first case of each class
    dtype, max_shard_size: of the saved checkpoint
    router: the run's [router] options
    drops: loss and gradients are from training with dropout, which the config enables
    prepare: changes the model before it is run and saved
    rewrite: changes the saved folder to the files of other releases
    overrides: config values, in addition to the family's small ones
    """

    def __init__(
        self, model=None, batch=tokens(), meshes=False, export=False, dtype=None, max_shard_size="5GB", prepare=None,
        rewrite=None, drops=False, router=None, **overrides,
    ):
        self.model, self.batch, self.meshes, self.export = model, batch, meshes, export
        self.dtype, self.max_shard_size, self.overrides = dtype, max_shard_size, overrides
        self.prepare, self.rewrite, self.drops, self.router = prepare, rewrite, drops, router


def classifiers(of_sequences, of_tokens=None, meshes=False):
    """Cases of a decoder's classifiers: of sequences, by their last token that is not padding, and of tokens."""
    cases = {
        "sequences-padded-left": Case(
            of_sequences, encoder_tokens(padding="left", labels="rows"), num_labels=3, pad_token_id=0, meshes=meshes
        ),
        "sequences-of-two": Case(of_sequences, encoder_tokens(padding="right", labels="rows"), pad_token_id=0),
    }
    if of_tokens:
        batch = encoder_tokens(padding="right", labels="classes")
        cases["tokens"] = Case(of_tokens, batch, num_labels=5, pad_token_id=0, meshes=meshes)
    return cases


@dataclasses.dataclass
class Family:
    """A family's classes in transformers, and the cases to compare.

    models: transformers' classes that the spec has as entries
    small: config values of a tiny model
    cases: name -> Case
    published: name -> a published config.json as a dict
    wide: config values that make parameters large enough to measure their initial distribution
    offset_norms: norm weights are stored less 1
    otherwise: name of a published config -> values that are read differently here
    rounds_elsewhere: in bfloat16 other intermediate values are rounded than in the original, with equal accuracy
    """

    config: type
    models: list[type]
    small: dict
    cases: dict[str, Case]
    published: dict[str, dict] = dataclasses.field(default_factory=dict)
    wide: dict = dataclasses.field(default_factory=lambda: dict(hidden_size=128, intermediate_size=160, head_dim=32))
    offset_norms: bool = False
    otherwise: dict[str, dict] = dataclasses.field(default_factory=dict)
    rounds_elsewhere: bool = False

    def small_config(self, **overrides):
        inner = {
            key: {**value, **overrides.get(key, {})} for key, value in self.small.items() if key.endswith("_config")
        }
        return self.config(**{**self.small, **overrides, **inner})


def load_family(name, cases):
    """FAMILY of `name`.py in the folder `cases`, or in the folder next to this file, which has the families that ship with modular. Both
    are the package `cases`: files may import one another."""
    if "cases" not in sys.modules:
        package = types.ModuleType("cases")
        package.__path__ = [str(cases), str(pathlib.Path(__file__).parent / "cases")]
        sys.modules["cases"] = package
    if not any(pathlib.Path(folder, f"{name}.py").exists() for folder in sys.modules["cases"].__path__):
        sys.exit(f"no cases for {name}: write {cases}/{name}.py")
    return importlib.import_module(f"cases.{name}").FAMILY


def seed(*names):
    torch.manual_seed(zlib.crc32("/".join(names).encode()))


def build(model_class, config):
    """Builds the model in float32 whatever the config says, and without keys that affect only generation."""
    model = model_class._from_config(config, dtype=torch.float32)
    return model.train(False)


def get_parameters(model):
    """name -> parameter; a tied one under its name in saved files."""
    return {model.all_tied_weights_keys.get(name, name): parameter for name, parameter in model.named_parameters()}


def get_buffers(model):
    """name -> buffer, for buffers that are saved."""
    saved = model.state_dict().keys()
    return {name: buffer for name, buffer in model.named_buffers() if name in saved}


def randomize(model, offset_norms):
    """Randomizes every value: biases, norm weights and buffers too."""
    for buffer in get_buffers(model).values():
        torch.nn.init.normal_(buffer, std=0.15)
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.15)
        if name.endswith("weight") and parameter.dim() == 1 and not offset_norms:
            parameter.data += 1.0


def write_case(folder, family: Family, name, case: Case):
    """config.json and model.safetensors as transformers saves them, batch.safetensors and expected.safetensors; for each class's first
    case also rounded.safetensors, the logits computed in bfloat16; if the model generates from a cache, and the batch has only tokens,
    also cached.safetensors, its logits."""
    seed(folder.name)
    model_class = case.model or family.models[0]
    model = build(model_class, family.small_config(**case.overrides))
    if case.prepare:
        case.prepare(model)
    randomize(model, family.offset_norms)
    saved = model
    if case.dtype:
        saved = copy.deepcopy(model).to(case.dtype)  # also rounds its RoPE frequencies: the oracle stays another model
        model.load_state_dict(saved.state_dict())
    folder.mkdir(parents=True)
    saved.save_pretrained(folder, max_shard_size=case.max_shard_size)
    if case.rewrite:
        case.rewrite(folder)

    batch = case.batch(model.config)
    with routers.watched(model) as seen:
        logits, loss = compute(model, batch)
    if case.router:
        loss = loss + routers.loss(seen, batch, **case.router)
    if case.drops:
        without_dropout = loss.detach()
        with dropout.by_counter(model, seed=0):
            loss = compute(model, batch)[1]
        assert not torch.allclose(loss, without_dropout), "nothing was dropped"
    loss.backward()
    expected = {
        f"gradients.{name}": torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in get_parameters(model).items()
    }
    expected |= {"logits": logits.detach(), "loss": loss.detach()}
    save_file(batch, folder / "batch.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in expected.items()}, folder / "expected.safetensors")
    if generates(model, batch):
        with torch.no_grad():
            save_file({"logits": cached_logits(model, batch["input_ids"]).contiguous()}, folder / "cached.safetensors")
    first_of_class = next(
        other for other, each in family.cases.items() if (each.model or family.models[0]) is model_class
    )
    if name == first_of_class:
        model = model_class.from_pretrained(folder, dtype=torch.bfloat16).train(False)
        rounded = {name: tensor.bfloat16() if tensor.is_floating_point() else tensor for name, tensor in batch.items()}
        with torch.no_grad():
            save_file({"logits": compute(model, rounded)[0].contiguous()}, folder / "rounded.safetensors")
    flags = {
        "meshes": case.meshes,
        "drops": case.drops,
        "router": case.router or {},
        "export": case.export or name == first_of_class,
        "rounds_elsewhere": family.rounds_elsewhere,
        "prompt": PROMPT,
    }
    (folder / "case.json").write_text(json.dumps(flags))


def get_values(config):
    """The config's values, including the number of labels, which it stores as a table of their names."""
    return {**json.loads(config.to_json_string(use_diff=False)), "num_labels": config.num_labels}


def unknown_keys(config, published):
    """Keys that are not a field of the config; "text_config.key" for a nested config."""
    fields = {field.name for field in dataclasses.fields(config)}
    unknown = published.keys() - fields
    for key in config.sub_configs:
        unknown |= {f"{key}.{inner}" for inner in unknown_keys(getattr(config, key), published.get(key) or {})}
    return unknown


def write_config(folder, family: Family, published, otherwise):
    """config.json as published, and resolved.json: the values that transformers reads, and the keys that it does not use."""
    folder.mkdir(parents=True)
    named = {"architectures": [family.models[0].__name__], "model_type": family.config.model_type, **published}
    (folder / "config.json").write_text(json.dumps(named))
    config = family.config.from_pretrained(folder)
    values = {**get_values(config), **otherwise}
    resolved = {"values": values, "unknown": sorted(unknown_keys(config, published))}
    (folder / "resolved.json").write_text(json.dumps(resolved))


def write_defaults(folder, family: Family, model_class):
    """config.json of the family's defaults, and parameters.json: name -> shape of the parameters and buffers that transformers builds
    from them."""
    folder.mkdir(parents=True)
    with torch.device("meta"):
        model = model_class(family.config())
    config = get_values(model.config)
    (folder / "config.json").write_text(json.dumps({**config, "architectures": [model_class.__name__]}))
    shapes = {name: list(tensor.shape) for name, tensor in (get_parameters(model) | get_buffers(model)).items()}
    (folder / "parameters.json").write_text(json.dumps(shapes))


def write_initial(folder, family: Family, model_class):
    """config.json of a small model, and statistics.json: name -> mean and standard deviation of its initial values."""
    seed(folder.name)
    folder.mkdir(parents=True)
    model = build(model_class, family.small_config(**family.wide))
    model.config.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": [model_class.__name__]}))
    statistics = {}
    for name, parameter in get_parameters(model).items():
        values = parameter.detach().double()
        statistics[name] = {"mean": values.mean().item(), "deviation": values.std(correction=0).item()}
    (folder / "statistics.json").write_text(json.dumps(statistics))
