"""Has scipy compute what runtime/report/importance.h computes: a JSON object a line in, one out.

{"one": [..], "other": [..]} is answered with Spearman's rank correlation; {"groups": [..], "values": [..]} with Kruskal's and Wallis's H,
corrected for ties, over n - 1, which is eta squared over ranks. null where they are not defined.
"""

import json
import math
import sys

from scipy import stats

for line in sys.stdin:
    asked = json.loads(line)
    if "one" in asked:
        found = stats.spearmanr(asked["one"], asked["other"]).statistic
    else:
        groups = [[v for g, v in zip(asked["groups"], asked["values"]) if g == name] for name in sorted(set(asked["groups"]))]
        varies = len(groups) > 1 and len(set(asked["values"])) > 1
        found = stats.kruskal(*groups).statistic / (len(asked["values"]) - 1) if varies else math.nan
    print(json.dumps(None if math.isnan(found) else float(found)))
