"""Which failures of a run are worth remembering, and what is said to have mended them."""

import pytest

from kagura_kernel.patterns.attempts import Attempt, failures_of, family_of, mended_by, shared_words, telling_line


def ran(line: str, code: int | None = 0, said: str = "", tool: str = "bash") -> Attempt:
    return Attempt(tool, line, said, failed=code != 0, exit_code=code)


def changed(path: str) -> Attempt:
    return Attempt("edit_file", path)


@pytest.mark.parametrize(
    ("attempts", "fix"),
    [
        ([ran("./deploy.sh", 3), ran("REGION=eu ./deploy.sh")], "`REGION=eu ./deploy.sh`"),
        ([ran("python3 app.py", 1), ran("pip install yaml"), ran("python3 app.py")], "`pip install yaml`"),
        (
            [ran("make all", 2), ran("ls"), ran("rm -f stale.lock"), ran("make all -j1")],
            "`rm -f stale.lock`, then `make all -j1`",
        ),
        ([ran("./start.sh", 1), changed("config.toml"), ran("./start.sh")], "a change of config.toml"),
        ([ran("./flaky.sh", 1), ran("./flaky.sh")], "the same command went well when it was run again"),
        ([ran("./deploy.sh", 3), ran("ls"), ran("grep -r x .", 1)], ""),
        ([ran("./deploy.sh", 3), ran("./other.sh --deploy")], ""),
        (
            [
                ran("import yaml\nload()", 1, tool="python"),
                ran("pip install yaml"),
                ran("import yaml\nload()", tool="python"),
            ],
            "`pip install yaml`",
        ),
    ],
)
def test_what_mended_a_failure_is_what_was_done_between(attempts, fix):
    [failure] = failures_of(attempts)
    assert failure.fix == fix
    assert failure.kind == "command"


@pytest.mark.parametrize(
    "attempts",
    [
        [ran("grep -rn nothing .", 1)],
        [ran("cat missing.txt", 1, "cat: missing.txt: No such file or directory")],
        [ran("python3 ap.py", 2, "can't open file 'ap.py'"), ran("python3 ap.py app.py")],
        [ran("prnt(1)", 1, "NameError: name 'prnt'", tool="python"), ran("prnt(1); print(1)", tool="python")],
        [ran("./long.sh", 130)],
        [ran("./long.sh", 143)],
        [ran("./deploy.sh", None, "It was not approved. [ERR_APPROVAL_DENIED]")],
        [ran("pytest -q", 1, "1 failed"), changed("src/app.py"), ran("pytest -q")],
        [Attempt("edit_file", "a.py", "no such text", failed=True)],
        [ran("df.groupby('x')", 1, "KeyError: 'x'", tool="python"), ran("df.groupby('y')", tool="python")],
        [ran("one()", 1, "ValueError", tool="python"), ran("quite another thing", tool="python")],
        [ran("./deploy.sh")],
    ],
    ids=[
        *("a search without a hit", "looking for a file", "a misspelt path", "code that does not parse"),
        *(
            "interrupted",
            "stopped",
            "denied",
            "a test until it passes",
            "an edit",
            "code until it runs",
            "code given up",
        ),
        "nothing failed",
    ],
)
def test_what_teaches_nothing_is_no_failure(attempts):
    assert failures_of(attempts) == []


def test_a_test_that_is_mended_by_a_command_is_one():
    [failure] = failures_of([ran("pytest -q", 1), ran("docker compose up -d"), ran("pytest -q")])
    assert failure.fix == "`docker compose up -d`"


def test_a_command_that_took_too_long_is_one():
    [failure] = failures_of([ran("./slow.sh", None, "It took longer than 90 s. [ERR_SANDBOX_COMMAND_TIMEOUT]")])
    assert failure.trigger == "`./slow.sh` took too long"


