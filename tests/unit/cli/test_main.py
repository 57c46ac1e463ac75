import io
import json
import os
import re
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace

import pytest

from kagura_kernel import __version__
from kagura_kernel.cli import main as cli, output, serve
from kagura_kernel.cli.output import as_json, for_terminal, paragraph, table, terminal_width
from kagura_kernel.cockpit.commands import COMMANDS
from kagura_kernel.cockpit.lines import help as line_help, parser
from kagura_kernel.cockpit.lines.parser import parse_line
from kagura_kernel.domain.errors import (
    BrainNotConfigured,
    IsolationTooWeak,
    KaguraError,
    MemoryUnavailable,
    RunUnknown,
    SandboxDied,
    SandboxUnavailable,
)
from kagura_kernel.domain.events import RunFinished, RunStarted
from kagura_kernel.domain.grammar import TERMINAL, Argument, Command, Kind, Surface
from kagura_kernel.journal.store import Journal

HEAVY = [
    "IPython",
    "argparse",
    "claude_agent_sdk",
    "dataclasses",
    "docker",
    "kagura_kernel.cli.journal",
    "pandas",
    "pydantic",
    "sqlalchemy",
]
NEEDED_BY_RUNS = [
    "IPython",
    "docker",
    "httpx",
    "kagura_kernel.domain.events",
    "kagura_kernel.kit",
    "kagura_kernel.views",
    "kingfisher_sdk",
    "pandas",
    "pydantic",
    "sqlalchemy.dialects.postgresql",
]
MORE = "says what can be asked for."


