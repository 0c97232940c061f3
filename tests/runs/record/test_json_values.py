"""One way to turn values into JSON."""

import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from purerl.runs.record.json_values import to_json, write_json


class Point(NamedTuple):
    x: float
    y: object


def test_values_become_plain_data():
    value = {
        "array": np.arange(3),
        "scalar": np.float32(0.5),
        "tuple": (1, None, True),
        "point": Point(1.0, (2,)),
        "nan": [math.nan, -math.inf, 1e300],
        "function": math.tanh,
        "class": Path,
        3: Path("a/b"),
    }
    assert to_json(value) == {
        "array": [0, 1, 2],
        "scalar": 0.5,
        "tuple": [1, None, True],
        "point": {"x": 1.0, "y": [2]},
        "nan": [None, None, 1e300],
        "function": "tanh",
        "class": "Path",
        "3": "a/b",
    }


def test_a_file_is_written_with_a_line_end(tmp_path):
    write_json(tmp_path / "x.json", {"b": 1, "a": [2]}, sort_keys=True)
    text = (tmp_path / "x.json").read_text()
    assert text.endswith("}\n")
    assert json.loads(text) == {"a": [2], "b": 1}
    assert text.index('"a"') < text.index('"b"')
