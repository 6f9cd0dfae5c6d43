"""Determines which class of transformers 5.23 AutoTokenizer uses for a folder, from the names in its tokenizer_config.json and config.json. In one program with fast_tokenizers.py, which defines the supported classes."""

BACKEND = "TokenizersBackend"
AS_IT_IS = 'set "tokenizer_class" there to "TokenizersBackend", without "auto_map", to read tokenizer.json as it is'

# Alternative names of classes.
ALIASES = {
    BACKEND: "PreTrainedTokenizerFast PreTrainedTokenizer PythonBackend BloomTokenizer",
    "BertTokenizer": "ElectraTokenizer LayoutLMTokenizer LxmertTokenizer MobileBertTokenizer SqueezeBertTokenizer",
    "RobertaTokenizer": "BartTokenizer LEDTokenizer LongformerTokenizer MvpTokenizer",
    "LlamaTokenizer": "Phi3Tokenizer",
}
# Classes that encode in Python, and those of the package tokenizers that need more input than text.
UNSUPPORTED = """
    BartphoTokenizer BertGenerationTokenizer BertJapaneseTokenizer BertTokenizerLegacy BertweetTokenizer BioGptTokenizer BlenderbotSmallTokenizer ByT5Tokenizer CTRLTokenizer CanineTokenizer ClvpTokenizer CpmAntTokenizer CpmTokenizer DiaTokenizer EsmTokenizer FSMTTokenizer
    FastSpeech2ConformerTokenizer FlaubertTokenizer GPTNeoXJapaneseTokenizer GPTSw3Tokenizer LayoutLMv2Tokenizer LayoutLMv3Tokenizer LayoutXLMTokenizer M2M100Tokenizer MarianTokenizer MarkupLMTokenizer MgpstrTokenizer MyT5Tokenizer PLBartTokenizer PerceiverTokenizer PhobertTokenizer Pop2PianoTokenizer
    ProphetNetTokenizer RagTokenizer RoCBertTokenizer RoFormerTokenizer SiglipTokenizer Speech2TextTokenizer SpeechT5Tokenizer TapasTokenizer UdopTokenizer VitsTokenizer Wav2Vec2CTCTokenizer Wav2Vec2PhonemeCTCTokenizer XLMTokenizer
""".split()
# Class for each model_type of config.json; for Mistral's, if the package mistral_common is not installed.
MODEL_TYPES = {
    BACKEND: """
        EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chatlm cohere_asr ernie4_5 ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr got_ocr2 gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared h2ovl_chat
        hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear kosmos-2 llava llava_next mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 minimax_m2 ministral ministral3 mistral mistral3 mistral_large4 mixtral modernbert modernbert-decoder molmo molmo2
        nemo_speechlm nemotron nvfp4 nystromformer olmo2 olmo3 olmo_hybrid opencua openvla paddleocr_vl pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral pocket_tts smolvlm stablelm step3_vl umt5 vipllava voxtral voxtral_realtime xlm-roberta-xl
    """,
    "AlbertTokenizer": "albert yoso",
    "BarthezTokenizer": "barthez",
    "BartphoTokenizer": "bartpho",
    "BertGenerationTokenizer": "bert-generation",
    "BertJapaneseTokenizer": "bert-japanese",
    "BertTokenizer": """
        align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git grounding-dino layoutlm megatron-bert mm-grounding-dino nezha nomic_bert qdqbert realm retribert squeezebert tvp vilt visual_bert
    """,
    "BertweetTokenizer": "bertweet",
    "BigBirdTokenizer": "big_bird",
    "BioGptTokenizer": "biogpt",
    "BlenderbotSmallTokenizer": "blenderbot-small",
    "BlenderbotTokenizer": "blenderbot",
    "ByT5Tokenizer": "byt5",
    "CLIPTokenizer": "aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 sam3_video xclip",
    "CTRLTokenizer": "ctrl",
    "CamembertTokenizer": "camembert",
    "CanineTokenizer": "canine",
    "ClvpTokenizer": "clvp",
    "CodeLlamaTokenizer": "code_llama",
    "CohereTokenizer": "aya_vision cohere cohere2",
    "CpmAntTokenizer": "cpmant",
    "CpmTokenizer": "cpm",
    "DPRQuestionEncoderTokenizer": "dpr",
    "DebertaTokenizer": "deberta",
    "DebertaV2Tokenizer": "deberta-v2",
    "DiaTokenizer": "dia",
    "EsmTokenizer": "esm",
    "EsmcTokenizer": "esmc esmfold2",
    "FNetTokenizer": "fnet",
    "FSMTTokenizer": "fsmt",
    "FlaubertTokenizer": "flaubert",
    "FunnelTokenizer": "funnel",
    "GPT2Tokenizer": "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip instructblipvideo jais2 opt phi starcoder2",
    "GPTNeoXJapaneseTokenizer": "gpt_neox_japanese",
    "GPTNeoXTokenizer": "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm",
    "GPTSw3Tokenizer": "gpt-sw3",
    "GemmaTokenizer": "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 t5gemma zaya",
    "HerbertTokenizer": "herbert",
    "LEDTokenizer": "led",
    "LasrTokenizer": "lasr_ctc lasr_encoder",
    "LayoutLMv2Tokenizer": "layoutlmv2",
    "LayoutLMv3Tokenizer": "layoutlmv3",
    "LayoutXLMTokenizer": "layoutxlm",
    "LlamaTokenizer": "idefics idefics2",
    "LukeTokenizer": "luke",
    "LxmertTokenizer": "lxmert",
    "M2M100Tokenizer": "m2m_100",
    "MBart50Tokenizer": "mbart50",
    "MBartTokenizer": "mbart",
    "MLukeTokenizer": "mluke",
    "MPNetTokenizer": "mpnet",
    "MarianTokenizer": "marian",
    "MarkupLMTokenizer": "markuplm",
    "MgpstrTokenizer": "mgp-str",
    "MobileBertTokenizer": "mobilebert",
    "MvpTokenizer": "mvp",
    "BartTokenizer": "florence2",
    "MyT5Tokenizer": "myt5",
    "NllbTokenizer": "nllb nllb-moe",
    "NougatTokenizer": "nougat pp_formulanet",
    "OpenAIGPTTokenizer": "openai-gpt",
    "PLBartTokenizer": "plbart",
    "ParakeetTokenizer": "granite_speech5_ctc nemotron3_5_asr nemotron_asr_streaming parakeet_ctc parakeet_rnnt parakeet_tdt",
    "PegasusTokenizer": "pegasus",
    "PerceiverTokenizer": "perceiver",
    "PhobertTokenizer": "phobert",
    "ProphetNetTokenizer": "prophetnet",
    "Qwen2Tokenizer": """
        audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl lighton_ocr moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice
    """,
    "Qwen3_5Tokenizer": "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp",
    "RagTokenizer": "rag",
    "ReformerTokenizer": "reformer",
    "RemBertTokenizer": "rembert",
    "RoCBertTokenizer": "roc_bert",
    "RoFormerTokenizer": "roformer",
    "RobertaTokenizer": "bart bridgetower clap data2vec-text ibert lilt longformer mega mra roberta roberta-prelayernorm",
    "SeamlessM4TTokenizer": "seamless_m4t seamless_m4t_v2",
    "Siglip2Tokenizer": "siglip2",
    "SiglipTokenizer": "siglip",
    "Speech2TextTokenizer": "speech_to_text",
    "SpeechT5Tokenizer": "speecht5",
    "SplinterTokenizer": "splinter",
    "T5Tokenizer": "mt5 musicgen musicgen_melody switch_transformers t5",
    "TapasTokenizer": "tapas",
    "Tipsv2Tokenizer": "tipsv2",
    "UdopTokenizer": "udop",
    "VideoPrismTokenizer": "videoprism",
    "VitsTokenizer": "vits",
    "Wav2Vec2CTCTokenizer": "data2vec-audio hubert unispeech unispeech-sat wav2vec2 wav2vec2-bert wav2vec2-conformer",
    "Wav2Vec2PhonemeCTCTokenizer": "wav2vec2_phoneme",
    "WhisperTokenizer": "whisper",
    "XGLMTokenizer": "xglm",
    "XLMRobertaTokenizer": "gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod",
    "XLMTokenizer": "xlm",
    "XLNetTokenizer": "xlnet",
}
# Models whose folders name a wrong class: the class of their model_type applies.
WRONG_IN_FOLDERS = """
    arctic camembertv2-base chatlm cohere_asr ernie4_5 ernie4_5_moe fuyu h2ovl_chat hyperclovax hyperclovax_vision_v2 hyperclovax_vlm internlm2 internlm3 iquestcoder jamba llava llava_next minicpm3 minicpmv minimax_m2 modernbert modernbert-decoder molmo molmo2 nemotron nvfp4 opencua openvla paddleocr_vl phi3
    phi3_v phimoe qwen2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp siglip2 smolvlm step3_vl vipllava
""".split()

