"""Has scikit-learn compute the metrics that runtime/evaluation must compute.

usage: oracle.py FILE

Writes a safetensors file with <case>/logits and <case>/targets, or <case>/embeddings and <case>/labels, and in its metadata, as JSON,
the metrics of each case by name. A target of -100 is none.
"""

import json
import sys

import numpy
from safetensors.numpy import save_file
from sklearn.metrics import accuracy_score, f1_score, label_ranking_average_precision_score, ndcg_score, top_k_accuracy_score
from sklearn.metrics.pairwise import cosine_similarity

CUTOFFS = [1, 3, 20]


def of_classes(logits, targets):
    counted = targets != -100
    scores, right = logits[counted].astype(numpy.float64), targets[counted]
    classes = scores.shape[1]
    predicted, one_hot = scores.argmax(1), numpy.eye(classes)[right]
    metrics = {
        "accuracy": accuracy_score(right, predicted),
        "f1": f1_score(right, predicted, average="binary" if classes == 2 else "macro", zero_division=0),
        # Of rows with one right answer this is the mean of one over its place.
        "mrr": label_ranking_average_precision_score(one_hot, scores),
        "ndcg": ndcg_score(one_hot, scores, ignore_ties=True),
    }
    for k in CUTOFFS:
        metrics[f"ndcg@{k}"] = ndcg_score(one_hot, scores, k=k, ignore_ties=True)
        if classes == 2:  # for which scikit-learn wants one column
            scores_of = scores[:, 1] - scores[:, 0]
            metrics[f"recall@{k}"] = 1.0 if k > 1 else accuracy_score(right, scores_of > 0)
        else:
            metrics[f"recall@{k}"] = top_k_accuracy_score(right, scores, k=k, labels=range(classes)) if k < classes else 1.0
    return metrics


def of_rows(embeddings, labels):
    """Each row that has others of its label looks for them among all others."""
    counted = labels != -100
    embeddings, labels = embeddings[counted].astype(numpy.float64), labels[counted]
    cosines = cosine_similarity(embeddings)
    values = {name: [] for name in ["mrr", "ndcg"] + [f"{name}@{k}" for name in ("mrr", "ndcg", "recall") for k in CUTOFFS]}
    for row in range(len(labels)):
        others = numpy.arange(len(labels)) != row
        relevant, scores = (labels == labels[row])[others], cosines[row][others]
        if not relevant.any():
            continue
        places = 1 + numpy.flatnonzero(relevant[numpy.argsort(-scores)])
        values["mrr"].append(1 / places[0])
        values["ndcg"].append(ndcg_score([relevant], [scores], ignore_ties=True))
        for k in CUTOFFS:
            values[f"mrr@{k}"].append(1 / places[0] if places[0] <= k else 0)
            values[f"ndcg@{k}"].append(ndcg_score([relevant], [scores], k=k, ignore_ties=True))
            values[f"recall@{k}"].append((places <= k).sum() / len(places))
    return {name: float(numpy.mean(each)) for name, each in values.items()}


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
        expected[case] = of_classes(logits, targets)
    for groups, rows in [(3, 40), (25, 60), (60, 60)]:
        labels = random.integers(0, groups, rows)
        embeddings = random.standard_normal((rows, 12)) + 0.5 * random.standard_normal((groups, 12))[labels]
        labels[::9] = -100
        case = f"rows_{groups}"
        tensors |= {f"{case}/embeddings": embeddings.astype(numpy.float32), f"{case}/labels": labels}
        expected[case] = of_rows(embeddings.astype(numpy.float32), labels)
    save_file(tensors, sys.argv[1], metadata={"expected": json.dumps(expected)})


if __name__ == "__main__":
    main()
