"""Prints as JSON the command of the first sweep file in a document, as wandb's agent would start it: sweep_words.py DOCUMENT KEY=VALUE…"""

import json
import re
import sys

import yaml
from wandb.sdk.launch.sweeps import utils

with open(sys.argv[1]) as opened:
    sweep = yaml.safe_load(re.search(r"```yaml\n(.*?)```", opened.read(), re.DOTALL)[1])
chosen = dict(word.split("=", 1) for word in sys.argv[2:])
assert set(chosen) == set(sweep["parameters"]), sorted(sweep["parameters"])
arguments = utils.create_sweep_command_args({"args": {key: {"value": value} for key, value in chosen.items()}})
words = []
for word in utils.create_sweep_command(sweep["command"]):
    words += arguments[word[2:-1]] if word.startswith("${") and word.endswith("}") else [str(word)]
print(json.dumps(words))
