"""Labels are numbered, named and trained on as in transformers: compares the results of `modrun prepare`, `train`, `eval` and `export` for
names, scores and several labels per row with models of transformers.

    check_labels.py MODRUN
"""

import csv
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)
MODRUN = pathlib.Path(sys.argv[1]).resolve()
WORDS = "good bad film dog fox the lazy quick brown jumps over that was".split()
TEXTS = sorted({" ".join(random.Random(i).choices(WORDS, k=1 + i % 6)) for i in range(90)})
SMALL = dict(vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, pad_token_id=0, initializer_range=0.5)
DECODER = dict(SMALL, intermediate_size=24, num_key_value_heads=1, max_position_embeddings=32)
ENCODER = dict(SMALL, intermediate_size=24, max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def modrun(*arguments, fails=False):
    ran = subprocess.run([MODRUN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ran.returncode == (2 if fails else 0), f"{arguments}\n{ran.stdout}"
    return ran.stdout


def settings(**values):
    words = []
    for key, value in values.items():
        words += ["--set", f"{key.replace('__', '.')}={value if isinstance(value, str) else json.dumps(value)}"]
    return words


def tokenizer(folder):
    words = ["<pad>", "<unk>", *WORDS]
    plain = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", unk_token="<unk>")
    made.save_pretrained(folder)
    return made


def edit_config(folder, **keys):
    path = pathlib.Path(folder, "config.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def get_folder(name, entry, config, labels=None, **keys):
    """Writes a folder of that class with these label names; returns its model."""
    torch.manual_seed(3)
    made = getattr(transformers, entry)(config).eval()
    # If the head has a bias, use one that makes all classes likely.
    bias = [value for key, value in made.named_parameters() if key in ("classifier.bias", "classifier.out_proj.bias")]
    if labels and bias and "ForSequence" in entry:
        ids = tokenizer(name)
        with torch.no_grad():
            bias[0] -= torch.cat([made(**ids(text, return_tensors="pt")).logits for text in TEXTS]).mean(0)
    made.save_pretrained(name)
    tokenizer(name)
    if labels:
        keys = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}, **keys}
    edit_config(name, **keys)
    return getattr(transformers, entry).from_pretrained(name).eval()


def write(path, rows):
    with open(path, "w", newline="") as file:
        if path.endswith(".csv"):
            csv.writer(file).writerows([list(rows[0]), *[row.values() for row in rows]])
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def prepare(source, out, *arguments, fails=False):
    return modrun("prepare", source, "--out", out, "--label", "label", "--python", sys.executable, *arguments, fails=fails)


def evaluate(folder, entry, data, **more):
    text = modrun("eval", "--checkpoint", folder, *settings(
        train__dir="none", model__checkpoint=folder, model__entry=entry, data__paths=[data], data__validation=["*"],
        eval__samples=0, train__batch_size=8, **{"data__format": "examples", **more}))
    return {name: float(value) for name, value in re.findall(r"^([\w@]+) (-?\d+\.\d+)$", text, re.M)}


def trained(run, folder, entry, data, **more):
    """The first loss of a run that changes nothing, its output, and its exported model."""
    said = modrun("train", *settings(
        train__dir=run, model__checkpoint=folder, model__entry=entry, data__paths=data, train__steps=1,
        train__batch_size=8, optim__lr=0.0, optim__weight_decay=0.0, **{"data__format": "examples", **more}))
    modrun("export", f"{run}/checkpoints", f"{run}-out")
    step = next(row for row in map(json.loads, open(f"{run}/metrics.jsonl")) if "event" not in row)
    return step["loss"], said, f"{run}-out"


def answers(model, made, texts=TEXTS):
    with torch.no_grad():
        return [model.config.id2label[int(model(**made(text, return_tensors="pt")).logits.argmax())] for text in texts]


def check_pipeline(exported, folder, expected):
    tokenizer(exported)
    edit_config(exported, tokenizer_class="PreTrainedTokenizerFast")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(exported).eval()
    assert answers(model, tokenizer(exported)) == expected
    assert model.config.id2label == transformers.AutoConfig.from_pretrained(folder).id2label, model.config.id2label


def names_are_those_of_the_model():
    made = tokenizer("plain")
    tables = {
        "bert": ("BertForSequenceClassification", transformers.BertConfig(**ENCODER), ["Entailment", "neutral", "Contra"]),
        "mistral": ("MistralForSequenceClassification", transformers.MistralConfig(**DECODER), ["z", "b", "a", "y"]),
        "gpt2": ("GPT2ForSequenceClassification",
                 transformers.GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2, n_positions=32, pad_token_id=0, initializer_range=0.5),
                 [f"LABEL_{i}" for i in range(11)]),
        "mpnet": ("MPNetForSequenceClassification", transformers.MPNetConfig(**dict(ENCODER, pad_token_id=1)), ["no", "maybe", "Yes"]),
    }
    for name, (entry, config, labels) in tables.items():
        config.num_labels = len(labels)
        model = get_folder(name, entry, config, labels)
        said = answers(model, made)
        assert len(set(said)) > 1, said
        spelled = [label.upper() for label in said] if name == "bert" else said
        write(f"{name}.jsonl", [dict(text=text, label=label) for text, label in zip(TEXTS, spelled)])
        # From the folder of the weights, from the tokenizer's folder, or without either in sorted order.
        for way, arguments in {"checkpoint": ["--checkpoint", name], "tokenizer": ["--tokenizer", name],
                               "apart": ["--tokenizer", "plain"]}.items():
            out = f"{name}-{way}"
            printed = prepare(f"{name}.jsonl", out, "--entry", entry, *arguments)
            if way != "apart":
                numbers = json.load(open(f"{out}/labels.json"))
                assert sorted(numbers.values()) == list(range(len(labels))), numbers
                assert all(labels[number].lower() == label.lower() for label, number in numbers.items()), numbers
                assert f"num_labels={len(labels)}" in printed, printed
                assert ("is mapped to" in printed) == (name == "bert"), printed
            found = evaluate(name, entry, out)
            assert found["accuracy"] == 1.0, (name, way, found)
        exported = trained(f"run-{name}", name, entry, [f"{name}-apart", f"{name}-checkpoint"])[2]
        check_pipeline(exported, name, said)


def other_names_are_said():
    made = tokenizer("plain")
    config = transformers.Qwen2Config(**DECODER, num_labels=2)
    get_folder("qwen2", "Qwen2ForSequenceClassification", config, ["up", "down"])
    entry = ["--entry", "Qwen2ForSequenceClassification"]
    cases = {"others": (["up", "sideways"], '"sideways" are not labels of', {"up": 0, "sideways": 1}),
             "more": (["down", "left", "up"], "has 2: they are numbered in sorted order", {"down": 0, "left": 1, "up": 2}),
             "fewer": (["down"], None, {"up": 0, "down": 1})}
    for name, (labels, line, numbers) in cases.items():
        write(f"{name}.csv", [dict(text=text, label=labels[i % len(labels)]) for i, text in enumerate(TEXTS)])
        printed = prepare(f"{name}.csv", name, "--checkpoint", "qwen2", *entry)
        assert json.load(open(f"{name}/labels.json")) == numbers
        assert (line in printed) if line else ("labels:" not in printed), printed
    # A head without names was trained with numbers: texts of numbers mean these numbers, not their order as texts.
    get_folder("unnamed", "Qwen2ForSequenceClassification", transformers.Qwen2Config(**DECODER, num_labels=12))
    digits = [str(i % 12) for i in range(len(TEXTS))]
    write("digits.jsonl", [dict(text=text, label=label) for text, label in zip(TEXTS, digits)])
    printed = prepare("digits.jsonl", "digits", "--checkpoint", "unnamed", *entry)
    assert json.load(open("digits/labels.json")) == {str(i): i for i in range(12)} and "labels:" not in printed, printed
    said = trained("run-others", "qwen2", entry[1], ["others"])
    assert cases["others"][1] in said[1], said[1]
    assert json.load(open(f"{said[2]}/config.json"))["id2label"] == {"0": "up", "1": "sideways"}
    # A head of another size is new, and no names are known for its rows.
    more = trained("run-more", "qwen2", entry[1], ["more"], model__config__num_labels=3)
    assert json.load(open(f"{more[2]}/config.json"))["label2id"] == cases["more"][2]
    # A model whose labels have no names keeps the data's numbers, including those that are not in order.
    get_folder("nameless", entry[1], config)
    write("two.csv", [dict(text=text, label=["down", "up"][i % 2]) for i, text in enumerate(TEXTS)])
    prepare("two.csv", "two", "--checkpoint", "qwen2", *entry)
    kept = trained("run-two", "nameless", entry[1], ["two"])
    assert json.load(open(f"{kept[2]}/config.json"))["label2id"] == {"up": 0, "down": 1}
    # Data with only some of the labels, which numbers them differently, is evaluated with the run's numbers.
    rows = [dict(text=text, label=["left", "up"][i % 2]) for i, text in enumerate(TEXTS)]
    write("some.csv", rows)
    prepare("some.csv", "some", "--tokenizer", "plain", *entry)
    assert json.load(open("some/labels.json")) == {"left": 0, "up": 1}
    tokenizer(more[2])
    model = transformers.AutoModelForSequenceClassification.from_pretrained(more[2]).eval()
    right = [answer == row["label"] for answer, row in zip(answers(model, made), rows)]
    found = evaluate("run-more/checkpoints", entry[1], "some", model__config__num_labels=3)
    assert abs(found["accuracy"] - sum(right) / len(right)) < 1e-6, (found, sum(right) / len(right))
    text = modrun("eval", "--checkpoint", "qwen2", *settings(
        train__dir="none", model__checkpoint="qwen2", model__entry=entry[1], data__format="examples", data__paths=["others"],
        data__validation=["*"]), fails=True)
    assert '"sideways" is not a label of the model, which has "up", "down"' in text, text
    edit_config("qwen2", label2id={"up": 1, "down": 0})
    text = prepare("fewer.csv", "two-ways", "--checkpoint", "qwen2", *entry, fails=True)
    assert 'gives the label "down" two numbers, 0 and 1' in text, text


def words_have_the_labels_of_the_model():
    labels = ["O", "B-PER", "I-PER", "B-LOC"]
    config = transformers.RobertaConfig(**dict(ENCODER, pad_token_id=0), num_labels=4, type_vocab_size=1)
    model = get_folder("tokens", "RobertaForTokenClassification", config, labels)
    made = tokenizer("plain")
    rows = []
    with torch.no_grad():
        for text in TEXTS[:40]:
            ids = made(text, return_tensors="pt").input_ids
            rows.append(dict(text=text.split(), label=[labels[i] for i in model(input_ids=ids).logits[0].argmax(-1)]))
    write("tokens.jsonl", rows)
    for way, arguments in {"checkpoint": ["--checkpoint", "tokens"], "apart": ["--tokenizer", "plain"]}.items():
        prepare("tokens.jsonl", f"tokens-{way}", "--entry", "RobertaForTokenClassification", *arguments)
        found = evaluate("tokens", "RobertaForTokenClassification", f"tokens-{way}")
        assert found["accuracy"] == 1.0, (way, found)


def scores_and_several_labels_are_trained_on():
    """The loss of a batch of 8 in transformers, and the labels that prepare writes."""
    made = tokenizer("plain")
    texts = TEXTS[:8]
    random.seed(5)
    one = [round(random.uniform(0, 5), 2) for _ in texts[:-1]] + [3]
    three = [[round(random.uniform(-2, 2), 2) for _ in range(3)] for _ in texts]
    sets = [[i & 1, i >> 1 & 1, i >> 2 & 1] for i in range(8)]
    names = [[name for name, is_one in zip(["new", "hot", "odd"], row) if is_one] for row in sets]
    regression, several = "regression", "multi_label_classification"
    cases = [
        ("BertForSequenceClassification", transformers.BertConfig(**ENCODER), "s.csv", one, one, regression, 1),
        ("GemmaForSequenceClassification", transformers.GemmaConfig(**DECODER, head_dim=8), "s.jsonl", one, one, regression, 1),
        ("XLMRobertaForSequenceClassification", transformers.XLMRobertaConfig(**ENCODER), "three.jsonl", three, three, regression, 3),
        ("LlamaForSequenceClassification", transformers.LlamaConfig(**DECODER), "three.csv", [json.dumps(row) for row in three], three, regression, 3),
        ("Qwen3ForSequenceClassification", transformers.Qwen3Config(**DECODER, head_dim=8), "sets.jsonl", sets, sets, several, 3),
        ("ModernBertForSequenceClassification", transformers.ModernBertConfig(
            **dict(SMALL, initializer_range=0.2), intermediate_size=24, max_position_embeddings=32, cls_token_id=2, sep_token_id=2, bos_token_id=2, eos_token_id=2), "names.jsonl", names, sets, several, 3),
        ("GPTNeoXForSequenceClassification", transformers.GPTNeoXConfig(**SMALL, intermediate_size=24, max_position_embeddings=32),
         "names.csv", [json.dumps(row) for row in names], sets, several, 3),
    ]
    for entry, config, source, written, right, problem, count in cases:
        config.num_labels, name = count, entry + "-model"
        config.problem_type = problem
        # In sorted order the names have other numbers.
        model = get_folder(name, entry, config, ["new", "hot", "odd"] if problem == several else None)
        write(source, [dict(text=text, label=label) for text, label in zip(texts, written)])
        out = f"{entry}-data"
        printed = prepare(source, out, "--checkpoint", name, "--entry", entry)
        assert f"num_labels={count} --set model.config.problem_type={problem}" in printed, printed
        rows = load_file(f"{out}/part-00000.safetensors")
        expected = torch.tensor(right, dtype=torch.float32)
        assert torch.equal(rows["labels"], expected), (entry, rows["labels"])
        with torch.no_grad():
            loss = float(model(input_ids=rows["input_ids"].long(), attention_mask=rows["attention_mask"].long(), labels=expected).loss)
            logits = model(input_ids=rows["input_ids"].long(), attention_mask=rows["attention_mask"].long()).logits
        found, _, exported = trained(f"run-{entry}", name, entry, [out])
        assert abs(found - loss) < 2e-5 * max(1.0, loss), (entry, found, loss)
        assert json.load(open(f"{exported}/config.json"))["problem_type"] == problem
        metrics = ["mse", "mae", "pearson"] if problem == regression else ["accuracy", "f1"]
        values = evaluate(name, entry, out, eval__metrics=metrics)
        said, wanted = logits.double().flatten(), expected.double().flatten()
        if problem == regression:
            numbers = [(said - wanted).square().mean(), (said - wanted).abs().mean(), torch.corrcoef(torch.stack([said, wanted]))[0, 1]]
        else:
            hits = (logits > 0).double()
            both, all_ = (hits * expected).sum(0), (hits + expected).sum(0)
            numbers = [(hits == expected).all(1).double().mean(), (2 * both / all_.clamp_min(1)).mean()]
        for metric, number in zip(metrics, numbers):
            assert abs(values[metric] - float(number)) < 2e-5 * max(1.0, abs(float(number))), (entry, metric, values, number)
        if source.startswith("names"):
            # The same for data whose labels are numbered in sorted order.
            prepare(source, f"{out}-apart", "--tokenizer", "plain", "--entry", entry, *settings(model__config__problem_type=problem))
            assert json.load(open(f"{out}-apart/labels.json")) == {"hot": 0, "new": 1, "odd": 2}
            apart = evaluate(name, entry, f"{out}-apart", eval__metrics=metrics)
            assert apart == values, (entry, apart, values)
    # The same scores without a problem_type are not treated as classes, and are rejected with an error.
    for source in ("s.csv", "s.jsonl"):
        text = prepare(source, f"unsaid-{source}", "--tokenizer", "plain", "--entry", "BertForSequenceClassification", fails=True)
        assert "--set model.config.problem_type=regression" in text, text
    printed = prepare("s.csv", "named", "--tokenizer", "plain", "--entry", "BertForSequenceClassification",
                      *settings(model__config__problem_type="single_label_classification"))
    assert json.load(open("named/labels.json"))["3"] >= 0
    for number, (label, reason) in enumerate([("nan", "a finite number"), (1e39, "a finite number"), ([1, "x"], "a finite number"), ([], "a finite number")]):
        write("bad.jsonl", [dict(text="good", label=label)])
        text = prepare("bad.jsonl", f"bad-{number}", "--checkpoint", "BertForSequenceClassification-model", "--entry", "BertForSequenceClassification", fails=True)
        assert "bad.jsonl:1" in text and reason in text, text
    for number, (labels, reason) in enumerate([([[1, 0], [1, 0, 1]], "lists of 2 and lists of 3"), ([[0, 2]], "a list of names"), ([["a"], [0, 1]], "both names and numbers")]):
        write("bad.jsonl", [dict(text="good", label=label) for label in labels])
        text = prepare("bad.jsonl", f"odd-{number}", "--checkpoint", "Qwen3ForSequenceClassification-model", "--entry", "Qwen3ForSequenceClassification", fails=True)
        assert reason in text, text


def problems_are_inferred():
    """As in transformers for floating-point labels, if there is no problem_type."""
    ids = torch.randint(1, 31, (8, 6))
    images = torch.rand(8, 3, 8, 8)
    pictures = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, image_size=8, patch_size=4,
                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.3)
    for entry, config in [("PhiForSequenceClassification", transformers.PhiConfig(**dict(DECODER, num_key_value_heads=2), resid_pdrop=0.0)),
                          ("RobertaForSequenceClassification", transformers.RobertaConfig(**ENCODER)),
                          ("ViTForImageClassification", transformers.ViTConfig(**pictures))]:
        inputs = {"pixel_values": images} if "ViT" in entry else {"input_ids": ids}
        for count in (3, 1):
            config.num_labels, name = count, f"{entry}-{count}"
            model = get_folder(name, entry, config)
            labels = torch.randint(0, 2, (8, count)).float() if count > 1 else torch.rand(8)
            with torch.no_grad():
                loss = float(model(**inputs, labels=labels).loss)
            save_file({**{key: value.contiguous() for key, value in inputs.items()}, "labels": labels}, f"{name}.safetensors")
            found, said, exported = trained(f"run-{name}", name, entry, [f"{name}.safetensors"])
            assert abs(found - loss) < 2e-5 * max(1.0, loss), (entry, count, found, loss)
            stored = json.load(open(f"{exported}/config.json")).get("problem_type")
            assert count == 1 or stored == model.config.problem_type == "multi_label_classification", stored
            assert ("model.config.problem_type is multi_label_classification" in said) == (count > 1), said
            values = evaluate(name, entry, f"{name}.safetensors")
            assert set(values) == ({"accuracy", "f1"} if count > 1 else {"pearson", "spearman"}), values


