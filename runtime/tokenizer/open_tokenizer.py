"""The tokenizer of a folder with tokenizer.json, with the ids that transformers' AutoTokenizer gives. Follows fast_tokenizers.py in one program."""

import base64
import functools
import json
import os
import re

# Arguments that from_pretrained passes internally; folders that transformers wrote do not have them.
INTERNAL = ["vocab", "merges", "tokenizer_object", "tokenizer_file", "post_processor", "tokenizer_padding", "tokenizer_truncation", "gguf_file", "init_inputs", "model_specific_special_tokens", "_json_truncation", "_json_padding", "_spm_precompiled_charsmap"]
# Expected types of keys of tokenizer_config.json; null is always allowed.
KINDS = {
    **dict.fromkeys(["added_tokens_decoder"], ((dict,), "an object")),
    **dict.fromkeys(["extra_special_tokens", "additional_special_tokens"], ((list, dict), "a list, or an object of names")),
    **dict.fromkeys(["model_input_names", "fast_tokenizer_files"], ((list,), "a list")),
    **dict.fromkeys(["split_special_tokens", "clean_up_tokenization_spaces", "fix_mistral_regex"], ((bool,), "true or false")),
}


def read_json(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        try:
            read = json.load(file)
        except ValueError as error:
            raise ValueError(f"{name} is not JSON: {error}") from None
    if not isinstance(read, dict):
        raise ValueError(f"{name} is not a JSON object")
    return read


class Builder:
    """Builds a tokenizer."""

    def __init__(self, folder):
        import tokenizers

        self.package, self.added = tokenizers, tokenizers.AddedToken
        self.models, self.normalizers, self.pre_tokenizers, self.decoders = tokenizers.models, tokenizers.normalizers, tokenizers.pre_tokenizers, tokenizers.decoders
        self.regex = tokenizers.Regex
        path = os.path.join(folder, "tokenizer.json")
        self.folder, self.file = folder, tokenizers.Tokenizer.from_file(path)
        self.model, self.config = read_json(folder, "config.json"), read_json(folder, "tokenizer_config.json")
        self.check_config()
        name = tokenizer_class(self.config, self.model, self.is_byte_level, CLASSES)
        if name not in CLASSES:
            raise ValueError(f"it is of the class {name}, which is not supported: {AS_IT_IS}")
        self.fast, self.name = CLASSES[name], name
        self.truncates = self.config.get("truncation_side", (self.file.truncation or {}).get("direction", "right"))
        self.read_tokens()
        self.read_options()
        self.read_special_tokens()
        self.build()

    def check_config(self):
        for key in INTERNAL:
            if self.config.get(key):
                raise ValueError(f'"{key}" in tokenizer_config.json is not supported: leave it out')
        for key, (kinds, words) in KINDS.items():
            if not isinstance(self.config.get(key), (*kinds, type(None))):
                raise ValueError(f'"{key}" in tokenizer_config.json is {json.dumps(self.config[key])}, and must be {words}')
        for name in self.config.get("fast_tokenizer_files") or []:
            if name != "tokenizer.json":
                raise ValueError(f'"fast_tokenizer_files" in tokenizer_config.json names {name}, and only tokenizer.json is read: leave it out')
        for key in ("padding_side", "truncation_side"):
            if self.config.get(key, "right") not in ("left", "right"):
                raise ValueError(f'"{key}" in tokenizer_config.json is {json.dumps(self.config[key])}, and must be "left" or "right"')

    # Files

    @functools.cached_property
    def json(self):
        """tokenizer.json, which is large."""
        return read_json(self.folder, "tokenizer.json")

    def is_byte_level(self):
        with open(os.path.join(self.folder, "tokenizer.json"), encoding="utf-8") as file:
            return '"ByteLevel"' in file.read()

    def token(self, value, where, special=None):
        """Creates an AddedToken from a JSON object."""
        fields = {key: value[key] for key in ("content", "single_word", "lstrip", "rstrip", "normalized", "special") if key in value and not (special and key == "special")}
        try:
            return self.added(**fields, **({"special": True} if special else {}))
        except TypeError as error:
            raise ValueError(f"{where}: {error}") from None

    def convert(self, value, key):
        """Converts tokens that tokenizer_config.json writes as objects."""
        if isinstance(value, dict) and value.get("__type") == "AddedToken":
            return self.token(value, f'"{key}" in tokenizer_config.json')
        return [self.convert(one, key) for one in value] if isinstance(value, list) else value

    def read_tokens(self):
        """Reads the files' added and special tokens, with transformers' precedence."""
        # transformers ignores add_bos_token and add_eos_token if there is a tokenizer.json.
        config, self.decoder = {key: value for key, value in self.config.items() if key not in ("add_bos_token", "add_eos_token")}, {}
        if "additional_special_tokens" in config and not config.get("extra_special_tokens"):
            config["extra_special_tokens"] = config.pop("additional_special_tokens")
        self.own = {key: config.pop(key) for key in list(config) if key not in NAMED and key.endswith("_token") and isinstance(config[key], str)}
        if isinstance(config.get("extra_special_tokens"), dict):
            self.own.update(config.pop("extra_special_tokens"))
        if "added_tokens_decoder" in config:
            for id, token in (config["added_tokens_decoder"] or {}).items():
                if not isinstance(token, dict) or not id.isdecimal():
                    raise ValueError(f'"added_tokens_decoder" in tokenizer_config.json has {json.dumps({id: token})}, and must have objects by id')
                self.decoder[int(id)] = self.token(token, '"added_tokens_decoder" in tokenizer_config.json')
        else:
            self.read_older(config)
        by_text = {token.content: token for token in self.decoder.values()}
        self.config = {key: self.convert(value, key) for key, value in config.items() if key != "added_tokens_decoder"}
        for key in NAMED:
            if by_text and self.config.get(key) is not None:
                self.config[key] = by_text.get(str(self.config[key]), self.config[key])

    def read_older(self, config):
        """Reads the tokens of folders whose tokenizer_config.json does not list the added tokens."""
        for key, value in read_json(self.folder, "special_tokens_map.json").items():
            if key in KINDS and not isinstance(value, (*KINDS[key][0], type(None))):
                raise ValueError(f'"{key}" in special_tokens_map.json is {json.dumps(value)}, and must be {KINDS[key][1]}')
            if isinstance(value, dict) and key != "extra_special_tokens":
                value = self.token(value, f'"{key}" in special_tokens_map.json', special=True)
            elif isinstance(value, list) and key == "extra_special_tokens":
                more = [self.token(token, f'"{key}" in special_tokens_map.json', special=True) if isinstance(token, dict) else token for token in value]
                listed = list(config.get(key) or [])
                value = listed + [token for token in more if token not in listed]
            config[key] = value
        if isinstance(config.get("extra_special_tokens"), dict):
            self.own.update(config.pop("extra_special_tokens"))
        special = {str(config[key]) for key in NAMED if config.get(key)} | set(map(str, config.get("extra_special_tokens") or []))
        for text, id in read_json(self.folder, "added_tokens.json").items():
            if type(id) is not int:
                raise ValueError(f"added_tokens.json has {json.dumps({text: id})}, and must have texts with their ids")
            self.decoder[id] = self.added(text, rstrip=False, lstrip=False, normalized=text not in special, special=text in special)
        for token in self.json.get("added_tokens", []):
            self.decoder[token["id"]] = self.token(token, '"added_tokens" in tokenizer.json')

    def read_options(self):
        self.options = {}
        for key, default in self.fast.options.items():
            value = self.config.get(key, default)
            # An option whose default is None is a bool, except for those that take words.
            kinds = (type(default),) if default is not None else (bool, type(None)) if key in ("strip_accents", "add_prefix_space") else (str, type(None))
            kinds += (self.added,) if key.startswith("entity_token_") else (type(None),) if key in ("legacy", "mask_token_sent") else ()
            if type(value) not in kinds and not (key == "src_lang" and value is None):
                raise ValueError(f'"{key}" in tokenizer_config.json is {json.dumps(value, default=str)}, and {self.name} takes {"true or false" if bool in kinds else "a number" if int in kinds else "a text"}')
            self.options[key] = default if key == "src_lang" and value is None else value

    def read_special_tokens(self):
        """Reads the named special tokens, those with names of their own, and the others."""
        self.named, self.additional = {}, self.config.get("additional_special_tokens")
        if not isinstance(self.additional, (list, type(None))):
            raise ValueError(f'"additional_special_tokens" in tokenizer_config.json is {json.dumps(self.additional)}, and must be a list')
        for key in NAMED:
            value = self.config.get(key, self.fast.named.get(key))
            if key in self.fast.flags and isinstance(value, str):
                value = self.added(value, **self.fast.flags[key])
            if not isinstance(value, (str, self.added, type(None))):
                raise ValueError(f'"{key}" in tokenizer_config.json is {json.dumps(value)}, and must be a text, or an object with "__type": "AddedToken"')
            self.named[key] = value
        padding = self.file.padding or {}
        if "pad_token" not in self.config and "pad_token" not in self.fast.named:
            self.named["pad_token"] = padding.get("pad_token")
        left = {key: value for key, value in self.config.items() if key not in NAMED and key.endswith("_token") and isinstance(value, (str, self.added))}
        self.own = {**self.fast.own(self), **left, **self.own}
        extra = self.fast.extra(self)
        if "extra_special_tokens" in self.config and not self.fast.extra_wins:
            extra = self.config["extra_special_tokens"]
        self.further = list(extra or [])
        for key, value in [*self.own.items(), *(("extra_special_tokens", token) for token in self.further)]:
            if not isinstance(value, (str, self.added)):
                raise ValueError(f'"{key}" in tokenizer_config.json has {json.dumps(value)}, and must have texts, or objects with "__type": "AddedToken"')
        default = "left" if self.fast.pads_left else "right"
        self.pads_left = self.config.get("padding_side", padding.get("direction", default)) == "left"
        inputs = self.config.get("model_input_names")
        self.gives_types = "token_type_ids" in inputs if inputs is not None else self.fast.gives_types or self.options.get("return_token_type_ids", False)

    # Building

    def text(self, name):
        """Text of a special token; for None transformers' text for it."""
        return str(self.named[name + "_token"] if name + "_token" in NAMED else self.own[name + "_token"])

    def id(self, text):
        """Id of a token's text; the unknown token's if there is none."""
        id = self.tokenizer.token_to_id(text)
        unknown = self.named.get("unk_token")
        return id if id is not None or unknown is None else self.tokenizer.token_to_id(str(unknown))

    def use_model(self, model):
        self.tokenizer = self.package.Tokenizer(model)
        return self.tokenizer

    def normalize(self, *parts):
        """A normalizer from names, (pattern, replacement), ("strip", right side too) and the file's character "map". None if there are no parts."""
        steps = []
        for part in parts:
            if part == "map":
                steps += [self.normalizers.Precompiled(self.character_map)] if self.character_map else []
            elif isinstance(part, str):
                steps.append(getattr(self.normalizers, part)())
            elif part[0] == "strip":
                steps.append(self.normalizers.Strip(left=False, right=part[1]))
            else:
                steps.append(self.normalizers.Replace(part[0] if "plain" in part else self.regex(part[0]), part[1]))
        return (self.normalizers.Sequence(steps) if len(steps) > 1 else steps[0]) if steps else None

    def process(self, single, pair, tokens):
        self.tokenizer.post_processor = self.package.processors.TemplateProcessing(single=single, pair=pair, special_tokens=tokens)

    def build(self):
        if self.fast.build:
            self.read_vocabulary()
            try:
                self.fast.build(self)
            except (TypeError, AttributeError, ValueError) as error:  # raised by the package, which accepts lists of scores or numbered texts
                kind = self.json.get("model", {}).get("type")
                raise ValueError(f"it is of the class {self.name}, which cannot be built from tokenizer.json's {kind} vocabulary ({str(error).splitlines()[0]}): {AS_IT_IS}") from None
            if self.fast.before:
                self.fast.before(self)
            if self.file.post_processor is not None:
                self.tokenizer.post_processor = self.file.post_processor
        else:
            self.tokenizer = self.file
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        is_bare = self.tokenizer.post_processor is None
        self.add_tokens()
        self.fix_mistral()
        if is_bare:
            self.process("$A:0", "$A:0 $B:1", [])
        if self.fast.adds_again == "tokens":
            tokens = [token for token in [*self.named.values(), *self.own.values(), *self.further] if token is not None]
            self.tokenizer.add_special_tokens([self.added(token, special=True, normalized=False) if isinstance(token, str) else token for token in tokens])
        elif self.fast.adds_again == "texts":
            texts = dict.fromkeys(str(token) for token in [*self.named.values(), *self.own.values(), *self.further] if token is not None)
            self.tokenizer.add_tokens([self.added(text, special=True) for text in texts])
        if self.fast.around and not (is_bare and self.fast.bare_wins):
            self.fast.around(self)
        self.around = self.around_target = self.tokenizer.post_processor
        if self.fast.target:
            self.fast.target(self)
            self.around_target, self.tokenizer.post_processor = self.tokenizer.post_processor, self.around

    def read_vocabulary(self):
        model = self.json.get("model", {})
        self.vocabulary, self.merges = model.get("vocab"), []
        if isinstance(self.vocabulary, list):
            self.vocabulary = [tuple(piece) for piece in self.vocabulary]
        self.merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model.get("merges", [])]
        normalizer = self.json.get("normalizer") or {}
        parts = normalizer["normalizers"] if normalizer.get("type") == "Sequence" else [normalizer]
        self.character_map = next((base64.b64decode(part["precompiled_charsmap"]) for part in parts if part.get("type") == "Precompiled"), None)

    def add_tokens(self):
        adds = [token for _, token in sorted(self.decoder.items())]
        known = {token.content for token in self.tokenizer.get_added_tokens_decoder().values()} | {token.content for token in adds}
        named = [token for token in [*self.named.values(), *self.own.values()] if token is not None]
        for token in [*named, *self.further]:
            if str(token) not in known and token not in adds:
                adds.append(token)
        names = {str(token) for token in named}
        for number, token in enumerate(adds):
            if isinstance(token, str):
                adds[number] = self.added(token, special=True)
            elif not token.special and str(token) in names:
                token.special = True
        if adds:
            self.tokenizer.add_tokens(adds)

    def fix_mistral(self):
        """Corrects the pattern of Mistral's older folders if transformers does."""
        if self.tokenizer.get_vocab_size() <= 100000 or not self.config.get("fix_mistral_regex") or self.tokenizer.pre_tokenizer is None or not self.model:
            return
        version = re.match(r"(\d+)\.(\d+)\.(\d+)(.*)", str(self.model.get("transformers_version") or "0.0.0"))
        is_old = version is None or int(version[1]) < 5 or (version.group(1, 2, 3) == ("5", "0", "0") and version[4] != "")
        if not is_old or self.model.get("model_type", "mistral") not in ("mistral", "mistral3", "voxtral", "ministral", "pixtral"):
            return
        pre = self.pre_tokenizers
        split, present = pre.Split(pattern=self.regex(FIXED_MISTRAL), behavior="isolated"), self.tokenizer.pre_tokenizer
        if isinstance(present, pre.Sequence):
            self.tokenizer.pre_tokenizer[0] = split
            return
        if isinstance(present, pre.Metaspace):
            present = pre.ByteLevel(add_prefix_space=False, use_regex=False)
        self.tokenizer.pre_tokenizer = pre.Sequence([split, present])
