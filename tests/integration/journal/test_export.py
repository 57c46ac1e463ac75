import json
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.domain.errors import JournalTampered, UsageError
from kagura_kernel.journal.encoding import row_hash
from kagura_kernel.journal.export import ExportPart, export_lines
from kagura_kernel.journal.store import Journal
from tests.support.journals import touch
from tests.support.sample_run import SampleRun

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "auditing.md"
RUNS = [SampleRun(), SampleRun(run_id="run-2", session_id="ses-2")]
ROWS = 12


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal in use: rows of two runs by turns, a minute apart, one of them with bytes that are no text."""
    home = tmp_path / "home"
    monkeypatch.setenv("KAGURA_HOME", str(home))
    monkeypatch.delenv("KAGURA_JOURNAL_URL", raising=False)
    journal = Journal.open(home)
    for number in range(ROWS):
        run = RUNS[number % 2]
        event = run.noted(f"row {number}, naïve \u2028 日本 \udcff" if number == 3 else f"row {number}")
        journal.append(event.model_copy(update={"at": run.at + timedelta(minutes=number)}))
    journal.close()
    return home


@pytest.fixture
def journal(home: Path) -> Iterator[Journal]:
    opened = Journal.open(home)
    yield opened
    opened.close()


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the script that stands in the document on a file, in a Python of its own."""
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert found is not None
    script = tmp_path / "check.py"
    script.write_text(found[1], "utf-8")

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", str(script), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    return run


def exported(home: Path, *words: str) -> Path:
    path = home.parent / "audit.jsonl"
    path.unlink(missing_ok=True)
    assert main(["journal", "export", *words, str(path)]) == 0
    return path


def test_the_script_of_the_document_has_thirty_lines_at_most():
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert found is not None
    assert len(found[1].splitlines()) <= 30


def test_a_whole_export_checks_with_the_script_and_ends_where_the_journal_does(home, check, journal):
    path = exported(home)
    said = check(path, journal.verify().last_hash)
    assert (said.returncode, said.stderr) == (0, "")
    assert f"{ROWS} rows up to {ROWS}, 0 left out" in said.stdout
    assert f"as they were when HASH was noted: rows 1 to {ROWS}, and no others" in said.stdout
    assert journal.verify().last_hash in said.stdout
    assert "as they were when HASH was noted: not checked" in check(path).stdout


