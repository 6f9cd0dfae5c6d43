"""Parts of the package tokenizers from which transformers 5.23 builds the tokenizers of its classes, for a Builder (open_tokenizer.py). Precedes fast_tokenizers.py in one program."""

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

    def set_processor(builder):
        texts = {name: builder.text(name) for name in names}
        builder.process(single.format(**texts), pair.format(**texts), [(texts[name], builder.id(texts[name])) for name in dict.fromkeys(names)])

    return set_processor


def roberta(trim=None, prefix=None):
    def set_processor(builder):
        sep, cls = builder.text("sep"), builder.text("cls")
        builder.tokenizer.post_processor = builder.package.processors.RobertaProcessing(
            (sep, builder.id(sep)), (cls, builder.id(cls)), builder.options["trim_offsets"] if trim is None else trim, builder.options["add_prefix_space"] if prefix is None else prefix
        )

    return set_processor


def numbered(vocabulary):
    """The vocabulary as a dict, also from Unigram's list."""
    return {token[0]: id for id, token in enumerate(vocabulary)} if isinstance(vocabulary, list) else vocabulary


def wordpiece(builder):
    tokenizer = builder.use_model(builder.models.WordPiece(numbered(builder.vocabulary), unk_token=builder.text("unk")))
    options = builder.options
    tokenizer.normalizer = builder.normalizers.BertNormalizer(clean_text=options.get("clean_text", True), handle_chinese_chars=options["tokenize_chinese_chars"], strip_accents=options["strip_accents"], lowercase=options["do_lower_case"])
    tokenizer.pre_tokenizer = builder.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = builder.decoders.WordPiece(prefix=options.get("wordpieces_prefix", "##"))


def bpe(builder, **more):
    return builder.use_model(builder.models.BPE(vocab=numbered(builder.vocabulary), merges=builder.merges, dropout=None, **more))


def byte_level(normalizer=None, digits=False, prefix=None):
    def build(builder):
        tokenizer = bpe(builder, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False)
        if normalizer:
            tokenizer.normalizer = getattr(builder.normalizers, normalizer)()
        bytes_ = builder.pre_tokenizers.ByteLevel(add_prefix_space=builder.options["add_prefix_space"] if prefix is None else prefix)
        tokenizer.pre_tokenizer = builder.pre_tokenizers.Sequence([builder.pre_tokenizers.Digits(individual_digits=True), bytes_]) if digits else bytes_
        tokenizer.decoder = builder.decoders.ByteLevel()

    return build


def split_bytes(pattern):
    def build(builder):
        tokenizer = bpe(builder, unk_token=None, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False, byte_fallback=False)
        pre = builder.pre_tokenizers
        tokenizer.decoder, tokenizer.normalizer = builder.decoders.ByteLevel(), builder.normalizers.NFC()
        tokenizer.pre_tokenizer = pre.Sequence([pre.Split(builder.regex(pattern), behavior="isolated", invert=False), pre.ByteLevel(add_prefix_space=bool(builder.options["add_prefix_space"]), use_regex=False)])

    return build


