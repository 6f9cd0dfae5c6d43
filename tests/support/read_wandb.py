"""Prints what Weights & Biases has of an offline run: read_wandb.py FOLDER, of the files wandb/offline-run-*/run-*.wandb below it.

A line of JSON for each file: {"id", "project", "name", "config": {key: value}, "history": [{key: value}], "exit_code"}. The records are decoded by
wandb's own classes; they lie in a log as LevelDB's log_format.md describes it, after a header of 7 bytes.
"""

import glob
import json
import sys

from wandb.proto import wandb_internal_pb2

BLOCK, HEADER = 32768, 7


def records(data):
    record, at = b"", HEADER
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:  # the rest of a block that has no room for a header
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        record += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):  # the whole, or its last part
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""


def items(list_of_items):
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in list_of_items}


for file in sorted(glob.glob(sys.argv[1] + "/wandb/offline-run-*/run-*.wandb")):
    found = {"config": {}, "history": [], "exit_code": None}
    with open(file, "rb") as opened:
        data = opened.read()
    for record in records(data):
        if record.HasField("run"):
            found |= {"id": record.run.run_id, "project": record.run.project, "name": record.run.display_name}
            found["config"] |= items(record.run.config.update)
        elif record.HasField("config"):
            found["config"] |= items(record.config.update)
        elif record.HasField("history"):
            found["history"].append({key: value for key, value in items(record.history.item).items() if not key.startswith("_")})
        elif record.HasField("exit"):
            found["exit_code"] = record.exit.exit_code
    print(json.dumps(found))
