from __future__ import annotations

from pathlib import Path

import pytest

from kagura_kernel.runs.git_places import MAX_SCRIPTS, GitCalls


def put(top: Path, path: str, text: str = "") -> None:
    (top / path).parent.mkdir(parents=True, exist_ok=True)
    (top / path).write_text(text)


def called_by(top: Path, lines: str) -> GitCalls:
    calls = GitCalls()
    calls.follow(f"#!/bin/sh\n{lines}\n", str(top), str(top / ".git" / "hooks"))
    return calls


@pytest.mark.parametrize(
    ("lines", "called"),
    [
        ("cd sub && ./lint", "sub/lint"),
        ("cd sub\nsh lint", "sub/lint"),
        ("node $(git rev-parse --show-toplevel)/tools/x.js", "tools/x.js"),
        ('"$PWD/tools/quoted.sh"', "tools/quoted.sh"),
        ('"${HOME}/tools/quoted.sh"', "tools/quoted.sh"),
        ("{project}/tools/whole.sh", "tools/whole.sh"),
        ('bash -c "cd tools; ./deeper"', "tools/deeper"),
        ("sh 'my tools/a script.sh'", "my tools/a script.sh"),
        ("tools/../sub/./lint", "sub/lint"),
        ("exec tools/runner", "tools/second.sh"),
        ("exec tools/runner", "tools/nearby.py"),
        ("exec tools/runner", "tools/third.sh"),
        ("exec tools/runner", "tools/package/inner.py"),
        ("exec tools/runner", "tools/json.py"),
        ("node tools/x.js", "tools/part.js"),
        ("node tools/x.js", "tools/part/index.js"),
        ("PYTHONPATH=src python -m check --all", "src/check/__main__.py"),
        ("python tools", "tools/nearby.py"),
        ("cd tools && python3 -c 'import nearby'", "tools/nearby.py"),
        ('cd tools && python3 -c "from package.inner import one; one()"', "tools/package/inner.py"),
        ("node tools/completed", "tools/completed.js"),
        ("exec pre-commit hook-impl --config=.pre-commit-config.yaml", "scripts/own_check.py"),
    ],
)
def test_whatever_a_hook_calls_and_that_calls_in_its_turn_may_be_run(tmp_path: Path, lines: str, called: str) -> None:
    put(tmp_path, "sub/lint")
    put(tmp_path, "src/check/__init__.py")
    put(tmp_path, "tools/runner", '#!/bin/sh\n. "$(dirname "$0")/second.sh"\npython3 ${0%/*}/checks.py\n')
    put(tmp_path, "tools/second.sh", "./third.sh\n")
    put(tmp_path, "tools/checks.py", "import json, nearby as n\nfrom package.inner import one\n")
    put(tmp_path, "tools/x.js", "const { a } = require('./part')\n")
    put(tmp_path, "tools/__main__.py", "if True:\n    import nearby\n")
    put(tmp_path, ".pre-commit-config.yaml", "repos:\n- hooks:\n  - entry: python scripts/own_check.py\n")
    calls = called_by(tmp_path, lines.replace("{project}", str(tmp_path)) + "\ngit add README.md")
    assert calls.may_run(f"{tmp_path}/{called}")
    for other in ("shop/cart.py", "linter.py", "web/index.ts", "README.md", "json/data.csv", "tests/test_checks.py"):
        assert not calls.may_run(f"{tmp_path}/{other}")


def test_scripts_that_call_each_other_and_very_many_are_read_once_and_to_a_bound(tmp_path: Path) -> None:
    for number in range(MAX_SCRIPTS + 2):
        put(tmp_path, f"tools/s{number}.sh", f"./s{number + 1}.sh; ./s0.sh; ./s{number}.sh")
    calls = called_by(tmp_path, "tools/s0.sh")
    assert calls.may_run(f"{tmp_path}/tools/s{MAX_SCRIPTS}.sh")
    assert not calls.may_run(f"{tmp_path}/tools/s{MAX_SCRIPTS + 2}.sh")
