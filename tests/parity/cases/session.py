"""The oracle for the session model: transformers' GPT-2 as the body, with the inputs and the head of Transformers4Rec, whose own package
is not maintained for this release of transformers, reimplemented in torch."""

import torch
from torch import nn
from transformers import GPT2Config, GPT2Model
from transformers import initialization as init
from transformers.modeling_outputs import CausalLMOutput
from transformers.models.gpt2.modeling_gpt2 import GPT2PreTrainedModel

from oracle import BATCH, SEQ, VOCAB, Case, Family


class SessionConfig(GPT2Config):
    model_type = "session"

    vocab_size: int = 50000
    n_positions: int = 64
    n_embd: int = 192
    n_layer: int = 3
    n_head: int = 4
    item_dim: int = 64
    feature_dim: int = 64
    feature_cardinalities: list[int] | None = None
    feature_numbers: int = 0
    aggregation: str = "concat"
    embedding_std: float = 0.05
    softmax_temperature: float = 1.0

    def __post_init__(self, **kwargs):
        self.feature_cardinalities = self.feature_cardinalities or []
        super().__post_init__(**kwargs)


class SessionInputs(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        concat = config.aggregation == "concat"
        self.item_embedding = nn.Embedding(config.vocab_size, config.item_dim, padding_idx=0)
        self.feature_embeddings = nn.ModuleList(
            nn.Embedding(cardinality, config.feature_dim, padding_idx=0) for cardinality in config.feature_cardinalities
        )
        features = len(config.feature_cardinalities) * config.feature_dim + config.feature_numbers
        self.projection = nn.Linear(config.item_dim + (features if concat else 0), config.n_embd)
        if config.feature_numbers and not concat:
            self.number_projection = nn.Linear(config.feature_numbers, config.item_dim)

    def forward(self, input_ids, feature_ids, feature_values):
        parts = [self.item_embedding(input_ids)]
        parts += [table(feature_ids[..., index]) for index, table in enumerate(self.feature_embeddings)]
        if self.config.aggregation == "concat":
            if self.config.feature_numbers:
                parts.append(feature_values)
            gathered = torch.cat(parts, dim=-1)
        else:
            if self.config.feature_numbers:
                parts.append(self.number_projection(feature_values))
            gathered = torch.stack(parts).sum(0)
        return torch.relu(self.projection(gathered))


class OfTransformers:
    """transformers does not initialize modules of third-party classes that have no parameters of their own."""

    @classmethod
    def is_custom_code(cls):
        return False


class SessionBody(OfTransformers, GPT2Model):
    config_class = SessionConfig

    def __init__(self, config):
        super().__init__(config)
        del self.wte
        self.inputs = SessionInputs(config)

    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, SessionInputs):
            for table in [module.item_embedding, *module.feature_embeddings]:
                init.normal_(table.weight, mean=0.0, std=self.config.embedding_std)
                if not getattr(table.weight, "_is_hf_initialized", False):  # loaded from a file
                    init.zeros_(table.weight[0])


class SessionForNextItem(OfTransformers, GPT2PreTrainedModel):
    config_class = SessionConfig
    _tied_weights_keys = {"head.weight": "transformer.inputs.item_embedding.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.transformer = SessionBody(config)
        self.item_projection = nn.Linear(config.n_embd, config.item_dim)
        self.head = nn.Linear(config.item_dim, config.vocab_size)
        self.post_init()

    def get_input_embeddings(self):
        return self.transformer.inputs.item_embedding

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, feature_ids=None, feature_values=None, attention_mask=None, position_ids=None, labels=None):
        embedded = self.transformer.inputs(input_ids, feature_ids, feature_values)
        hidden = self.transformer(
            inputs_embeds=embedded, attention_mask=attention_mask, position_ids=position_ids, use_cache=False
        ).last_hidden_state
        logits = self.head(self.item_projection(hidden)) / self.config.softmax_temperature
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        return CausalLMOutput(loss=loss, logits=logits)


class MaskedBody(SessionBody):
    """Attends to all items except the hidden ones."""

    def __init__(self, config):
        super().__init__(config)
        self.masked_item_embedding = nn.Parameter(0.001 * torch.randn(config.n_embd))


