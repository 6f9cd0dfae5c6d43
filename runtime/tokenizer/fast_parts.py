"""What transformers 5.23 builds the tokenizers of its classes of, in the package tokenizers, for a Making (open_tokenizer.py). Precedes fast_tokenizers.py in one program."""

NAMED = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
WORD = "▁"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN3_5 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
NOUGAT = "[\\(\\)\\[\\]\\{\\}]|([!\\\"#\\$%\\&'\\*\\+,\\-\\./:;<=>\\?\\\\\\^_`\\|\\~])\\1*"
FIXED_MISTRAL = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
MBART = "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN".split()
MBART50 = MBART + "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI".split()
ESMC = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - | <mask>".split()

CODE_LLAMA_OWN = {"prefix_token": "▁<PRE>", "middle_token": "▁<MID>", "suffix_token": "▁<SUF>", "eot_token": "▁<EOT>", "fill_token": "<FILL_ME>"}


def template(single, pair, *names):
    """{cls} is the text of cls_token, which `names` lists."""

    def set_processor(making):
        texts = {name: making.text(name) for name in names}
        making.process(single.format(**texts), pair.format(**texts), [(texts[name], making.id(texts[name])) for name in dict.fromkeys(names)])

    return set_processor


def roberta(trim=None, prefix=None):
    def set_processor(making):
        sep, cls = making.text("sep"), making.text("cls")
        making.tokenizer.post_processor = making.package.processors.RobertaProcessing(
            (sep, making.id(sep)), (cls, making.id(cls)), making.options["trim_offsets"] if trim is None else trim, making.options["add_prefix_space"] if prefix is None else prefix
        )

    return set_processor


def numbered(vocabulary):
    """Of Unigram's lists too."""
    return {token[0]: id for id, token in enumerate(vocabulary)} if isinstance(vocabulary, list) else vocabulary


def wordpiece(making):
    made = making.made(making.models.WordPiece(numbered(making.vocabulary), unk_token=making.text("unk")))
    options = making.options
    made.normalizer = making.normalizers.BertNormalizer(clean_text=options.get("clean_text", True), handle_chinese_chars=options["tokenize_chinese_chars"], strip_accents=options["strip_accents"], lowercase=options["do_lower_case"])
    made.pre_tokenizer = making.pre_tokenizers.BertPreTokenizer()
    made.decoder = making.decoders.WordPiece(prefix=options.get("wordpieces_prefix", "##"))


def bpe(making, **more):
    return making.made(making.models.BPE(vocab=numbered(making.vocabulary), merges=making.merges, dropout=None, **more))


def byte_level(normalizer=None, digits=False, prefix=None):
    def build(making):
        made = bpe(making, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False)
        if normalizer:
            made.normalizer = getattr(making.normalizers, normalizer)()
        bytes_ = making.pre_tokenizers.ByteLevel(add_prefix_space=making.options["add_prefix_space"] if prefix is None else prefix)
        made.pre_tokenizer = making.pre_tokenizers.Sequence([making.pre_tokenizers.Digits(individual_digits=True), bytes_]) if digits else bytes_
        made.decoder = making.decoders.ByteLevel()

    return build


def split_bytes(pattern):
    def build(making):
        made = bpe(making, unk_token=None, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False, byte_fallback=False)
        pre = making.pre_tokenizers
        made.decoder, made.normalizer = making.decoders.ByteLevel(), making.normalizers.NFC()
        made.pre_tokenizer = pre.Sequence([pre.Split(making.regex(pattern), behavior="isolated", invert=False), pre.ByteLevel(add_prefix_space=bool(making.options["add_prefix_space"]), use_regex=False)])

    return build


def clip(making):
    made, pre = bpe(making, continuing_subword_prefix="", end_of_word_suffix="</w>", fuse_unk=False, unk_token=making.text("unk")), making.pre_tokenizers
    made.normalizer = making.normalize("NFC", (r"\s+", " "), "Lowercase")
    made.pre_tokenizer = pre.Sequence([pre.Split(making.regex(CLIP), behavior="removed", invert=True), pre.ByteLevel(add_prefix_space=False)])
    made.decoder = making.decoders.ByteLevel()


def around_clip(making):
    eos, bos = making.text("eos"), making.text("bos")
    making.tokenizer.post_processor = making.package.processors.RobertaProcessing((eos, making.id(eos)), (bos, making.id(bos)), False, False)