# transformers has no config for these, so their model_type alone names no class.
WITHOUT_CONFIG = """
    arctic barthez bartpho bert-japanese bertweet byt5 camembertv2-base chatlm code_llama cpm h2ovl_chat herbert hyperclovax_vlm internlm2 mbart50 mega minicpmv mluke molmo myt5 nezha nllb nvfp4 opencua openvla phi3_v phobert qdqbert realm retribert step3_vl wav2vec2_phoneme
""".split()


def without_fast(name):
    return name.removesuffix("Fast")


def class_by_name(name, known):
    """The class of that name, if it is `known` or unsupported; None for others."""
    if name in known:
        return name
    plain = without_fast(name)
    return next((of for of, names in ALIASES.items() if plain in names.split()), plain if plain in known or plain in UNSUPPORTED else None)


def registered_class(model_type):
    return next((name for name, types in MODEL_TYPES.items() if model_type in types.split()), None)


def has_own_code(config):
    """Whether a folder brings a class of its own, which is code."""
    own = config.get("auto_map")
    return bool(own.get("AutoTokenizer")) if isinstance(own, dict) else bool(own)


def tokenizer_class(config, model, is_byte_level, known):
    """`config` is tokenizer_config.json, `model` config.json; is_byte_level() says whether tokenizer.json is. `known` are the classes of fast_tokenizers.py."""
    named, model_type = config.get("tokenizer_class"), model.get("model_type") or None
    for value, key in ((named, "tokenizer_class in tokenizer_config.json"), (model.get("tokenizer_class"), "tokenizer_class in config.json"), (model_type, "model_type in config.json")):
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{key} is {value!r}, and must be a text")
    asked, registered = named or model.get("tokenizer_class"), registered_class(model_type)
    is_wrong = model_type in WRONG_IN_FOLDERS or model.get("model_name") in WRONG_IN_FOLDERS
    if not has_own_code(config):
        if asked and without_fast(asked) == "LlamaTokenizer" and not is_wrong and is_byte_level():
            return BACKEND
        if asked and registered and registered != without_fast(asked):
            return (registered != BACKEND and class_by_name(registered if is_wrong else asked, known)) or BACKEND
    elif not is_wrong and (not registered or model_type in WITHOUT_CONFIG) and not (named and class_by_name(named, known)):
        raise ValueError(f'"auto_map" in tokenizer_config.json names Python code of the folder, which is not run: {AS_IT_IS}')
    if asked:
        return class_by_name(without_fast(asked), known) or BACKEND
    if model_type == "gpt-sw3":  # which shares GPT-2's config
        registered = "GPT2Tokenizer"
    if model_type == "encoder-decoder":
        registered = registered_class((model.get("encoder") or {}).get("model_type"))
    return (registered and model_type not in WITHOUT_CONFIG and class_by_name(registered, known)) or BACKEND
