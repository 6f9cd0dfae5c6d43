"""What this project's family is held against: transformers' Llama with norms whose scale is an offset from one, written out in torch."""

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from oracle import SMALL_DECODER, Case, Family, tokens


class TinyConfig(LlamaConfig):
    model_type = "tiny"

    vocab_size: int = 256
    hidden_size: int = 32
    intermediate_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 2
    max_position_embeddings: int = 64


class TinyNorm(nn.Module):  # a name with RMSNorm in it would have transformers fill the weight with ones
    def __init__(self, hidden_size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(hidden_size))
        self.eps = eps

    def forward(self, hidden_states):
        wide = hidden_states.float()
        normed = wide * (wide.pow(2).mean(-1, keepdim=True) + self.eps).rsqrt()
        return (self.weight + 1) * normed.to(hidden_states.dtype)


class TinyForCausalLM(LlamaForCausalLM):
    config_class = TinyConfig

    def __init__(self, config):
        super().__init__(config)
        for module in self.modules():
            for name, child in module.named_children():
                if isinstance(child, LlamaRMSNorm):
                    setattr(module, name, TinyNorm(config.hidden_size, config.rms_norm_eps))
        self.post_init()


FAMILY = Family(
    config=TinyConfig,
    models=[TinyForCausalLM],
    small=SMALL_DECODER,
    offset_norms=True,
    cases={
        "plain": Case(),
        "padded": Case(batch=tokens(padding="left"), meshes=True),
    },
)