def test_the_most_telling_comes_first_and_each_once():
    found = failures_of(
        [
            ran("./flaky.sh", 1),
            ran("./flaky.sh"),
            ran("./never.sh", 2),
            ran("./never.sh", 2),
            ran("./deploy.sh", 3),
            ran("./deploy.sh --unlock"),
        ]
    )
    assert [failure.line for failure in found] == ["./deploy.sh", "./never.sh", "./flaky.sh"]


def test_every_one_of_very_many_calls_is_looked_at():
    attempts = [ran(f"./step.sh {number}", number % 2) for number in range(400)]
    assert len(failures_of(attempts)) == 200


def test_a_tool_of_a_toolset_that_answers_with_an_error_is_told_without_what_it_was_given():
    [failure] = failures_of([Attempt("issues_create", "", "missing label", failed=True, foreign=True)])
    assert (failure.kind, failure.trigger, failure.said) == (
        "tool",
        "The tool issues_create answered with an error",
        "missing label",
    )


def test_a_later_run_shows_what_mends_a_failure_of_an_earlier_one():
    attempts = [ran("ls"), ran("rm stale.lock"), ran("./deploy.sh")]
    assert mended_by(attempts, "bash", "./deploy.sh") == "`rm stale.lock`"
    assert mended_by([ran("./deploy.sh", 3)], "bash", "./deploy.sh") == ""
    assert mended_by([], "bash", "./deploy.sh") == ""
    assert mended_by([ran("./deploy.sh")], "bash", "./deploy.sh") == ""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("start\nERROR: the lock is stale\nbye\n[exit code 3]", "ERROR: the lock is stale"),
        ("one\ntwo\n[exit code 1]", "two"),
        ("[stderr]\n[exit code 1]", ""),
        ("(no output)\n[exit code 1]", ""),
        ("REGION is not set\nmake: *** [Makefile:2: deploy] Error 3\n[exit code 2]", "REGION is not set"),
        ("make: *** No rule to make target 'x'.  Stop.", "make: *** No rule to make target 'x'.  Stop."),
        ("make: *** [Makefile:2: deploy] Error 3", "make: *** [Makefile:2: deploy] Error 3"),
        ("", ""),
    ],
)
def test_the_line_that_says_why_is_told(said, line):
    assert telling_line(said) == line


CHECKS = (
    "bash -n deploy.sh",
    "sh -xn ./deploy.sh",
    "bash -o noexec deploy.sh",
    "./deploy.sh --dry-run",
    "./deploy.sh --check --force",
    "./deploy.sh --help",
    "./deploy.sh -h",
    "./deploy.sh --version",
    "make -n deploy.sh",
    "git diff deploy.sh",
    "shellcheck deploy.sh",
    "python3 -m py_compile deploy.py",
    "terraform plan",
    "kubectl get pods",
    "pip show yaml",
    "bash -n deploy.sh && ./deploy.sh --dry-run",
)
"""What does nothing of what its programs are for."""

HIDING = (
    "./deploy.sh || true",
    "./deploy.sh; echo done",
    "./deploy.sh | tail -20",
    "./deploy.sh 2>&1 | tee log",
    "./deploy.sh & wait",
    "./deploy.sh &",
    "! ./deploy.sh",
    "./deploy.sh\necho done",
    "sh -c './deploy.sh; true'",
    "if false; then ./deploy.sh; fi",
)
"""What ends well although what failed before may have failed again."""


@pytest.mark.parametrize("line", [*CHECKS, *HIDING])
def test_a_line_that_proves_nothing_mends_nothing(line):
    [failure] = failures_of([ran("./deploy.sh", 3), ran(line)])
    assert failure.fix == ""
    assert mended_by([ran("rm stale.lock"), ran(line)], "bash", "./deploy.sh") == ""


@pytest.mark.parametrize("line", CHECKS)
def test_a_check_between_is_no_part_of_what_mended_a_line(line):
    [failure] = failures_of([ran("./deploy.sh", 3), ran("rm stale.lock"), ran(line), ran("./deploy.sh")])
    assert failure.fix == "`rm stale.lock`"
    assert mended_by([ran(line), ran("rm stale.lock"), ran("./deploy.sh")], "bash", "./deploy.sh") == "`rm stale.lock`"
    assert mended_by([ran(line), ran("./deploy.sh")], "bash", "./deploy.sh") == ""


