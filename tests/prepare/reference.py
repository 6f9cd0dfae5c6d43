"""The reference for modrun prepare: tiny tokenizers trained here, texts of many kinds as .jsonl, .csv and .parquet, and their ids in transformers.

    reference.py running OUT TOKENIZER SOURCE COLUMN    fails unless OUT's ids are those of the column's texts
    reference.py rows OUT TOKENIZER SOURCE LENGTH COLUMN [COLUMN]   fails unless OUT's rows are those of the texts, or of the pairs
    reference.py continuations OUT TOKENIZER SOURCE PROMPT TEXT
    reference.py texts-of-rows OUT TOKENIZER SOURCE COLUMN COLUMN…
    reference.py words OUT TOKENIZER SOURCE WORDS LABELS
    reference.py targets OUT TOKENIZER SOURCE TEXT TARGET
    reference.py all [[COMMAND, ARGUMENT…]…]            several of these, as JSON
    reference.py labels OUT                             prints the labels of all rows
    reference.py encode TOKENIZER TEXT                  prints the ids of a text
    reference.py greedy EXPORTED PROMPT TOKENS          prints the prompt and its greedy continuation, as text
    reference.py pipeline EXPORTED LOGITS SOURCE COLUMN fails unless transformers.pipeline gives the scores of LOGITS
"""

import json
import pathlib
import sys

import numpy
import sentencepiece_models
from safetensors.numpy import load_file

WORDS = "the a quick brown fox jumps over lazy dog Was it 42 or 3.14? Straße naïve coöperate 東京 こんにちは 🙂 don't stop-now (yes) \"quoted\" x=y_1; Ünïcödé e\u0301 tab\there".split(" ")


def texts():
    made = []
    for number in range(120):
        count = 1 + number * 7 % 29
        made.append(" ".join(WORDS[(number * 5 + index * (number % 7 + 1)) % len(WORDS)] for index in range(count)))
    return made + ["", " leading and trailing ", "line one\nline two\r\nline \"three\"", "<s> not special </s>", "[CLS] [MASK] x", "a" * 300]


