"""What every format has to keep; a format's tests inherit it."""

import dataclasses
import weakref

import numpy as np
import pytest

from elmokit.embedding.stored import open_embeddings
from elmokit.embedding.writers import Volume, writer_for
from elmokit.errors import InputError
from embedding.rows import (
    KINDS,
    ODD_VALUES,
    assert_same_bits,
    assert_same_rows,
    file_size_limit,
    make_row,
    odd_rows,
    settings_of,
)


class WriterContract:
    name: str
    layout = "per-sentence"
    keeps_settings = True
    robust: int | None = None
    """Bytes in which the format's library can stand any damage; None for all."""
    large = (1024, 512)
    """Shape of which a few rows are more than a block."""

    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / self.name

    def write(self, path, rows, settings=None):
        writer_for(path, self.layout).write(path, iter(rows), settings or {})
        return open_embeddings(path)

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_rows_come_back_bit_for_bit(self, path, kind, dtype):
        rows = odd_rows(kind, dtype)
        with self.write(path, rows, settings_of(kind)) as stored:
            assert_same_rows(stored, rows)
            for found, row in zip(stored, rows, strict=True):
                assert_same_bits(found, row.vectors)

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_odd_numbers_come_back_bit_for_bit(self, path, dtype):
        with np.errstate(over="ignore"):
            values = np.array([ODD_VALUES], dtype)
        row = dataclasses.replace(make_row(0, ["a"], "one"), vectors=values)
        with self.write(path, [row]) as stored:
            assert_same_bits(stored[0], values)

    def test_names_lines_and_offsets_come_back(self, path):
        rows = odd_rows()
        rows[2] = dataclasses.replace(rows[2], id="sp|P1 /\0\ud800", line=7)
        rows[3] = dataclasses.replace(rows[3], id="", line=1, offsets=((0, 5), (6, 7)))
        rows[1] = dataclasses.replace(rows[1], offsets=())
        with self.write(path, rows) as stored:
            assert_same_rows(stored, rows)
            assert stored.ids[:4] == [None, None, "sp|P1 /\0\ud800", ""]

    def test_rows_are_in_order_of_the_input_beyond_ten(self, path):
        rows = [make_row(i, [f"word{i}"]) for i in range(12)]
        with self.write(path, rows) as stored:
            assert_same_bits(stored[10], rows[10].vectors)
            assert_same_bits(stored[-1], rows[11].vectors)
            assert [stored.tokens(i)[0] for i in range(12)] == [f"word{i}" for i in range(12)]
            assert stored.find("word10") == [10]
            for row in (12, -13):
                with pytest.raises(IndexError, match="12 rows"):
                    stored[row]

    def test_all_rows_of_a_text_are_found(self, path):
        with self.write(path, odd_rows()) as stored:
            assert stored.find("the cat sat") == [0, 6, 9]
            assert stored.find("  the\u00a0cat\tsat\n") == [0, 6, 9]
            assert stored.find(["the", "cat", "sat"]) == [0, 6, 9]
            assert stored.find("New York is") == [7, 8]
            assert stored.find(("New York", "is")) == [7]
            assert stored.find("") == stored.find([]) == [1]
            assert stored.find(["nul\0"]) == stored.find("the cat") == []

    def test_no_rows_give_a_file_without_rows(self, path):
        with self.write(path, []) as stored:
            assert len(stored) == 0
            assert list(stored) == stored.find("the") == stored.ids == []

    def test_settings_are_kept(self, path):
        settings = {**settings_of("all"), "layers": [0, 2], "boundaries": False, "seed": None}
        with self.write(path, odd_rows(), settings) as stored:
            assert stored.settings == (settings if self.keeps_settings else {})

    def test_same_rows_give_the_same_file(self, path):
        contents = []
        for _ in range(2):
            self.write(path, odd_rows(), settings_of("all")).close()
            contents.append(path.read_bytes())
            path.unlink()
        assert contents[0] == contents[1]

    @pytest.mark.parametrize("part", [0.2, 0.9, 0.999])
    def test_a_truncated_file_gives_one_line(self, path, part):
        self.write(path, odd_rows()).close()
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * part)])
        with pytest.raises(InputError, match="truncated") as caught:
            open_embeddings(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_damage_gives_one_line_or_other_values(self, path):
        self.write(path, odd_rows()).close()
        content = path.read_bytes()
        messages = []
        for place in np.random.default_rng(0).integers(0, self.robust or len(content), 60):
            damaged = bytearray(content)
            damaged[place] ^= 0x15
            path.write_bytes(damaged)
            try:
                with open_embeddings(path) as stored:
                    for row in range(len(stored)):
                        stored.row(row)
            except InputError as error:
                messages.append(str(error))
        assert messages
        assert not any("\n" in message for message in messages)

    @pytest.mark.parametrize("size", [0, 100, 5000, 20_000, 60_000, 131_072, 199_999])
    def test_a_full_disk_is_an_error_and_never_silent(self, path, size):
        rows = [make_row(i, ["word"] * 30) for i in range(150)]  # 216 KB of vectors
        with file_size_limit(size), pytest.raises(OSError, match="too large"):
            self.write(path, rows)

    def test_only_a_bounded_block_of_rows_is_in_memory(self, path):
        vectors = []

        def rows():
            for i in range(30):
                row = dataclasses.replace(make_row(i, []), vectors=np.zeros(self.large, "f4"))
                vectors.append(weakref.ref(row.vectors))
                assert sum(array() is not None for array in vectors) <= 10
                yield row

        self.write(path, rows()).close()

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_size_is_estimated_within_five_percent(self, path, kind, dtype):
        random = np.random.default_rng(0)
        words = [chr(97 + i % 26) * (1 + i % 11) for i in range(300)]
        rows = [
            make_row(i, [words[w] for w in random.integers(0, 300, length)], kind, dtype)
            for i, length in enumerate(random.integers(0, 40, 1000))
        ]
        volume = Volume(
            num_rows=1000,
            num_tokens=sum(len(row.tokens) for row in rows),
            num_characters=sum(len(token) for row in rows for token in row.tokens),
            num_vectors=sum(row.vectors.size for row in rows) // (12 if "all" in kind else 4),
            vector_dim=12 if "all" in kind else 4,
            dtype=dtype,
        )
        self.write(path, rows, settings_of(kind)).close()
        estimate = writer_for(path, self.layout).estimate_bytes(volume)
        assert estimate == pytest.approx(path.stat().st_size, rel=0.05)