@pytest.mark.parametrize(
    "line",
    ["REGION=eu ./deploy.sh", "cd app; ./deploy.sh --now", "chmod +x deploy.sh && ./deploy.sh", "./deploy.sh 2>&1"],
)
def test_a_line_whose_exit_code_is_that_of_the_same_program_may_mend_it(line):
    [failure] = failures_of([ran("./deploy.sh", 3), ran(line)])
    assert failure.fix == f"`{line}`"


def test_what_was_tried_before_it_failed_in_the_same_way_again_did_not_mend_it():
    tries = [ran("./deploy.sh", 3), ran("systemctl restart db"), ran("./deploy.sh", 3), ran("rm stale.lock")]
    [failure] = failures_of([*tries, ran("./deploy.sh")])
    assert failure.fix == "`rm stale.lock`"


def test_what_changed_how_it_failed_is_a_part_of_what_mended_it():
    tries = [ran("./deploy.sh", 3), ran("rm stale.lock"), ran("./deploy.sh", 4), ran("apt-get install -y curl")]
    first, second = failures_of([*tries, ran("./deploy.sh")])
    assert (first.fix, second.fix) == ("`rm stale.lock`, then `apt-get install -y curl`", "`apt-get install -y curl`")


def test_other_code_does_not_mend_code_that_failed():
    attempts = [
        ran("import yaml\nload(path)", 1, tool="python"),
        ran("pip install yaml"),
        ran("import yaml\nload(None)", tool="python"),
    ]
    assert [failure.fix for failure in failures_of(attempts)] == []
    assert mended_by(attempts[1:], "python", attempts[0].line) == ""


WRITES_A_FILE = """from pathlib import Path
Path("aa.sh").write_text("echo fine")"""


@pytest.mark.parametrize(
    ("between", "fix"),
    [
        (ran("echo 'echo fine' > aa.sh"), "`echo 'echo fine' > aa.sh`"),
        (ran("printf 'echo fine' >> aa.sh"), "`printf 'echo fine' >> aa.sh`"),
        (ran("cat > aa.sh <<'EOF'\necho fine\nEOF"), "`cat > aa.sh <<'EOF' …`"),
        (ran(WRITES_A_FILE, tool="python"), "Python code that begins with `from pathlib import Path`"),
        (
            ran("open('aa.sh', 'w').write('x')", tool="python"),
            "Python code that begins with `open('aa.sh', 'w').write('x')`",
        ),
    ],
    ids=["sent into a file", "added to a file", "a text sent into a file", "written by code", "opened by code"],
)
def test_what_writes_a_file_between_is_what_mended_a_line(between, fix):
    [failure] = failures_of([ran("bash aa.sh", 3), between, ran("bash aa.sh")])
    assert failure.fix == fix
    assert mended_by([between, ran("bash aa.sh")], "bash", "bash aa.sh") == fix


def test_a_line_mends_nothing_by_itself_where_other_code_may_have_done_it():
    looks = ran("print(requests.get(url))", tool="python")
    [failure] = failures_of([ran("bash aa.sh", 3), looks, ran("bash aa.sh")])
    assert failure.fix == ""
    [failure] = failures_of([ran("bash aa.sh", 3), ran("cat aa.sh 2>/dev/null"), ran("bash aa.sh")])
    assert failure.fix == "the same command went well when it was run again"


@pytest.mark.parametrize("between", [ran("echo 'x = 1' > app.py"), ran(WRITES_A_FILE, tool="python")])
def test_a_test_that_passes_once_a_file_is_written_teaches_nothing(between):
    assert failures_of([ran("pytest -q", 1, "1 failed"), between, ran("pytest -q")]) == []


def test_a_search_without_a_hit_teaches_nothing_where_its_output_is_kept_either():
    assert failures_of([ran("grep -rn nothing . > found.txt", 1)]) == []


