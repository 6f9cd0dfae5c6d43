"""A training step of a model of benchmarks/models.json by transformers, driven by benchmarks/throughput.

Each line of input is a number of steps; each line of output is JSON with their wall and CPU seconds. With several
ranks, the first one reads and answers.
"""

import argparse
import datetime
import json
import os
import pathlib
import sys
import time

import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "models.json")
parser.add_argument("--model", default="llama-5m")
parser.add_argument("--dropout", type=float, help="dropout of the attention weights, for Llamas; the config's if not given")
parser.add_argument("--parallel", choices=["ddp", "fsdp2"], help="data parallelism of several ranks (RANK, WORLD_SIZE and so on)")
parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
parser.add_argument("--profile", action="store_true", help="print the operators of one step by their self time, and exit")
arguments = parser.parse_args()

torch.set_num_threads(arguments.threads)
torch.manual_seed(0)
spec = json.loads(arguments.models.read_text())[arguments.model]
architecture = getattr(transformers, spec["entry"])
config = architecture.config_class(**spec["config"], use_cache=False)
if arguments.dropout is not None:
    config.attention_dropout = arguments.dropout
with torch.device(arguments.device):
    model = architecture(config).train()
world_size = int(os.environ.get("WORLD_SIZE", "1"))
if world_size > 1:
    torch.distributed.init_process_group("gloo" if arguments.device == "cpu" else "nccl", timeout=datetime.timedelta(hours=2))
if arguments.parallel == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
elif arguments.parallel == "fsdp2":
    mesh = torch.distributed.device_mesh.init_device_mesh(arguments.device, (world_size,))
    for layer in model.model.layers:  # Llama only
        torch.distributed.fsdp.fully_shard(layer, mesh=mesh)
    torch.distributed.fsdp.fully_shard(model, mesh=mesh)
forward = torch.compile(model) if arguments.mode == "compile" else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
rows = spec["batch"] // world_size
batch = {}
if "seq" in spec:
    batch["input_ids"] = torch.randint(2, 200, (rows, spec["seq"]))
    if "last_id" in spec:
        batch["input_ids"][:, -1] = spec["last_id"]
if "image" in spec:
    batch["pixel_values"] = torch.randn(rows, 3, spec["image"], spec["image"])
if "CLIP" in spec["entry"]:
    batch["return_loss"] = True
elif "target_seq" in spec:
    batch["labels"] = torch.randint(2, 200, (rows, spec["target_seq"]))
elif "image" in spec:
    batch["labels"] = torch.randint(config.num_labels, (rows,))
else:
    batch["labels"] = batch["input_ids"]
batch = {name: value.to(arguments.device) if torch.is_tensor(value) else value for name, value in batch.items()}


def step():
    with torch.autocast(arguments.device, torch.bfloat16, enabled=arguments.bf16):
        loss = forward(**batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


if arguments.profile:
    for _ in range(3):
        step()
    with torch.profiler.profile() as profile:
        step()
    print(profile.key_averages().table(sort_by=f"self_{arguments.device}_time_total", row_limit=30))
    sys.exit()



def read_steps():
    steps = torch.zeros(1, dtype=torch.long)
    if int(os.environ.get("RANK", "0")) == 0:
        steps.fill_(int(sys.stdin.readline() or 0))
    if world_size > 1:
        torch.distributed.broadcast(steps, 0)
    return steps.item()


while count := read_steps():
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(count):
        loss = step()
    answer = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor, "loss": loss}
    if arguments.device == "cuda":
        answer["memory"] = torch.cuda.max_memory_allocated()
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps(answer), flush=True)
