import os
import sys

import pytest

from elmokit.cli import _COMMANDS, main

EMBED = ("embed", "in.txt", "-o", "out.h5")
COMMANDS = ", ".join(_COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), f"Expected one of {{{COMMANDS}}}; see elmo --help"),
        (
            ("embd", "in.txt"),
            f"unknown command 'embd' (did you mean 'embed'?); use one of {COMMANDS}; "
            "see elmo --help",
        ),
        (("--foo",), "Unrecognized options: --foo; see elmo --help"),
        (
            ("embed",),
            "Missing from elmo embed: INPUT; -o PATH, --output PATH; see elmo embed --help",
        ),
        (("info",), "Missing from elmo info: MODEL; see elmo info --help"),
        (
            ("convert", "a", "b"),
            "Missing from elmo convert: --to {native,allennlp}; see elmo convert --help",
        ),
        (
            (*EMBED, "--layer", "all"),
            "Unrecognized options: --layer, all; perhaps you meant --layers STR; "
            "see elmo embed --help",
        ),
        ((*EMBED, "more.txt"), "Unrecognized options: more.txt; see elmo embed --help"),
        ((*EMBED, "--boundaries", "yes"), "Unrecognized options: yes; see elmo embed --help"),
        (
            ("info", "a", "--to", "native"),
            "Unrecognized or misplaced options: --to (applied to elmo info); "
            "native (applied to elmo info); see elmo info --help",
        ),
    ],
)
def test_what_is_wrong_with_the_arguments_is_said(refused, arguments, message):
    assert refused(*arguments) == message


@pytest.mark.parametrize("option", [("-o", "out.h5/"), ("--output", "a/b/"), ("--output=c.h5//",)])
def test_an_output_with_a_slash_at_its_end_is_refused(refused, option):
    text = option[-1].removeprefix("--output=")
    message = refused("embed", "in.txt", *option)
    assert message == f"{text}: ends in a slash; give the name of a file with -o, no folder"


def test_a_folder_may_have_a_slash_at_its_end(refused):
    message = refused("task", "train", "ner", "-o", "run/")
    assert message == "data.train: is missing; give a file with --train"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--batch-tokens", "many"),
        ("--batch-tokens", "1.5"),
        ("--batch-size", ""),
        ("--threads", "None"),
        ("--format", "txt"),
        ("--pooling", "sum"),
        ("--dtype", "float64"),
        ("--layout", "flat"),
        ("--precision", "fp16"),
        ("--state", "warm"),
    ],
)
def test_a_value_that_does_not_fit_is_said_with_its_option(refused, option, value):
    message = refused(*EMBED, option, value)
    assert option in message
    assert repr(value) in message
    assert message.endswith("; see elmo embed --help")


def test_a_value_that_is_missing_is_said(refused):
    assert "--layers" in refused(*EMBED, "--layers")
    assert refused("convert", "a", "b", "--to", "tf").startswith("invalid choice 'tf' for")


def test_a_long_argument_is_shown_whole_on_a_narrow_terminal(refused, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    path = "/".join(["folder"] * 40)
    assert path in refused(*EMBED, path)
    assert os.environ["COLUMNS"] == "40"


def test_messages_are_plain_on_a_terminal_with_colours(refused, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    message = refused(*EMBED, "--layer", "all")
    assert message.startswith("Unrecognized options: --layer, all; perhaps you meant --layers")
    assert "\x1b" not in message


def test_help_is_as_wide_as_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["embed", "--help"]) == 0
    assert 50 < max(map(len, capsys.readouterr().out.splitlines()[6:])) <= 60