def test_an_export_is_for_its_owner_alone_and_leaves_nothing_beside_it(home):
    path = exported(home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(one.name for one in path.parent.iterdir()) == ["audit.jsonl", "home"]


@pytest.mark.usefixtures("home")
def test_a_file_that_is_there_is_left_alone(tmp_path, capsys):
    kept = tmp_path / "kept.jsonl"
    kept.write_text("mine")
    assert main(["journal", "export", str(kept)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert kept.read_text() == "mine"


def test_the_same_journal_gives_the_same_bytes_printed_or_written(home, capsys):
    first = exported(home).read_text("ascii")
    assert main(["journal", "export", "-"]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith(first)
    assert exported(home).read_text("ascii") == first


def test_a_part_by_time_has_anchors_and_checks_by_itself(home, check, journal):
    rows = journal.events()
    since, until = rows[3].event.at, rows[8].event.at
    path = exported(home, "--since", since.isoformat(), "--until", until.isoformat())
    lines = [json.loads(line) for line in path.read_text("ascii").splitlines()]
    assert (lines[0]["seq"], lines[0]["prev_hash"]) == (4, rows[2].hash)
    assert (lines[-1]["end"], lines[-1]["hash"], lines[-1]["rows"]) == (9, rows[8].hash, 6)
    assert lines[-1]["journal"] == {"rows": ROWS, "last_hash": rows[-1].hash}
    assert check(path).stdout.startswith("6 rows up to 9, 0 left out")
    # Of a hash within it the rows up to that one are proven, and none of one that lies outside.
    assert "rows 4 to 7, and no others" in check(path, rows[6].hash).stdout
    outside = check(path, rows[-1].hash)
    assert (outside.returncode, outside.stdout) == (1, "")
    assert "no row here has the hash that was noted" in outside.stderr


def test_one_run_alone_checks_and_says_what_was_left_out(home, check):
    path = exported(home, "--run", "run-2")
    assert "run-1" not in path.read_text("ascii")
    said = check(path)
    assert said.stdout.startswith(f"{ROWS // 2} rows up to {ROWS}, {ROWS // 2} left out"), said.stderr


def test_of_one_run_no_more_is_proven_than_the_rows_that_are_bound_to_the_hash(home, check, journal):
    path = exported(home, "--run", "run-2")
    lines = lines_of(path)
    # A row before others that were left out can be written anew, and nothing in the file tells.
    forged = json.loads(lines[2])
    forged["body"] = forged["body"].replace("row 1", "row X")
    lines[2] = line_of(forged | {"hash": hash_of(forged)})
    path.write_text("".join(lines), "ascii")
    said = check(path, journal.verify().last_hash)
    assert said.returncode == 0, said.stderr
    assert f"as they were when HASH was noted: rows {ROWS} to {ROWS}, and no others" in said.stdout


def test_an_empty_journal_gives_an_export_of_nothing_that_checks(tmp_path, monkeypatch, check):
    home = tmp_path / "empty"
    Journal.open(home).close()
    monkeypatch.setenv("KAGURA_HOME", str(home))
    said = check(exported(home))
    assert said.stdout.startswith("0 rows up to 0, 0 left out"), said.stderr


@pytest.mark.usefixtures("home")
def test_where_no_row_is_of_that_time_nothing_is_written(tmp_path, capsys):
    goal = tmp_path / "none.jsonl"
    assert main(["journal", "export", "--since", "2100-01-01", str(goal)]) == 2
    assert "no row of that time" in capsys.readouterr().err
    assert not goal.exists()


@pytest.mark.usefixtures("home")
def test_a_time_that_makes_no_sense_names_its_option(capsys):
    assert main(["journal", "export", "--until", "soon", "-"]) == 2
    assert "--until takes" in capsys.readouterr().err


def lines_of(path: Path) -> list[str]:
    return path.read_text("ascii").splitlines(keepends=True)


def changed(lines: list[str]) -> list[str]:
    return [line.replace("row 5", "row 6") for line in lines]


def hash_of(row: dict[str, Any]) -> str:
    return row_hash(*(row[name] for name in ("seq", "at", "kind", "run_id", "session_id", "body", "prev_hash")))


def line_of(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


def rehashed(lines: list[str]) -> list[str]:
    # Somebody who knows how rows are hashed changes one, and its own hash with it.
    row = json.loads(lines[6])
    row["body"] = row["body"].replace("row 5", "row 6")
    return [*lines[:6], line_of(row | {"hash": hash_of(row)}), *lines[7:]]


def forged(lines: list[str], rows: int, noted: str) -> list[str]:
    """The export as somebody writes it anew who knows the noted hash: every hash fits, and the end says it."""
    made, last = [lines[0]], "0" * 64
    for line in lines[1 : rows + 1]:
        row = json.loads(line) | {"prev_hash": last}
        row["body"] = row["body"].replace("row 5", "row X")
        last = hash_of(row)
        made.append(line_of(row | {"hash": last}))
    end = {"end": rows, "hash": last, "rows": rows, "journal": {"rows": ROWS, "last_hash": noted}}
    return [*made, line_of(end)]


@pytest.mark.parametrize("rows", [ROWS, ROWS - 3])
def test_whoever_writes_all_of_it_anew_is_found_by_the_noted_hash_whatever_the_end_says(home, check, journal, rows):
    noted = journal.verify().last_hash
    path = exported(home)
    path.write_text("".join(forged(lines_of(path), rows, noted)), "ascii")
    said = check(path, noted)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.strip() == "no row here has the hash that was noted: nothing is proven"
    unchecked = check(path)
    assert "as they were when HASH was noted: not checked" in unchecked.stdout


def test_an_end_that_was_cut_off_and_made_anew_is_found_by_the_noted_hash(home, check, journal):
    rows = journal.events()
    path = exported(home)
    end = {"end": 8, "hash": rows[7].hash, "rows": 8, "journal": {"rows": 8, "last_hash": rows[-1].hash}}
    path.write_text("".join([*lines_of(path)[:9], line_of(end)]), "ascii")
    assert check(path, rows[-1].hash).returncode == 1


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "5",
        '{"seq":5}',
        '"text"',
        "null",
        '["seq","at","kind","run_id","session_id","body","prev_hash","hash"]',
        '["end","hash","rows","journal"]',
        '["skipped_to","hash"]',
        '{"skipped_to":"x","hash":"y"}',
        '{"end":{}}',
        "[" * 100_000,
        "9" * 5000,
        "\u00e9",
        "",
    ],
)
@pytest.mark.parametrize("at", [0, 4, -1])
def test_a_line_that_is_none_of_an_export_is_told_in_one_sentence_that_says_where(home, check, line, at):
    path = exported(home)
    lines = lines_of(path)
    lines[at] = f"{line}\n"
    path.write_text("".join(lines), "utf-8")
    said = check(path)
    assert (said.returncode, said.stdout) == (1, "")
    assert re.fullmatch(r"(line \d+|after row \d+): [^\n]+\n", said.stderr), said.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace('{"seq"', '{"verdict":"allowed","seq"'),
        lambda line: line.replace('{"seq"', '{"kind":"FAKE","seq"'),
        lambda line: line.replace("}\n", ',"verdict":"allowed"}\n'),
        lambda line: line.replace('"seq":5', '"seq":5.0'),
        lambda line: line.replace('"seq":', '"seq": '),
    ],
    ids=["more", "twice", "after", "number", "spaces"],
)
def test_a_row_with_a_word_more_or_twice_is_none(home, check, change):
    path = exported(home)
    lines = lines_of(path)
    lines[5] = change(lines[5])
    assert lines != lines_of(path)
    path.write_text("".join(lines), "ascii")
    said = check(path)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith("line 6: ")


@pytest.mark.parametrize(
    ("tamper", "where"),
    [
        (changed, "line 7: row 6 is not what was written"),
        (rehashed, "line 8: row 7 is not here"),
        (lambda lines: [*lines[:4], *lines[5:]], "line 5: row 4 is not here"),
        (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], "line 5: row 4 is not here"),
        (lambda lines: [*lines[:4], lines[4], *lines[4:]], "line 6: row 5 is not here"),
        (lambda lines: [lines[0], *lines[2:]], "line 2: row 1 is not here"),
        (lambda lines: lines[1:], "line 1: the beginning is not here"),
        (lambda lines: lines[:-1], "after row 12: the end of the export is missing"),
        (lambda lines: [*lines[:-2], lines[-1]], "after row 11: the end of the export is missing"),
        (lambda lines: [*lines[:8], lines[8][:40]], "line 9: it is cut, or not as it was exported"),
        (lambda lines: [*lines, lines[-2]], "line 15: row 13 is not here"),
        (lambda lines: [*lines[:4], '{"skipped_to":5,"hash":"x"}\n', *lines[6:]], "line 5: row 4 is not here"),
    ],
    ids=[
        "changed",
        "rehashed",
        "removed",
        "swapped",
        "doubled",
        "no-first",
        "no-head",
        "no-end",
        "no-last",
        "cut",
        "more",
        "gap",
    ],
)
def test_the_script_says_where_an_export_was_touched(home, check, tamper, where):
    path = exported(home)
    path.write_text("".join(tamper(lines_of(path))), "ascii")
    said = check(path)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.strip() == where