def clip(builder):
    tokenizer, pre = bpe(builder, continuing_subword_prefix="", end_of_word_suffix="</w>", fuse_unk=False, unk_token=builder.text("unk")), builder.pre_tokenizers
    tokenizer.normalizer = builder.normalize("NFC", (r"\s+", " "), "Lowercase")
    tokenizer.pre_tokenizer = pre.Sequence([pre.Split(builder.regex(CLIP), behavior="removed", invert=True), pre.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = builder.decoders.ByteLevel()


def around_clip(builder):
    eos, bos = builder.text("eos"), builder.text("bos")
    builder.tokenizer.post_processor = builder.package.processors.RobertaProcessing((eos, builder.id(eos)), (bos, builder.id(bos)), False, False)


def bert_bpe(normalizer):
    def build(builder):
        tokenizer = bpe(builder, end_of_word_suffix="</w>", unk_token=builder.text("unk"))
        tokenizer.normalizer = builder.normalizers.BertNormalizer(**normalizer)
        tokenizer.pre_tokenizer, tokenizer.decoder = builder.pre_tokenizers.BertPreTokenizer(), builder.decoders.BPEDecoder(suffix="</w>")

    return build


def around_herbert(builder):
    builder.tokenizer.post_processor = builder.package.processors.BertProcessing((builder.text("sep"), 2), (builder.text("cls"), 0))


def fallback_decoder(builder, strips):
    decoders = builder.decoders
    parts = [decoders.Replace(WORD, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(parts + [decoders.Strip(content=" ", left=1)] if strips else parts)


def llama(builder):
    has_prefix, is_legacy = builder.options["add_prefix_space"] is not False, builder.options["legacy"]
    tokenizer = bpe(builder, fuse_unk=True, byte_fallback=True)
    tokenizer.pre_tokenizer = builder.pre_tokenizers.Metaspace(replacement=WORD, prepend_scheme=("always" if is_legacy else "first") if has_prefix else "never", split=False)
    tokenizer.decoder = fallback_decoder(builder, has_prefix)


def code_llama(builder):
    has_prefix = builder.options["add_prefix_space"] is not False
    tokenizer = bpe(builder, fuse_unk=True, byte_fallback=True, unk_token=builder.text("unk"))
    tokenizer.pre_tokenizer = builder.pre_tokenizers.Metaspace(replacement=WORD, prepend_scheme="first" if has_prefix else "never", split=False)
    tokenizer.decoder = fallback_decoder(builder, True)


def gemma(lower):
    def build(builder):
        tokenizer = bpe(builder, fuse_unk=True, unk_token=builder.text("unk"), byte_fallback=True)
        tokenizer.pre_tokenizer = builder.pre_tokenizers.Split(pattern=" ", behavior="merged_with_previous", invert=False)
        tokenizer.decoder = fallback_decoder(builder, False)
        tokenizer.normalizer = builder.normalizers.Replace(" ", WORD)
        if lower:
            tokenizer.normalizer = builder.normalizers.Sequence([builder.normalizers.Lowercase(), tokenizer.normalizer])

    return build


def nougat(builder):
    tokenizer, pre = bpe(builder, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False), builder.pre_tokenizers
    tokenizer.normalizer = builder.normalizers.NFKC()
    splits = [pre.Split(pattern="SPL1T-TH1S-Pl3A5E", behavior="removed", invert=False), pre.Digits(individual_digits=True), pre.Split(pattern=NOUGAT, behavior="isolated", invert=False), pre.Split(pattern="\n", behavior="isolated", invert=False)]
    tokenizer.pre_tokenizer = pre.Sequence([*splits, pre.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = builder.decoders.ByteLevel()


def esmc(builder):
    builder.vocabulary, builder.merges = {token: id for id, token in enumerate(ESMC)}, []
    builder.use_model(builder.models.BPE(builder.vocabulary, merges=[], unk_token=builder.text("unk")))


def words(builder, scheme="always", splits=True, punctuation=False):
    """Pre-tokenizer and decoder for words that begin with WORD."""
    pre, spaces = builder.pre_tokenizers, {"replacement": WORD, "prepend_scheme": scheme}
    parts = [pre.WhitespaceSplit()] * splits + [pre.Punctuation(behavior="isolated")] * punctuation + [pre.Metaspace(**spaces)]
    builder.tokenizer.pre_tokenizer = pre.Sequence(parts) if len(parts) > 1 else parts[0]
    builder.tokenizer.decoder = builder.decoders.Metaspace(**spaces)


def scheme(builder, otherwise="never"):
    return "always" if builder.options["add_prefix_space"] else otherwise


def word_bpe(normalizer, prefix="always"):
    def build(builder):
        tokenizer = bpe(builder, unk_token=builder.text("unk"), fuse_unk=True, byte_fallback=False)
        normalized = normalizer(builder)
        if normalized:
            tokenizer.normalizer = normalized
        words(builder, prefix, splits=False)

    return build


def unigram(builder, unknown, *normalizer, splits=True, prefix="always", **more):
    tokenizer = builder.use_model(builder.models.Unigram(builder.vocabulary, unk_id=unknown, **more))
    normalizer = builder.normalize(*normalizer)
    if normalizer:
        tokenizer.normalizer = normalizer
    words(builder, prefix, splits)


def index_of(builder, token, otherwise):
    """Index of a token without a score."""
    return builder.vocabulary.index((token, 0.0)) if (token, 0.0) in builder.vocabulary else otherwise


def first_lanes(builder, token):
    return next((id for id, (text, _) in enumerate(builder.vocabulary) if text == token), 0)


QUOTES = [("``", '"', "plain"), ("''", '"', "plain")]
SPACES = (" {2,}", " ")
LINES = (r"\s{2,}|[\n\r\t]", " ")


def accents(builder):
    return ["NFKD", "StripAccents"] * (not builder.options["keep_accents"]) + ["Lowercase"] * builder.options["do_lower_case"] + ["map"]


def albert(builder):
    unigram(builder, 1, *QUOTES, *accents(builder), prefix=scheme(builder))


def before_albert(builder):
    tokenizer, (cls, sep) = builder.tokenizer, (builder.text("cls"), builder.text("sep"))
    builder.process("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", [("[CLS]", tokenizer.token_to_id(cls)), ("[SEP]", tokenizer.token_to_id(sep))])


def rembert(builder):
    unigram(builder, 2, *QUOTES, SPACES, *accents(builder), splits=False, prefix=scheme(builder))


def xlnet(builder):
    unigram(builder, builder.options["unk_id"], *QUOTES, "NFKD", "StripAccents", *["Lowercase"] * builder.options["do_lower_case"], "map")


def big_bird(builder):
    unigram(builder, index_of(builder, builder.text("unk"), 100), ("strip", False), (" {2,}", WORD), splits=False, prefix=scheme(builder))


def deberta_v2(builder):
    options = builder.options
    tokenizer = builder.use_model(builder.models.Unigram(builder.vocabulary, unk_id=index_of(builder, builder.text("unk"), options["unk_id"])))
    tokenizer.normalizer = builder.normalize(*["Lowercase"] * options["do_lower_case"], LINES, "NFC", ("strip", True))
    words(builder, scheme(builder, "first"), splits=False, punctuation=options["split_by_punct"])


def pegasus(builder):
    unigram(builder, builder.vocabulary.index((builder.text("unk"), 0.0), 1), *(["map", SPACES] if builder.character_map else [("\\n", " "), SPACES]), splits=False)


def mbart50(builder):
    vocabulary = [(str(token), float(score)) for token, score in builder.vocabulary]
    if not any(token in MBART50 for token, _ in vocabulary):
        first = [(builder.text(name), 0.0) for name in ("cls", "pad", "eos", "unk")]
        vocabulary = first + vocabulary[3:] + [(code, 0.0) for code in MBART50] + [(builder.text("mask"), 0.0)]
    builder.vocabulary = vocabulary
    unigram(builder, 3, "map", SPACES, splits=False)


def charsmap_or_none(builder):
    return builder.normalize("map", SPACES) if builder.character_map else None


def seamless(builder):
    return builder.normalize((r"[\n\r\t]", " "), "NFKC", ("strip", True), (" +▁", WORD), ("^▁+$", ""), (" {2,}", WORD))


def tipsv2(builder):
    tokenizer = bpe(builder, fuse_unk=True, byte_fallback=True)
    tokenizer.normalizer = builder.normalize(*["Lowercase"] * builder.options["do_lower_case"], "map") or builder.normalizers.Sequence([])
    words(builder)


def languages(before, after, marks="", key="src_lang"):
    """Puts the tokens named by `before` and `after` ("eos", "language") around a text."""

    def set_processor(builder):
        code = builder.options[key] or builder.options["src_lang"]
        id = builder.id(code if marks in code else marks + code + marks)
        eos = builder.text("eos")
        tokens = {"language": (builder.tokenizer.id_to_token(id), id), "eos": (eos, builder.id(eos))}
        prefix, suffix = [[tokens[name] for name in names(builder)] for names in (before, after)]
        texts = [[text for text, _ in part] for part in (prefix, suffix)]
        builder.process(texts[0] + ["$A"] + texts[1], texts[0] + ["$A", "$B"] + texts[1], prefix + suffix)

    return set_processor


def language_options(before, after, **options):
    """Arguments of a class with a source and a target language."""
    return {"around": languages(before, after), "target": languages(before, after, key="tgt_lang"), "options": {"tgt_lang": None, **options}}


def nllb_before(builder):
    return [] if builder.options["legacy_behaviour"] else ["language"]


def nllb_after(builder):
    return ["eos", "language"] if builder.options["legacy_behaviour"] else ["eos"]


def only(*names):
    return lambda builder: names


def around_whisper(builder):
    if builder.options["language"] is not None:
        raise ValueError('"language" in tokenizer_config.json is not supported: leave it out, or set "tokenizer_class" there to "TokenizersBackend"')
    task = builder.options["task"]
    if task not in (None, "transcribe", "translate"):
        raise ValueError(f'"task" in tokenizer_config.json is {task!r}, and must be "transcribe" or "translate"')
    ids = [builder.id("<|startoftranscript|>")] + [builder.id(f"<|{task}|>")] * (task is not None) + [builder.id("<|notimestamps|>")] * (not builder.options["predict_timestamps"])
    texts = [builder.tokenizer.id_to_token(id) for id in ids]
    eos, before = builder.text("eos"), " ".join(f"{text}:0" for text in texts)
    builder.process(f"{before} $A:0 {eos}:0", f"{before} $A:0 $B:1 {eos}:1", [(eos, builder.id(eos)), *zip(texts, ids)])


def around_splinter(builder):
    cls, sep, question = builder.text("cls"), builder.text("sep"), builder.text("question")
    second = f"{question} . {sep}:0 $B:1 {sep}:1" if not builder.pads_left else f"{sep}:0 $B:1 {question} . {sep}:1"
    builder.process(f"{cls}:0 $A:0 {sep}:0", f"{cls}:0 $A:0 {second}", [(text, builder.id(text)) for text in (cls, sep, question, ".")])


def around_code_llama(builder):
    if builder.named.get("bos_token") is None:
        return builder.process("$A:0", "$A:0 $B:1", [])
    bos = builder.text("bos")
    builder.process(f"{bos}:0 $A:0", f"{bos}:0 $A:0 {bos}:1 $B:1", [(bos, builder.id(bos))])


def around_t5(builder):
    builder.process(["$A", "</s>"], ["$A", "</s>", "$B", "</s>"], [("</s>", builder.id(builder.text("eos")))])


# Special tokens of classes, including those that older folders list in special_tokens_map.json.


def t5_marks(builder):
    count, listed = builder.options["extra_ids"], builder.additional
    marks = [f"<extra_id_{number}>" for number in range(count)]
    found = [token for token in listed or [] if "<extra_id_" in str(token)]
    if found and count > 0 and count != len(found):
        raise ValueError(f'"extra_ids" is {count}, and "additional_special_tokens" in special_tokens_map.json lists {len(found)}: make them agree')
    return listed if found else [*(listed or []), *marks]


def listed_or(*tokens):
    return lambda builder: list(tokens) if builder.additional is None else builder.additional


def with_listed(tokens, listed_first=False):
    def extra(builder):
        more = [token for token in builder.additional or [] if token not in tokens]
        return more + tokens if listed_first else tokens + more

    return extra


def nllb_extra(builder):
    if builder.additional is None and builder.config.get("extra_special_tokens") is None:
        raise ValueError('NllbTokenizer needs "extra_special_tokens" in tokenizer_config.json, the codes of its languages: let transformers write the folder again by AutoTokenizer.from_pretrained(…).save_pretrained(…)')
    return builder.additional


def pegasus_extra(builder):
    sentence = builder.options["mask_token_sent"]
    first = [sentence] * (sentence is not None and sentence not in (builder.additional or []))
    return first + [f"<unk_{number}>" for number in range(2, builder.options["offset"])]


def code_llama_extra(builder):
    return (builder.additional or []) + [token for token in CODE_LLAMA_OWN.values()]


def luke_marks(builder, prefix):
    """The entity marks, named by options or by the class."""
    marks = [builder.options["entity_token_1"], builder.options["entity_token_2"]]
    return [builder.added(prefix + mark, lstrip=False, rstrip=False) if isinstance(mark, str) else mark for mark in marks]


def luke_extra(prefix, *own):
    def extra(builder):
        if builder.options["task"] is not None:
            raise ValueError('"task" in tokenizer_config.json encodes entities, which are not read: leave it out')
        listed = [*(builder.config.get("extra_special_tokens") or []), *(builder.additional or [])]
        tokens = listed + [mark for mark in luke_marks(builder, prefix) if str(mark) not in set(map(str, listed))]
        return tokens + [builder.added(name, lstrip=False, rstrip=False, normalized=False, special=True) for name in own if name not in set(map(str, tokens))]

    return extra


def luke_own(prefix):
    def own(builder):
        first, second = map(str, luke_marks(builder, prefix))
        return {"entity_1_token": first, "entity_2_token": second, "entity_unk_token": "[UNK]", "entity_pad_token": "[PAD]", "entity_mask_token": "[MASK]", "entity_mask2_token": "[MASK2]"}

    return own
