"""Small Sentence Transformers folders with the library's results.

usage: sentence_folders.py make FOLDER
       sentence_folders.py check FOLDER

make writes for each case FOLDER/<case>/: model/, in.safetensors (input_ids, attention_mask), embeddings.safetensors (what the model embeds them as),
pairs.safetensors (samples of two texts) and trained.safetensors (embeddings of in.safetensors after a step of SGD at RATE of MultipleNegativesRankingLoss).
FOLDER/texts/ has model/, rows.jsonl of texts and, for each way of giving prompts, the ids of both columns.
check has the library read FOLDER/<case>/exported and compares what it embeds with FOLDER/<case>/predicted.safetensors.
"""

import json
import os
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

WORDS, RATE = 40, 0.02
SMALL = dict(vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32)
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.3)
DECODER = SMALL | dict(num_key_value_heads=2, head_dim=8, initializer_range=0.3, pad_token_id=0)


def backbone(name):
    kinds = {
        "bert": ("Bert", SMALL | STILL | dict(pad_token_id=0)),
        "roberta": ("Roberta", SMALL | STILL | dict(pad_token_id=0)),
        "xlm_roberta": ("XLMRoberta", SMALL | STILL | dict(pad_token_id=0)),
        "mpnet": ("MPNet", SMALL | STILL),
        "modernbert": ("ModernBert", SMALL | dict(pad_token_id=0, initializer_range=0.3, global_attn_every_n_layers=2, local_attention=8, attn_implementation="sdpa")),
        "t5": ("T5", dict(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0)),
        "qwen3": ("Qwen3", DECODER),
        "qwen2": ("Qwen2", DECODER),
        "mistral": ("Mistral", DECODER),
        "llama": ("Llama", DECODER),
    }
    kind, settings = kinds[name]
    config = getattr(transformers, kind + "Config")(**settings)
    return getattr(transformers, kind + ("EncoderModel" if kind == "T5" else "Model"))(config)


class Case:
    """A model's kind, its poolings and the modules after them, and the format of its folder."""

    def __init__(self, model, pooling, after=(), left=False, old_form=False, names=None, architecture=None):
        self.model, self.pooling, self.after, self.left, self.old_form, self.names, self.architecture = model, pooling, after, left, old_form, names, architecture


CASES = {
    "bert-cls-normalize": Case("bert", "cls", (Normalize,), old_form=True),
    "bert-max": Case("bert", "max"),
    "bert-cls-mean-dense": Case("bert", ("cls", "mean"), (lambda: Dense(64, 16), Normalize), old_form=True),
    "bert-mean-cls-dense-dense": Case("bert", ("mean", "cls"), (lambda: Dense(64, 24, activation_function=torch.nn.ReLU()), lambda: Dense(24, 12, bias=False, activation_function=torch.nn.GELU())), names=["pool", "layers/a", "layers/b"]),
    "mpnet-sqrt": Case("mpnet", "mean_sqrt_len_tokens", (Normalize,), architecture="MPNetForMaskedLM"),
    "roberta-weighted": Case("roberta", "weightedmean", left=True),
    "xlm_roberta-mean-normalize": Case("xlm_roberta", "mean", (Normalize,), old_form=True),
    "modernbert-cls": Case("modernbert", "cls", (lambda: Dense(32, 32, activation_function=torch.nn.Identity()),)),
    "t5-mean-dense": Case("t5", "mean", (lambda: Dense(32, 32, bias=False, activation_function=torch.nn.Identity()), Normalize), old_form=True),
    "qwen3-last-left": Case("qwen3", "lasttoken", (Normalize,), left=True, architecture="Qwen3ForCausalLM"),
    "qwen2-weighted-left": Case("qwen2", "weightedmean", left=True),
    "mistral-last": Case("mistral", "lasttoken", (Normalize,), old_form=True),
    "llama-last-max": Case("llama", ("lasttoken", "max"), (lambda: Dense(64, 8, activation_function=torch.nn.SiLU()),)),
    "bert-normalize-dense": Case("bert", "mean", (Normalize, lambda: Dense(32, 8))),
}
OLD_KEYS = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "mean_sqrt_len_tokens": "mean_sqrt_len_tokens", "weightedmean": "weightedmean_tokens", "lasttoken": "lasttoken"}
OLD_TYPES = "sentence_transformers.models."


def tokenizer(folder):
    of_words = Tokenizer(models.WordLevel({f"w{number}": number for number in range(WORDS)}, unk_token="w1"))
    of_words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=of_words, unk_token="w1", pad_token="w0").save_pretrained(folder)


def as_older_releases_write(folder, case):
    """The pooling's options with one key per mode, modules by the names of their first home, Normalize without a file."""
    modules = json.loads((folder / "modules.json").read_text())
    for module in modules:
        module["type"] = OLD_TYPES + module["type"].split(".")[-1]
        if module["type"].endswith("Normalize"):
            shutil.rmtree(folder / module["path"])
    (folder / "modules.json").write_text(json.dumps(modules))
    modes = [case.pooling] if isinstance(case.pooling, str) else case.pooling
    settings = {"word_embedding_dimension": 32} | {"pooling_mode_" + key: mode in modes for mode, key in OLD_KEYS.items()}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))