def folders_of_images_have_the_labels_of_the_model():
    from PIL import Image
    config = transformers.Dinov2Config(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, mlp_ratio=2, image_size=8, patch_size=4, num_labels=3, initializer_range=0.5)
    labels = ["owl", "cat", "dog"]
    model = get_folder("images-model", "Dinov2ForImageClassification", config, labels)
    for i in range(24):
        pixels = torch.randint(0, 256, (8, 8, 3), generator=torch.Generator().manual_seed(i), dtype=torch.uint8)
        values = (pixels.permute(2, 0, 1).float() / 255 - 0.5) / 0.5
        with torch.no_grad():
            name = labels[int(model(pixel_values=values[None]).logits.argmax())]
        pathlib.Path("images", name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.numpy()).save(f"images/{name}/{i}.png")
    assert len(os.listdir("images")) > 1
    found = evaluate("images-model", "Dinov2ForImageClassification", "images", data__format="images")
    assert found["accuracy"] == 1.0, found


def scores_are_read_as_python_does():
    """In CSV files: everything that float() parses as a finite number, except underscores, which pandas does not support either."""
    import pandas
    tokenizer("plain")
    entry, config = "BertForSequenceClassification", transformers.BertConfig(**ENCODER, num_labels=1, problem_type="regression")
    get_folder("score-model", entry, config)
    plain = ["0.5", " 0.5", "+0.5", "-1.25 ", "  +1.5", ".5", "5.", "+5.", "1e-3", "1E+2", " +7 ", "-0", "00.50", "007", "1e-400", "\t2"]
    others = ["\n2", "\x0b3\x0c", "\r4", "+.5e1"]
    write("plain.csv", [dict(text="good", label=label) for label in plain])
    read = pandas.read_csv("plain.csv")["label"]
    assert read.dtype == "float64" and list(read) == [float(label) for label in plain], read
    written = plain + others
    write("written.csv", [dict(text="good", label=label) for label in written])
    prepare("written.csv", "written", "--checkpoint", "score-model", "--entry", entry)
    found = load_file("written/part-00000.safetensors")["labels"]
    assert torch.equal(found, torch.tensor([float(label) for label in written], dtype=torch.float32)), found
    # The same for an embedding model, whose integers stay integers.
    prepare("written.csv", "pairs", "--tokenizer", "plain", "--entry", "BertModel", "--text", "text,text")
    assert torch.equal(load_file("pairs/part-00000.safetensors")["labels"], found)
    write("classes.csv", [dict(text="good", label=label) for label in ["1", " 0", "+3"]])
    prepare("classes.csv", "classes", "--tokenizer", "plain", "--entry", "BertModel")
    assert torch.equal(load_file("classes/part-00000.safetensors")["labels"], torch.tensor([1, 0, 3]))
    for number, label in enumerate(["+-0.5", "++1", "- 1", "0x10", "1e", "0,5", " ", "+", "0.5 0.5", "inf", "+nan", "1e400", "1_000"]):
        try:
            assert abs(float(label)) == float("inf") or float(label) != float(label) or "_" in label, label
        except ValueError:
            pass
        write("none.csv", [dict(text="good", label="1"), dict(text="bad", label=label)])
        text = prepare("none.csv", f"none-{number}", "--checkpoint", "score-model", "--entry", entry, fails=True)
        assert "none.csv:3" in text and "write a finite number" in text, (label, text)


