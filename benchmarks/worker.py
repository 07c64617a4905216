"""The process of a contender, with an interpreter of its own, seen from the benchmark.

It is asked one JSON object a line and answers each with one. Between its turns it is stopped: idle
threads of OpenMP may spin, and would take a core from the contender whose turn it is.
"""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any, Self

EMBEDDING_WORKER = Path(__file__).with_name("embedding_worker.py")


class Worker:
    """A contender's process, or several that work together as torchrun's do."""

    def __init__(
        self,
        contender: str,
        python: Path,
        num_threads: int,
        script: Path = EMBEDDING_WORKER,
        *,
        num_processes: int = 1,
    ) -> None:
        """Start the processes.

        Args:
            contender: Its name in error messages.
            python: The interpreter.
            num_threads: Threads of each process.
            script: What it runs.
            num_processes: More than one get torchrun's variables.
        """
        self.contender = contender
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(num_threads))
        places = _places(num_processes) if num_processes > 1 else [{}]
        self._processes = [
            subprocess.Popen(
                [python, script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                env=os.environ | threads | place | {"CUDA_VISIBLE_DEVICES": ""},
            )
            for place in places
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def ask(self, request: str, **arguments: object) -> dict[str, Any]:
        """Send a request to every process and wait; the first one's reply is returned."""
        line = json.dumps({"request": request} | arguments)
        self._signal("SIGCONT")
        for process in self._processes:
            assert process.stdin is not None
            print(line, file=process.stdin, flush=True)
        replies = [self._reply(process) for process in self._processes]
        self._signal("SIGSTOP")
        return replies[0]

    def _signal(self, name: str) -> None:
        if hasattr(signal, name):  # Windows has neither
            for process in self._processes:
                process.send_signal(getattr(signal, name))

    def _reply(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        reply = process.stdout.readline()
        if not reply:
            process.wait()  # for the rest of its error message
            raise RuntimeError(f"the worker of {self.contender} has failed; its error is above")
        answer: dict[str, Any] = json.loads(reply)
        return answer


def _places(num_processes: int) -> list[dict[str, str]]:
    """Return the variables by which the processes find one another."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(num_processes),
    }
    return [common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(num_processes)]
