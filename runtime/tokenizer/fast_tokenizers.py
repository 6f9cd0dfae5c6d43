"""The classes of transformers 5.23 whose tokenizers are implemented by the package tokenizers. Most of them use only the vocabulary and the post-processor of tokenizer.json and build the rest from the options of tokenizer_config.json. Follows fast_parts.py in one program."""

BERT = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
FAIRSEQ = {"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "cls_token": "<s>", "unk_token": "<unk>", "pad_token": "<pad>"}
ROBERTA = {**FAIRSEQ, "mask_token": "<mask>"}
ALBERT = {"bos_token": "[CLS]", "eos_token": "[SEP]", "unk_token": "<unk>", "sep_token": "[SEP]", "pad_token": "<pad>", "cls_token": "[CLS]", "mask_token": "[MASK]"}
GEMMA = {"unk_token": "<unk>", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "mask_token": "<mask>"}
LLAMA = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
T5 = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
END = "<|endoftext|>"
BERT_OPTIONS = {"do_lower_case": True, "tokenize_chinese_chars": True, "strip_accents": None}


class Fast:
    """A class of transformers. `build` creates a Builder's tokenizer, unless tokenizer.json is used as it is; `around` then sets its post-processor, `before` one that tokenizer.json's overrides, `target` the post-processor for target texts."""

    def __init__(self, build=None, around=None, before=None, *, target=None, named=None, own=None, options=None, extra=None, extra_wins=False, flags=None, pads="right", types=False, adds_again=None, bare_wins=False):
        self.build, self.around, self.before, self.target = build, around, before, target
        self.named, self.own = named or {}, own or (lambda builder: {})  # texts of the special tokens, and of those with names of their own
        self.options, self.flags = options or {}, flags or {}  # options with their defaults; flags of named tokens that are texts
        self.extra, self.extra_wins = extra or (lambda builder: builder.additional), extra_wins  # additional special tokens, and whether they win over those of tokenizer_config.json
        self.pads_left, self.gives_types = pads == "left", types
        self.adds_again = adds_again  # the special tokens, by their "texts" or as the "tokens" that they are
        self.bare_wins = bare_wins  # if tokenizer.json has no post-processor, that wins over `around`


LUKE_OPTIONS = {"task": None, "entity_token_1": "<ent>", "entity_token_2": "<ent2>"}
PLAIN, MASK = {"lstrip": False, "rstrip": False}, {"mask_token": {"lstrip": True, "rstrip": False}}
ALL_PLAIN = {name: PLAIN for name in NAMED} | MASK
AROUND_BERT = template("{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1", "cls", "sep")
TWO_SEPARATORS = template("{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 {sep}:0 $B:1 {sep}:1", "cls", "sep")
PREFIX, NO_PREFIX = {"add_prefix_space": True}, {"add_prefix_space": False}
BERT_CLASS = {"around": AROUND_BERT, "named": BERT, "options": BERT_OPTIONS}
T5_CLASS = {"named": T5, "options": {"extra_ids": 100}, "extra": t5_marks}
QWEN_CLASS = {"named": {"unk_token": END, "bos_token": None, "eos_token": END, "pad_token": END}, "options": {"add_prefix_space": None}}
AROUND_XLM = template("{bos} $A {eos}", "{bos} $A {eos} {eos} $B {eos}", "bos", "eos")


def lower_always(builder):
    builder.options["do_lower_case"] = True
    wordpiece(builder)


CLASSES = {
    "TokenizersBackend": Fast(),
    "ParakeetTokenizer": Fast(),
    "AlbertTokenizer": Fast(albert, before=before_albert, named=ALBERT, options={"do_lower_case": True, "keep_accents": False, **PREFIX}),
    "FNetTokenizer": Fast(named=ALBERT, types=True),
    "BarthezTokenizer": Fast(lambda builder: unigram(builder, 3, LINES, "NFC", ("strip", True), splits=False, prefix=scheme(builder)), named=ROBERTA, flags=MASK, options=PREFIX),
    "BertTokenizer": Fast(wordpiece, types=True, **BERT_CLASS),
    "DistilBertTokenizer": Fast(wordpiece, **BERT_CLASS),
    "ConvBertTokenizer": Fast(types=True, around=AROUND_BERT, named=BERT),
    "BigBirdTokenizer": Fast(big_bird, AROUND_BERT, named={**ROBERTA, "sep_token": "[SEP]", "mask_token": "[MASK]", "cls_token": "[CLS]"}, flags=ALL_PLAIN, options=PREFIX),
    "BlenderbotTokenizer": Fast(byte_level(), named=ROBERTA, flags={"mask_token": {"lstrip": True, "rstrip": False, "normalized": False}}, options=PREFIX),
    "CamembertTokenizer": Fast(
        lambda builder: unigram(builder, first_lanes(builder, builder.text("unk")), "map", prefix=scheme(builder)),
        AROUND_XLM,
        named=ROBERTA,
        flags={"mask_token": {"lstrip": True, "special": True}},
        options=PREFIX,
        extra=listed_or("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"),
    ),
    "CLIPTokenizer": Fast(clip, around_clip, named={"unk_token": END, "bos_token": "<|startoftext|>", "eos_token": END, "pad_token": END}),
    "CodeGenTokenizer": Fast(
        byte_level(),
        before=lambda builder: setattr(builder.tokenizer, "post_processor", builder.package.processors.ByteLevel(add_prefix_space=True, use_regex=True, trim_offsets=False)),
        named={"unk_token": END, "bos_token": END, "eos_token": END, "pad_token": None},
        options={**NO_PREFIX, "return_token_type_ids": False},
    ),
    "CodeLlamaTokenizer": Fast(
        code_llama,
        around_code_llama,
        named=LLAMA,
        own=lambda builder: CODE_LLAMA_OWN,
        options={"add_prefix_space": None},
        extra=code_llama_extra,
        pads="left",
    ),
    "CohereTokenizer": Fast(
        byte_level("NFC", digits=True),
        named={"unk_token": "<UNK>", "bos_token": "<BOS_TOKEN>", "eos_token": "<|END_OF_TURN_TOKEN|>", "pad_token": "<PAD>", "cls_token": "<CLS>", "sep_token": "<SEP>", "mask_token": "<MASK_TOKEN>"},
        options=NO_PREFIX,
        pads="left",
        adds_again="tokens",
    ),
    "DebertaTokenizer": Fast(byte_level(), template("{cls} $A {sep}", "{cls} $A {sep} {sep} $B {sep}", "cls", "sep"), named={**BERT, "bos_token": "[CLS]", "eos_token": "[SEP]"}, options=NO_PREFIX, types=True),
    "DebertaV2Tokenizer": Fast(deberta_v2, AROUND_BERT, named={**BERT, "bos_token": "[CLS]", "eos_token": "[SEP]"}, options={"do_lower_case": False, "split_by_punct": False, **PREFIX, "unk_id": 1}, types=True),
    "EsmcTokenizer": Fast(esmc, template("{cls} $A {eos}", "$A:0 $B:1", "cls", "eos"), named={"unk_token": "<unk>", "cls_token": "<cls>", "pad_token": "<pad>", "mask_token": "<mask>", "eos_token": "<eos>", "bos_token": None}, own=lambda builder: {"chain_break_token": "|"}),
    "FunnelTokenizer": Fast(
        wordpiece,
        template("{cls}:2 $A:0 {sep}:0", "{cls}:2 $A:0 {sep}:0 $B:1 {sep}:1", "cls", "sep"),
        named={"unk_token": "<unk>", "sep_token": "<sep>", "pad_token": "<pad>", "cls_token": "<cls>", "mask_token": "<mask>", "bos_token": "<s>", "eos_token": "</s>"},
        options={**BERT_OPTIONS, "clean_text": True, "wordpieces_prefix": "##"},
    ),
    "GemmaTokenizer": Fast(gemma(lower=False), named=GEMMA, pads="left"),
    "GPT2Tokenizer": Fast(byte_level(), named={"unk_token": END, "bos_token": END, "eos_token": END, "pad_token": None}, options=NO_PREFIX),
    "GPTNeoXTokenizer": Fast(byte_level("NFC"), around=lambda builder: builder.process("$A:0", "$A:0 $B:1", []), named={"unk_token": END, "bos_token": END, "eos_token": END, "pad_token": "<|padding|>"}, options=NO_PREFIX),
    "HerbertTokenizer": Fast(
        bert_bpe({"lowercase": False, "strip_accents": False, "clean_text": True, "handle_chinese_chars": True}), around_herbert, named={"cls_token": "<s>", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>", "sep_token": "</s>"}
    ),
    "LasrTokenizer": Fast(lambda builder: unigram(builder, 3, "map"), around_t5, **T5_CLASS),
    "LlamaTokenizer": Fast(llama, named=LLAMA, options={"legacy": False, "add_prefix_space": None}, pads="left"),
    "LukeTokenizer": Fast(byte_level(), roberta(True, True), named=ROBERTA, own=luke_own(""), options={**NO_PREFIX, **LUKE_OPTIONS}, extra=luke_extra(""), extra_wins=True),
    "MBartTokenizer": Fast(lambda builder: unigram(builder, 3), named=ROBERTA, flags=MASK, extra=with_listed(MBART), **language_options(only(), only("eos", "language"), src_lang="en_XX")),
    "MBart50Tokenizer": Fast(
        mbart50, named={name: text for name, text in ROBERTA.items() if name != "bos_token"}, flags=MASK, extra=with_listed(MBART50, listed_first=True), **language_options(only("language"), only("eos"), src_lang="en_XX")
    ),
    "MLukeTokenizer": Fast(
        lambda builder: unigram(builder, 0, *QUOTES, splits=False),
        TWO_SEPARATORS,
        named=ROBERTA,
        flags=MASK,
        own=luke_own(WORD),
        options=LUKE_OPTIONS,
        extra=luke_extra(WORD, "[UNK]", "[PAD]", "[MASK]", "[MASK2]"),
        extra_wins=True,
        adds_again="tokens",
    ),
    "MPNetTokenizer": Fast(wordpiece, roberta(True, False), named={**ROBERTA, "unk_token": "[UNK]"}, flags=ALL_PLAIN, options=BERT_OPTIONS),
    "NllbTokenizer": Fast(
        word_bpe(charsmap_or_none),
        named=ROBERTA,
        flags={"mask_token": {"normalized": True, "lstrip": True, "special": True}},
        extra=nllb_extra,
        **language_options(nllb_before, nllb_after, src_lang="eng_Latn", legacy_behaviour=False),
    ),
    "NougatTokenizer": Fast(nougat, template("{bos}:0 $A:0 {eos}:0", "$A:0 $B:1", "eos", "bos"), named={**LLAMA, "pad_token": "<pad>"}),
    "OpenAIGPTTokenizer": Fast(bert_bpe({"lowercase": True}), named={"unk_token": "<unk>"}),
    "PegasusTokenizer": Fast(
        pegasus, template("$A {eos}", "$A $B {eos}", "eos"), named={**T5, "mask_token": "<mask_2>"}, options={"mask_token_sent": "<mask_1>", "offset": 103}, extra=pegasus_extra
    ),
    "Qwen2Tokenizer": Fast(split_bytes(QWEN2), adds_again="texts", **QWEN_CLASS),
    "Qwen3_5Tokenizer": Fast(split_bytes(QWEN3_5), **QWEN_CLASS),
    "ReformerTokenizer": Fast(word_bpe(charsmap_or_none), named={"eos_token": "</s>", "unk_token": "<unk>"}, adds_again="tokens"),
    "RemBertTokenizer": Fast(rembert, AROUND_BERT, named=ALBERT, options={"do_lower_case": False, "keep_accents": True, **PREFIX}, adds_again="tokens", bare_wins=True),
    "RobertaTokenizer": Fast(byte_level(), roberta(), named=ROBERTA, options={**NO_PREFIX, "trim_offsets": True}),
    "SeamlessM4TTokenizer": Fast(
        word_bpe(seamless, "first"), languages(only("language"), only("eos"), marks="__"), target=languages(only("eos", "language"), only("eos"), marks="__", key="tgt_lang"), named=FAIRSEQ, options={"src_lang": "eng", "tgt_lang": "fra"}
    ),
    "Siglip2Tokenizer": Fast(gemma(lower=True), named=GEMMA, pads="left"),
    "SplinterTokenizer": Fast(wordpiece, around_splinter, named=BERT, own=lambda builder: {"question_token": "[QUESTION]"}, options=BERT_OPTIONS),
    "T5Tokenizer": Fast(lambda builder: unigram(builder, 2, "map"), around_t5, **T5_CLASS),
    "Tipsv2Tokenizer": Fast(tipsv2, named={"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": None, "eos_token": None}, options={"do_lower_case": True}),
    "VideoPrismTokenizer": Fast(lambda builder: unigram(builder, 2, "map"), **T5_CLASS),
    "WhisperTokenizer": Fast(
        byte_level(), around_whisper, named={"unk_token": END, "bos_token": END, "eos_token": END}, flags={name: {**PLAIN, "normalized": False, "special": True} for name in ("unk_token", "bos_token", "eos_token")}, options={**NO_PREFIX, "language": None, "task": None, "predict_timestamps": False}
    ),
    "XGLMTokenizer": Fast(
        lambda builder: unigram(builder, 3, "map", SPACES, splits=False, prefix=scheme(builder)), template("{eos} $A", "{eos} $A {eos} {eos} $B", "bos", "eos"), named=FAIRSEQ, options=PREFIX, extra=with_listed([f"<madeupword{number}>" for number in range(7)], listed_first=True)
    ),
    "XLMRobertaTokenizer": Fast(lambda builder: unigram(builder, 3, "map", prefix=scheme(builder)), AROUND_XLM, named=ROBERTA, options=PREFIX),
    "XLNetTokenizer": Fast(
        xlnet,
        template("$A:0 {sep}:0 {cls}:2", "$A:0 {sep}:0 $B:1 {sep}:1 {cls}:2", "sep", "cls"),
        named={**LLAMA, "sep_token": "<sep>", "pad_token": "<pad>", "cls_token": "<cls>", "mask_token": "<mask>"},
        flags=MASK,
        options={"unk_id": 0, "do_lower_case": False},
        extra=listed_or("<eop>", "<eod>"),
        pads="left",
    ),
}
for role, gives_types in (("ContextEncoder", True), ("QuestionEncoder", True), ("Reader", False)):
    CLASSES[f"DPR{role}Tokenizer"] = Fast(lower_always, types=gives_types, **BERT_CLASS)  # which takes do_lower_case and ignores it
    CLASSES[f"DPR{role}TokenizerFast"] = Fast(around=AROUND_BERT, types=gives_types, named=BERT)