def test_another_journal_is_not_the_one_whose_hash_was_noted(home, check):
    said = check(exported(home), "0" * 64)
    assert said.returncode == 1
    assert "no row here has the hash that was noted" in said.stderr


@pytest.mark.parametrize(
    ("sql", "row"),
    [
        ("UPDATE journal_events SET body = replace(body, 'row 5', 'row 6') WHERE seq = 6", "row 6"),
        ("DELETE FROM journal_events WHERE seq = 1", "row 1"),
        ("DELETE FROM journal_events WHERE seq = 4", "row 4"),
        ("DELETE FROM journal_events WHERE seq = 12", "row 12"),
    ],
)
def test_of_a_journal_that_does_not_hold_nothing_is_written(home, tmp_path, capsys, sql, row):
    touch(home / "journal.db", sql)
    goal = tmp_path / "audit.jsonl"
    assert main(["journal", "export", str(goal)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ERR_JOURNAL_TAMPERED: ")
    assert row in said
    assert main(["journal", "export", "-"]) == 2
    assert capsys.readouterr().out == ""
    assert [one.name for one in tmp_path.iterdir()] == ["home"]


def test_rows_that_are_written_meanwhile_are_not_in_it(journal, home):
    lines = export_lines(journal, ExportPart())
    begun = [next(lines)]
    other = Journal.open(home)
    other.append(SampleRun().noted("later"))
    other.close()
    rest = [*begun, *lines]
    assert json.loads(rest[-1])["journal"]["rows"] == ROWS
    assert not any("later" in line for line in rest)


def test_it_is_the_same_on_a_server(where, open_journal, check, tmp_path):
    journal = open_journal()
    for number in range(ROWS):
        run = RUNS[number % 2]
        journal.append(run.noted(f"row {number} 日本").model_copy(update={"at": run.at + timedelta(minutes=number)}))
    parts = {"all": ExportPart(), "run": ExportPart(run_id="run-2"), "part": ExportPart(since=RUNS[0].at)}
    for name, part in parts.items():
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in export_lines(journal, part)), "ascii")
        said = check(path)
        assert (said.returncode, said.stderr) == (0, ""), where


def test_a_reader_gets_the_errors_of_the_journal_and_no_others(journal, home):
    with pytest.raises(UsageError):
        list(export_lines(journal, ExportPart(until=RUNS[0].at - timedelta(days=1))))
    touch(home / "journal.db", "UPDATE journal_events SET prev_hash = hash WHERE seq = 2")
    with pytest.raises(JournalTampered, match="row 2"):
        list(export_lines(journal, ExportPart()))
