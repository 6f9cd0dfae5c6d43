"""Greedy generation by transformers with a model of benchmarks/models.json, driven by benchmarks/generation.

Each line of input is a number of generations; each line of output is JSON with their wall and CPU seconds.
"""

import argparse
import json
import pathlib
import sys
import time

import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["eager", "compile"], default="eager", help="mode of the forward over single tokens")
parser.add_argument("--bf16", action="store_true", help="parameters and computation in bfloat16")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "models.json")
parser.add_argument("--model", default="smollm2-135m")
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--prompt", type=int, default=32, help="tokens per prompt")
parser.add_argument("--tokens", type=int, default=64, help="tokens to generate per prompt")
arguments = parser.parse_args()

torch.set_num_threads(arguments.threads)
torch.manual_seed(0)
spec = json.loads(arguments.models.read_text())[arguments.model]
architecture = getattr(transformers, spec["entry"])
model = architecture(architecture.config_class(**spec["config"])).eval()
if arguments.bf16:
    model = model.to(torch.bfloat16)
options = transformers.GenerationConfig(
    max_new_tokens=arguments.tokens, min_new_tokens=arguments.tokens, do_sample=False, pad_token_id=0, cache_implementation="static"
)
if arguments.mode == "compile":  # generate compiles by itself only on GPUs
    options.compile_config = transformers.CompileConfig(mode="default")
    options.compile_config._compile_all_devices = True
prompts = torch.randint(2, 200, (arguments.batch, arguments.prompt))


def generate():
    with torch.inference_mode():
        result = model.generate(prompts, attention_mask=torch.ones_like(prompts), generation_config=options)
    assert result.shape == (arguments.batch, arguments.prompt + arguments.tokens)


for line in sys.stdin:
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(int(line)):
        generate()
    print(json.dumps({"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}), flush=True)
