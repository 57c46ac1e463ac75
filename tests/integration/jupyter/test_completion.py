"""Our words in a Python kernel with the extension: completed and explained by IPython's own requests."""

from typing import Any

import pytest


def matches(kernel: Any, code: str) -> list[str]:
    """What may stand at the end of this code."""
    return list(kernel.ask("complete_request", {"code": code, "cursor_pos": len(code)})["matches"])


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("%kagura he", ["help"]),
        ("x = %kagura ru", ["runs"]),
        ("%kagura egress log --ref", ["--refused"]),
        ("%%kagura --budg", ["--budget"]),
        ("%%sandbox ba", ["bash"]),
        ("%%kagura --write thr", ["through"]),
    ],
)
def test_words_of_the_list_are_completed(kernel, code, found):
    assert matches(kernel, code) == found


def test_runs_variables_and_files_are_completed_by_their_names(kernel):
    (kernel.project / "sales.csv").write_text("a\n")
    kernel.run("%%sandbox bash\necho one")
    kernel.run("salary = [1, 2]")
    run_ids = [name for name in matches(kernel, "%kagura changes ") if name.startswith("run-")]
    assert len(run_ids) == 1
    assert matches(kernel, f"%kagura changes {run_ids[0][-6:]}") == run_ids
    assert matches(kernel, "%%kagura -i sal") == ["salary"]
    assert matches(kernel, "%%kagura\nLook into @sal") == ["sales.csv"]


def test_python_is_still_ipython_s(kernel):
    kernel.run("salary = [1, 2]")
    assert "salary" in matches(kernel, "sala")
    assert matches(kernel, "salary.app") in (["append"], ["salary.append"])
