"""Interrupts `dualpath run` and `compare` while they serve a trace that would take very long, and `bench store`.

Usage: interrupt_run.py DUALPATH
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

# So slow a tool that no session ever comes to its end.
SERVE = ["--cluster", "1P1D", "--trace", "traces/swe_agent.jsonl", "--scale-tokens", "0.02", "--tool-scale", "1000",
         "--no-progress", "--log-level", "debug", "--log-format", "json"]


class interrupted_program:
    def __init__(self, program, command, folder, *more):
        self.temp, self.log, self.report = folder / "temp", folder / "log", folder / "report.json"
        self.temp.mkdir()
        self.log.touch()
        arguments = [program, command, *SERVE, "--log-file", self.log, "--report", self.report, *more]
        # Where the test itself runs in the background, SIGINT may be ignored.
        self.process = subprocess.Popen(arguments, env={**os.environ, "TMPDIR": str(self.temp)}, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

    def events(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def wait_until_it_serves(self):
        while "request_dispatched" not in self.log.read_text():
            assert self.process.poll() is None, self.process.communicate()
        assert any(self.temp.iterdir()), "no temporary store to remove"

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, code):
        out, err = self.process.communicate()
        assert self.process.returncode == code, (self.process.returncode, out, err)
        assert not list(self.temp.iterdir()), "the temporary store is left"
        assert all({"time", "level", "event"} <= event.keys() for event in self.events())
        return out, err


def one_signal(program, folder, number, code):
    run = interrupted_program(program, "run", folder)
    run.wait_until_it_serves()
    run.signal(number)
    out, err = run.end(code)
    assert "the rounds under way are finished first" in err, err
    (done,) = json.loads(run.report.read_text())["runs"]
    assert done["interrupted"] and 0 < done["requests"] < done["rounds_planned"], done
    said = f"interrupted: {done['requests']} of {done['rounds_planned']} rounds"
    assert said in done["warnings"] and said in out, (done["warnings"], out)
    assert all(event["engine"] >= 0 for event in run.events() if event["event"] == "engine_up")
    print(f"run, signal {number}: {said}, exit code {code}")


def compare(program, folder):
    run = interrupted_program(program, "compare", folder, "--policies", "dualpath,basic")
    run.wait_until_it_serves()
    run.signal(signal.SIGINT)
    out, _ = run.end(130)
    runs = json.loads(run.report.read_text())["runs"]
    assert [each["policy"] for each in runs] == ["dualpath"], "a policy was begun after the signal"
    assert "dualpath" in out


def two_signals(program, folder):
    # A compute network so slow that no round ends.
    run = interrupted_program(program, "run", folder, "--cnic-bandwidth", "1kB/s")
    run.wait_until_it_serves()
    run.signal(signal.SIGINT)
    while "finished first" not in (line := run.process.stderr.readline()):
        assert line, "ended by the first signal"
    run.signal(signal.SIGINT)
    run.end(130)
    assert not run.report.exists()


def store_bench(program, folder, number, *more):
    process = subprocess.Popen([program, "bench", "store", folder, *more], stdout=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    while not any(folder.glob("*/*/*")):
        assert process.poll() is None, "it ended before it wrote"
    process.send_signal(number)
    assert process.wait() == 128 + number, process.returncode
    assert not list(folder.iterdir()), "blocks are left"


def main(program):
    cases = {"int": lambda f: one_signal(program, f, signal.SIGINT, 130),
             "term": lambda f: one_signal(program, f, signal.SIGTERM, 143),
             "compare": lambda f: compare(program, f),
             "twice": lambda f: two_signals(program, f),
             "store": lambda f: store_bench(program, f, signal.SIGTERM, "--block", "64KiB", "--rounds", "1000", "--no-fio"),
             "scan": lambda f: store_bench(program, f, signal.SIGINT, "--scan-blocks", "1000000")}
    with tempfile.TemporaryDirectory() as base:
        for name, case in cases.items():
            (Path(base) / name).mkdir()
            case(Path(base) / name)


main(*sys.argv[1:])
