import io
import logging
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import elmokit
from elmokit.cli import _COMMANDS, main, printing
from elmokit.errors import ConfigError

COMMANDS = tuple(_COMMANDS)


@pytest.fixture
def failing(monkeypatch):
    """Makes `elmo info` end in the error given."""

    def replace(error: BaseException) -> None:
        def info(settings):
            raise error

        monkeypatch.setattr("elmokit.cli.models.info", info)

    return replace


def test_a_real_process_prints_help():
    command = [sys.executable, "-m", "elmokit", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("usage: elmo ")
    # The parser does not break the list of commands in its first line.
    assert max(map(len, ran.stdout.splitlines()[1:])) <= 80
    for command in COMMANDS:
        assert command in ran.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(elmo, command):
    ran = elmo(command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"usage: elmo {command} ")
    assert f"Example: elmo {command} " in ran.out


def test_every_option_is_explained(elmo):
    # A docstring under the field is the help; one without would show the default alone.
    text = " ".join(elmo("embed", "--help").out.replace("│", " ").split())
    for option in ("--layers STR", "--threads INT", "--overwrite", "--resume", "--encoding STR"):
        assert option in text
        assert not text.partition(option)[2].lstrip().startswith("(default")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_default_is_told_where_there_is_one(elmo, command):
    text = " ".join(elmo(command, "--help").out.replace("│", " ").split())
    assert "(default: None)" not in text
    assert "(default: False)" not in text
    assert ("(default: 5000)" in text) == (command == "embed")


def test_the_version_is_told(elmo):
    assert elmo("--version").out == f"elmo {elmokit.__version__}\n"


def test_the_arguments_of_the_process_are_the_default(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["elmo", "--version"])
    assert main() == 0
    assert elmokit.__version__ in capsys.readouterr().out


def test_an_error_is_one_line_after_its_traceback_with_debug(elmo, refused, tmp_path):
    missing = tmp_path / "missing"
    assert refused("info", missing) == f"{missing}: no such file or directory"
    for arguments in (["--debug", "info", missing], ["info", missing, "--debug"]):
        ran = elmo(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("Traceback (most recent call last):\n")
        assert f"CheckpointError: {missing}: no such file" in ran.err
        assert ran.err.endswith(f"\nelmo: {missing}: no such file or directory\n")
    ran = elmo("info", "a", "--debug", "b")
    assert ran.code == 2
    assert ran.err.splitlines()[-1].startswith("elmo: Unrecognized options: b")


def test_line_breaks_in_a_message_do_not_break_the_line(refused, failing):
    failing(ConfigError("a\nb\r\n  c\u2028d"))
    assert refused("info", "x") == "a b c d"


def test_an_error_of_the_system_is_bad_input(refused, failing):
    failing(PermissionError(13, "Permission denied", "/place"))
    assert refused("info", "x") == "/place: Permission denied"


@pytest.mark.parametrize("error", [ValueError("odd\nthing"), MemoryError(), OSError("odd thing")])
def test_an_unforeseen_error_is_one_line_too(elmo, failing, error):
    failing(error)
    ran = elmo("info", "x")
    assert ran.code == 1
    assert ran.err.startswith(f"elmo: unexpected {type(error).__name__}")
    assert ran.err.endswith("; --debug shows where it comes from\n")
    assert ran.err.count("\n") == 1
    ran = elmo("info", "x", "--debug")
    assert ran.code == 1
    assert ran.err.startswith("Traceback")


def test_an_interruption_is_one_line(elmo, failing):
    failing(KeyboardInterrupt())
    ran = elmo("info", "x")
    assert (ran.code, ran.err) == (130, "elmo: interrupted\n")


def test_a_reader_that_has_seen_enough_is_no_error(elmo, failing):
    failing(BrokenPipeError())
    ran = elmo("info", "x")
    assert (ran.code, ran.err) == (0, "")


def test_a_closed_pipe_makes_no_noise():
    command = [sys.executable, "-m", "elmokit", "--version"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=120) == 0


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["info", "nowhere"]])
@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
def test_commands_work_without_standard_output_or_error(monkeypatch, capsys, arguments, closed):
    code = main(arguments)
    whole = capsys.readouterr()
    with monkeypatch.context() as patch:
        for name in ("stdout", "stderr") if closed == "both" else (closed,):
            patch.setattr(sys, name, None)
        assert main(arguments) == code
        assert (sys.stdout is None, sys.stderr is None) == (closed != "stderr", closed != "stdout")
    found = capsys.readouterr()
    assert found.out == ("" if closed != "stderr" else whole.out)
    assert found.err == ("" if closed != "stdout" else whole.err)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_standard_output_is_called_by_its_name(fixtures):
    for arguments in (["info", str(fixtures / "A2_bilm_skip")], ["embed", "--help"]):
        command = [sys.executable, "-m", "elmokit", *arguments]
        with Path("/dev/full").open("w") as full:
            ran = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120
            )
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
        assert ran.stderr.startswith("elmo: standard output: No space left on device; ")


def test_a_standard_error_that_fails_changes_no_exit_code(monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    assert main(["info", "nowhere"]) == 2
    assert main(["info", "nowhere", "--debug"]) == 2


def test_log_and_warnings_are_shown_while_a_command_runs(elmo, monkeypatch):
    logger = logging.getLogger("elmokit.somewhere")
    home = logging.getLogger("elmokit")
    before = (list(home.handlers), home.level, warnings.showwarning)

    def info(settings):
        logger.info("going on")
        logger.debug("unheard")
        logger.warning("look out")
        for module in ("elmokit.model", "elsewhere"):
            warnings.warn_explicit(f"mind {module}", UserWarning, "a.py", 1, module=module)

    monkeypatch.setattr("elmokit.cli.models.info", info)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a filter of the user's, who means other programs
        ran = elmo("info", "x")
    assert ran.err == "going on\nwarning: look out\nwarning: mind elmokit.model\n"
    assert (list(home.handlers), home.level, warnings.showwarning) == before


def test_results_are_shown_whatever_the_terminal_knows(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    printing.say("na\u00efve \ud800\nline")
    stream.flush()
    assert stream.buffer.getvalue() == b"na\\xefve \\ud800 line\n"
