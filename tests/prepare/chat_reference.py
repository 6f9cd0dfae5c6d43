"""The reference for modrun prepare --chat and modrun sample --chat: transformers' apply_chat_template.

    chat_reference.py check OUT TOKENIZER MARKED SOURCE LENGTH   fails unless OUT's ids are those that TOKENIZER's template gives for the conversations of SOURCE, and labels are where the template of MARKED has {% generation %}
    chat_reference.py answer EXPORTED QUESTION TOKENS ENDS…      prints the model's most likely answer, up to the tokenizer's end-of-text id or one of the ids ENDS
"""

import json
import pathlib
import shutil
import sys

import numpy
import reference

BEGIN = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
END = "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
BODY = "{{ message['content'] | default('') }}{{ message.get('tool_calls', []) | tojson if message.tool_calls }}{{ '<|im_end|>\\n' }}"
SYSTEM = "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nBe brief.<|im_end|>\\n' }}{% endif %}"
INSTRUCT = "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{% for message in rest %}{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% if message.role == 'user' %}{{ bos_token + '[INST] ' + message.content.strip() + ' [/INST]' }}{% else %}TURN{% endif %}{% endfor %}"
ANSWER = "{{ ' ' + message.content.strip() + ' ' + eos_token }}"


def marked(body):
    return "{% if message['role'] == 'assistant' %}{% generation %}" + body + "{% endgeneration %}{% else %}" + body + "{% endif %}"


TEMPLATES = {
    # name: the tokenizer, the template
    "chatml": ("byte-level", BEGIN + BODY + END),
    "chatml-marked": ("byte-level", BEGIN + marked(BODY) + END),
    # Without a trailing line end, as in trl's templates.
    "content-marked": ("byte-level", BEGIN + marked(BODY.replace("\\n", "")) + "{{ '\\n' }}" + END),
    "instruct": ("byte-fallback", INSTRUCT.replace("TURN", ANSWER)),
    "instruct-marked": ("byte-fallback", INSTRUCT.replace("TURN", "{% generation %}" + ANSWER + "{% endgeneration %}")),
    # Renders only the last answer's reasoning, like Qwen3's template.
    "forgetful": ("byte-level", BEGIN + "{% if loop.last %}{{ message.reasoning_content }}{% endif %}" + BODY + END),
    # Adds a system message if the first message is not one, like Qwen2's template.
    "system": ("byte-level", SYSTEM + BEGIN + BODY + END),
    "system-marked": ("byte-level", SYSTEM + BEGIN + marked(BODY) + END),
    "dated": ("byte-level", "{{ strftime_now('%d %b %Y') }}" + BEGIN + BODY + END),
    "broken": ("byte-level", "{% for message in messages %}"),
}


def say(role, content, **more):
    return {"role": role, "content": content, **more}


CONVERSATIONS = [
    [say("user", "the quick brown fox"), say("assistant", "jumps over")],
    [say("system", "Be brief."), say("user", "Straße 東京?"), say("assistant", "こんにちは 🙂"), say("user", " again \n"), say("assistant", " lazy dog ")],
    [say("user", ""), say("assistant", "")],
    [say("user", "<|im_end|> in text {{ bos_token }}"), say("assistant", "don't <s> stop-now</s>")],
    [say("user", "x=y_1;"), say("assistant", "a\tb\n\nc"), say("user", "42"), say("assistant", "3.14159"), say("user", "naïve e\u0301"), say("assistant", "coöperate")],
    [say("user", "who", name=None), say("assistant", "fox", tool_calls=None)],
]
TOOLS = [say("user", "call"), say("assistant", None, tool_calls=[{"function": {"name": "f", "arguments": {"x": "1 < 2"}}}]), say("tool", "3"), say("assistant", "done")]


def make(folder):
    """Writes tokenizers with chat templates, from the folder's byte-level and byte-fallback ones, and conversations."""
    import pyarrow
    from pyarrow import parquet

    for name, (kind, template) in TEMPLATES.items():
        shutil.copytree(folder / kind, folder / name)
        path = folder / name / "tokenizer_config.json"
        config = json.loads(path.read_text())
        if kind == "byte-level":
            config.update(extra_special_tokens=["<|im_start|>", "<|im_end|>"], eos_token="<|im_end|>")
        if name.startswith("instruct"):
            config["chat_template"] = [{"name": "default", "template": template}, {"name": "other", "template": "none"}]
        else:
            (folder / name / "chat_template.jinja").write_text(template)
        path.write_text(json.dumps(config))
    rows = [{"messages": conversation} for conversation in CONVERSATIONS * 8]
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "chats.parquet")
    # Conversations that begin with the assistant.
    answers = [{"messages": conversation[-1:] + conversation} for conversation in CONVERSATIONS]
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    (folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows + [{"messages": TOOLS}]))


def check(out, tokenizer, mark, source, length):
    own, marks, found = reference.get_tokenizer(tokenizer), reference.get_tokenizer(mark), reference.tensors(pathlib.Path(out))
    # transformers uses the template named default if there are several.
    given = reference.read_rows(pathlib.Path(source))
    learned = 0
    for row, one in enumerate(given):
        expected = own.apply_chat_template(one["messages"])["input_ids"]
        masked = marks.apply_chat_template(one["messages"], return_dict=True, return_assistant_tokens_mask=True)
        reference.expect(masked["input_ids"] == expected, "the templates differ in row", row)
        labels = [id if mask else -100 for id, mask in zip(expected, masked["assistant_masks"])]
        cut = int(length) or len(expected)
        real = found["attention_mask"][row].astype(bool)
        reference.expect(found["input_ids"][row][real].tolist() == expected[:cut], "row", row, "is", found["input_ids"][row][real], "but should be", expected)
        reference.expect(found["labels"][row][real].tolist() == labels[:cut], "labels of row", row, "are", found["labels"][row][real], "but should be", labels)
        reference.expect((found["labels"][row][~real] == -100).all(), "padding of row", row, "has labels")
        learned += sum(masked["assistant_masks"])
    reference.expect(len(found["input_ids"]) == len(given) and learned > 0, "rows or labels are missing")


def answer(exported, question, tokens, *ends):
    import torch
    import transformers

    tokenizer, model = reference.get_tokenizer(exported), transformers.AutoModelForCausalLM.from_pretrained(exported)
    prompt = tokenizer.apply_chat_template([say("user", question)], add_generation_prompt=True)["input_ids"]
    ids = list(prompt)
    with torch.no_grad():
        while len(ids) < len(prompt) + int(tokens):
            likeliest = int(model(torch.tensor([ids])).logits[0, -1].argmax())
            if likeliest in (tokenizer.eos_token_id, *map(int, ends)):
                break
            ids.append(likeliest)
    text = tokenizer.decode(ids[len(prompt) :], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    print(json.dumps({"text": text, "tokens": len(ids) - len(prompt)}))


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    {"check": check, "answer": answer}[command](*rest)