def bert_bpe(normalizer):
    def build(making):
        made = bpe(making, end_of_word_suffix="</w>", unk_token=making.text("unk"))
        made.normalizer = making.normalizers.BertNormalizer(**normalizer)
        made.pre_tokenizer, made.decoder = making.pre_tokenizers.BertPreTokenizer(), making.decoders.BPEDecoder(suffix="</w>")

    return build


def around_herbert(making):
    making.tokenizer.post_processor = making.package.processors.BertProcessing((making.text("sep"), 2), (making.text("cls"), 0))


def fallback_decoder(making, strips):
    decoders = making.decoders
    parts = [decoders.Replace(WORD, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(parts + [decoders.Strip(content=" ", left=1)] if strips else parts)


def llama(making):
    has_prefix, is_legacy = making.options["add_prefix_space"] is not False, making.options["legacy"]
    made = bpe(making, fuse_unk=True, byte_fallback=True)
    made.pre_tokenizer = making.pre_tokenizers.Metaspace(replacement=WORD, prepend_scheme=("always" if is_legacy else "first") if has_prefix else "never", split=False)
    made.decoder = fallback_decoder(making, has_prefix)


def code_llama(making):
    has_prefix = making.options["add_prefix_space"] is not False
    made = bpe(making, fuse_unk=True, byte_fallback=True, unk_token=making.text("unk"))
    made.pre_tokenizer = making.pre_tokenizers.Metaspace(replacement=WORD, prepend_scheme="first" if has_prefix else "never", split=False)
    made.decoder = fallback_decoder(making, True)


def gemma(lower):
    def build(making):
        made = bpe(making, fuse_unk=True, unk_token=making.text("unk"), byte_fallback=True)
        made.pre_tokenizer = making.pre_tokenizers.Split(pattern=" ", behavior="merged_with_previous", invert=False)
        made.decoder = fallback_decoder(making, False)
        made.normalizer = making.normalizers.Replace(" ", WORD)
        if lower:
            made.normalizer = making.normalizers.Sequence([making.normalizers.Lowercase(), made.normalizer])

    return build


def nougat(making):
    made, pre = bpe(making, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False), making.pre_tokenizers
    made.normalizer = making.normalizers.NFKC()
    splits = [pre.Split(pattern="SPL1T-TH1S-Pl3A5E", behavior="removed", invert=False), pre.Digits(individual_digits=True), pre.Split(pattern=NOUGAT, behavior="isolated", invert=False), pre.Split(pattern="\n", behavior="isolated", invert=False)]
    made.pre_tokenizer = pre.Sequence([*splits, pre.ByteLevel(add_prefix_space=False)])
    made.decoder = making.decoders.ByteLevel()


def esmc(making):
    making.vocabulary, making.merges = {token: id for id, token in enumerate(ESMC)}, []
    making.made(making.models.BPE(making.vocabulary, merges=[], unk_token=making.text("unk")))


def words(making, scheme="always", splits=True, punctuation=False):
    """Words that begin with WORD, and how they become text again."""
    pre, spaces = making.pre_tokenizers, {"replacement": WORD, "prepend_scheme": scheme}
    parts = [pre.WhitespaceSplit()] * splits + [pre.Punctuation(behavior="isolated")] * punctuation + [pre.Metaspace(**spaces)]
    making.tokenizer.pre_tokenizer = pre.Sequence(parts) if len(parts) > 1 else parts[0]
    making.tokenizer.decoder = making.decoders.Metaspace(**spaces)


def scheme(making, otherwise="never"):
    return "always" if making.options["add_prefix_space"] else otherwise


def word_bpe(normalizer, prefix="always"):
    def build(making):
        made = bpe(making, unk_token=making.text("unk"), fuse_unk=True, byte_fallback=False)
        normalized = normalizer(making)
        if normalized:
            made.normalizer = normalized
        words(making, prefix, splits=False)

    return build


def unigram(making, unknown, *normalizer, splits=True, prefix="always", **more):
    made = making.made(making.models.Unigram(making.vocabulary, unk_id=unknown, **more))
    normalizer = making.normalize(*normalizer)
    if normalizer:
        made.normalizer = normalizer
    words(making, prefix, splits)


def index_of(making, token, otherwise):
    """Of a token without a score."""
    return making.vocabulary.index((token, 0.0)) if (token, 0.0) in making.vocabulary else otherwise


def first_lanes(making, token):
    return next((id for id, (text, _) in enumerate(making.vocabulary) if text == token), 0)


QUOTES = [("``", '"', "plain"), ("''", '"', "plain")]
SPACES = (" {2,}", " ")
LINES = (r"\s{2,}|[\n\r\t]", " ")


def accents(making):
    return ["NFKD", "StripAccents"] * (not making.options["keep_accents"]) + ["Lowercase"] * making.options["do_lower_case"] + ["map"]


def albert(making):
    unigram(making, 1, *QUOTES, *accents(making), prefix=scheme(making))


def before_albert(making):
    made, (cls, sep) = making.tokenizer, (making.text("cls"), making.text("sep"))
    making.process("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", [("[CLS]", made.token_to_id(cls)), ("[SEP]", made.token_to_id(sep))])


def rembert(making):
    unigram(making, 2, *QUOTES, SPACES, *accents(making), splits=False, prefix=scheme(making))


def xlnet(making):
    unigram(making, making.options["unk_id"], *QUOTES, "NFKD", "StripAccents", *["Lowercase"] * making.options["do_lower_case"], "map")


def big_bird(making):
    unigram(making, index_of(making, making.text("unk"), 100), ("strip", False), (" {2,}", WORD), splits=False, prefix=scheme(making))


def deberta_v2(making):
    options = making.options
    made = making.made(making.models.Unigram(making.vocabulary, unk_id=index_of(making, making.text("unk"), options["unk_id"])))
    made.normalizer = making.normalize(*["Lowercase"] * options["do_lower_case"], LINES, "NFC", ("strip", True))
    words(making, scheme(making, "first"), splits=False, punctuation=options["split_by_punct"])


def pegasus(making):
    unigram(making, making.vocabulary.index((making.text("unk"), 0.0), 1), *(["map", SPACES] if making.character_map else [("\\n", " "), SPACES]), splits=False)


def mbart50(making):
    vocabulary = [(str(token), float(score)) for token, score in making.vocabulary]
    if not any(token in MBART50 for token, _ in vocabulary):
        first = [(making.text(name), 0.0) for name in ("cls", "pad", "eos", "unk")]
        vocabulary = first + vocabulary[3:] + [(code, 0.0) for code in MBART50] + [(making.text("mask"), 0.0)]
    making.vocabulary = vocabulary
    unigram(making, 3, "map", SPACES, splits=False)


def charsmap_or_none(making):
    return making.normalize("map", SPACES) if making.character_map else None


def seamless(making):
    return making.normalize((r"[\n\r\t]", " "), "NFKC", ("strip", True), (" +▁", WORD), ("^▁+$", ""), (" {2,}", WORD))


def tipsv2(making):
    made = bpe(making, fuse_unk=True, byte_fallback=True)
    made.normalizer = making.normalize(*["Lowercase"] * making.options["do_lower_case"], "map") or making.normalizers.Sequence([])
    words(making)


def languages(before, after, marks="", key="src_lang"):
    """Puts the language around a text, as `before` and `after` say: "eos" and "language"."""

    def set_processor(making):
        code = making.options[key] or making.options["src_lang"]
        id = making.id(code if marks in code else marks + code + marks)
        eos = making.text("eos")
        tokens = {"language": (making.tokenizer.id_to_token(id), id), "eos": (eos, making.id(eos))}
        prefix, suffix = [[tokens[name] for name in names(making)] for names in (before, after)]
        texts = [[text for text, _ in part] for part in (prefix, suffix)]
        making.process(texts[0] + ["$A"] + texts[1], texts[0] + ["$A", "$B"] + texts[1], prefix + suffix)

    return set_processor


def language_options(before, after, **options):
    """Of a class that takes the languages that texts and targets are in."""
    return {"around": languages(before, after), "target": languages(before, after, key="tgt_lang"), "options": {"tgt_lang": None, **options}}


def nllb_before(making):
    return [] if making.options["legacy_behaviour"] else ["language"]


def nllb_after(making):
    return ["eos", "language"] if making.options["legacy_behaviour"] else ["eos"]


def only(*names):
    return lambda making: names


def around_whisper(making):
    if making.options["language"] is not None:
        raise ValueError('"language" in tokenizer_config.json is not supported: leave it out, or set "tokenizer_class" there to "TokenizersBackend"')
    task = making.options["task"]
    if task not in (None, "transcribe", "translate"):
        raise ValueError(f'"task" in tokenizer_config.json is {task!r}, and has to be "transcribe" or "translate"')
    ids = [making.id("<|startoftranscript|>")] + [making.id(f"<|{task}|>")] * (task is not None) + [making.id("<|notimestamps|>")] * (not making.options["predict_timestamps"])
    texts = [making.tokenizer.id_to_token(id) for id in ids]
    eos, before = making.text("eos"), " ".join(f"{text}:0" for text in texts)
    making.process(f"{before} $A:0 {eos}:0", f"{before} $A:0 $B:1 {eos}:1", [(eos, making.id(eos)), *zip(texts, ids)])


def around_splinter(making):
    cls, sep, question = making.text("cls"), making.text("sep"), making.text("question")
    second = f"{question} . {sep}:0 $B:1 {sep}:1" if not making.pads_left else f"{sep}:0 $B:1 {question} . {sep}:1"
    making.process(f"{cls}:0 $A:0 {sep}:0", f"{cls}:0 $A:0 {second}", [(text, making.id(text)) for text in (cls, sep, question, ".")])


def around_code_llama(making):
    if making.named.get("bos_token") is None:
        return making.process("$A:0", "$A:0 $B:1", [])
    bos = making.text("bos")
    making.process(f"{bos}:0 $A:0", f"{bos}:0 $A:0 {bos}:1 $B:1", [(bos, making.id(bos))])


def around_t5(making):
    making.process(["$A", "</s>"], ["$A", "</s>", "$B", "</s>"], [("</s>", making.id(making.text("eos")))])


# Special tokens of classes, with those that older folders list in special_tokens_map.json.


def t5_marks(making):
    count, listed = making.options["extra_ids"], making.additional
    marks = [f"<extra_id_{number}>" for number in range(count)]
    found = [token for token in listed or [] if "<extra_id_" in str(token)]
    if found and count > 0 and count != len(found):
        raise ValueError(f'"extra_ids" is {count}, and "additional_special_tokens" in special_tokens_map.json lists {len(found)}: make them agree')
    return listed if found else [*(listed or []), *marks]


def listed_or(*tokens):
    return lambda making: list(tokens) if making.additional is None else making.additional


def with_listed(tokens, listed_first=False):
    def extra(making):
        more = [token for token in making.additional or [] if token not in tokens]
        return more + tokens if listed_first else tokens + more

    return extra


def nllb_extra(making):
    if making.additional is None and making.config.get("extra_special_tokens") is None:
        raise ValueError('NllbTokenizer needs "extra_special_tokens" in tokenizer_config.json, the codes of its languages: let transformers write the folder again by AutoTokenizer.from_pretrained(…).save_pretrained(…)')
    return making.additional


def pegasus_extra(making):
    sentence = making.options["mask_token_sent"]
    first = [sentence] * (sentence is not None and sentence not in (making.additional or []))
    return first + [f"<unk_{number}>" for number in range(2, making.options["offset"])]


def code_llama_extra(making):
    return (making.additional or []) + [token for token in CODE_LLAMA_OWN.values()]


def luke_marks(making, prefix):
    """The marks of entities, as options or the class name them."""
    marks = [making.options["entity_token_1"], making.options["entity_token_2"]]
    return [making.added(prefix + mark, lstrip=False, rstrip=False) if isinstance(mark, str) else mark for mark in marks]


def luke_extra(prefix, *own):
    def extra(making):
        if making.options["task"] is not None:
            raise ValueError('"task" in tokenizer_config.json encodes entities, which are not read: leave it out')
        listed = [*(making.config.get("extra_special_tokens") or []), *(making.additional or [])]
        tokens = listed + [mark for mark in luke_marks(making, prefix) if str(mark) not in set(map(str, listed))]
        return tokens + [making.added(name, lstrip=False, rstrip=False, normalized=False, special=True) for name in own if name not in set(map(str, tokens))]

    return extra


def luke_own(prefix):
    def own(making):
        first, second = map(str, luke_marks(making, prefix))
        return {"entity_1_token": first, "entity_2_token": second, "entity_unk_token": "[UNK]", "entity_pad_token": "[PAD]", "entity_mask_token": "[MASK]", "entity_mask2_token": "[MASK2]"}

    return own