def classes_are_numbers_that_the_model_has():
    entry, head = "BertForSequenceClassification", torch.zeros(1, 3)
    tokenizer("plain")
    get_folder("three", entry, transformers.BertConfig(**ENCODER, num_labels=3))
    for number, (label, arguments) in enumerate([
            (-1, ["--checkpoint", "three"]), (3, ["--checkpoint", "three"]), (-(1 << 62), ["--checkpoint", "three"]), (-1, ["--tokenizer", "plain"]),
            (3, ["--tokenizer", "plain", *settings(model__config__num_labels=3)])]):
        try:  # like torch, whose loss transformers uses
            torch.nn.functional.cross_entropy(head, torch.tensor([label]))
            raise AssertionError(label)
        except (IndexError, RuntimeError):
            pass
        rows = [dict(text=text, label=i % 3) for i, text in enumerate(TEXTS[:7])] + [dict(text="good", label=label)]
        for kind, line in {"jsonl": 8, "csv": 9}.items():
            write(f"class.{kind}", rows)
            for size in ("8MiB", "60"):
                text = prepare(f"class.{kind}", f"class-{kind}-{number}-{size}", "--entry", entry, "--shard-size", size, *arguments, fails=True)
                range_ = "from 0 on" if arguments == ["--tokenizer", "plain"] else "from 0 to 2"
                assert f'class.{kind}:{line}: its label, "label", is {label}: write an integer {range_}, or -100' in text, text
    # A class that only a new head would have, because the weights have none for it, and rows without a target.
    write("kept.jsonl", [dict(text="good", label=label) for label in (4, -100, 0)])
    prepare("kept.jsonl", "kept", "--tokenizer", "plain", "--entry", entry)
    assert load_file("kept/part-00000.safetensors")["labels"].tolist() == [4, -100, 0]
    for kind in ("jsonl", "csv"):
        write(f"mixed.{kind}", [dict(text="good", label=label) for label in ("up", -100, "down")])
        prepare(f"mixed.{kind}", f"mixed-{kind}", "--tokenizer", "plain", "--entry", entry)
        assert load_file(f"mixed-{kind}/part-00000.safetensors")["labels"].tolist() == [1, -100, 0]
        assert json.load(open(f"mixed-{kind}/labels.json")) == {"down": 0, "up": 1}
    write("negative.jsonl", [dict(text="good", label=label) for label in ("up", -1)])
    prepare("negative.jsonl", "negative", "--tokenizer", "plain", "--entry", entry)
    assert json.load(open("negative/labels.json")) == {"-1": 0, "up": 1}
    for number, label in enumerate([1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63) - 1]):
        try:
            torch.tensor([label], dtype=torch.int64)
            raise AssertionError(label)
        except (RuntimeError, OverflowError, ValueError):
            pass
        for task, text, labels in [(entry, "good", label), ("BertForTokenClassification", ["good", "bad"], [0, label]),
                                   ("BertModel", "good", label)]:
            if task == "BertModel" and number > 1:
                continue  # a score
            write("large.jsonl", [dict(text=text, label=0 if text == "good" else [0, 1]), dict(text=text, label=labels)])
            said = prepare("large.jsonl", f"large-{number}-{task}", "--tokenizer", "plain", "--entry", task, fails=True)
            assert 'large.jsonl:2: its label, "label", is ' in said, said
            assert number > 1 or f"is {label}, which is too large" in said, said
    write("null.jsonl", [dict(text="good", label=1), dict(text="bad", label=None)])
    said = prepare("null.jsonl", "null", "--tokenizer", "plain", "--entry", entry, fails=True)
    assert 'null.jsonl:2: its label, "label", is missing: write one, or leave the row out, or write -100' in said, said


