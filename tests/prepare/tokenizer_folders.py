"""Folders of all classes of transformers' fast tokenizers, as transformers writes them and as found on the hub, where tokenizer_config.json, config.json, special_tokens_map.json and added_tokens.json disagree with tokenizer.json; texts, and their ids by AutoTokenizer.

generate.py has them written: OUT/texts.json, OUT/FOLDER and OUT/FOLDER.json with the ids of all texts, of pairs and of split texts.

    tokenizer_folders.py same OUT SOURCES   fails unless the programs of SOURCES give the same ids for all folders, in one process
    tokenizer_folders.py classes SOURCES    fails unless the tables of SOURCES/tokenizer_class.py and fast_tokenizers.py are those of the installed transformers, if it is 5.23
"""

import copy
import io
import json
import pathlib
import random
import sys

WORDS = "the a quick Brown FOX jumps over lazy dog Was it 42 or 3.14 Straße naïve Coöperate Ünïcödé ÉCOLE Ångström don't stop-now (yes) x=y_1 東京 日本語 你好世界 こんにちは 한국어 мир Привет שלום مرحبا ñandú œuvre ﬁne ½ Ⅷ".split()
ODD = ["🙂", "👩‍👩‍👧", "🇩🇪", "e\u0301", "a\u0308b", "\u00a0", "\u200b", "\u3000", "\t", "\n", "\r\n", "  ", "     ", "\x07", "\ufeff", "\u2028", "``quoted''", "“q”", "…", "—", "''", '"', "!!!", "$5", "a\u0300\u0301", "ＡＢＣ", "①", "▁", "Ġ"]
SPECIAL = "<s> </s> <unk> <pad> <mask> [CLS] [SEP] [MASK] [PAD] [UNK] <|endoftext|> <|startoftext|> <bos> <eos> <cls> <sep> <extra_id_0> <|added|> wordy <ent> <ent2> en_XX </s><s> Wordy WORDY wordyx <image> <|im_start|>".split()

UNKNOWN = "<unk_"  # prefix of Pegasus' additional tokens


def texts():
    chosen = random.Random(5)
    made = ["", " ", "\n", "a", " a", "a ", *SPECIAL, *ODD, *WORDS]
    while len(made) < 499:
        parts = [chosen.choice(chosen.choices([WORDS, ODD, SPECIAL], [6, 2, 1])[0]) for _ in range(chosen.randint(1, 14))]
        made.append("".join(part + chosen.choice([" ", " ", " ", "", "  "]) for part in parts))
    return made + [f"{UNKNOWN}2> a{UNKNOWN}49>a {UNKNOWN}50> b{UNKNOWN}60>b {UNKNOWN}102><mask_1> <mask_2> c{UNKNOWN}107>c"]


def corpus():
    return [text for text in texts() if not any(token in text for token in [*SPECIAL, UNKNOWN])] * 2


class Vocabularies:
    """A tokenizer of each algorithm, trained here."""

    def __init__(self):
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

        def trained(model, trainer, normalizer=None, pre_tokenizer=None):
            tokenizer = Tokenizer(model)
            if normalizer is not None:
                tokenizer.normalizer = normalizer
            tokenizer.pre_tokenizer = pre_tokenizer
            tokenizer.train_from_iterator(corpus(), trainer)
            return json.loads(tokenizer.to_str())["model"]

        quiet = {"show_progress": False}
        bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.wordpiece = trained(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(vocab_size=600, **quiet), None, pre_tokenizers.BertPreTokenizer())["vocab"]
        self.bytes = trained(models.BPE(), trainers.BpeTrainer(vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **quiet), None, bytes_)
        self.pieces = trained(models.BPE(), trainers.BpeTrainer(vocab_size=500, **quiet), None, pre_tokenizers.Metaspace())
        self.ends = trained(models.BPE(end_of_word_suffix="</w>"), trainers.BpeTrainer(vocab_size=500, end_of_word_suffix="</w>", **quiet), normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer())
        self.bytes_ends = trained(models.BPE(end_of_word_suffix="</w>"), trainers.BpeTrainer(vocab_size=900, end_of_word_suffix="</w>", initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **quiet), normalizers.Lowercase(), bytes_)
        self.unigram = trained(models.Unigram(), trainers.UnigramTrainer(vocab_size=400, **quiet), None, pre_tokenizers.Metaspace())["vocab"]
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=model, vocab_size=200, hard_vocab_limit=False, minloglevel=3)
        self.character_map = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).normalizer_spec.precompiled_charsmap

    def words(self, *first):
        return {token: id for id, token in enumerate([*first, *(token for token in self.wordpiece if token not in first)])}

    def bpe(self, kind, *first, last=()):
        model = getattr(self, kind)
        tokens = [*first, *(token for token in model["vocab"] if token not in first), *last]
        return {"vocab": {token: id for id, token in enumerate(tokens)}, "merges": [tuple(merge) for merge in model["merges"]]}

    def scores(self, *first, last=()):
        return [*((token, 0.0) for token in first), *((piece, score) for piece, score in self.unigram if piece not in first), *((token, 0.0) for token in last)]


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ALBERT = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]