def test_a_fix_of_several_lines_is_told_by_its_first_one_so_that_nobody_takes_it_for_a_whole_command():
    mended = "bash deploy.sh <<'EOF'\neu\nEOF"
    [failure] = failures_of([ran("bash deploy.sh", 3), ran(mended)])
    assert failure.fix == "`bash deploy.sh <<'EOF' …`"


@pytest.mark.parametrize(
    ("line", "programs"),
    [
        ("pytest -q tests", {"pytest"}),
        ("python3 -m pytest -q", {"pytest"}),
        ("cd app && REGION=eu ./deploy.sh --now", {"deploy.sh"}),
        ("sudo -E git -c x=y push", {"git push"}),
        ("git push origin main | tail -3", {"git push"}),
        ("pip install -q wheel; python3 setup.py build", {"pip install", "setup.py"}),
        ("python3 - <<'EOF'", {"python3"}),
        ("python3 - <<EOFS | make\nrm -r out\nEOF\nEOFS\nnpm test", {"python3", "make", "npm test"}),
        ("/usr/bin/time -v make", {"make"}),
        ("timeout -k 5 60s ./serve.sh", {"serve.sh"}),
        ("bash -c 'rm -r out'", {"bash"}),
        ("bash scripts/release.sh 1.2 2>err.txt", {"release.sh"}),
        ("echo 'unfinished", set()),
        ("", set()),
    ],
)
def test_a_line_is_of_the_programs_that_it_runs(line, programs):
    assert family_of(line).programs == programs


@pytest.mark.parametrize("line", ["grep -r token .", "cd src && ls -l | wc -l", "test -f x", "cat a; diff a b"])
def test_a_line_of_programs_that_look_only_looks(line):
    assert family_of(line).looks


@pytest.mark.parametrize("line", ["grep -l x . | xargs rm", "./deploy.sh | tail", "cat a > b; mv b a", ""])
def test_a_line_that_does_something_as_well_does_not_only_look(line):
    assert not family_of(line).looks


@pytest.mark.parametrize("line", ["pytest", "cargo test --all", "make lint", "ruff check . && mypy .", "npm test"])
def test_a_line_that_tests_is_known_as_such(line):
    assert family_of(line).tests


@pytest.mark.parametrize("line", ["make deploy", "pytest && ./deploy.sh", "npm install", ""])
def test_a_line_that_does_more_than_testing_is_not(line):
    assert not family_of(line).tests


def test_words_are_shared_by_what_the_shorter_line_has():
    assert shared_words("./deploy.sh", "REGION=eu ./deploy.sh --force") == 1.0
    assert shared_words("pip install left", "npm run right") == 0.0
    assert shared_words("", "ls") == 0.0


@pytest.mark.parametrize(
    "line",
    [
        "echo x > a",
        "echo x >> a",
        "cat a | sort > 'b c'",
        "echo port=80>a",
        "echo x 1>a",
        "echo x >| a",
        "cat > a <<E\nx\nE",
    ],
)
def test_what_otherwise_looks_writes_where_its_output_goes_into_a_file(line):
    assert family_of(line).writes
    assert not family_of(line).looks
    assert not family_of(line).programs


@pytest.mark.parametrize(
    "line",
    [
        *("ls 2>/dev/null", "ls >/dev/null 2>&1", "grep x . 2>errors", "echo a >&2", "awk '$1 > 3' f", "cat a"),
        *("[[ a > b ]] && echo x", "echo a \\> b", 'printf "a > b"', "test 3 -gt 2"),
    ],
)
def test_what_sends_nothing_into_a_file_only_looks(line):
    assert not family_of(line).writes
    assert family_of(line).looks


def test_lines_of_a_text_that_a_program_is_given_are_no_commands():
    assert family_of("psql shop <<'SQL'\nDROP TABLE x;\nSQL\n./deploy.sh").programs == {"psql", "deploy.sh"}
