"""Writes rows as Parquet files with pyarrow, and the same rows as safetensors files of examples.

    parquet_rows.py FOLDER KIND [KEY=VALUE…]
"""

import pathlib
import sys

import numpy
import pyarrow
import pyarrow.parquet
import safetensors.numpy

ROWS, LONGEST, VOCABULARY = 48, 12, 40


def lists(rows, kind, element):
    """A column of lists, or of lists of lists, with Arrow's type of that kind."""
    made = getattr(pyarrow, element)()
    depth = 2 if isinstance(rows[0][0], list) else 1
    for level in range(depth):
        size = (len(rows[0][0]) if level == 0 else len(rows[0])) if depth == 2 else len(rows[0])
        fixed = kind == "fixed_size_list"
        made = pyarrow.list_(made, size) if fixed else pyarrow.large_list(made) if kind == "large_list" else pyarrow.list_(made)
    return pyarrow.array(rows, made)


def padded(rows, padding, dtype):
    longest = max(map(len, rows))
    shape = (len(rows), longest, *numpy.asarray(rows[0]).shape[1:])
    filled = numpy.full(shape, padding, dtype)
    for number, row in enumerate(rows):
        filled[number, : len(row)] = row
    return filled


def main():
    folder, kind, *settings = sys.argv[1:]
    options = {"group": "10", "compression": "snappy", "list": "list", "element": "int64", "label": "int64", "files": "1", "rows": str(ROWS), "seed": "1"}
    options |= dict(setting.split("=") for setting in settings)
    draws = numpy.random.default_rng(int(options["seed"]))
    count = int(options["rows"])
    lengths = numpy.full(count, LONGEST) if options["list"] == "fixed_size_list" else draws.integers(3, LONGEST + 1, count)
    ids = [draws.integers(2, VOCABULARY, length).tolist() for length in lengths]
    mask = [[1] * len(row) for row in ids]
    columns, tensors = {"input_ids": lists(ids, options["list"], options["element"])}, {"input_ids": padded(ids, 0, numpy.int64), "attention_mask": padded(mask, 0, numpy.int64)}
    if kind == "classes":
        labels = [row[0] % 2 for row in ids]
        columns["labels"] = pyarrow.array(labels, getattr(pyarrow, options["label"])())
        tensors["labels"] = numpy.asarray(labels, numpy.int64)
    elif kind == "scores":
        labels = [row[0] / VOCABULARY for row in ids]
        columns["labels"] = pyarrow.array(labels, getattr(pyarrow, options["label"])())
        tensors["labels"] = numpy.asarray(labels, numpy.float32)
    elif kind == "flags":
        labels = [[row[0] % 2, row[1] % 2, row[2] % 2] for row in ids]
        columns["labels"] = lists(labels, options["list"], options["element"])
        columns["attention_mask"] = pyarrow.array([[True] * len(row) for row in ids], pyarrow.list_(pyarrow.bool_()))
        tensors["labels"] = numpy.asarray(labels, numpy.float32)
    elif kind == "tokens":
        labels = [[-100 if token % 5 == 0 else token % 2 for token in row] for row in ids]
        columns["labels"] = lists(labels, options["list"], options["element"])
        tensors["labels"] = padded(labels, -100, numpy.int64)
    elif kind == "sessions":
        features = [[[token % 5, token % 9] for token in row] for row in ids]
        values = [[[token / 8, -token / 4] for token in row] for row in ids]
        columns["feature_ids"] = lists(features, options["list"], options["element"])
        columns["feature_values"] = lists(values, options["list"], "float32")
        tensors["feature_ids"] = padded(features, 0, numpy.int64)
        tensors["feature_values"] = padded(values, 0.0, numpy.float32)
    elif kind == "pairs":
        targets = [list(reversed(row[:5])) for row in ids]
        columns["labels"] = lists(targets, options["list"], options["element"])
        tensors["labels"] = padded(targets, -100, numpy.int64)
    columns["name"] = pyarrow.array([f"row {number}" for number in range(count)])  # no task reads it
    table = pyarrow.table(columns)
    pathlib.Path(folder).mkdir(parents=True)
    (pathlib.Path(folder) / "examples").mkdir()
    safetensors.numpy.save_file(tensors, f"{folder}/examples/rows.safetensors")
    (pathlib.Path(folder) / "parquet").mkdir()
    (pathlib.Path(folder) / "parquet/_SUCCESS").touch()  # as Spark writes next to its files
    of_file = -(-count // int(options["files"]))
    for file in range(int(options["files"])):
        pyarrow.parquet.write_table(
            table.slice(file * of_file, of_file), f"{folder}/parquet/{file:0{len(str(int(options['files']) - 1))}}.parquet", row_group_size=int(options["group"]), compression=options["compression"], use_dictionary=options.get("dictionary") == "yes"
        )


if __name__ == "__main__":
    main()
