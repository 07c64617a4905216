import logging
import re

import pytest
import torch
from checkpoint_samples import one_line
from hypothesis import given
from hypothesis import strategies as st

from elmokit.checkpoints import bilm_table, table
from elmokit.checkpoints.table import Stored

_TRANSFORMS = {
    # name -> transform, shapes of the foreign tensors for sizes a, b
    "same": (table.SAME, lambda a, b: [(a, b)]),
    "transpose": (table.TRANSPOSE, lambda a, b: [(a, b)]),
    "zero row": (table.ZERO_ROW, lambda a, b: [(a, b)]),
    "convolution": (bilm_table.CONVOLUTION, lambda a, b: [(1, a, b, a + 1)]),
    "kernel": (bilm_table.KERNEL, lambda a, b: [(2 * a, 4 * b)]),
    "bias": (bilm_table.BIAS, lambda a, b: [(4 * a,)]),
    "highway weight": (bilm_table.HIGHWAY_WEIGHT, lambda a, b: [(a, a), (a, a)]),
    "highway bias": (bilm_table.HIGHWAY_BIAS, lambda a, b: [(a,), (a,)]),
}


@pytest.mark.parametrize("name", _TRANSFORMS)
@given(a=st.integers(1, 5), b=st.integers(1, 5))
def test_every_transform_has_an_exact_inverse(name, a, b):
    transform, shapes = _TRANSFORMS[name]
    tensors = tuple(torch.randn(shape) for shape in shapes(a, b))
    tensors[0].view(-1)[0] = -0.0
    back = transform.write(transform.read(tensors))
    assert [t.contiguous().numpy().tobytes() for t in back] == [
        t.numpy().tobytes() for t in tensors
    ]


def test_gates_are_reordered_and_halves_are_input_and_recurrence():
    kernel = torch.arange(2 * 2 * 4.0).reshape(
        4, 4
    )  # (2D, 4H) with D = 2, H = 1: columns i, j, f, o
    inputs, recurrent = bilm_table.KERNEL.read((kernel,))
    assert inputs.tolist() == kernel[:2, [0, 2, 1, 3]].t().tolist()
    assert recurrent.tolist() == kernel[2:, [0, 2, 1, 3]].t().tolist()


def test_carry_gate_changes_its_sign():
    transform, carry = (
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([[5.0, 6.0], [7.0, 8.0]]),
    )
    (weight,) = bilm_table.HIGHWAY_WEIGHT.read((transform, carry))
    assert weight.tolist() == [[1, 3], [2, 4], [-5, -7], [-6, -8]]


def test_account_names_every_problem_in_order():
    wanted = {"d": (1,), "c": (2, 3), "b": (4,), "a": (5,)}
    found = {
        "z": Stored((9,), "float32"),
        "b": Stored((4,), "int64"),
        "c": Stored((3, 2), "float16"),
        "d": Stored((1,), "float64"),
    }
    with one_line() as caught:
        table.account(wanted, found, where="FILE", reason="CONFIG")
    assert str(caught.value) == (
        "FILE: its tensors do not fit CONFIG: a (5,) is missing; b holds int64 instead of float32; "
        "c has shape (3, 2) instead of (2, 3); z (9,) is unexpected"
    )


def test_account_names_no_more_than_fit_on_a_line():
    wanted = {f"t{i:05d}": (1,) for i in range(20_000)}
    with one_line("t00099 (1,) is missing; and 19,900 more") as caught:
        table.account(wanted, {}, where="w", reason="c")
    assert "t00100" not in str(caught.value)


def test_account_lets_known_extras_pass():
    found = {"a": Stored((1,), "float32"), "extra/x": Stored((2,), "int32")}
    table.account({"a": (1,)}, found, where="f", reason="c", dropped=re.compile("extra/.*"))
    with one_line("extra/x"):
        table.account({"a": (1,)}, found, where="f", reason="c", dropped=re.compile("extra"))


def test_sparse_tensors_are_no_floats():
    found = table.stored({"a": torch.eye(2).to_sparse()})
    with one_line("a holds sparse_coo"):
        table.account({"a": (2, 2)}, found, where="f", reason="c")


def test_import_owns_its_memory_and_is_contiguous():
    source = torch.randn(4, 6)
    rows = [table.row("n", "f", (4, 6), table.TRANSPOSE), table.row("m", "g", (4, 6))]
    tensors = table.import_tensors(rows, lambda name: source, where="f")
    assert all(tensor.is_contiguous() for tensor in tensors.values())
    source.zero_()
    assert all(tensor.all() for tensor in tensors.values())


def test_rounding_and_broken_numbers_are_logged(caplog):
    tensors = {"f": torch.tensor([1.0, float("nan")], dtype=torch.float64)}
    rows = [table.row("n", "f", (2,))]
    with caplog.at_level(logging.WARNING):
        table.import_tensors(rows, tensors.__getitem__, where="FILE")
    assert caplog.messages == [
        "FILE: rounded from float64 to float32: f",
        "FILE: not all numbers are finite in n",
    ]
