"""From files to rows of tokens: readers, tokenisers and the checks of token input.

Nothing here needs torch, numpy or h5py. `README.md` beside this file has the rules of every format.
"""

from elmokit.text.reading import detect_format, read_rows
from elmokit.text.row import Row
from elmokit.text.tokenizers import Tokenizer, get_tokenizer, is_tokenizer
from elmokit.text.tokens import count_html_escapes, token_lists

__all__ = [
    "Row",
    "Tokenizer",
    "count_html_escapes",
    "detect_format",
    "get_tokenizer",
    "is_tokenizer",
    "read_rows",
    "token_lists",
]