class SessionForMaskedItem(SessionForNextItem):
    def __init__(self, config):
        GPT2PreTrainedModel.__init__(self, config)
        self.transformer = MaskedBody(config)
        self.item_projection = nn.Linear(config.n_embd, config.item_dim)
        self.head = nn.Linear(config.item_dim, config.vocab_size)
        self.post_init()

    def forward(self, input_ids, feature_ids=None, feature_values=None, attention_mask=None, position_ids=None, labels=None):
        embedded = self.transformer.inputs(input_ids, feature_ids, feature_values)
        if labels is not None:
            embedded = torch.where((labels != -100).unsqueeze(-1), self.transformer.masked_item_embedding, embedded)
        seen = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        least = torch.finfo(embedded.dtype).min
        mask = torch.zeros(embedded.shape[0], 1, embedded.shape[1], embedded.shape[1], dtype=embedded.dtype)
        mask = mask.masked_fill((seen == 0)[:, None, None, :], least)
        hidden = self.transformer(inputs_embeds=embedded, attention_mask=mask, position_ids=position_ids, use_cache=False).last_hidden_state
        logits = self.head(self.item_projection(hidden)) / self.config.softmax_temperature
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        return CausalLMOutput(loss=loss, logits=logits)


def sessions(padded=True):
    """Sessions of several lengths, right-padded with id 0, with the config's number of features."""

    def make(config):
        batch = {"input_ids": torch.randint(1, config.vocab_size, (BATCH, SEQ))}
        mask = torch.ones(BATCH, SEQ, dtype=torch.int64)
        for row, count in enumerate([0, 5, 11, 2] if padded else []):
            mask[row, SEQ - count :] = 0
        batch["input_ids"] *= mask
        batch["labels"] = batch["input_ids"].masked_fill(mask == 0, -100)
        if padded:
            batch["attention_mask"] = mask
        if config.feature_cardinalities:
            ids = [torch.randint(1, count, (BATCH, SEQ)) * mask for count in config.feature_cardinalities]
            batch["feature_ids"] = torch.stack(ids, dim=-1)
        if config.feature_numbers:
            batch["feature_values"] = torch.randn(BATCH, SEQ, config.feature_numbers) * mask.unsqueeze(-1)
        return batch

    return make


def hidden(config):
    """Sessions with some items as prediction targets."""
    batch = sessions()(config)
    batch["labels"] = batch["labels"].masked_fill(torch.rand(BATCH, SEQ) < 0.7, -100)
    return batch


FAMILY = Family(
    config=SessionConfig,
    models=[SessionForNextItem, SessionForMaskedItem],
    small=dict(vocab_size=VOCAB, n_positions=32, n_embd=32, n_layer=3, n_head=4, item_dim=12, feature_dim=6),
    wide=dict(n_embd=128, item_dim=48, feature_dim=48, feature_cardinalities=[70, 90], feature_numbers=2,
              aggregation="element-wise-sum"),
    rounds_elsewhere=True,  # gelu_new is a single function here
    cases={
        "features": Case(batch=sessions(), feature_cardinalities=[7, 30], feature_numbers=3, meshes=True),
        "sums": Case(
            batch=sessions(), feature_cardinalities=[7, 30, 5], feature_numbers=2, feature_dim=12, softmax_temperature=0.7,
            aggregation="element-wise-sum", meshes=True, export=True,
        ),
        "items": Case(batch=sessions(padded=False)),
        "dropout": Case(
            batch=sessions(), feature_cardinalities=[7, 30], resid_pdrop=0.1, embd_pdrop=0.2, attn_pdrop=0.3, drops=True, meshes=True
        ),
        "hidden-dropout": Case(SessionForMaskedItem, hidden, feature_cardinalities=[7], resid_pdrop=0.1, embd_pdrop=0.2, attn_pdrop=0.3, drops=True),
        "hidden": Case(SessionForMaskedItem, hidden, feature_cardinalities=[7, 30], feature_numbers=3, meshes=True),
        "hidden-sums": Case(
            SessionForMaskedItem, hidden, feature_cardinalities=[7], feature_dim=12, aggregation="element-wise-sum",
            tie_word_embeddings=False, softmax_temperature=0.7, meshes=True,
        ),
        "untied": Case(
            batch=sessions(), feature_cardinalities=[9, 4], tie_word_embeddings=False, activation_function="relu", meshes=True
        ),
    },
)
