"""A training step of transformers' Llama, served: the driver says how many steps to run, this answers how long they took.

Each line of input is a number of steps; each line of output is JSON with the wall and the processor seconds of them. Of
several ranks the first reads and answers.
"""

import argparse
import datetime
import json
import os
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--seq", type=int, default=256)
parser.add_argument("--dropout", type=float, default=0.0, help="of attention's shares")
parser.add_argument("--parallel", choices=["ddp", "fsdp2"], help="over several ranks, which RANK and the like name")
parser.add_argument("--profile", action="store_true", help="print the operators of one step by their own time, and stop")
arguments = parser.parse_args()

torch.set_num_threads(arguments.threads)
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=256,
    hidden_size=256,
    intermediate_size=688,
    num_hidden_layers=6,
    num_attention_heads=8,
    max_position_embeddings=arguments.seq,
    attention_dropout=arguments.dropout,
    use_cache=False,
)
model = LlamaForCausalLM(config).train()
world_size = int(os.environ.get("WORLD_SIZE", "1"))
if world_size > 1:
    torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(hours=2))
if arguments.parallel == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
elif arguments.parallel == "fsdp2":
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (world_size,))
    for layer in model.model.layers:
        torch.distributed.fsdp.fully_shard(layer, mesh=mesh)
    torch.distributed.fsdp.fully_shard(model, mesh=mesh)
forward = torch.compile(model) if arguments.mode == "compile" else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
tokens = torch.randint(0, config.vocab_size, (arguments.batch // world_size, arguments.seq))


def step():
    with torch.autocast("cpu", torch.bfloat16, enabled=arguments.bf16):
        loss = forward(input_ids=tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


if arguments.profile:
    for _ in range(3):
        step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()
    print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=30))
    sys.exit()



def asked_steps():
    steps = torch.zeros(1, dtype=torch.long)
    if int(os.environ.get("RANK", "0")) == 0:
        steps.fill_(int(sys.stdin.readline() or 0))
    if world_size > 1:
        torch.distributed.broadcast(steps, 0)
    return steps.item()


while asked := asked_steps():
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(asked):
        loss = step()
    answer = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor, "loss": loss}
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps(answer), flush=True)
