"""pyarrow's Parquet for modrun prepare: a line of JSON in, a line of JSON out.

The first line, any, is answered with {}, or {"error": sentence} where there is no pyarrow. {"file": path} is answered with {"groups": number, "columns": [name]}, and {"file", "group": number, "columns": [name], "as_json": bool}
with {"rows": number, "values": [values of each column, or their JSON texts]}; where that fails, with {"error": sentence}.
"""

import json
import sys


def answer(message):
    sys.stdout.write(json.dumps(message, allow_nan=False) + "\n")
    sys.stdout.flush()


def about(parquet, asked):
    file = parquet.ParquetFile(asked["file"])
    if "group" not in asked:
        return {"groups": file.num_row_groups, "columns": file.schema_arrow.names}
    rows = file.read_row_group(asked["group"], columns=asked["columns"])
    values = [rows.column(name).to_pylist() for name in asked["columns"]]
    if asked["as_json"]:
        values = [[json.dumps(value, allow_nan=False) for value in column] for column in values]
    return {"rows": rows.num_rows, "values": values}


def main():
    sys.stdin.readline()
    try:
        from pyarrow import parquet
    except ImportError as error:
        return answer({"error": f"Python has no package {error.name}: {sys.executable} -m pip install pyarrow"})
    answer({})
    for line in sys.stdin:
        try:
            answer(about(parquet, json.loads(line)))
        except Exception as error:  # of pyarrow, or a value that JSON cannot say
            answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
