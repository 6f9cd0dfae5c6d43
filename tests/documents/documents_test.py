"""Every command and every TOML block of README.md and docs/**/*.md does what it is written for, on small models and data of the names that
it uses; what cannot be run in a test is listed with the reason. A command that is new, or listed and no longer written, fails.

    documents_test.py PROJECT MODRUN
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROJECT, MODRUN = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
COMMAND = re.compile(r"(?:modrun|modgen|modcheck|torchrun|cmake|ctest|scripts/\S+|build/\S+|cd|ls)(?:\s|$)")
SHORT = " --set train.steps=2 --set eval.samples=4"
EXAMPLES = "--set train.batch_size=4 --set train.dir=runs/"

# The commands that are run, in groups that each begin with a copy of the data, changed as its first part says. Of each command, what makes it
# short; later ones read what earlier ones write.
GROUPS = [
    ("", {
        "modrun train presets/demo.toml --overwrite": SHORT,
        "modrun --nproc-per-node 4 train presets/demo.toml --set parallel.tp=2 --set train.dir=runs/tp2": SHORT,
        "torchrun --no-python --nproc-per-node 2 modrun train presets/demo.toml --set parallel.pp=2 --set train.micro_batches=4 --set train.dir=runs/pp2": SHORT,
        "modrun train presets/demo.toml --resume --set train.steps=2000": " --set train.steps=3",
        "modrun eval runs/demo": " --set eval.samples=4",
        "modrun sample runs/demo --prompt 'class Tensor'": " --set sample.tokens=4",
        "modrun report runs/demo --out demo.html": "",
        "modrun report runs/demo runs/tp2 --out report.html": "",
        "modrun export runs/demo/checkpoints demo-llama": "",
        "modrun forward --checkpoint DIR --inputs batch.safetensors --outputs out.safetensors --gradients": "",
        "modrun advise CONFIG --nodes 8 --per-node 8 --memory 80GiB --link 450GB/s --between 25GB/s --flops 989e12 --cost 2.5 --out best.toml": "",
        "modrun --nproc-per-node 2 search CONFIG": " --trials 1",
    }),
    ("", {
        "modrun --nproc-per-node 2 train presets/demo.toml --set train.steps=500": SHORT + " --overwrite",
    }),
    ("", {
        "modrun --nproc-per-node 2 train presets/demo.toml --set train.dir=runs/fsdp2": SHORT,
        "modrun --nproc-per-node 4 train presets/demo.toml --set parallel.dp_replicate=2 --set train.dir=runs/hsdp": SHORT,
        "modrun --nproc-per-node 2 train presets/demo.toml --resume --set train.dir=runs/hsdp --set parallel.tp=2 --set train.steps=1500": " --set train.steps=3 --set eval.samples=4",
        "modrun plan presets/demo.toml --ranks 4 --set parallel.tp=2": "",
    }),
    ("", {
        "modrun plan my-run.toml": "",
        "modrun train my-run.toml": SHORT,
        "modrun prepare data/web --tokenizer qwen --entry Qwen2ForCausalLM --out data/ids": "",
    }),
    ("rm -r data", {
        "modrun prepare reviews.csv --tokenizer bert-base --entry BertForSequenceClassification --label sentiment --out data": "",
    }),
    ("", {
        "modrun prepare reviews.csv --tokenizer bert-base --entry BertForSequenceClassification --label sentiment --out data/reviews": "",
        "modrun train --set model.checkpoint=bert-base --set model.entry=BertForSequenceClassification --set data.format=examples --set 'data.paths=[\"data/reviews\"]'": f"{SHORT} {EXAMPLES}a",
        "modrun predict runs/a --inputs rows.safetensors --outputs predicted.safetensors": "",
    }),
    ("", {
        "modrun prepare chats.jsonl --tokenizer qwen --entry Qwen2ForCausalLM --chat messages --seq-len 1024 --out data/chats": "",
        "modrun train chat.toml": SHORT,
        "modrun sample runs/chat --prompt 'hello' --chat": " --set sample.tokens=4",
        "modrun export runs/chat/checkpoints chat-merged": "",
        "modrun export runs/chat/checkpoints chat-adapter --adapter --base qwen": "",
    }),
    ("rm -r data && cp -r examples data", {
        "modrun train --set model.checkpoint=bert-base --set model.entry=BertForSequenceClassification --set data.format=examples --set 'data.paths=[\"data\"]' --set 'data.validation=[\"*/validation*\"]' --set train.steps=500": f"{SHORT} {EXAMPLES}validated",
    }),
    ("", {
        "modrun --nproc-per-node 2 train --set model.entry=ViTForImageClassification --set data.format=examples --set 'data.paths=[\"images.safetensors\"]' --set train.steps=20 --set model.config.image_size=32 --set model.config.patch_size=8 --set model.config.num_labels=3 --set model.config.hidden_size=64 --set model.config.intermediate_size=128 --set model.config.num_hidden_layers=2 --set model.config.num_attention_heads=4": f"{SHORT} {EXAMPLES}vit",
    }),
    ("", {
        "modrun train --set model.checkpoint=vit-base --set model.entry=ViTForImageClassification --set model.config.num_labels=3 --set data.format=images --set 'data.paths=[\"pictures\"]' --set data.validation_every=20 --set train.steps=500": f"{SHORT} {EXAMPLES}pictures",
    }),
    ("", {
        "modrun --nproc-per-node 2 train --set model.checkpoint=mpnet-base --set model.entry=MPNetModel --set data.format=examples --set 'data.paths=[\"pairs\"]' --set train.batch_size=64 --set train.steps=500 --set sentences.scale=20 --set train.dir=runs/pairs": SHORT,
        "modrun export runs/pairs/checkpoints out": "",
        "modrun train --set model.checkpoint=bert-base --set model.entry=BertModel --set model.config.pooling=cls --set 'model.config.embedding_layers=[\"dense 256 tanh\", \"normalize\"]' --set data.format=examples --set 'data.paths=[\"pairs\"]'": f"{SHORT} {EXAMPLES}pooled",
    }),
    (f"printf '#include <\\nnamespace \\n' > questions.txt && modrun train presets/demo.toml{SHORT} --set train.dir=runs/a", {
        "modrun sample runs/a --prompts questions.txt": " --set sample.tokens=4",
        "modrun sample runs/a --prompts questions.txt --set sample.batch=16": " --set sample.tokens=4",
    }),
    ("for number in $(seq 60); do cp data/web/0.txt data/$number.txt; done", {
        "cd data && find . -name '*.txt' -printf '%s %P\\n' > texts.manifest": "",
        "modrun train presets/demo.toml --set 'data.paths=[\"data/texts.manifest\"]'": f"{SHORT} --set train.dir=runs/manifest",
    }),
]
RUN = {command: more for _, group in GROUPS for command, more in group.items()}
STANDS_FOR = {"CONFIG": {"search": "search.toml", "advise": "presets/demo.toml"}, "DIR": {"forward": "runs/demo/checkpoints"}}
NOT_RUN = {
    "scripts/demo": "demo_test.py runs it",
    "scripts/test": "runs this test",
    "modrun [LAUNCHER FLAGS] COMMAND [OPTIONS]": "a form",
    'cmake --preset ci -DMODULAR_FAMILIES="granite"': "builds this tree",
    "cmake --build --preset ci --target modgen modcheck": "builds",
    "build/ci/bin/modgen --new granite --from llama": "tests/generator/new_family_test.cc does, with the tutorial's spec",
    "build/ci/bin/modgen granite": "so it does",
    "build/ci/bin/modcheck granite": "tests/checks/modcheck_test.cc runs it",
    "cmake --preset ci && cmake --build --preset ci --target modrun parity_test": "builds",
    'ctest --preset ci -R "^parity"': "runs other tests",
    "build/ci/bin/modrun train presets/demo.toml --set model.entry=granite": "of that build",
    "build/ci/bin/fuzz_proofs --count 5000 --seed 1": "takes an hour; tests/fuzz runs fewer",
    "build/ci/bin/fuzz_proofs --seed 1 --only m1_000042": "one of those",
    "build/ci/bin/fuzz_proofs --all-wrong": "takes an hour; tests/fuzz runs fewer",
    "build/ci/bin/fuzz_proofs --planted all --count 1000": "builds modgen and takes half an hour; generator.planted applies the defects",
    "build/ci/bin/fuzz_proofs --with mistake: --count 1000": "takes ten minutes; generator.proofs runs fewer",
    "cmake --preset asan && cmake --build --preset asan --target fuzz_readers": "builds under sanitizers",
    "build/asan/bin/fuzz_readers --count 100000": "of that build",
    "build/asan/bin/fuzz_readers --reader checkpoint --seed 1 --only 4711": "of that build",
    "cmake --install build/release --prefix /opt/modular": "installs; tests/install does",
    "ls modular/*.h | entr -rs 'build/release/bin/modgen --all && cmake --build build/release --target modrun && exec build/release/bin/modrun train presets/demo.toml --overwrite'": "builds this tree",
    "ls modular/*.h | entr -rs 'cmake --build build --target myrun && exec build/myrun train CONFIG --overwrite'": "builds; tests/install does",
    "cmake --build --preset ci --target contract_page && build/ci/bin/contract_page . > docs/reference/contract.md": "builds; a test of its own compares the page",
}
TINY = '[model]\nentry = "llama"\n[model.config]\nvocab_size = 256\nhidden_size = 32\nintermediate_size = 48\nnum_hidden_layers = 2\nnum_attention_heads = 4\n[train]\nsteps = 2\nbatch_size = 4\nseq_len = 16\n'
# Of a TOML block, by its first line: the rest of its config, and the command that takes it.
TOML = {
    "[[optim.groups]]": (TINY + "[data]\npaths = ['data/web']\n", "train block.toml --set train.dir=runs/groups"),
    "[search]": (TINY + "[data]\npaths = ['data/web']\nvalidation_every = 2\n[optim]\nwarmup_steps = 1\n[eval]\nevery = 1\nsamples = 4\n", "search block.toml --trials 1 --set search.dir=runs/block"),
    "[lora]": (TINY + "[data]\npaths = ['data/web']\n", "train block.toml --set train.dir=runs/lora"),
    "[sampled_softmax]": ("[model]\nentry = 'SessionForNextItem'\n[model.config]\nvocab_size = 2000\nn_embd = 32\nn_layer = 1\n[train]\nsteps = 2\nbatch_size = 4\n[data]\nformat = 'examples'\npaths = ['sessions']\n", "train block.toml --set train.dir=runs/sampled"),
    "[data.sets.web]": (TINY, "train block.toml --set train.dir=runs/sets"),
}


def blocks():
    for document in [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]:
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```", document.read_text(), re.M | re.S):
            yield document.relative_to(PROJECT), language, text


def commands():
    for document, language, text in blocks():
        if language in ("", "sh", "bash"):
            for line in re.sub(r"\\\n\s*", "", text).split("\n"):
                line = re.sub(r"\s+#.*", "", line).strip()
                if COMMAND.match(line) and "─" not in line:  # not of a drawing
                    yield document, line


def write_data(folder):
    """Small ones of what the documents name: models, tokenizers, texts, images."""
    import numpy
    import torch
    import transformers
    from PIL import Image
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    os.chdir(folder)
    (folder / "presets").symlink_to(PROJECT / "presets")
    torch_folder = folder / ".venv/lib/python3/site-packages/torch"
    torch_folder.mkdir(parents=True)
    (torch_folder / "include").symlink_to(pathlib.Path(torch.__file__).parent / "include")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|im_end|>", *"good bad film the a was user assistant hello".split()]
    tokenizer = Tokenizer(models.WordLevel({word: id for id, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
    small = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
    text = dict(small, vocab_size=len(words), max_position_embeddings=64)
    transformers.BertForSequenceClassification(transformers.BertConfig(**text, num_labels=2)).save_pretrained("bert-base")
    fast.save_pretrained("bert-base")
    transformers.MPNetModel(transformers.MPNetConfig(**text)).save_pretrained("mpnet-base")
    transformers.ViTForImageClassification(transformers.ViTConfig(**small, image_size=32, patch_size=8, num_labels=3)).save_pretrained("vit-base")
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained("vit-base")
    letters = {letter: id for id, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    byte_level = transformers.Qwen2Tokenizer(vocab=letters, merges=[], unk_token=None, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    byte_level.chat_template = "{% for message in messages %}{{ message.role + ' ' + message.content + ' <|im_end|> ' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant ' }}{% endif %}"
    transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**small, num_key_value_heads=2, vocab_size=len(byte_level))).save_pretrained("qwen")
    byte_level.save_pretrained("qwen")
    pathlib.Path("reviews.csv").write_text("text,sentiment\n" + "the film was good,positive\na bad film,negative\n" * 8)
    talk = {"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good film"}]}
    pathlib.Path("chats.jsonl").write_text((json.dumps(talk) + "\n") * 8)
    draw = numpy.random.default_rng(1)
    examples = {"input_ids": draw.integers(5, len(words), (32, 8)), "attention_mask": numpy.ones((32, 8), bool), "labels": draw.integers(0, 2, 32)}
    for folder_of_examples in ("examples/train", "examples/validation"):
        pathlib.Path(folder_of_examples).mkdir(parents=True)
        save_file(examples, f"{folder_of_examples}/1.safetensors")
    save_file({"input_ids": examples["input_ids"][:4]}, "rows.safetensors")
    pathlib.Path("pairs").mkdir()
    save_file({"input_ids": draw.integers(5, len(words), (128, 2, 8)), "attention_mask": numpy.ones((128, 2, 8), bool)}, "pairs/1.safetensors")
    save_file({"pixel_values": draw.standard_normal((32, 3, 32, 32), numpy.float32), "labels": draw.integers(0, 3, 32)}, "images.safetensors")
    pathlib.Path("sessions").mkdir()
    save_file({"input_ids": draw.integers(1, 2000, (32, 12))}, "sessions/1.safetensors")
    ids = draw.integers(0, 256, (2, 16))
    save_file({"input_ids": ids, "labels": ids}, "batch.safetensors")
    for name in ("cat", "dog", "fox"):
        pathlib.Path(f"pictures/{name}").mkdir(parents=True)
        for number in range(10):
            Image.fromarray(draw.integers(0, 256, (40, 40, 3), numpy.uint8)).save(f"pictures/{name}/{number}.png")
    for name in ("web", "code"):
        pathlib.Path(f"data/{name}").mkdir(parents=True)
    for number in range(4):
        pathlib.Path(f"data/web/{number}.txt").write_text(f"text {number} of the web\n" * 60)
    draw.integers(0, 256, 4000).astype(numpy.uint16).tofile("data/code/1.bin")


def to_config(block):
    return TOML[block.split("\n")[0]][0] + block


def in_words(command, stand_ins):
    for word, meaning in stand_ins.items():
        for name, value in meaning.items():
            if f" {name} " in f" {command} ":
                command = re.sub(rf"\b{word}\b", value, command)
    return command


def run(command, environment, failures):
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, errors="replace", env=environment, timeout=120)
    if done.returncode != 0:
        failures.append(f"{command}\n  ended with status {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")


def main():
    failures, written = [], list(commands())
    said = {command for _, command in written}
    for document, command in written:
        if command not in RUN and command not in NOT_RUN:
            failures.append(f"{document}: `{command}` is neither run here nor listed with why it is not")
    failures += [f"`{command}` is listed here, and no document has it" for command in {**RUN, **NOT_RUN} if command not in said]
    tables = {block.split("\n")[0]: block for _, language, block in blocks() if language == "toml"}
    files = {first[2:]: tables.pop(first) for first in list(tables) if re.fullmatch(r"# [\w-]+\.toml", first)}
    failures += [f"the TOML that begins with {first} is in one of the documents or this list alone" for first in tables.keys() ^ TOML.keys()]
    if all((MODRUN.parent / program).exists() for program in ("modgen", "modcheck")):
        run(f"{PROJECT}/scripts/reference-pages --check {MODRUN.parent}", dict(os.environ), failures)
    environment = {**os.environ, "PATH": f"{MODRUN.parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        given, place = pathlib.Path(folder) / "given", pathlib.Path(folder) / "place"
        given.mkdir()
        write_data(given)
        pathlib.Path("search.toml").write_text(to_config(tables["[search]"]))
        for name, block in files.items():  # which commands name
            pathlib.Path(name).write_text(block)
        for setup, group in GROUPS:
            os.chdir(folder)
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(given, place, symlinks=True)
            os.chdir(place)
            for command in [setup, *(in_words(command, STANDS_FOR) + more for command, more in group.items() if command in said)]:
                run(command, environment, failures)
        os.chdir(given)
        for first, (_, arguments) in TOML.items():
            if first in tables:
                pathlib.Path("block.toml").write_text(to_config(tables[first]))
                run(f"modrun {arguments}", environment, failures)
        os.chdir("/")
    if failures:
        sys.exit("\n".join(failures))
    print(f"{len(RUN)} commands and {len(TOML)} TOML blocks were run, {len(NOT_RUN)} are listed")


if __name__ == "__main__":
    main()
