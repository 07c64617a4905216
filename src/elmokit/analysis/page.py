"""The map of a word's occurrences as one HTML page that needs nothing else."""

import html
import json
from collections.abc import Sequence
from importlib.resources import files

from elmokit.analysis.examples import Example
from elmokit.analysis.senses import SenseMap


def sense_page(word: str, examples: Sequence[Example], maps: Sequence[SenseMap], about: str) -> str:
    """Returns the page: a map for each layer, sentences as hover text, no script from elsewhere.

    Args:
        word: The word.
        examples: Its N occurrences.
        maps: A map of them for each layer.
        about: A line below the title.
    """
    data = {
        "about": about,
        "sentences": [
            {
                "before": " ".join(example.tokens[: example.place]),
                "form": example.form,
                "after": " ".join(example.tokens[example.place + 1 :]),
                "sense": example.label,
            }
            for example in examples
        ],
        "layers": [found.to_dict() for found in maps],
    }
    # Inside a script element only "<" could end it, or begin a comment.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    template = files("elmokit.analysis").joinpath("senses.html").read_text(encoding="utf-8")
    page = template.replace("__TITLE__", html.escape(f"Occurrences of {word}"))
    return page.replace("__DATA__", text)
