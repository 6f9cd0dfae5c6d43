"""Files of small tokenizers of the kinds that published folders have."""

import functools
import json

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = ["a low, lower and newer sea", "the wide new wall of the sea", "we see a lot of low walls"] * 3
SIZE = 90


def special_tokens(*names):
    return dict(zip(("unk_token", "bos_token", "eos_token", "pad_token", "cls_token", "sep_token", "mask_token"), names))


@functools.cache
def get_files(kind):
    """name -> text"""
    if kind == "wordpiece":
        names = special_tokens("[UNK]", None, None, "[PAD]", "[CLS]", "[SEP]", "[MASK]")
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(
            vocab_size=SIZE, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
        )
        tokenizer.train_from_iterator(CORPUS, trainer)
        ids = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
        tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ids)
        vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        more = {"vocab.txt": "".join(f"{word}\n" for word, _ in vocabulary)}
        config = {"do_lower_case": True, "model_max_length": 512, "tokenizer_class": "BertTokenizer"}
    elif kind == "bytes":
        names = special_tokens("<|endoftext|>", "<|endoftext|>", "<|endoftext|>")
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=SIZE, special_tokens=["<|endoftext|>"], show_progress=False)
        tokenizer.train_from_iterator(CORPUS, trainer)
        model = json.loads(tokenizer.to_str())["model"]
        merges = "".join(f"{' '.join(pair) if isinstance(pair, list) else pair}\n" for pair in model["merges"])
        more = {"vocab.json": json.dumps(model["vocab"]), "merges.txt": "#version: 0.2\n" + merges}
        config = {"add_prefix_space": False, "model_max_length": 1024, "tokenizer_class": "GPT2Tokenizer"}
    else:
        names = special_tokens("<unk>", "<s>", "</s>", "<pad>")
        model, trainer_class = (
            (models.Unigram(), trainers.UnigramTrainer) if kind == "unigram" else (models.BPE(unk_token="<unk>", byte_fallback=False), trainers.BpeTrainer)
        )
        tokenizer = Tokenizer(model)
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        extra = {"unk_token": "<unk>"} if kind == "unigram" else {}
        trainer = trainer_class(vocab_size=SIZE, special_tokens=["<pad>", "<s>", "</s>", "<unk>"], show_progress=False, **extra)
        tokenizer.train_from_iterator(CORPUS, trainer)
        more = {}
        config = {"tokenizer_class": "T5Tokenizer" if kind == "unigram" else "LlamaTokenizer", "model_max_length": 512}
    names = {key: token for key, token in names.items() if token}
    return {
        "tokenizer.json": tokenizer.to_str(),
        "tokenizer_config.json": json.dumps({**config, **names}),
        "special_tokens_map.json": json.dumps(names),
        **more,
    }


def write_tokenizer(folder, kind):
    for name, text in get_files(kind).items() if kind else ():
        (folder / name).write_text(text)
