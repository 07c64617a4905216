"""Memory is bounded by configuration, not by input. Each case is a process of its own."""

import json
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.slow

MEBIBYTE = 2**20

PREAMBLE = """
import json, resource, sys, psutil, torch
sys.path.insert(0, "tests")
torch.set_num_threads(1)
from builders import char_bilm, sentences_of_lengths
from elmokit import Embedder
from elmokit.nn import projected_lstm

def resident():
    return psutil.Process().memory_info().rss

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
"""


def measure(script, request):
    """Runs a script that prints one JSON line, in a fresh process."""
    source = PREAMBLE + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=request.config.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_sentence_of_35000_tokens_stays_under_one_and_a_half_gibibytes(request):
    result = measure(
        """
        emb = Embedder(char_bilm(cell_dim=1024, projection_dim=128))
        protein = [list("MKVLAERTGSDQNHFYWCIP" * 1750)]
        vectors = emb.embed(protein)[0]
        print(json.dumps({"peak": peak(), "shape": vectors.shape}))
        """,
        request,
    )
    assert result["shape"] == [3, 35_000, 256]
    assert result["peak"] < 1536 * MEBIBYTE


def test_chunk_lengths_agree(request):
    result = measure(
        """
        emb = Embedder(char_bilm(cell_dim=1024, projection_dim=128))
        protein = [list("MKVLAERTGSDQNHFYWCIP" * 50)]
        first = emb.embed(protein, return_tensors="pt")[0]
        differences = []
        for rows in (100, 333):
            projected_lstm._CHUNK_ROWS = rows
            second = emb.embed(protein, return_tensors="pt")[0]
            differences.append(float(((first - second).abs() / first.abs().clamp(min=1)).max()))
        print(json.dumps({"differences": differences}))
        """,
        request,
    )
    assert max(result["differences"]) <= 1e-5


def test_a_stream_of_12000_sentences_is_flat(request):
    result = measure(
        """
        emb = Embedder(char_bilm())
        sentences = sentences_of_lengths([15] * 1000)
        rows = (sentence for _ in range(12) for sentence in sentences)
        seen, sizes = 0, []
        for vectors in emb.stream(rows):
            seen += 1
            if seen % 1000 == 0:
                sizes.append(resident())
        print(json.dumps({"seen": seen, "sizes": sizes}))
        """,
        request,
    )
    assert result["seen"] == 12_000
    assert max(result["sizes"][1:]) < 1.05 * result["sizes"][0]


def test_a_thousand_calls_with_new_words_are_flat(request):
    result = measure(
        """
        emb = Embedder(char_bilm(), cache_words=1_000)
        sizes = []
        for call in range(1_000):
            emb.embed([[f"word{call}x{number}" for number in range(10)]])
            if call in (199, 999):
                sizes.append(resident())
        print(json.dumps({"sizes": sizes}))
        """,
        request,
    )
    early, late = result["sizes"]
    assert late < 1.05 * early


def test_long_documents_run_within_a_token_budget(request):
    result = measure(
        """
        emb = Embedder(char_bilm(cell_dim=512, projection_dim=64), batch_tokens=2_000)
        before = peak()
        vectors = emb.embed(sentences_of_lengths([800] * 8), "top")
        print(json.dumps({"growth": peak() - before, "shapes": [v.shape for v in vectors]}))
        """,
        request,
    )
    assert result["shapes"] == [[800, 128]] * 8
    assert result["growth"] < 100 * MEBIBYTE
