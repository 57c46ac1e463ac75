from __future__ import annotations

import pytest

from kagura_kernel.patterns.attempts import family_of, shared_words


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
