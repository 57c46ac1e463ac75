from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from kagura_kernel.domain.errors import UsageError, VariableMissing, VariableRefused
from kagura_kernel.domain.grammar import InputRequest
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.jupyter.variables import bring_back, inputs_of, path_from_box, path_in_box, value_of
from kagura_kernel.runs.box_runner.wire import CannotCross

ROOM = 2**20


def gather(namespace, *requests, outputs=(), language="python"):
    options = SimpleNamespace(
        expressions=tuple(InputRequest(name, expression) for name, expression in requests),
        outputs=outputs,
        language=language,
    )
    return inputs_of(SimpleNamespace(user_ns=namespace), options, ROOM)


def test_variables_and_expressions_are_packed_in_their_order():
    frame = pd.DataFrame({"a": [1, 2]})
    found = gather({"df": frame, "n": 1}, ("df", ""), ("top", "df.head(n)"), ("n", "n"))
    assert [(one.name, one.form) for one in found] == [("df", "frame"), ("top", "frame"), ("n", "json")]
    assert found[1].summary == "DataFrame, 1 row × 1 column: a (int64)"
    pd.testing.assert_frame_equal(value_of(found[0], Path("/")), frame)


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (("dff", ""), VariableMissing, "There is no variable 'dff' in this notebook. Did you mean 'df'?"),
        (("zzz", ""), VariableMissing, "Assign it in a cell before this one."),
        (("x", "df["), UsageError, "is not a Python expression"),
        (("x", "df.nothing"), VariableRefused, "failed with AttributeError"),
        (("x", "[df]"), VariableRefused, "x cannot cross into the box: a DataFrame at [0] cannot cross"),
        (("class", ""), UsageError, "means something to Python itself. Use another name, such as class_1."),
        (("__name__", ""), UsageError, "Use another name, such as name_1."),
    ],
)
def test_what_cannot_be_gathered_is_told(request_, error, words):
    with pytest.raises(error) as told:
        gather({"df": pd.DataFrame()}, request_)
    assert words in told.value.message


def test_only_names_of_the_person_are_proposed():
    options = SimpleNamespace(expressions=(InputRequest("nope", ""),), outputs=(), language="python")
    shell = SimpleNamespace(user_ns={"open": open, "_nope": 1}, user_ns_hidden={"open": open})
    with pytest.raises(VariableMissing, match="Assign it in a cell before this one"):
        inputs_of(shell, options, ROOM)


def test_sizes_count_together_and_the_limit_is_named():
    with pytest.raises(VariableRefused) as told:
        gather({"a": "x" * 600_000, "b": "x" * 600_000}, ("a", ""), ("b", ""))
    assert told.value.message == (
        "b cannot cross into the box: it has 585.9 KiB, and 438.1 KiB may cross (a cell's variables may have 1.0 MiB "
        "in all, of which this much is left). The limit is the setting `variables_mib`."
    )
    with pytest.raises(VariableRefused, match=r"it has 1\.0 GiB"):
        gather({"a": np.broadcast_to(np.float64(0), 2**27)}, ("a", ""))


def test_a_shell_takes_no_names_of_its_own():
    for given in ({"outputs": ("HOME",)}, {}):
        with pytest.raises(UsageError, match="means something to the shell itself"):
            gather({"PATH": "x"}, ("PATH", ""), language="bash", **given)
    assert gather({"PATH": "x"}, ("PATH", ""))[0].data == b"x"


def test_a_path_is_the_same_file_on_both_sides(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_text("x")
    (tmp_path / "out").symlink_to("/etc")
    assert path_in_box(tmp_path / "d/f", tmp_path) == "/workspace/d/f"
    assert path_in_box(tmp_path, tmp_path) == "/workspace"
    for bad in (tmp_path / "none", Path("/etc/hostname"), tmp_path / "out/hostname"):
        with pytest.raises(CannotCross):
            path_in_box(bad, tmp_path)
    assert path_from_box("/workspace/d/f", tmp_path) == tmp_path / "d/f"
    assert path_from_box("d/f", tmp_path) == Path("d/f")
    for bad in ("/etc/passwd", "/workspace/../etc", "../x", "/workspacex", "a\0b"):
        with pytest.raises(CannotCross):
            path_from_box(bad, tmp_path)


def test_what_came_is_assigned_and_then_what_did_not_is_told():
    shell = SimpleNamespace(user_ns={})
    came = gather({"a": 1}, ("a", ""))
    outcome = RunOutcome("run-1", "ses-1", "done", outputs=came, missing=(("b", "nothing of that name was made"),))
    with pytest.raises(VariableMissing) as told:
        bring_back(shell, outcome, SimpleNamespace(outputs=("b", "a", "c")))
    assert shell.user_ns == {"a": 1}
    assert told.value.message == (
        "b did not come back from the box: nothing of that name was made. "
        "c did not come back from the box: the run is done."
    )


def test_figures_and_images_cross_as_pictures(tmp_path):
    from IPython.display import Image
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([1, 2])
    [packed] = gather({"fig": figure}, ("fig", ""))
    assert packed.form == "image"
    image = value_of(packed, tmp_path)
    assert isinstance(image, Image)
    assert gather({"image": image}, ("image", ""))[0].data == packed.data
    with pytest.raises(VariableRefused, match=r"pass its `\.figure`"):
        gather({"ax": figure.axes[0]}, ("ax", ""))


@pytest.mark.parametrize("name", ["get_ipython", "In", "Out", "exit", "_", "__1", "_i", "_12", "_oh"])
def test_nothing_takes_the_place_of_what_cells_need(name):
    with pytest.raises(UsageError):
        gather({}, outputs=(name,))