def classes(made):
    """The constructor arguments of each class, and variants of its folder: by name, changes of tokenizer_config.json, or a function of the folder's files."""
    import transformers

    mapped = {"_spm_precompiled_charsmap": made.character_map}
    bert = {"vocab": made.words(*BERT)}
    roberta = made.bpe("bytes", *FAIRSEQ, last=["<mask>"])
    gpt2 = made.bpe("bytes", last=["<|endoftext|>"])
    lower, cased, accents = {"do_lower_case": True}, {"do_lower_case": False}, {"strip_accents": True}
    prefix, no_prefix = {"add_prefix_space": True}, {"add_prefix_space": False}
    xlm, t5 = {"vocab": made.scores(*FAIRSEQ, last=["<mask>"])}, {"vocab": made.scores("<pad>", "</s>", "<unk>")}
    llama = made.bpe("pieces", "<unk>", "<s>", "</s>", *BYTES)
    gemma = made.bpe("pieces", "<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *BYTES)
    mbart = {"vocab": made.scores(*FAIRSEQ, last=["en_XX", "de_DE", "<mask>"])}
    return {
        "AlbertTokenizer": ({"vocab": made.scores(*ALBERT), **mapped}, {"cased": cased, "accents": {"keep_accents": True}, "prefix": no_prefix}),
        "BarthezTokenizer": (xlm, {"prefix": no_prefix}),
        "BertTokenizer": (
            bert,
            {
                "cased": cased,
                "accents": {**cased, **accents},
                "kept-accents": {"strip_accents": False},
                "chinese": {"tokenize_chinese_chars": False},
                "all": {**cased, **accents, "tokenize_chinese_chars": False},
                "left": {"padding_side": "left", "truncation_side": "left"},
                "split": {"split_special_tokens": True},
                "added": added_elsewhere,
                "older": older_files,
                "bare-json": only_tokenizer_json,
                "defaults": without_tokens,
                "model-type": by_model_type("bert"),
                "names": named_otherwise,
                "backend": {"tokenizer_class": "PreTrainedTokenizerFast", **cased},
                "electra": {"tokenizer_class": "ElectraTokenizer", **cased},
                "model-tokens": {"image_token": "<image>", "extra_special_tokens": {"start_token": "<|im_start|>"}},
            },
        ),
        "BigBirdTokenizer": ({"vocab": made.scores("<pad>", "</s>", "<s>", "<unk>", "[CLS]", "[SEP]", "[MASK]")}, {"prefix": no_prefix, "older": older_files, "defaults": without_tokens}),
        "BlenderbotTokenizer": (roberta, {"prefix": no_prefix}),
        "CamembertTokenizer": ({"vocab": made.scores("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>", last=["<mask>"]), **mapped}, {"prefix": no_prefix}),
        "CLIPTokenizer": (made.bpe("bytes_ends", last=["<|startoftext|>", "<|endoftext|>"]), {"added": added_elsewhere}),
        "CodeGenTokenizer": (gpt2, {"prefix": prefix}),
        "CodeLlamaTokenizer": (llama, {"prefix": no_prefix, "no-bos": {"add_bos_token": False}}),
        "CohereTokenizer": (made.bpe("bytes", "<PAD>", "<UNK>", "<CLS>", "<SEP>", "<MASK_TOKEN>", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"), {"prefix": prefix}),
        "ConvBertTokenizer": (bert, {"cased": cased}),
        "DebertaTokenizer": (made.bpe("bytes", "[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"), {"prefix": prefix}),
        "DebertaV2Tokenizer": ({"vocab": made.scores("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}, {"lower": lower, "punctuation": {"split_by_punct": True}, "prefix": no_prefix}),
        "DistilBertTokenizer": (bert, {"cased": cased, "older": older_files}),
        "DPRContextEncoderTokenizer": (bert, {}),
        "DPRQuestionEncoderTokenizer": (bert, {"cased": cased}),
        "DPRReaderTokenizer": (bert, {"fast": {"tokenizer_class": "DPRReaderTokenizerFast"}}),
        "EsmcTokenizer": ({}, {}),
        "FNetTokenizer": ({"vocab": made.scores(*ALBERT), **mapped}, {"cased": cased}),
        "FunnelTokenizer": ({"vocab": made.words("<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "<s>", "</s>")}, {"cased": cased, "text": {"clean_text": False}}),
        "GemmaTokenizer": (gemma, {"added": added_elsewhere, "model-type": by_model_type("gemma2")}),
        "GPT2Tokenizer": (gpt2, {"prefix": prefix, "older": older_files, "granite": by_model_type("granite", "GPT2Tokenizer"), "qwen2": by_model_type("qwen2", "GPT2Tokenizer"), "opt": by_model_type("opt"), "bos": {"add_bos_token": True}, "bloom": {"tokenizer_class": "BloomTokenizerFast"}, "mistral": mistral(True), "mistral-as-is": mistral(False)}),
        "GPTNeoXTokenizer": (made.bpe("bytes", "<|endoftext|>", "<|padding|>"), {"prefix": prefix, "post": with_post_processor, "no-padding": {"pad_token": None}}),
        "HerbertTokenizer": (made.bpe("ends", *FAIRSEQ, last=["<mask>"]), {}),
        "LasrTokenizer": ({**t5, **mapped}, {}),
        "LlamaTokenizer": (llama, {"legacy": {"legacy": True}, "prefix": no_prefix, "post": with_post_processor, "eos": {"add_eos_token": True}, "phi3": by_model_type("phi3", "LlamaTokenizer"), "older": older_files, "legacy-none": {"legacy": None}}),
        "LukeTokenizer": (made.bpe("bytes", *FAIRSEQ, last=["<mask>"]), {"prefix": prefix}),
        "MBartTokenizer": (mbart, {"language": {"src_lang": "de_DE"}, "target": {"tgt_lang": "de_DE"}}),
        "MBart50Tokenizer": ({"vocab": mbart["vocab"], **mapped}, {"language": {"src_lang": "de_DE", "tgt_lang": "en_XX"}}),
        "MLukeTokenizer": ({"vocab": made.scores(*FAIRSEQ)}, {}),
        "MPNetTokenizer": ({"vocab": made.words("<s>", "<pad>", "</s>", "[UNK]", "<mask>")}, {"cased": cased, "accents": {"strip_accents": False}, "older": older_files, "defaults": without_tokens}),
        "NllbTokenizer": ({**made.bpe("pieces", *FAIRSEQ, last=["eng_Latn", "deu_Latn", "<mask>"]), **mapped}, {"language": {"src_lang": "deu_Latn"}, "older-order": {"legacy_behaviour": True, "tgt_lang": "deu_Latn"}}),
        "NougatTokenizer": (made.bpe("bytes", *FAIRSEQ), {}),
        "OpenAIGPTTokenizer": (made.bpe("ends", "<unk>"), {}),
        "ParakeetTokenizer": ({"tokenizer_object": transformers.T5Tokenizer(**t5, **mapped)._tokenizer}, {}),
        "PegasusTokenizer": ({"vocab": made.scores("<pad>", "</s>", "<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, 103)), "<unk>"), **mapped}, {"offset": {"offset": 50}, "fewer": of_offset(50), "more": of_offset(110)}),
        "Qwen2Tokenizer": (gpt2, {"prefix": prefix, "added": added_elsewhere, "qwen3": by_model_type("qwen3"), "older": older_files}),
        "Qwen3_5Tokenizer": (gpt2, {"prefix": prefix}),
        "ReformerTokenizer": ({**made.bpe("pieces", "<s>", "</s>", "<unk>"), **mapped}, {"added": added_elsewhere}),
        "RemBertTokenizer": ({"vocab": made.scores(*ALBERT), **mapped}, {"lower": {**lower, "keep_accents": False}, "prefix": no_prefix}),
        "RobertaTokenizer": (roberta, {"prefix": prefix, "older": older_files, "bart": by_model_type("bart"), "left": {"padding_side": "left"}}),
        "SeamlessM4TTokenizer": (made.bpe("pieces", "<pad>", "<unk>", "<s>", "</s>", last=["__eng__", "__fra__", "eng"]), {}),
        "Siglip2Tokenizer": (gemma, {}),
        "SplinterTokenizer": ({"vocab": made.words(*BERT, "[QUESTION]")}, {"cased": cased, "left": {"padding_side": "left"}}),
        "T5Tokenizer": ({**t5, **mapped}, {"older": older_files, "fewer": {"extra_ids": 10, "extra_special_tokens": None}, "mt5": by_model_type("mt5")}),
        "Tipsv2Tokenizer": ({**made.bpe("pieces", "<pad>", "<unk>", *BYTES), **mapped}, {"cased": cased}),
        "VideoPrismTokenizer": ({**t5, **mapped}, {}),
        "WhisperTokenizer": (made.bpe("bytes", last=["<|endoftext|>", "<|startoftranscript|>", "<|translate|>", "<|transcribe|>", "<|notimestamps|>"]), {"prefix": prefix, "task": {"task": "transcribe"}, "timestamps": {"predict_timestamps": True}}),
        "XGLMTokenizer": ({"vocab": made.scores(*FAIRSEQ), **mapped}, {"prefix": no_prefix}),
        "XLMRobertaTokenizer": ({**xlm, **mapped}, {"prefix": no_prefix, "older": older_files, "added": added_elsewhere}),
        "XLNetTokenizer": ({"vocab": made.scores("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"), **mapped}, {"lower": lower}),
    }


# Files as found on the hub: each function takes and returns {name: JSON}.


def added_elsewhere(files):
    """added_tokens_decoder has a token that tokenizer.json lacks, and another that differs."""
    config, size = files["tokenizer_config.json"], len(files["tokenizer.json"]["model"]["vocab"]) + len(files["tokenizer.json"]["added_tokens"])
    decoder = {str(token["id"]): {key: value for key, value in token.items() if key != "id"} for token in files["tokenizer.json"]["added_tokens"]}
    for number, fields in enumerate([{"content": "<|added|>", "lstrip": True, "special": True, "normalized": False}, {"content": "wordy", "normalized": True, "special": False, "single_word": True}]):
        decoder[str(size + number)] = {"lstrip": False, "rstrip": False, "single_word": False, **fields}
    next(iter(decoder.values()))["rstrip"] = True
    config["added_tokens_decoder"] = decoder


def older_files(files):
    """Names of special tokens in special_tokens_map.json, and added_tokens.json."""
    config, tokenizer = files["tokenizer_config.json"], files["tokenizer.json"]
    names = [key for key in config if key.endswith("_token") and isinstance(config[key], str)]
    files["special_tokens_map.json"] = {key: {"content": config.pop(key), "lstrip": key == "mask_token", "rstrip": False, "normalized": False, "single_word": False} for key in names}
    size = len(tokenizer["model"]["vocab"]) + len(tokenizer["added_tokens"])
    files["added_tokens.json"] = {"<|added|>": size, "wordy": size + 1}
    config.pop("added_tokens_decoder", None)


def of_offset(offset):
    """Pegasus' additional tokens are those before the offset, if the folder lists none."""

    def change(files):
        files["tokenizer_config.json"].update(offset=offset)
        files["tokenizer_config.json"].pop("extra_special_tokens")
        files["tokenizer.json"]["added_tokens"] = []

    return change


def without_tokens(files):
    """The class's own tokens."""
    files["tokenizer.json"]["added_tokens"] = []
    files["tokenizer_config.json"] = {"tokenizer_class": files["tokenizer_config.json"]["tokenizer_class"]}


def only_tokenizer_json(files):
    for name in list(files):
        if name != "tokenizer.json":
            del files[name]


def by_model_type(model_type, named=None):
    """config.json names a model, and tokenizer_config.json a class or none."""

    def change(files):
        files["config.json"] = {"model_type": model_type}
        files["tokenizer_config.json"].pop("tokenizer_class")
        if named:
            files["tokenizer_config.json"]["tokenizer_class"] = named
        else:
            files["tokenizer.json"]["normalizer"] = None

    return change


def named_otherwise(files):
    files["tokenizer_config.json"].update({"cls_token": {"__type": "AddedToken", "content": "<|start|>", "lstrip": True, "rstrip": True, "normalized": False, "single_word": False}, "sep_token": "<|end|>"})


def with_post_processor(files):
    tokenizer = files["tokenizer.json"]
    first = tokenizer["added_tokens"][0]
    piece = {"SpecialToken": {"id": first["content"], "type_id": 0}}
    pair = [piece, {"Sequence": {"id": "A", "type_id": 0}}, piece, {"Sequence": {"id": "B", "type_id": 1}}]
    tokenizer["post_processor"] = {"type": "TemplateProcessing", "single": pair[:2], "pair": pair, "special_tokens": {first["content"]: {"id": first["content"], "ids": [first["id"]], "tokens": [first["content"]]}}}


def mistral(fixed):
    """A folder of Mistral's with many ids, whose pattern transformers corrects if the config asks for it."""

    def change(files):
        vocabulary = files["tokenizer.json"]["model"]["vocab"]
        vocabulary.update({f"~{number}": len(vocabulary) + number for number in range(100000)})
        files["tokenizer_config.json"].update(tokenizer_class="LlamaTokenizerFast", fix_mistral_regex=fixed)
        files["config.json"] = {"model_type": "mistral", "transformers_version": "4.50.1"}

    return change


def folders(out):
    """Writes the folders; yields their names."""
    import transformers

    for name, (arguments, further) in classes(Vocabularies()).items():
        saved = out / name
        getattr(transformers, name)(**arguments).save_pretrained(saved)
        yield name
        for kind, change in further.items():
            files = {path.name: json.loads(path.read_text()) for path in saved.iterdir() if path.suffix == ".json"}
            if callable(change):
                change(files)
            else:
                files["tokenizer_config.json"].update(copy.deepcopy(change))
            (out / f"{name}-{kind}").mkdir()
            for file, value in files.items():
                (out / f"{name}-{kind}" / file).write_text(json.dumps(value, ensure_ascii=False))
            yield f"{name}-{kind}"


def expected(folder, given):
    from transformers import AutoTokenizer, PreTrainedTokenizerBase

    tokenizer = AutoTokenizer.from_pretrained(folder)
    one = tokenizer(given, padding=False)["input_ids"]
    # With the package itself: a class may give no types.
    pairs = tokenizer._tokenizer.encode_batch(list(zip(given[:60], given[60:120])))
    split = [text.split() for text in given[120:180]]
    words = tokenizer._tokenizer.encode_batch(split, is_pretokenized=True)
    targets = PreTrainedTokenizerBase.__call__(tokenizer, text_target=given[180:240], padding=False)
    return {
        "ids": one,
        "targets": targets["input_ids"],
        "pairs": [pair.ids for pair in pairs],
        "types": [pair.type_ids for pair in pairs],
        "split": split,
        "words": [word.ids for word in words],
        "padding": tokenizer.pad_token_id,
        "end": tokenizer.eos_token_id,
        "mask": tokenizer.mask_token_id,
        "pads_left": tokenizer.padding_side == "left",
        "gives_types": "token_type_ids" in tokenizer.model_input_names,
        "vocabulary": max(tokenizer.get_vocab().values()) + 1,
    }


def check_classes(sources):
    import transformers
    from transformers import CONFIG_MAPPING, TokenizersBackend
    from transformers.models.auto import tokenization_auto as auto

    if not transformers.__version__.startswith("5.23."):
        return
    own = {}
    for name in ("fast_parts", "fast_tokenizers", "tokenizer_class"):
        exec((sources / f"{name}.py").read_text(), own)
    assert set(own["WRONG_IN_FOLDERS"]) == auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS
    assert set(own["WITHOUT_CONFIG"]) == set(auto.TOKENIZER_MAPPING_NAMES) - set(CONFIG_MAPPING.keys())
    for model_type, name in auto.TOKENIZER_MAPPING_NAMES.items():
        assert own["registered_class"](model_type) == (name and name.removesuffix("Fast")), model_type
    for model_type in ["bert", "gpt-sw3", "deberta-v2", "phi3", "qwen2", "siglip2", "t5"]:  # some share a config
        theirs = auto.TOKENIZER_MAPPING.get(CONFIG_MAPPING[model_type], TokenizersBackend)
        found = own["tokenizer_class"]({}, {"model_type": model_type}, lambda: False, own["CLASSES"])
        assert theirs is None or found == theirs.__name__, (model_type, found, theirs)
    names = {name for name in [*dir(transformers), *transformers.convert_slow_tokenizer.SLOW_TO_FAST_CONVERTERS] if name.endswith(("Tokenizer", "TokenizerFast"))}
    for name in {*names, *(name + "Fast" for name in names if not name.endswith("Fast"))}:
        theirs = auto.tokenizer_class_from_name(name)
        found = own["class_by_name"](name, own["CLASSES"])
        if theirs is None or not issubclass(theirs, transformers.PreTrainedTokenizerBase):
            continue  # no class, or something else with such a name
        expected = theirs.__name__ if theirs.__name__ != "PythonBackend" else "TokenizersBackend"
        if "Base" not in expected:  # and DPR's, for which the result depends on earlier lookups
            assert found and found.removesuffix("Fast") == expected.removesuffix("Fast"), (name, found, expected)
        assert not (found in own["CLASSES"]) or issubclass(theirs, TokenizersBackend) or found == "TokenizersBackend", name


def same(out, sources):
    own, wrong = {"__name__": "helper"}, []
    for name in ("fast_parts", "fast_tokenizers", "open_tokenizer", "tokenizer_class", "chat_template", "tokenizer_helper"):
        exec((sources / f"{name}.py").read_text(), own)
    given = json.loads((out / "texts.json").read_text())
    for path in sorted(path for path in out.iterdir() if path.is_dir()):
        theirs = json.loads((out / f"{path.name}.json").read_text())
        opened = own["Opened"](path)

        def encoded(texts, **asked):
            return opened.encodings({"texts": texts, "pairs": None, "words": False, "special": True, "target": False, "longest": None, "asks": [], **asked})

        pairs = encoded(given[:60], pairs=given[60:120])
        about = opened.about()
        found = {
            "ids": [one.ids for one in encoded(given)],
            "pairs": [one.ids for one in pairs],
            "types": [one.type_ids for one in pairs],
            "words": [one.ids for one in encoded(theirs.pop("split"), words=True)],
            "targets": [one.ids for one in encoded(given[180:240], target=True)],
            **{key: about[name] for key, name in [("padding", "pad"), ("end", "eos"), *((key, key) for key in ("mask", "pads_left", "gives_types", "vocabulary"))]},
        }
        wrong += [f"{path.name}: {key}" for key in theirs if found[key] != theirs[key]]
    if wrong:
        sys.exit("\n".join(wrong))
    print(len(list(out.iterdir())) // 2, "folders")


def main(out):
    out.mkdir(parents=True)
    given = texts()
    (out / "texts.json").write_text(json.dumps(given))
    for name in folders(out):
        (out / f"{name}.json").write_text(json.dumps(expected(out / name, given)))


if __name__ == "__main__":
    {"classes": check_classes, "make": main, "same": same}[sys.argv[1]](*map(pathlib.Path, sys.argv[2:]))
