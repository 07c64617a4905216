"""Figures of texts that fonts and SVG do not take as they are."""

from xml.etree import ElementTree

import numpy as np

from elmokit.analysis import task_drawing
from elmokit.analysis.drawing import render, scatter, shown


def test_what_cannot_be_shown_becomes_an_escape():
    assert shown("價錢 $5 & <b> e\u0301 \U0001f600\n") == "價錢 $5 & <b> e\u0301 \U0001f600\n"
    assert shown("a\0b\x1b\ud800\udcff\uffff") == r"a\x00b\x1b\ud800\udcff\uffff"


def test_a_model_and_a_sense_may_have_any_name():
    row = {"label": "\udcff, input", "layers": [0, 1], "weights": [0.25, 0.75], "gamma": 1.0}
    points = np.eye(2, dtype=np.float32)
    for figure in (
        task_drawing.weights([row], title="weights"),
        scatter([("layer 0", points, [0, 1])], ["a", "\udcff"], title="senses"),
    ):
        files = render(figure)
        assert files["png"]
        assert r"\udcff" in " ".join(ElementTree.fromstring(files["svg"]).itertext())
