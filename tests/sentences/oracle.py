"""Has Sentence Transformers compute the losses of sentence embeddings that runtime/parallel/objectives/sentence_objective.cc must compute.

usage: oracle.py FOLDER

Writes FOLDER/<case>/: a tiny BERT as transformers saves it, batch.safetensors with the tensors of docs/guide/data.md, and expected.safetensors with the loss and the gradients of all parameters
that have one. Its metadata has "sentences": the config of the loss, as JSON.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.losses.contrastive import SiameseDistanceMetric
from sentence_transformers.sentence_transformer.losses.triplet import TripletDistanceMetric
from transformers import BertConfig, BertModel

SAMPLES, SEQ = 24, 9

CASES = {
    # name: texts of a sample, labels, the loss, its config here
    "in_batch": (2, None, lambda model: losses.MultipleNegativesRankingLoss(model), {"loss": "in-batch"}),
    "in_batch_hard_negatives": (4, None, lambda model: losses.MultipleNegativesRankingLoss(model, scale=8.0), {"loss": "in-batch", "scale": 8.0}),
    "contrastive": (2, "alike", lambda model: losses.ContrastiveLoss(model), {"loss": "contrastive"}),
    "contrastive_euclidean": (
        2, "alike", lambda model: losses.ContrastiveLoss(model, distance_metric=SiameseDistanceMetric.EUCLIDEAN, margin=3.0),
        {"loss": "contrastive", "margin": 3.0, "distance": "euclidean"},
    ),
    "cosine": (2, "scores", lambda model: losses.CosineSimilarityLoss(model), {"loss": "cosine"}),
    "triplet": (3, None, lambda model: losses.TripletLoss(model), {"loss": "triplet"}),
    "triplet_cosine": (
        3, None, lambda model: losses.TripletLoss(model, distance_metric=TripletDistanceMetric.COSINE, triplet_margin=0.4),
        {"loss": "triplet", "margin": 0.4, "distance": "cosine"},
    ),
    "pair_classification": (2, "classes", lambda model: losses.SoftmaxLoss(model, model.width, num_labels=3), {}),
}  # fmt: skip


class Embedding(torch.nn.Module):
    """A Sentence Transformers model of BERT and mean pooling."""

    def __init__(self, bert):
        super().__init__()
        self.bert, self.width, self.device = bert, bert.config.hidden_size, bert.device

    def get_embedding_dimension(self):
        return self.width

    get_sentence_embedding_dimension = get_embedding_dimension

    def forward(self, features):
        hidden = self.bert(**features).last_hidden_state
        mask = features["attention_mask"].unsqueeze(-1)
        return {"sentence_embedding": (hidden * mask).sum(1) / mask.sum(1)}


def to_batch(texts, labels, vocabulary):
    lengths = torch.randint(3, SEQ + 1, (SAMPLES, texts, 1))
    mask = (torch.arange(SEQ) < lengths).long()
    batch = {"input_ids": torch.randint(1, vocabulary, (SAMPLES, texts, SEQ)) * mask, "attention_mask": mask}
    if labels == "alike":
        batch["labels"] = torch.randint(0, 2, (SAMPLES,))
    if labels == "scores":
        batch["labels"] = torch.rand(SAMPLES) * 2 - 1
    if labels == "classes":
        batch["labels"] = torch.randint(0, 3, (SAMPLES,))
    return batch


def write(folder, name, texts, labels, make_loss, loss_config):
    config = BertConfig(
        vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, max_position_embeddings=16,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3, initializer_range=0.3,
    )  # fmt: skip
    model = Embedding(BertModel(config))
    loss = make_loss(model)
    batch = to_batch(texts, labels, config.vocab_size)
    columns = [{key: batch[key][:, text] for key in ("input_ids", "attention_mask")} for text in range(texts)]
    targets = batch.get("labels", torch.zeros(SAMPLES))
    if labels == "classes":
        value = loss(columns, targets)
    else:
        value = loss.compute_loss_from_embeddings([model(column)["sentence_embedding"] for column in columns], targets)
    value.backward()

    case = folder / name
    model.bert.save_pretrained(case)
    if labels == "classes":
        weights = {**model.bert.state_dict(), "classifier.weight": loss.classifier.weight, "classifier.bias": loss.classifier.bias}
        save_file({key: tensor.detach().contiguous() for key, tensor in weights.items() if "position_ids" not in key}, case / "model.safetensors")
        written = json.loads((case / "config.json").read_text())
        (case / "config.json").write_text(json.dumps({**written, "architectures": ["BertForSentencePairClassification"]}))
    gradients = {f"gradients.{key}": parameter.grad for key, parameter in model.bert.named_parameters() if parameter.grad is not None}
    if labels == "classes":
        gradients |= {f"gradients.classifier.{key}": parameter.grad for key, parameter in loss.classifier.named_parameters()}
    save_file(batch, case / "batch.safetensors")
    save_file({"loss": value.detach().double(), **gradients}, case / "expected.safetensors", metadata={"sentences": json.dumps(loss_config)})


def main():
    torch.manual_seed(3)
    for name, (texts, labels, make_loss, loss_config) in CASES.items():
        write(pathlib.Path(sys.argv[1]), name, texts, labels, make_loss, loss_config)


if __name__ == "__main__":
    main()
