"""From files to rows of tokens: readers, tokenisers and the checks of token input.

Nothing here needs torch, numpy or h5py. `README.md` beside this file has the rules of every format.
"""

from elmokit.text.reading import detect_format, read_rows
from elmokit.text.row import Row
from elmokit.text.tokenizers import Tokenizer, get_tokenizer
from elmokit.text.tokens import check_tokens, count_html_escapes

__all__ = [
    "Row",
    "Tokenizer",
    "check_tokens",
    "count_html_escapes",
    "detect_format",
    "get_tokenizer",
    "read_rows",
]
