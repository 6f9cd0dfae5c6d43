"""Starts a Hugging Face Trainer on the benchmark's Llama and stops at the beginning of its first step.

Prints the time of that moment, in seconds since the epoch (time.time()).
"""

import os
import tempfile
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Stop(TrainerCallback):
    def on_step_begin(self, *_arguments, **_settings):
        print(time.time(), flush=True)
        os._exit(0)


config = LlamaConfig(
    vocab_size=256,
    hidden_size=256,
    intermediate_size=688,
    num_hidden_layers=6,
    num_attention_heads=8,
    max_position_embeddings=256,
)
tokens = torch.randint(0, 256, (64, 256))
data = [{"input_ids": row, "labels": row} for row in tokens]
with tempfile.TemporaryDirectory() as folder:
    settings = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=16, max_steps=1, report_to="none", use_cpu=True
    )
    Trainer(LlamaForCausalLM(config), settings, train_dataset=data, callbacks=[Stop()]).train()