def forms_of_unicode_are_no_two_labels():
    import unicodedata
    tokenizer("plain")
    entry, names = "BertForSequenceClassification", ["caf\u00e9", "\u1ec7", "\uac00", "te"]
    other = [unicodedata.normalize("NFD", name) for name in names]
    assert [unicodedata.normalize("NFC", name) for name in other] == names and other[:3] != names[:3]
    get_folder("composed", entry, transformers.BertConfig(**ENCODER, num_labels=4), names)
    get_folder("both", entry, transformers.BertConfig(**ENCODER, num_labels=2), [names[0], other[0]])
    assert len(transformers.AutoConfig.from_pretrained("both").label2id) == 2  # two labels, for transformers
    shown = [json.dumps(name) for name in names], [json.dumps(name) for name in other]
    for i in range(3):
        write("forms.jsonl", [dict(text="good", label=label) for label in (names[i], other[i])])
        text = prepare("forms.jsonl", f"forms-{i}", "--tokenizer", "plain", "--entry", entry, fails=True)
        assert shown[0][i] in text and shown[1][i] in text and "two forms of Unicode" in text, text
        write("form.jsonl", [dict(text=text, label=label) for text, label in zip(TEXTS, [other[i], "te"] * 4)])
        text = prepare("form.jsonl", f"form-{i}", "--checkpoint", "composed", "--entry", entry, fails=True)
        assert shown[0][i] in text and shown[1][i] in text and "write it as the model does" in text, text
        prepare("form.jsonl", f"apart-{i}", "--tokenizer", "plain", "--entry", entry)
        assert set(json.load(open(f"apart-{i}/labels.json"))) == {other[i], "te"}
        of_model = settings(train__dir=f"run-form-{i}", model__checkpoint="composed", model__entry=entry, data__format="examples",
                            data__paths=[f"apart-{i}"])
        for text in (modrun("train", *of_model, fails=True), modrun("eval", "--checkpoint", "composed", *of_model, *settings(data__validation=["*"]), fails=True)):
            assert shown[0][i] in text and shown[1][i] in text and "write it as the model does" in text, text
    write("forms.jsonl", [dict(text="good", label=label) for label in (names[0], other[0])])
    prepare("forms.jsonl", "of-both", "--checkpoint", "both", "--entry", entry)
    assert json.load(open("of-both/labels.json")) == {names[0]: 0, other[0]: 1}


work = tempfile.TemporaryDirectory()
os.chdir(work.name)
for check in (names_are_those_of_the_model, other_names_are_said, words_have_the_labels_of_the_model,
              scores_and_several_labels_are_trained_on, problems_are_inferred, folders_of_images_have_the_labels_of_the_model, scores_are_read_as_python_does,
              classes_are_numbers_that_the_model_has, forms_of_unicode_are_no_two_labels):
    check()
    print(check.__name__, "ok", flush=True)