def rename(folder, names):
    modules = json.loads((folder / "modules.json").read_text())
    for module, name in zip(modules[1:], names):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / module["path"]).rename(folder / name)
        module["path"] = name
    (folder / "modules.json").write_text(json.dumps(modules))


def batch(rows, left, seed):
    drawn = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 11, (rows, 1), generator=drawn)
    lengths[0] = 10
    mask = (torch.arange(10).flip(0) if left else torch.arange(10)).lt(lengths).long()
    return {"input_ids": torch.randint(2, WORDS, (rows, 10), generator=drawn) * mask, "attention_mask": mask}


def embed(model, inputs):
    return model({name: tensor.clone() for name, tensor in inputs.items()})["sentence_embedding"]


def make(name, case, root, number):
    torch.manual_seed(number)
    folder = root / name
    folder.mkdir(parents=True)
    of_base = backbone(case.model)
    of_base.save_pretrained(folder / "base")
    tokenizer(folder / "base")
    SentenceTransformer(modules=[Transformer(str(folder / "base")), Pooling(32, pooling_mode=case.pooling), *(after() for after in case.after)], device="cpu").save(str(folder / "model"), create_model_card=False)
    shutil.rmtree(folder / "base")
    if case.old_form:
        as_older_releases_write(folder / "model", case)
    if case.names:
        rename(folder / "model", case.names)
    if case.architecture:
        config = json.loads((folder / "model/config.json").read_text())
        (folder / "model/config.json").write_text(json.dumps(config | {"architectures": [case.architecture]}))
    model = SentenceTransformer(str(folder / "model"), device="cpu").eval()
    inputs = batch(9, case.left, number)
    save_file({key: value.int() for key, value in inputs.items()}, folder / "in.safetensors")
    with torch.no_grad():
        save_file({"embeddings": embed(model, inputs)}, folder / "embeddings.safetensors")
    texts = [batch(6, case.left, seed) for seed in (number + 100, number + 200)]
    save_file({key: torch.stack([text[key] for text in texts], 1).int() for key in inputs}, folder / "pairs.safetensors")
    loss = losses.MultipleNegativesRankingLoss(model)
    loss([dict(text) for text in texts], None).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= RATE * parameter.grad
        save_file({"embeddings": embed(model, inputs)}, folder / "trained.safetensors")


WAYS = {"usual": ("to: ", "to: "), "both": ("ask ", ""), "none": ("", "")}


def make_texts(root):
    """A folder as releases before 6 wrote it, whose texts are lower-cased, truncated, and preceded by prompts."""
    model = root / "texts" / "model"
    backbone("bert").save_pretrained(model)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "to", ":", "ask", "a", "b", "c", "d", "e", "f", "A", "B"]
    of_words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    of_words.pre_tokenizer = pre_tokenizers.Whitespace()
    of_words.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    special = dict(unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]")
    PreTrainedTokenizerFast(tokenizer_object=of_words, **special).save_pretrained(model)
    SentenceTransformer(modules=[Transformer(str(model)), Pooling(32)], device="cpu").save(str(model), create_model_card=False)
    (model / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 9, "do_lower_case": True}))
    prompts = {"prompts": {"query": "ask ", "document": "", "usual": "to: "}, "default_prompt_name": "usual"}
    (model / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    rows = [("a B c", "d E"), ("A", " b  a "), ("a b c d e f a b c d", "B B B B B B B B B B B B"), ("x é f", "A")]
    (root / "texts" / "rows.jsonl").write_text("".join(json.dumps({"question": one, "answer": other}) + "\n" for one, other in rows))
    library = SentenceTransformer(str(model), device="cpu")
    for way, texts in WAYS.items():
        columns = [library.preprocess([row[column] for row in rows], prompt=prompt) for column, prompt in enumerate(texts)]
        save_file({f"{key}{column}": columns[column][key].int() for column in (0, 1) for key in ("input_ids", "attention_mask")}, root / "texts" / f"{way}.safetensors")


def check(name, root):
    folder = root / name
    if not (folder / "exported").exists():
        return
    tokenizer(folder / "exported")
    with torch.no_grad():
        found = embed(SentenceTransformer(str(folder / "exported"), device="cpu").eval(), {key: value.long() for key, value in load_file(folder / "in.safetensors").items()})
    predicted = load_file(folder / "predicted.safetensors")["embeddings"]
    difference = (found - predicted).abs().max().item() if found.shape == predicted.shape else float("inf")
    if not difference <= 1e-5:
        sys.exit(f"{name}: Sentence Transformers embeds {tuple(found.shape)}, modrun {tuple(predicted.shape)}; they differ by {difference}")


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "make":
        shutil.rmtree(root, ignore_errors=True)
        make_texts(root)
    for number, (name, case) in enumerate(CASES.items()):
        make(name, case, root, number) if sys.argv[1] == "make" else check(name, root)
