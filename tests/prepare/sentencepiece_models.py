"""Small SentencePiece models, trained on this project's own texts, in folders with transformers' layout.

    sentencepiece_models.py make FOLDER          writes a folder for each kind, and texts that are hard to tokenize as FOLDER/hard.jsonl
    sentencepiece_models.py damaged PROGRAM MODEL   fails unless PROGRAM answers with an error or a result for MODEL cut off or changed anywhere
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
MARK = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}
# For each kind: the class, the file, the training options, tokenizer_config.json.
KINDS = {
    "llama-model": ("LlamaTokenizer", "tokenizer.model", "bpe", {"add_bos_token": True}),
    "llama-legacy": ("LlamaTokenizer", "tokenizer.model", "bpe", {"tokenizer_class": "LlamaTokenizer", "legacy": True, "add_bos_token": True, "add_eos_token": True, "pad_token": "<pad>"}),
    "llama-marks": ("LlamaTokenizer", "tokenizer.model", "bpe", {"add_prefix_space": False, "added_tokens_decoder": {"900": {**MARK, "content": "<|im_start|>", "lstrip": True, "rstrip": True}, "901": {**MARK, "content": "fox", "special": False}}, "extra_special_tokens": ["[CLS]"]}),
    "t5-model": ("T5Tokenizer", "spiece.model", "unigram", {"tokenizer_class": "T5Tokenizer"}),
    "t5-few-marks": ("T5Tokenizer", "spiece.model", "unigram", {"extra_ids": 2, "additional_special_tokens": ["<extra_id_0>", "<extra_id_1>"], "padding_side": "left"}),
    "xlm-roberta-model": ("XLMRobertaTokenizer", "sentencepiece.bpe.model", "unigram", {"tokenizer_class": "XLMRobertaTokenizer", "truncation_side": "left"}),
}
TRAINING = {
    "LlamaTokenizer": dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, split_digits=True),
    "T5Tokenizer": dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
    "XLMRobertaTokenizer": {},
}
HARD = ["", " ", "   ", " a", "   a", "a ", "a   ", "a  b", "\n", "\n\n a\n", "a\tb", "a\r\nb", "a\u00a0b", "a\u3000b\u2028c", "a\u0085b", "\u200bx\ufeff", "\x01\x0b\x7f", "\x00a", "▁a", "a▁b ▁", "▁▁"]
HARD += ["🙂👩‍👩‍👧 🇩🇪", "東京 こんにちは。한국어", "ﬁ ² ① ｱ ＡＢＣ ㎏ Å", "e\u0301 é Straße İ ſ", "ﷺ", "Привет, नमस्ते", "𝒳𝕐", "ｶﾞ ①\u0300", "\u017f\u0327한 ﬁ\u0327", "Tie\u0302\u0301ng Vie\u0323\u0302t", "\u1112\u1161\u11ab", "\u2028\u00a0\u0323", "e" * 200, "  def f(x):\n\treturn x  # 3.14159"]
HARD += ["<s> a", "a <s>b</s> c", "<s>", "</s></s>", "x<unk>y", "<pad> x", "x <mask> y <mask>", "<extra_id_0> x <extra_id_1> <extra_id_99>", "<0x41>", "<|im_start|> user", "a  <|im_start|>\n b", "the foxes [CLS] fox", "<s", "<<s>>"]


def train(folder, name, algorithm, vocabulary, **options):
    import sentencepiece

    texts = [*sorted((PROJECT / "docs").glob("*.md")), *sorted((PROJECT / "runtime").glob("*/*.h"))]
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(text.read_text() for text in texts))
    sentencepiece.SentencePieceTrainer.train(input=str(corpus), model_prefix=str(folder / name), model_type=algorithm, vocab_size=vocabulary, minloglevel=2, **options)
    return (folder / f"{name}.model").read_bytes()


def make(folder):
    made = {}
    with tempfile.TemporaryDirectory() as work:
        for name, (kind, file, algorithm, config) in KINDS.items():
            if kind not in made:
                made[kind] = train(pathlib.Path(work), kind, algorithm, 900, **TRAINING[kind])
            (folder / name).mkdir()
            (folder / name / file).write_bytes(made[kind])
            (folder / name / "tokenizer_config.json").write_text(json.dumps(config))
        # The same without a config, under a name that selects the class.
        (folder / "bare.model").write_bytes(made["LlamaTokenizer"])
        # Rejected kinds.
        for name, algorithm, options in [("words", "word", {}), ("no-bytes", "bpe", {}), ("symbols", "unigram", {**TRAINING["T5Tokenizer"], "user_defined_symbols": ["modrun"]}), ("phrases", "unigram", {**TRAINING["T5Tokenizer"], "split_by_whitespace": False})]:
            (folder / f"{name}.model").write_bytes(train(pathlib.Path(work), name, algorithm, 900, **options))
    (folder / "hard.jsonl").write_text("".join(json.dumps({"text": text, "other": HARD[-1 - number], "label": number}) + "\n" for number, text in enumerate(HARD)))


def get_tokenizer(folder):
    """The file in a folder, read by its transformers class."""
    import transformers

    for kind, file, _, _ in KINDS.values():
        if (pathlib.Path(folder) / file).exists():
            return getattr(transformers, kind).from_pretrained(folder)


def answered(program, model):
    run = subprocess.run([program], input=json.dumps({"model": str(model)}) + "\n", capture_output=True, text=True, timeout=60)
    answer = json.loads(run.stdout)
    if run.returncode != 0 or not ("error" in answer or answer["vocabulary"] > 0):
        sys.exit(f"{model}: status {run.returncode}, {run.stdout}{run.stderr}")
    return "error" in answer


def damaged(program, model):
    original, rng, rejected = pathlib.Path(model).read_bytes(), random.Random(7), 0
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / pathlib.Path(model).name
        cuts = [0, 1, 2, 3, *(rng.randrange(len(original)) for _ in range(60))]
        for cut in cuts:
            path.write_bytes(original[:cut])
            rejected += answered(program, path)
        # A cut between two fields leaves a complete message, with fewer fields.
        if rejected < len(cuts) - 3:
            sys.exit(f"only {rejected} of {len(cuts)} cut-off files were rejected")
        for _ in range(60):
            changed = bytearray(original)
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(len(original))] = rng.randrange(256)
            path.write_bytes(changed)
            answered(program, path)


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "make":
        make(pathlib.Path(rest[0]))
    else:
        damaged(*rest)
