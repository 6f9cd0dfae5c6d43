"""Small Sentence Transformers folders with the library's results.

usage: sentence_folders.py make FOLDER
       sentence_folders.py check FOLDER

make writes for each case FOLDER/<case>/: model/, in.safetensors (input_ids, attention_mask), embeddings.safetensors (what the model embeds them as),
pairs.safetensors (samples of two texts) and trained.safetensors (embeddings of in.safetensors after a step of SGD at RATE of MultipleNegativesRankingLoss).
An attention_mask of 2 says to modrun what prompt_length says to the library.
FOLDER/texts/ has model/, rows.jsonl of texts and, for each way of giving prompts, the ids of both columns; older/ is the same model as releases before 1 wrote it, and
left_out/ one whose pooling leaves prompts out.
check has the library read FOLDER/<case>/exported, compares what it embeds with FOLDER/<case>/predicted.safetensors, and its modules with those that were read.
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
from sentence_transformers.sentence_transformer.modules import Dense, Dropout, Normalize, Pooling, Transformer
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
        "distilbert": ("DistilBert", dict(
            vocab_size=WORDS, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=32, dropout=0.0, attention_dropout=0.0,
            initializer_range=0.3,
        )),
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

    def __init__(self, model, pooling, after=(), left=False, old_form=False, names=None, architecture=None, before=(), prompt=0, place="", whole=False):
        self.model, self.pooling, self.after, self.left, self.old_form, self.names, self.architecture = model, pooling, after, left, old_form, names, architecture
        self.before, self.prompt, self.place, self.whole = before, prompt, place, whole


ALL_MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
CASES = {
    "bert-cls-normalize": Case("bert", "cls", (Normalize,), old_form=True),
    "bert-max": Case("bert", "max"),
    "bert-cls-mean-dense": Case("bert", ("cls", "mean"), (lambda: Dense(64, 16), Normalize), old_form=True),
    "bert-mean-cls-dense-dense": Case("bert", ("mean", "cls"), (lambda: Dense(64, 24, activation_function=torch.nn.ReLU()), lambda: Dense(24, 12, bias=False, activation_function=torch.nn.GELU())), names=["pool", "layers/a", "layers/b"]),
    "mpnet-sqrt": Case("mpnet", "mean_sqrt_len_tokens", (Normalize,), architecture="MPNetForMaskedLM"),
    "roberta-weighted": Case("roberta", "weightedmean", left=True),
    "xlm_roberta-mean-normalize": Case("xlm_roberta", "mean", (Normalize,), old_form=True),
    "modernbert-cls": Case("modernbert", "cls", (lambda: Dense(32, 32, activation_function=torch.nn.Identity()),)),
    "distilbert-mean-dense": Case("distilbert", "mean", (lambda: Dense(32, 8), Normalize)),
    "t5-mean-dense": Case("t5", "mean", (lambda: Dense(32, 32, bias=False, activation_function=torch.nn.Identity()), Normalize), old_form=True),
    "qwen3-last-left": Case("qwen3", "lasttoken", (Normalize,), left=True, architecture="Qwen3ForCausalLM"),
    "qwen2-weighted-left": Case("qwen2", "weightedmean", left=True),
    "mistral-last": Case("mistral", "lasttoken", (Normalize,), old_form=True),
    "llama-last-max": Case("llama", ("lasttoken", "max"), (lambda: Dense(64, 8, activation_function=torch.nn.SiLU()),)),
    "bert-normalize-dense": Case("bert", "mean", (Normalize, lambda: Dense(32, 8))),
    "bert-older": Case("bert", "cls", (lambda: Dense(32, 8),), old_form=True, place="0_Transformer"),
    "qwen3-older-left": Case("qwen3", "lasttoken", (Normalize,), left=True, architecture="Qwen3ForCausalLM", place="0_BERT"),
    "bert-unit-tokens": Case("bert", ("mean", "max"), (lambda: Dense(64, 8),), before=(lambda: Normalize("token_embeddings"),)),
    "mpnet-skipped-normalize": Case("mpnet", "mean", (lambda: Normalize("token_embeddings"),), before=(Normalize,)),
    "roberta-dropout": Case("roberta", "mean", (lambda: Dropout(0.5), lambda: Dense(32, 8), lambda: Dropout(0.25), Normalize)),
    "bert-no-dropout": Case("bert", "mean", (lambda: Dropout(0.0), lambda: Dense(32, 8))),
    "bert-without-prompt": Case("bert", ALL_MODES, prompt=3),
    "llama-without-prompt-left": Case("llama", ALL_MODES, left=True, prompt=3),
    "bert-with-prompt-mask": Case("bert", ALL_MODES),
    "llama-left": Case("llama", ALL_MODES, left=True),
    "bert-without-mask": Case("bert", ALL_MODES, whole=True),
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


def into_place(folder, place):
    """Moves what is the Transformer's into a folder of its own."""
    (folder / place).mkdir()
    kept = {"modules.json", "config_sentence_transformers.json", place}
    modules = json.loads((folder / "modules.json").read_text())
    for path in list(folder.iterdir()):
        if path.name not in kept | {module["path"] for module in modules[1:]}:
            path.rename(folder / place / path.name)
    modules[0]["path"] = place
    (folder / "modules.json").write_text(json.dumps(modules))


