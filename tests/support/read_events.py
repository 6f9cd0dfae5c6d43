"""Reads a folder of TensorBoard's event files as TensorBoard does, and prints each point that it would show as a line of JSON.

    read_events.py FOLDER

Written from the formats alone: records as in tensorflow/core/lib/io/record_writer.h, messages as in event.proto, summary.proto and
tensor.proto, CRC-32C as in RFC 3720. Files are read in the order of their names. One that ends within a record ends there; a
checksum that is wrong is an error. A session that starts at a step takes away what was said of it and of later steps.
"""

import json
import pathlib
import struct
import sys


def crc32c(data: bytes) -> int:
    # Bit by bit over the polynomial, without a table: slow, and with nothing in common with what it checks.
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # the check value of the algorithm's catalogue


def check(data: bytes, stored: bytes, where: str) -> None:
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    if masked != struct.unpack("<I", stored)[0]:
        sys.exit(f"{where}: the checksum is wrong")


def records(path: pathlib.Path):
    data, at = path.read_bytes(), 0
    while at + 12 <= len(data):
        where = f"{path.name}, byte {at}"
        check(data[at : at + 8], data[at + 8 : at + 12], where)
        (length,) = struct.unpack("<Q", data[at : at + 8])
        end = at + 12 + length
        if end + 4 > len(data):
            return
        check(data[at + 12 : end], data[end : end + 4], where)
        yield data[at + 12 : end]
        at = end + 4


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data: bytes) -> dict[int, list]:
    """The values of a message by number; those of kind 2 as bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack("<d", data[at : at + 8])[0], at + 8
        elif kind == 2:
            length, at = varint(data, at)
            assert at + length <= len(data), "a field is longer than its message"
            value, at = data[at : at + length], at + length
        elif kind == 5:
            value, at = struct.unpack("<f", data[at : at + 4])[0], at + 4
        else:
            sys.exit(f"a field of kind {kind}")
        found.setdefault(key >> 3, []).append(value)
    return found


def get_value(summary: dict[int, list]):
    if 2 in summary:
        return summary[2][0]
    tensor = fields(summary[8][0])
    plugin = fields(fields(summary[9][0])[1][0])
    assert plugin[1] == [b"text"] and tensor[1] == [7], "not a text"
    shape = [fields(dimension)[1][0] for dimension in fields(tensor[2][0])[2]]
    assert shape == [len(tensor[8])], "the shape is not that of the strings"
    return tensor[8][0].decode("utf-8")


def main() -> None:
    points = []
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        assert "tfevents" in path.name, f"{path}: TensorBoard would not see it"
        for number, record in enumerate(records(path)):
            event = fields(record)
            step = event.get(2, [0])[0]
            assert event[1][0] > 1e9, "no time"
            if number == 0:
                assert event[3] == [b"brain.Event:2"], "the file does not begin with its version"
            elif 7 in event or number == 1:
                assert fields(event[7][0])[1] == [1], "the session does not say that it starts"
                points = [point for point in points if point["step"] < step]
            else:
                for value in fields(event[5][0])[1]:
                    summary = fields(value)
                    points.append({"step": step, "tag": summary[1][0].decode(), "value": get_value(summary), "file": path.name})
    for point in points:
        print(json.dumps(point))


main()
