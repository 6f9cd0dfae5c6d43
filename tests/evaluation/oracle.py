"""Computes the metrics that runtime/evaluation must compute with scikit-learn and scipy.

usage: oracle.py FILE

Writes a safetensors file with <case>/logits and <case>/targets, or <case>/embeddings and <case>/labels, and in its metadata, as JSON,
the metrics of each case by name. A target or label of -100 is ignored.
"""

import json
import sys

import numpy
from safetensors.numpy import save_file
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, label_ranking_average_precision_score, ndcg_score, top_k_accuracy_score
from sklearn.metrics.pairwise import cosine_similarity

CUTOFFS = [1, 3, 20]


def score_classes(logits, targets):
    counted = targets != -100
    scores, actual = logits[counted].astype(numpy.float64), targets[counted]
    classes = scores.shape[1]
    predicted, one_hot = scores.argmax(1), numpy.eye(classes)[actual]
    metrics = {
        "accuracy": accuracy_score(actual, predicted),
        "f1": f1_score(actual, predicted, average="binary" if classes == 2 else "macro", zero_division=0),
        # For rows with one correct answer this is the mean reciprocal rank.
        "mrr": label_ranking_average_precision_score(one_hot, scores),
        "ndcg": ndcg_score(one_hot, scores, ignore_ties=True),
    }
    for k in CUTOFFS:
        metrics[f"ndcg@{k}"] = ndcg_score(one_hot, scores, k=k, ignore_ties=True)
        if classes == 2:  # scikit-learn requires one column of scores here
            score = scores[:, 1] - scores[:, 0]
            metrics[f"recall@{k}"] = 1.0 if k > 1 else accuracy_score(actual, score > 0)
        else:
            metrics[f"recall@{k}"] = top_k_accuracy_score(actual, scores, k=k, labels=range(classes)) if k < classes else 1.0
    return metrics


def score_rows(embeddings, labels):
    """Each row that shares its label with others searches for them among all other rows."""
    counted = labels != -100
    embeddings, labels = embeddings[counted].astype(numpy.float64), labels[counted]
    cosines = cosine_similarity(embeddings)
    values = {name: [] for name in ["mrr", "ndcg"] + [f"{name}@{k}" for name in ("mrr", "ndcg", "recall") for k in CUTOFFS]}
    for row in range(len(labels)):
        others = numpy.arange(len(labels)) != row
        relevant, scores = (labels == labels[row])[others], cosines[row][others]
        if not relevant.any():
            continue
        ranks = 1 + numpy.flatnonzero(relevant[numpy.argsort(-scores)])
        values["mrr"].append(1 / ranks[0])
        values["ndcg"].append(ndcg_score([relevant], [scores], ignore_ties=True))
        for k in CUTOFFS:
            values[f"mrr@{k}"].append(1 / ranks[0] if ranks[0] <= k else 0)
            values[f"ndcg@{k}"].append(ndcg_score([relevant], [scores], k=k, ignore_ties=True))
            values[f"recall@{k}"].append((ranks <= k).sum() / len(ranks))
    return {name: float(numpy.mean(each)) for name, each in values.items()}


def score_texts(embeddings, labels):
    """The first text of each sample searches for its second among all texts but the first of all samples."""
    embeddings = embeddings[labels != -100].astype(numpy.float64)
    samples, texts, _ = embeddings.shape
    cosines = cosine_similarity(embeddings[:, 0], embeddings[:, 1:].reshape(samples * (texts - 1), -1))
    relevant = numpy.zeros_like(cosines)
    relevant[numpy.arange(samples), numpy.arange(samples) * (texts - 1)] = 1
    ranks = 1 + (cosines > cosines[relevant == 1][:, None]).sum(1)
    metrics = {"mrr": label_ranking_average_precision_score(relevant, cosines), "ndcg": ndcg_score(relevant, cosines, ignore_ties=True)}
    for k in CUTOFFS:
        metrics[f"ndcg@{k}"] = ndcg_score(relevant, cosines, k=k, ignore_ties=True)
        metrics[f"mrr@{k}"] = float(numpy.where(ranks <= k, 1 / ranks, 0).mean())
        metrics[f"recall@{k}"] = float((ranks <= k).mean())
    return metrics


def score_numbers(predicted, actual):
    counted = actual != -100
    return {"pearson": pearsonr(predicted[counted], actual[counted])[0], "spearman": spearmanr(predicted[counted], actual[counted])[0]}


def score_label_sets(logits, labels):
    counted = (labels != -100).all(1)
    predicted, actual = logits[counted] > 0, labels[counted] > 0.5
    return {"accuracy": accuracy_score(actual, predicted), "f1": f1_score(actual, predicted, average="macro", zero_division=0)}


def main():
    random = numpy.random.default_rng(1)
    tensors, expected = {}, {}
    for classes, rows in [(2, 50), (5, 200), (64, 300), (5000, 40)]:
        targets = random.integers(0, classes, rows)
        logits = random.standard_normal((rows, classes)).astype(numpy.float32)
        logits[numpy.arange(rows), targets] += 1.5
        targets[::7] = -100
        case = f"classes_{classes}"
        tensors |= {f"{case}/logits": logits, f"{case}/targets": targets}
        expected[case] = score_classes(logits, targets)
    for groups, rows in [(3, 40), (25, 60), (60, 60)]:
        labels = random.integers(0, groups, rows)
        embeddings = random.standard_normal((rows, 12)) + 0.5 * random.standard_normal((groups, 12))[labels]
        labels[::9] = -100
        case = f"rows_{groups}"
        tensors |= {f"{case}/embeddings": embeddings.astype(numpy.float32), f"{case}/labels": labels}
        expected[case] = score_rows(embeddings.astype(numpy.float32), labels)
    for texts, samples in [(2, 30), (4, 50)]:
        embeddings = random.standard_normal((samples, texts, 12)).astype(numpy.float32)
        embeddings[:, 1] += 0.7 * embeddings[:, 0]
        labels = numpy.zeros(samples, dtype=numpy.int64)
        labels[::9] = -100
        case = f"texts_{texts}"
        tensors |= {f"{case}/embeddings": embeddings, f"{case}/labels": labels}
        expected[case] = score_texts(embeddings, labels)
    for digits in [8, 1]:  # one digit causes many ties
        actual = random.standard_normal((80, 2)).round(digits)
        predicted = (actual + random.standard_normal((80, 2))).round(digits)
        actual[::11, 1] = -100
        case = f"numbers_{digits}"
        tensors |= {f"{case}/said": predicted, f"{case}/right": actual}
        expected[case] = score_numbers(predicted, actual)
    labels = (random.random((70, 6)) < 0.3).astype(numpy.float32)
    logits = (labels - 0.5 + random.standard_normal((70, 6))).astype(numpy.float32)
    labels[:, 4], logits[:, 4] = 0, -1  # a label that does not occur
    labels[::8] = -100
    tensors |= {"sets_6/logits": logits, "sets_6/right": labels}
    expected["sets_6"] = score_label_sets(logits, labels)
    save_file(tensors, sys.argv[1], metadata={"expected": json.dumps(expected)})


if __name__ == "__main__":
    main()