def batch(rows, case, seed):
    drawn = torch.Generator().manual_seed(seed)
    lengths = torch.randint(10 if case.whole else 2 + case.prompt, 11, (rows, 1), generator=drawn)
    lengths[0] = 10
    mask = (torch.arange(10).flip(0) if case.left else torch.arange(10)).lt(lengths).long()
    return {"input_ids": torch.randint(2, WORDS, (rows, 10), generator=drawn) * mask, "attention_mask": mask}


def of_library(inputs, prompt):
    return {name: tensor.clone() for name, tensor in inputs.items()} | ({"prompt_length": prompt} if prompt else {})


def of_modrun(inputs, prompt, whole=False):
    """The same with 2 in the masks of a prompt's tokens, the first of each row; without masks where rows are whole."""
    mask = inputs["attention_mask"]
    of_prompt = (mask.cumsum(-1) <= prompt) & (mask == 1)
    return {name: tensor.int() for name, tensor in (inputs | {"attention_mask": mask + of_prompt}).items() if name != "attention_mask" or not whole}


def embed(model, inputs, prompt):
    return model(of_library(inputs, prompt))["sentence_embedding"]


def make(name, case, root, number):
    torch.manual_seed(number)
    folder = root / name
    folder.mkdir(parents=True)
    of_base = backbone(case.model)
    of_base.save_pretrained(folder / "base")
    tokenizer(folder / "base")
    pooling = Pooling(32, pooling_mode=case.pooling, include_prompt=not case.prompt)
    SentenceTransformer(modules=[Transformer(str(folder / "base")), *(before() for before in case.before), pooling, *(after() for after in case.after)], device="cpu").save(str(folder / "model"), create_model_card=False)
    shutil.rmtree(folder / "base")
    if case.old_form:
        as_older_releases_write(folder / "model", case)
    if case.names:
        rename(folder / "model", case.names)
    if case.architecture:
        config = json.loads((folder / "model/config.json").read_text())
        (folder / "model/config.json").write_text(json.dumps(config | {"architectures": [case.architecture]}))
    if case.place:
        into_place(folder / "model", case.place)
    model = SentenceTransformer(str(folder / "model"), device="cpu").eval()
    inputs = batch(9, case, number)
    # A pooling that includes prompts reads their tokens as others.
    save_file(of_modrun(inputs, 2 if name == "bert-with-prompt-mask" else case.prompt, case.whole), folder / "in.safetensors")
    with torch.no_grad():
        save_file({"embeddings": embed(model, inputs, case.prompt)}, folder / "embeddings.safetensors")
    texts = [batch(6, case, seed) for seed in (number + 100, number + 200)]
    columns = [of_modrun(text, case.prompt, case.whole) for text in texts]
    save_file({key: torch.stack([column[key] for column in columns], 1) for key in columns[0]}, folder / "pairs.safetensors")
    loss = losses.MultipleNegativesRankingLoss(model)
    loss([of_library(text, case.prompt) for text in texts], None).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= RATE * parameter.grad
        save_file({"embeddings": embed(model, inputs, case.prompt)}, folder / "trained.safetensors")


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
    shutil.copytree(model, root / "texts" / "older")
    into_place(root / "texts" / "older", "0_Transformer")
    left_out = root / "texts" / "left_out"
    shutil.copytree(model, left_out)
    pooling = left_out / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps(json.loads(pooling.read_text()) | {"include_prompt": False}))
    library = SentenceTransformer(str(left_out), device="cpu")
    found = {}
    for column, prompt in enumerate(WAYS["both"]):
        ids = library.preprocess([row[column] for row in rows], prompt=prompt or None)
        for key, value in of_modrun({key: ids[key] for key in ("input_ids", "attention_mask")}, ids.get("prompt_length", 0)).items():
            found[f"{key}{column}"] = value
    save_file(found, root / "texts" / "left_out.safetensors")


def find_modules(folder):
    """The modules that compute something, and their settings."""
    found, pooled = [], False
    for module in list(SentenceTransformer(str(folder), device="cpu"))[1:]:
        pooled |= isinstance(module, Pooling)
        if not (isinstance(module, Normalize) and (module.module_input_name == "sentence_embedding") != pooled):
            found.append((type(module).__name__, module.get_config_dict()))
    return found


def check(name, case, root):
    folder = root / name
    if not (folder / "exported").exists():
        return
    tokenizer(folder / "exported")
    with torch.no_grad():
        inputs = {key: value.long() for key, value in load_file(folder / "in.safetensors").items()}
        inputs["attention_mask"] = inputs["attention_mask"].clamp(max=1) if "attention_mask" in inputs else torch.ones_like(inputs["input_ids"])
        found = embed(SentenceTransformer(str(folder / "exported"), device="cpu").eval(), inputs, case.prompt)
    predicted = load_file(folder / "predicted.safetensors")["embeddings"]
    difference = (found - predicted).abs().max().item() if found.shape == predicted.shape else float("inf")
    if not difference <= 1e-5:
        sys.exit(f"{name}: Sentence Transformers embeds {tuple(found.shape)}, modrun {tuple(predicted.shape)}; they differ by {difference}")
    if find_modules(folder / "exported") != find_modules(root / name / "read"):
        sys.exit(f"{name}: modules {find_modules(folder / 'exported')} were exported of {find_modules(root / name / 'read')}")


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
        make(name, case, root, number) if sys.argv[1] == "make" else check(name, case, root)