TRIAL = Command(
    "trial",
    "try something",
    TERMINAL,
    (Argument("word", Kind.TEXT, "anything", required=False),),
    examples=("trial this",),
    group="the machine",
)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A command `trial` whose function a test replaces."""
    module = ModuleType("kagura_kernel.cli.trial")
    module.trial = lambda _: 0
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for room in (parser, line_help):
        monkeypatch.setattr(room, "COMMANDS", (*COMMANDS, TRIAL))
    return module


def test_help_lists_every_command_and_imports_none_of_them():
    code = (
        "import sys, json, contextlib, io\n"
        "from kagura_kernel.cli.main import main\n"
        "said = io.StringIO()\n"
        "with contextlib.redirect_stdout(said): code = main(['--help'])\n"
        "print(json.dumps([code, said.getvalue(), sorted(sys.modules)]))"
    )
    # What counts lines imports modules of its own.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    code, said, modules = json.loads(done.stdout)
    assert code == 0
    for entry in COMMANDS:
        listed = f"  kagura-kernel {entry.name}"
        is_listed = any(f"{line} ".startswith(f"{listed} ") for line in said.splitlines())
        assert is_listed is (Surface.TERMINAL in entry.surfaces)
    assert [name for name in HEAVY if name in modules] == []


def test_what_lists_runs_imports_nothing_that_only_a_run_needs(tmp_path):
    now = datetime.now(UTC)
    with closing(Journal.open(tmp_path)) as journal:
        journal.append(RunStarted(run_id="run-1", session_id="ses-1", at=now, task="go", brain="fake"))
        journal.append(RunFinished(run_id="run-1", session_id="ses-1", at=now, status="failed"))
    asked = [[name, "--dir", str(tmp_path)] for name in ("runs", "sessions", "cost", "approvals", "status")]
    code = (
        "import sys, json, contextlib, io\n"
        "from kagura_kernel.cli.main import main\n"
        "said = io.StringIO()\n"
        f"with contextlib.redirect_stdout(said): codes = [main(words) for words in {asked!r}]\n"
        "print(json.dumps([codes, said.getvalue(), sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    codes, said, modules = json.loads(done.stdout)
    assert (codes, said.count("run-1")) == ([0] * len(asked), 3)
    assert [name for name in NEEDED_BY_RUNS if name in modules] == []


def test_the_doctor_starts_boxes_before_it_imports_what_reads_the_journal():
    code = (
        "import sys, json\n"
        "import kagura_kernel.assembly.boxes, kagura_kernel.assembly.settings, kagura_kernel.cli.doctor\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pandas", "pydantic", "sqlalchemy"} & set(json.loads(done.stdout)) == set()


def test_no_command_at_all_shows_the_help_and_fails(capsys):
    assert cli.main([]) == 2
    said = capsys.readouterr()
    assert "COMMAND --help" in said.out
    assert said.err == "ERR_USAGE: No command was given; the help lists them.\n"


def test_the_description_names_the_exit_codes_there_are_and_no_others():
    described = (cli.__doc__ or "").partition("Exit codes:")[2].partition(". An")[0]
    codes = {cli.OK, cli.FOUND, cli.FAILED, cli.NOT_SET_UP, cli.DOCTOR_FAILED, serve.TRY_AGAIN, cli.INTERRUPTED}
    assert {int(number) for number in re.findall(r"\b\d+\b", described)} == codes


def test_the_version_is_the_package_s(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"kagura-kernel {__version__}\n"


def test_an_unknown_command_is_one_line_with_a_suggestion(capsys):
    assert cli.main(["jurnal"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("ERR_UNKNOWN_NAME: There is no command 'jurnal'. Did you mean 'journal'?")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bad"], "kagura-kernel: There is no option '--bad' here. `kagura-kernel --help` lists the commands."),
        (
            ["trial", "--bad"],
            f"kagura-kernel trial: There is no option '--bad' here. `kagura-kernel trial --help` {MORE}",
        ),
        (["trial", "a", "b"], f"kagura-kernel trial: It takes no 'b'. `kagura-kernel trial --help` {MORE}"),
    ],
)
@pytest.mark.usefixtures("command")
def test_a_wrong_option_is_one_line_that_says_where_the_right_ones_stand(words, said, capsys):
    assert cli.main(words) == 2
    assert capsys.readouterr() == ("", f"ERR_USAGE: {said}\n")


def test_a_command_of_the_notebook_says_where_it_works(capsys):
    assert cli.main(["watch"]) == 2
    assert capsys.readouterr().err == (
        "ERR_UNSUPPORTED: `kagura-kernel watch` does not work here; it is a command of the notebook: `%kagura watch`.\n"
    )


def test_a_command_gets_its_arguments_and_gives_the_exit_code(command):
    seen: list[str] = []

    def run(arguments: SimpleNamespace) -> int:
        seen.append(arguments.word)
        return 4

    command.trial = run
    assert cli.main(["trial", "this"]) == 4
    assert seen == ["this"]


@pytest.mark.parametrize("words", [["trial", "--help"], ["trial", "-h"], ["help", "trial"], ["trial", "x", "--help"]])
@pytest.mark.usefixtures("command")
def test_a_command_s_own_help_says_what_it_is_for(words, capsys):
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: kagura-kernel trial [TEXT]\n\nTry something.\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RunUnknown("run-9"), 2),
        (KaguraError("something"), 2),
        (SandboxDied("box-1", "it was killed"), 2),
        (SandboxUnavailable("nothing is installed", "apt-get install bubblewrap"), 3),
        (IsolationTooWeak("bubblewrap", "namespace", "gvisor"), 3),
        (BrainNotConfigured("no key"), 3),
        (MemoryUnavailable("postgresql://…", "nobody answers", "Start it."), 3),
    ],
)
def test_an_expected_error_is_its_code_and_text_without_a_stack_trace(command, error, code, capsys):
    def run(_: SimpleNamespace) -> int:
        raise error

    command.trial = run
    assert cli.main(["trial"]) == code
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"{error.code}: {for_terminal(error.message)}\n")


def test_an_error_names_the_command_of_the_terminal(command, capsys):
    def run(_: SimpleNamespace) -> int:
        raise RunUnknown("run-9")

    command.trial = run
    assert cli.main(["trial"]) == 2
    assert capsys.readouterr().err == "ERR_RUN_UNKNOWN: There is no run 'run-9'. `kagura-kernel runs` lists them.\n"


def test_an_unexpected_error_is_not_hidden(command):
    def run(_: SimpleNamespace) -> int:
        raise ZeroDivisionError

    command.trial = run
    with pytest.raises(ZeroDivisionError):
        cli.main(["trial"])


def test_an_interrupt_ends_quietly(command, capsys):
    def run(_: SimpleNamespace) -> int:
        raise KeyboardInterrupt

    command.trial = run
    assert cli.main(["trial"]) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_has_seen_enough_is_no_error():
    code = (
        "import sys, types\n"
        "from kagura_kernel.cli import main as cli\n"
        "def run(arguments):\n"
        "    while True: print('line')\n"
        "trial = types.ModuleType('trial'); trial.status = run\n"
        "sys.modules['kagura_kernel.cli.status'] = trial\n"
        "sys.exit(cli.main(['status']))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_every_command_of_the_terminal_has_a_function_and_no_home_is_of_anything_else():
    names = {entry.name for entry in COMMANDS if Surface.TERMINAL in entry.surfaces}
    for name in names:
        assert callable(cli.handler_of(name))
    assert set(cli._HOMES) <= {*names, *(name.split()[0] for name in names)}


LONG = "a reason that goes on and on " * 10


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(output, "sys", SimpleNamespace(stdout=Terminal()))


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_the_longest_cells_are_shortened_until_a_line_fits():
    rows = [("run-0123456789abcd", "refused", LONG), ("run-0123456789abce", "allowed", "x" * 30)]
    lines = table(("run", "decision", "why"), rows, whole=("run", "decision")).splitlines()
    assert max(map(len, lines)) == 80
    assert lines[1].startswith("run-0123456789abcd  refused   a reason that goes on")
    assert lines[1].endswith("…")
    assert lines[2].endswith("x" * 30)


@pytest.mark.usefixtures("terminal")
def test_where_that_is_not_enough_a_row_takes_several_lines_and_what_is_typed_again_is_whole():
    run, lease = f"run-{'0' * 30}", f"lea-{'1' * 30}"
    row = (run, lease, "1 h 00 min", "revoked by ada", LONG)
    lines = table(("run", "lease", "left", "state", "why"), [row], whole=("run", "lease")).splitlines()
    assert [line.split() for line in lines[:3]] == [["run", "lease"], ["left", "state"], ["why"]]
    assert lines[3] == f"{run}  {lease}"
    assert lines[4] == "    1 h 00 min  revoked by ada"
    assert lines[5].startswith("    a reason that goes on")
    assert (len(lines[5]), lines[5][-1]) == (80, "…")


@pytest.mark.usefixtures("terminal")
def test_an_id_is_whole_however_narrow_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    run = f"run-{'0' * 100}"
    assert table(("run", "why"), [(run, "x")], whole=("run",)).splitlines() == ["run", "    why", run, "    x"]


def test_what_is_piped_is_told_in_full(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert LONG.strip() in table(("run", "why"), [("run-1", LONG)])


@pytest.mark.usefixtures("terminal")
def test_a_table_that_fits_is_left_as_it_is():
    assert table(("a", "b"), [("1", "2"), ("33", "4")]) == "a   b\n1   2\n33  4"


@pytest.mark.parametrize(("columns", "width"), [("132", 132), ("20", output.NARROWEST)])
def test_the_width_is_the_terminal_s_and_never_too_little(columns, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() == width


def test_a_paragraph_goes_on_below_its_own_beginning():
    said = paragraph("one two three four five", "!  name  ", "         ", 22)
    assert said == "!  name  one two three\n         four five"


def test_each_problem_keeps_its_own_line_and_goes_on_below_its_text():
    said = paragraph("it cannot be used:\n  - first problem here\n  - second", "", "  ", 20)
    assert said.splitlines() == ["it cannot be used:", "    - first problem", "      here", "    - second"]


def test_a_command_stays_on_one_line():
    said = paragraph("now type `kagura-kernel kill run-1 run-2` and wait", "", "", 30)
    assert said.splitlines() == ["now type", "`kagura-kernel kill run-1 run-2`", "and wait"]


def test_a_path_is_not_broken():
    path = "/a/very-long/path/with-hyphens/" * 4
    assert path in paragraph(f"look at {path} now", "", "  ", 60).splitlines()[1]


def test_a_paragraph_cannot_move_the_cursor():
    said = paragraph("one\x1b[2Jtwo\rthree", "", "", 60)
    assert "\x1b" not in said
    assert "⟨U+001B⟩" in said


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_text_is_its_beginning(text):
    assert paragraph(text, "!  name", " ", 60) == "!  name"


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("`%kagura runs` lists them.", "`kagura-kernel runs` lists them."),
        ("Stop it with `%kagura kill run-1`.", "Stop it with `kagura-kernel kill run-1`."),
        ("`%kagura revoke lea-1` ends it.", "`kagura-kernel revoke lea-1` ends it."),
        ("`%kagura egress log` lists them.", "`kagura-kernel egress log` lists them."),
        ("`%kagura watch` shows them.", "`%kagura watch` shows them."),
        ("`%kagura approvals` lists them.", "`kagura-kernel approvals` lists them."),
        ("Record one with `%%kagura --record x`.", "Record one with `kagura-kernel run --record x`."),
        ("%%kagura runs fine", "%%kagura runs fine"),
        ("Wait a little and run the cell again.", "Wait a little and try again."),
        ("It played a cassette. Run its cell again.", "It played a cassette. Run it again."),
        ("Write what comes next into a cell of its own.", "Give what comes next as a task of its own."),
        ("Give it more and go on from there.", "Give it more and go on from there with `--resume last`."),
        ("Start the kernel in the project's own folder.", "Start in the project's own folder."),
    ],
)
def test_a_word_of_the_notebook_becomes_a_command_where_there_is_one(text, typed):
    assert for_terminal(text) == typed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plugin", "scan", "."), "ERR_USAGE: The working directory is gone: go to another one first."),
        (("runs", "last"), "ERR_RUN_UNKNOWN: "),
    ],
)
@pytest.mark.usefixtures("journal")
def test_a_working_directory_that_is_gone_is_no_fault_of_ours(words, said, tmp_path, monkeypatch, refuses):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert refuses(*words).startswith(said)


@pytest.mark.parametrize("word", ["runs", "kill run-1", "leases", "revoke lea-1", "approve app-1"])
def test_what_becomes_a_command_is_one_on_both_sides(word):
    here = for_terminal(f"%kagura {word}").removeprefix("kagura-kernel ")
    assert parse_line(word, Surface.NOTEBOOK).command is parse_line(here, Surface.TERMINAL).command


def test_no_cell_of_a_table_turns_a_line_around_or_moves_the_cursor():
    assert table(["run"], [["a\u202eb\x9b2J\udc80c"]]).split("\n")[1] == "a⟨U+202E⟩b⟨U+009B⟩2J⟨U+DC80⟩c"


def test_json_on_a_terminal_is_the_same_json_and_nothing_that_a_terminal_obeys():
    odd = {"title": "ä\x1b[2J\x9b2J\u202e\x7f\u2028\udc80 日本 🙂"}
    line = as_json(odd)
    assert json.loads(line) == odd
    assert line.isprintable()
    assert "ä" in line
    assert "日本 🙂" in line
