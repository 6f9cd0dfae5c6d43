"""pyarrow's Parquet for modrun prepare: a line of JSON in, a line of JSON out.

The first line, any, is answered with {}, or {"error": sentence} if there is no pyarrow. {"file": path} is answered with {"groups": number, "columns": [name]}, and {"file", "group": number, "columns": [name], "as_json": bool}
with {"rows": number, "values": [values of each column, or their JSON texts]}; on failure with {"error": sentence}.
"""

import json
import sys


class Unsupported(Exception):
    """A value of a type that modrun does not support."""


def answer(message):
    sys.stdout.write(json.dumps(message, allow_nan=False) + "\n")
    sys.stdout.flush()


def about(parquet, asked):
    file = parquet.ParquetFile(asked["file"])
    if "group" not in asked:
        return {"groups": file.num_row_groups, "columns": file.schema_arrow.names}
    rows = file.read_row_group(asked["group"], columns=asked["columns"])
    return {"rows": rows.num_rows, "values": [values(rows.column(name), name, asked) for name in asked["columns"]]}


def values(column, name, asked):
    """Values of a column, or their JSON texts."""
    listed, texts = column.to_pylist(), []
    for row, value in enumerate(listed):
        try:
            texts.append(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError):
            raise Unsupported(f'row {row + 1} of row group {asked["group"] + 1}: column "{name}" has values of {column.type}, and {value!r} is not a text, a number or a list of these: write the column as text, or as numbers') from None
    return texts if asked["as_json"] else listed


def main():
    sys.stdin.readline()
    try:
        from pyarrow import parquet
    except ImportError as error:
        return answer({"error": lacks(error.name or "pyarrow", "pyarrow")})
    answer({})
    for line in sys.stdin:
        try:
            answer(about(parquet, json.loads(line)))
        except Unsupported as error:
            answer({"error": str(error)})
        except Exception as error:  # of pyarrow, or a value that JSON cannot represent
            answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