def make_tokenizers(folder):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    def save(name, tokenizer, **special):
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder / name)

    corpus = texts() * 3
    gpt2 = Tokenizer(models.BPE())
    gpt2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    gpt2.decoder = decoders.ByteLevel()
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    gpt2.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    save("byte-level", gpt2, eos_token="<|endoftext|>", bos_token="<|endoftext|>")

    bert = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    bert.normalizer = normalizers.BertNormalizer(lowercase=True)
    bert.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    bert.decoder = decoders.WordPiece()
    bert.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    cls, sep = bert.token_to_id("[CLS]"), bert.token_to_id("[SEP]")
    bert.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)])
    save("wordpiece", bert, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"])

    t5 = Tokenizer(models.Unigram())
    t5.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    t5.pre_tokenizer = pre_tokenizers.Metaspace()
    t5.decoder = decoders.Metaspace()
    t5.train_from_iterator(corpus, trainers.UnigramTrainer(vocab_size=250, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    t5.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", t5.token_to_id("</s>"))])
    save("unigram", t5, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", additional_special_tokens=["<extra_id_0>"])

    llama = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    llama.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    llama.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    ascii_corpus = [text for text in corpus if text.isascii()]  # other characters fall back to bytes
    llama.train_from_iterator(ascii_corpus, trainers.BpeTrainer(vocab_size=450, special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))], show_progress=False))
    saved = json.loads(llama.to_str())
    saved["added_tokens"] = [token for token in saved["added_tokens"] if not token["content"].startswith("<0x")]
    llama = Tokenizer.from_str(json.dumps(saved))
    llama.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", llama.token_to_id("<s>"))])
    save("byte-fallback", llama, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>", padding_side="left")

    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(corpus, trainers.WordLevelTrainer(vocab_size=60, special_tokens=["[UNK]", "[PAD]"], show_progress=False))
    save("word-level", words, unk_token="[UNK]", pad_token="[PAD]", truncation_side="left")


def write_texts(folder):
    import csv

    import pyarrow
    from pyarrow import parquet

    rows = [{"text": text, "other": f"{number} {text[::2]}", "label": ["pos", "neg", "none"][number % 3], "score": number / 7, "class": number % 2} for number, text in enumerate(texts())]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row, ensure_ascii=number % 2 == 0) + "\n" for number, row in enumerate(rows)))
    with open(folder / "texts.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "texts.parquet", row_group_size=37)


def read_rows(path):
    if path.suffix == ".csv":
        import csv

        with open(path, newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return parquet.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text().split("\n") if line.strip()]


def get_tokenizer(folder):
    from transformers import AutoTokenizer

    if not (pathlib.Path(folder) / "tokenizer.json").exists():
        return sentencepiece_models.get_tokenizer(folder)
    return AutoTokenizer.from_pretrained(folder)


def parts(out):
    return sorted(path for path in out.iterdir() if path.name.startswith("part-"))


def tensors(out):
    files = [load_file(path) for path in parts(out)]
    return {name: numpy.concatenate([file[name] for file in files]) for name in files[0]}


def expect(same, *what):
    if not same:
        sys.exit(" ".join(map(str, what)))


def same_rows(one, other, name):
    expect(one.shape == other.shape, name, "is", one.shape, "but should be", other.shape)
    wrong = numpy.argwhere((one != other).reshape(len(one), -1).any(axis=1)).flatten()
    expect(len(wrong) == 0, name, "differs in rows", wrong[:5], one[wrong[:1]], other[wrong[:1]])


def running(out, tokenizer, source, column):
    tokenizer, expected = get_tokenizer(tokenizer), []
    for row in read_rows(pathlib.Path(source)):
        ids = tokenizer(row[column])["input_ids"]
        end = tokenizer.eos_token_id
        expected += ids + ([end] if end is not None and ids[-1:] != [end] else [])
    found = []
    for path in parts(pathlib.Path(out)):
        data = path.read_bytes()
        size = int.from_bytes(data[12:16], "little")
        found += numpy.frombuffer(data[24:], {1: "u1", 2: "<u2", 4: "<u4"}[size]).tolist()
    expect(found == expected, "ids differ:", len(found), "and", len(expected))


def rows(out, tokenizer, source, length, *columns):
    tokenizer, found = get_tokenizer(tokenizer), tensors(pathlib.Path(out))
    given = [[row[column] for row in read_rows(pathlib.Path(source))] for column in columns]
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if int(length) == 0:
        expected = tokenizer(*given, padding="longest", pad_to_multiple_of=8, return_token_type_ids=True, return_tensors="np")
    else:
        expected = tokenizer(*given, padding="max_length", max_length=int(length), truncation=True, return_token_type_ids=True, return_tensors="np")
    for name in ["input_ids", "attention_mask", "token_type_ids"]:
        if name in found:
            same_rows(found[name].astype(int), expected[name], name)
    print(found["input_ids"].shape, sorted(found))


def continuations(out, tokenizer, source, prompt, text):
    tokenizer, found = get_tokenizer(tokenizer), tensors(pathlib.Path(out))
    for row, given in enumerate(read_rows(pathlib.Path(source))):
        before = tokenizer(given[prompt])["input_ids"]
        while before and tokenizer.eos_token_id == before[-1]:
            before.pop()
        ids = before + tokenizer(given[text], add_special_tokens=False)["input_ids"]
        ids += [tokenizer.eos_token_id] if ids[-1:] != [tokenizer.eos_token_id] else []
        real = found["attention_mask"][row].astype(bool)
        expect(found["input_ids"][row][real].tolist() == ids, "row", row, "is", found["input_ids"][row][real], "but should be", ids)
        labels = found["labels"][row]
        expect(labels[real].tolist() == [-100] * len(before) + ids[len(before) :] and (labels[~real] == -100).all(), "labels of row", row)


def texts_of_rows(out, tokenizer, source, *columns):
    tokenizer, found = get_tokenizer(tokenizer), tensors(pathlib.Path(out))
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    given = read_rows(pathlib.Path(source))
    flat = tokenizer([row[column] for row in given for column in columns], padding="longest", pad_to_multiple_of=8, return_tensors="np")
    for name in ["input_ids", "attention_mask"]:
        same_rows(found[name].astype(int), flat[name].reshape(len(given), len(columns), -1), name)
    expect(found["labels"].dtype == numpy.float32 and numpy.allclose(found["labels"], [float(row["score"]) for row in given]), "scores")


def words(out, tokenizer, source, column, labels):
    tokenizer, found = get_tokenizer(tokenizer), tensors(pathlib.Path(out))
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    given = read_rows(pathlib.Path(source))
    classes = sorted({label for row in given for label in row[labels]})
    batch = tokenizer([row[column] for row in given], is_split_into_words=True, padding="longest", pad_to_multiple_of=8, return_tensors="np")
    same_rows(found["input_ids"].astype(int), batch["input_ids"], "input_ids")
    for row, one in enumerate(given):
        seen, expected = set(), []
        for word in batch.word_ids(row):
            expected.append(-100 if word is None or word in seen else classes.index(one[labels][word]))
            seen.add(word)
        expect(found["labels"][row].tolist() == expected, "labels of row", row)


def targets(out, tokenizer, source, text, target):
    tokenizer, found = get_tokenizer(tokenizer), tensors(pathlib.Path(out))
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    given = read_rows(pathlib.Path(source))
    for name, column in [("input_ids", text), ("labels", target)]:
        tokenizer.padding_side = tokenizer.padding_side if name == "input_ids" else "right"
        texts = {"text" if name == "input_ids" else "text_target": [row[column] for row in given]}
        batch = tokenizer(**texts, padding="longest", pad_to_multiple_of=8, return_tensors="np")
        expected = batch["input_ids"] if name == "input_ids" else numpy.where(batch["attention_mask"] == 1, batch["input_ids"], -100)
        same_rows(found[name].astype(int), expected, name)


def labels(out):
    print(json.dumps(tensors(pathlib.Path(out))["labels"].tolist()))


def encode(tokenizer, text):
    print(json.dumps(get_tokenizer(tokenizer)(text, add_special_tokens=False)["input_ids"]))


def pipeline(exported, logits, source, column):
    import transformers

    classify = transformers.pipeline("text-classification", exported)
    print(json.dumps(classify.model.config.id2label, sort_keys=True))
    expected = load_file(logits)["logits"]
    for row, given in enumerate(read_rows(pathlib.Path(source))[: len(expected)]):
        scores = {one["label"]: one["score"] for one in classify(given[column], top_k=None, function_to_apply="none", truncation=True)}
        names = classify.model.config.id2label
        for number, value in enumerate(expected[row]):
            expect(abs(scores[names[number]] - value) < 1e-5, "row", row, "has", scores, "but should have", expected[row])


def greedy(exported, prompt, tokens):
    import torch
    import transformers

    tokenizer, model = get_tokenizer(exported), transformers.AutoModelForCausalLM.from_pretrained(exported)
    ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        for _ in range(int(tokens)):
            likeliest = model(ids).logits[:, -1:].argmax(-1)
            if likeliest.item() == tokenizer.eos_token_id:
                break
            ids = torch.cat([ids, likeliest], dim=1)
    print(json.dumps(tokenizer.decode(ids[0], skip_special_tokens=True, clean_up_tokenization_spaces=False)))


def run(command, *rest):
    commands = {
        "running": running,
        "rows": rows,
        "continuations": continuations,
        "texts-of-rows": texts_of_rows,
        "words": words,
        "targets": targets,
        "labels": labels,
        "encode": encode,
        "greedy": greedy,
        "pipeline": pipeline,
    }
    commands[command](*rest)


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "all":
        for one in json.loads(rest[0]):
            print(one)
            run(*one)
    else:
        run(command, *rest)
