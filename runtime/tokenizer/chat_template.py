"""Renders conversations with a tokenizer's chat template, like transformers' apply_chat_template: a text, and the spans in it that the assistant wrote. Precedes tokenizer_helper.py in one program."""

import contextlib
import json
import os
import re
import resource
import signal
import sys

MARKED = re.compile(r"\{\%-?\s*generation\s*-?\%\}")
REASONING = ("reasoning_content", "thinking", "reasoning")
SAFE_JINJA = (3, 1, 6)  # templates are untrusted programs, and earlier versions let them escape the sandbox
# Limits on a template, which is an untrusted program.
SECONDS = 10
MORE_MEMORY = 4 << 30
MOST_CHARACTERS = 16 << 20


class TooLong(BaseException):
    """A BaseException, because Jinja catches Exception while it compiles a template."""


@contextlib.contextmanager
def bounded():
    """Limits the body, which compiles or renders a template, to SECONDS and MORE_MEMORY. Must run in the main thread, which receives the signals."""

    def interrupt(*_):
        raise TooLong

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        most = int(file.read().split()[0]) * resource.getpagesize() + MORE_MEMORY
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        if soft == resource.RLIM_INFINITY or most < soft:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        signal.setitimer(signal.ITIMER_REAL, SECONDS, 1)  # repeats every second, in case an interrupt is lost
        yield
    except TooLong:
        raise ValueError(f"the chat template takes more than {SECONDS} s: it may never end") from None
    except MemoryError:
        raise ValueError(f"the chat template takes more than {MORE_MEMORY >> 30} GiB of memory") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def environment(written):
    """Jinja's environment, set up as in transformers. Calls `written` with the text of each {% generation %} block."""
    import jinja2
    import jinja2.ext
    import jinja2.sandbox

    if tuple(map(int, re.findall(r"\d+", jinja2.__version__)[:3])) < SAFE_JINJA:
        raise ValueError(f"jinja2 {jinja2.__version__} is older than {'.'.join(map(str, SAFE_JINJA))}: {sys.executable} -m pip install -U jinja2")

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("record"), [], [], body).set_lineno(line)

        def record(self, caller):
            text = caller()
            written(text)
            return text

    def reject(message):
        raise jinja2.exceptions.TemplateError(message)

    def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    sandbox = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    sandbox.filters["tojson"] = to_json
    # Without strftime_now, with which templates write the current day: the data would depend on it.
    sandbox.globals["raise_exception"] = reject
    return sandbox


def template_source(folder, config):
    path = os.path.join(folder, "chat_template.jinja")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return file.read()
    source = config.get("chat_template")
    if isinstance(source, list):
        source = {one["name"]: one["template"] for one in source}.get("default")
    if not isinstance(source, str):
        raise ValueError(f"the tokenizer in {folder} has no chat template: write chat_template.jinja there, or chat_template in tokenizer_config.json")
    return source


class ChatTemplate:
    def __init__(self, source, named):
        self.named = named
        self.is_marked = MARKED.search(source) is not None
        self.parts, self.spans = [], []
        sandbox = environment(self.record)
        with bounded():
            self.template = sandbox.from_string(source)

    def record(self, text):
        begin = sum(map(len, self.parts))
        self.spans.append((begin, begin + len(text)))

    def render(self, messages, asks):
        """The text, with the start of an assistant's turn if `asks`."""
        self.parts, self.spans, characters = [], [], 0
        with bounded():
            for part in self.template.generate(messages=messages, tools=None, documents=None, add_generation_prompt=asks, **self.named):
                characters += len(part)
                if characters > MOST_CHARACTERS:
                    raise ValueError(f"the chat template writes more than {MOST_CHARACTERS >> 20} Mi characters")
                self.parts.append(part)
            return "".join(self.parts)

    def prompt(self, messages):
        return self.render(list(map(seen_message, messages)), True)

    def before(self, messages):
        """The text before an answer."""
        try:
            return self.render(messages, True)
        except Exception as error:  # of templates that look at the first message
            if messages:
                raise
            raise ValueError(f"it begins with the assistant, and the chat template cannot render the text before a first message ({error}), so the message's position is unknown: put {{% generation %}} and {{% endgeneration %}} around the assistant's text in the template") from None

    def conversation(self, messages):
        """The text, and the spans [begin, end) that the assistant wrote."""
        messages = list(map(seen_message, messages))
        if not any(message["role"] == "assistant" for message in messages):
            raise ValueError("no message is the assistant's, so there is nothing to train on: leave the row out")
        text = self.render(messages, False)
        if self.is_marked:
            return text, self.spans
        spans = []
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                before, after = self.before(messages[:at]), self.render(messages[: at + 1], False)
                if not after.startswith(before) or not text.startswith(after):
                    raise ValueError(f"the chat template renders the assistant's message {at + 1}, or the text before it, differently within the full conversation, so its position is unknown: put {{% generation %}} and {{% endgeneration %}} around the assistant's text in the template")
                spans.append((len(before), len(after)))
        return text, spans


def seen_message(message):
    """A message as templates see it: without null values, and with its reasoning under all names that templates use."""
    message = {key: value for key, value in message.items() if value is not None}
    reasoning = next((message[key] for key in REASONING if key in message), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}

