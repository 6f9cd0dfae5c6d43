"""Computes the statistics of runtime/report/page.h with scipy: one JSON object per line in, one out.

{"a": [..], "b": [..]} is answered with Spearman's rank correlation; {"groups": [..], "values": [..]} with the Kruskal-Wallis H,
corrected for ties, divided by n - 1, which is eta squared over ranks. The answer is null if the statistic is undefined.
"""

import json
import math
import sys

from scipy import stats

for line in sys.stdin:
    question = json.loads(line)
    if "a" in question:
        found = stats.spearmanr(question["a"], question["b"]).statistic
    else:
        groups = [[v for g, v in zip(question["groups"], question["values"]) if g == name] for name in sorted(set(question["groups"]))]
        varies = len(groups) > 1 and len(set(question["values"])) > 1
        found = stats.kruskal(*groups).statistic / (len(question["values"]) - 1) if varies else math.nan
    print(json.dumps(None if math.isnan(found) else float(found)))
