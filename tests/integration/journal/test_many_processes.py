"""Several processes on one journal, opened at the same moment, one of them killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

APPEND = """
import sys
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun
where, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
journal = Journal.open(where)
run = SampleRun(name)
for number in range(count):
    seq = journal.append(run.noted(str(number)))
    print(seq, flush=True)
journal.close()
"""
DECIDE = """
import json, sys
from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import ApprovalAlreadyDecided
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
where, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
journal = Journal.open(where)
mailbox = Mailbox(journal)
print("ready", flush=True)
sys.stdin.readline()
won = []
for number in range(count):
    try:
        won.append(mailbox.decide(f"app-{number}", Verdict.ALLOW, by=name, via="test").approval_id)
    except ApprovalAlreadyDecided:
        pass
print(json.dumps(won))
journal.close()
"""


@contextmanager
def processes(code: str, where: str, names: list[str], count: int) -> Iterator[list[subprocess.Popen[str]]]:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, where, name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    try:
        for process in started:
            assert process.stdout.readline() == "ready\n"
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_four_processes_that_open_a_new_journal_at_once_write_one_chain(where):
    with processes(APPEND, where, ["run-a", "run-b", "run-c", "run-d"], 200) as started:
        said = [process.communicate()[0].split() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0, 0]
    assert sorted(int(seq) for seqs in said for seq in seqs) == list(range(1, 801))
    journal = Journal.open(where)
    try:
        assert journal.verify().rows == 800
        stored = journal.events()
        assert Counter(row.event.run_id for row in stored) == {f"run-{name}": 200 for name in "abcd"}
        for name in "abcd":
            texts = [row.event.text for row in stored if row.event.run_id == f"run-{name}"]
            assert texts == [str(number) for number in range(200)]
    finally:
        journal.close()


def test_of_four_processes_that_decide_exactly_one_wins_each_question(where):
    journal = Journal.open(where)
    try:
        mailbox = Mailbox(journal)
        for number in range(50):
            mailbox.post(SampleRun().request(f"app-{number}"))
        with processes(DECIDE, where, ["ada", "bob", "cyd", "dan"], 50) as started:
            won = {
                name: json.loads(process.communicate()[0])
                for name, process in zip(["ada", "bob", "cyd", "dan"], started, strict=True)
            }
        assert sorted(name for names in won.values() for name in names) == sorted(f"app-{n}" for n in range(50))
        decided = mailbox.decisions([f"app-{number}" for number in range(50)])
        assert all(decided[app].by == name for name, apps in won.items() for app in apps)
    finally:
        journal.close()


def test_a_process_killed_in_the_middle_of_writing_leaves_whole_rows_and_all_it_reported(where):
    rows = 0
    for attempt in range(3):
        with processes(APPEND, where, [f"run-{attempt}"], 100_000) as (writer,):
            reported = [int(writer.stdout.readline()) for _ in range(100 + 37 * attempt)]
            writer.send_signal(signal.SIGKILL)
            reported += [int(line) for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        journal = Journal.open(where)
        try:
            checked = journal.verify().rows
            assert checked >= reported[-1] >= rows + 100
            journal.check_writable()
            rows = journal.append(SampleRun().noted("still here"))
            assert rows == checked + 1
        finally:
            journal.close()


GLANCE = """
import sys
from kagura_kernel.journal.store import Journal
journal = Journal.open(sys.argv[1], create=False)
print(journal.last_seq())
journal.close()
"""


def test_two_handles_of_one_process_keep_their_rows_when_another_process_comes_and_goes(tmp_path):
    first = Journal.open(tmp_path)
    first.append(SampleRun().noted("1"))
    second = Journal.open(tmp_path)
    for number in (2, 3):
        first.append(SampleRun().noted(str(number)))
        glance = [sys.executable, "-c", GLANCE, str(tmp_path)]
        said = subprocess.run(glance, capture_output=True, text=True, check=True, timeout=60).stdout
        assert said == f"{number}\n"
        assert second.last_seq() == number
    assert Journal.open(tmp_path).verify().rows == 3
    first.close()
    second.close()
