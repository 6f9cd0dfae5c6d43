"""A tokenizer of Hugging Face's package tokenizers: a line of JSON in, a line of JSON out.

The first line is {"folder": path}. It is answered with {"vocabulary", "eos", "pad", "mask", "pads_left", "closing", "gives_types", "program"}, where ids that the tokenizer has not are null, or {"error": sentence}, as every line may be.
{"texts": [text], "pairs": [text] or null, "words": bool, "special": bool, "target": bool, "longest": number or null, "asks": ["types", "words"]} is answered with {"lengths": [number]},
and after that line the ids of all texts, 4 bytes each, and what else was asked for: a byte a token for types, 4 for the word it is of (-1: none). A text is a list of words where "words" is true.
{"decode": [id]} is answered with {"text"}.
{"chat": true} is answered with {}, or an error where conversations cannot be written. {"chats": [list of messages, as a text of JSON]} is answered as texts are, with a byte an id after the ids: 1 for what the assistant wrote; or with {"rejected": row, "why": sentence}.
{"asked": [message]} is answered with the ids of a prompt that the assistant continues with, as one text.
"""

import array
import json
import os
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # each of prepare's jobs has a process of its own

CLEANED = [" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're"]


def answer(message, *binary):
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    for values in binary:
        sys.stdout.buffer.write(values)
    sys.stdout.buffer.flush()


class Opened:
    """The tokenizer of a folder, as its texts are encoded."""

    def __init__(self, folder):
        made = Making(folder)
        self.folder, self.config, self.tokenizer, self.template = folder, made.config, made.tokenizer, None
        self.named = {name: str(token) for name, token in {**made.named, **made.own}.items() if token is not None}
        self.eos, self.pad, self.mask = (self.tokenizer.token_to_id(self.named[name]) if name in self.named else None for name in ("eos_token", "pad_token", "mask_token"))
        self.tokenizer.encode_special_tokens = bool(self.config.get("split_special_tokens", False))
        self.pads_left, self.gives_types = made.pads_left, made.gives_types
        self.truncates = made.truncates
        is_bpe = isinstance(self.tokenizer.model, made.models.BPE)
        self.cleans_up = bool(self.config.get("clean_up_tokenization_spaces")) and (not is_bpe or bool(self.config.get("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output")))
        self.around, self.around_target = made.around, made.around_target
        self.longest = None
        if read_json(folder, "sentence_bert_config.json").get("do_lower_case"):
            self.lower()
        self.encode_batch = getattr(self.tokenizer, "encode_batch_fast", self.tokenizer.encode_batch)

    def lower(self):
        """As Sentence Transformers makes texts lower-case, before the tokenizer's own normalizer."""
        from tokenizers import normalizers

        own = self.tokenizer.normalizer
        known = json.loads(self.tokenizer.to_str())["normalizer"] or {}
        if "Lowercase" not in [part["type"] for part in [known, *known.get("normalizers", [])] if part]:
            self.tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *([own] if own else [])])

    def about(self):
        import tokenizers

        vocabulary = max(self.tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        return {"vocabulary": vocabulary, "eos": self.eos, "pad": self.pad, "mask": self.mask, "pads_left": self.pads_left, "closing": self.closing(), "gives_types": self.gives_types, "program": f"tokenizers {tokenizers.__version__}"}

    def closing(self):
        """How many ids are put after a text."""
        for text in ("a", "0", "."):
            mask = self.tokenizer.encode(text).special_tokens_mask
            if not all(mask):
                return mask[::-1].index(0)
        return 0

    def truncate(self, longest):
        if longest == self.longest:
            return
        self.longest = longest
        if longest is None:
            self.tokenizer.no_truncation()
        else:
            self.tokenizer.enable_truncation(longest, stride=0, strategy="longest_first", direction=self.truncates)

    def encodings(self, asked):
        self.tokenizer.post_processor = self.around_target if asked["target"] else self.around
        self.truncate(asked["longest"])
        texts = asked["texts"] if asked["pairs"] is None else list(zip(asked["texts"], asked["pairs"]))
        # The faster one does not know of which word an id is.
        encode_batch = self.tokenizer.encode_batch if "words" in asked["asks"] else self.encode_batch
        return encode_batch(texts, is_pretokenized=asked["words"], add_special_tokens=asked["special"])

    def encode(self, asked):
        ids, types, words, lengths = array.array("I"), bytearray(), array.array("i"), []
        for encoding in self.encodings(asked):
            one = encoding.ids
            lengths.append(len(one))
            ids.extend(one)
            if "types" in asked["asks"]:
                types += bytes(encoding.type_ids)
            if "words" in asked["asks"]:
                words.extend([-1 if word is None else word for word in encoding.word_ids])
        answer({"lengths": lengths}, ids.tobytes(), bytes(types), words.tobytes())

    def decode(self, ids):
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        for spaced in CLEANED if self.cleans_up else []:
            text = text.replace(spaced, spaced.strip())
        return text

    def chat(self):
        self.template = self.template or ChatTemplate(template_source(self.folder, self.config), self.named)
        return self.template

    def encode_chats(self, chats):
        self.truncate(None)
        texts, places = [], []
        for row, messages in enumerate(chats):
            try:
                text, written = self.chat().conversation(json.loads(messages))
            except Exception as error:  # of the template, which may do anything with a message
                return answer({"rejected": row, "why": str(error) if isinstance(error, ValueError) else f"the chat template cannot write it: {type(error).__name__}: {error}"})
            texts.append(text)
            places.append(written)
        ids, learned, lengths = array.array("I"), bytearray(), []
        for encoding, written in zip(self.tokenizer.encode_batch(texts, add_special_tokens=False), places):
            lengths.append(len(encoding.ids))
            ids.extend(encoding.ids)
            learned += self.learned(encoding, written)
        answer({"lengths": lengths}, ids.tobytes(), bytes(learned))

    @staticmethod
    def learned(encoding, places):
        """A byte for each id: whether it lies between the ids of a place's first and last characters."""
        learned = bytearray(len(encoding.ids))
        for begin, end in places:
            # A tokenizer may leave out characters, as spaces.
            first = next(filter(lambda id: id is not None, map(encoding.char_to_token, range(begin, end))), None)
            last = next(filter(lambda id: id is not None, map(encoding.char_to_token, range(end - 1, begin - 1, -1))), None)
            if first is not None:
                learned[first : last + 1] = b"\1" * (last + 1 - first)
        return learned

    def encode_asked(self, messages):
        self.truncate(None)
        ids = self.tokenizer.encode(self.chat().prompt(messages), add_special_tokens=False).ids
        answer({"lengths": [len(ids)]}, array.array("I", ids).tobytes())


def about_chat(opened):
    try:
        opened.chat()
    except ImportError as error:
        return {"error": f"chat templates need the package {error.name}: {sys.executable} -m pip install jinja2"}
    except Exception as error:  # of Jinja
        return {"error": f"the tokenizer's chat template cannot be read: {error}"}
    return {}


def serve():
    first = json.loads(sys.stdin.buffer.readline())
    try:
        opened = Opened(first["folder"])
    except ImportError as error:
        return answer({"error": lacks(error.name or "tokenizers", "tokenizers")})
    except Exception as error:  # of the package, which has no kind of its own
        return answer({"error": f"the tokenizer in {first['folder']} cannot be read: {error}"})
    answer(opened.about())
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        try:
            if "chat" in asked:
                answer(about_chat(opened))
            elif "chats" in asked:
                opened.encode_chats(asked["chats"])
            elif "asked" in asked:
                opened.encode_asked(asked["asked"])
            elif "decode" in asked:
                answer({"text": opened.decode(asked["decode"])})
            else:
                opened.encode(asked)
        except Exception as error:  # a text that the tokenizer has no id for, say
            answer({"error": f"the tokenizer rejects a text: {error}"})


if __name__ == "__main__":
    serve()
