"""The program that runs Python programs in a box, as a process of its own, beside plain Python."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from kagura_kernel.runs.exchange import inbox_files


@dataclass
class Ended:
    code: int
    out: str
    err: str
    shown: list[tuple[str, str, bytes]]


@dataclass
class Rig:
    root: Path

    def run(self, source, *, inputs="", outputs="", stdin="", env=None):
        return self._run(
            source,
            [str(self.root / "kagura/lib/run.py"), self.cell, "cell", str(self.root), inputs, outputs, "1000000"],
            stdin,
            env,
        )

    def plain(self, source, stdin=""):
        return self._run(source, [self.cell], stdin, None)

    @property
    def cell(self):
        return str(self.root / "cell.py")

    def _run(self, source, words, stdin, env):
        Path(self.cell).write_bytes(source if isinstance(source, bytes) else source.encode())
        answer = subprocess.run(
            [sys.executable, "-u", *words],
            capture_output=True,
            text=True,
            check=False,
            input=stdin,
            cwd=self.root,
            env=os.environ | {"MPLBACKEND": "Agg"} | (env or {}),
        )
        shown = []
        for file in sorted((self.root / "kagura/shown/cell").glob("*.shown")):
            head, _, data = file.read_bytes().partition(b"\n")
            shown.append((json.loads(head)["mime"], json.loads(head)["text"], data))
            file.unlink()
        return Ended(answer.returncode, answer.stdout, answer.stderr, shown)

    def kept(self, name):
        head, _, data = (self.root / f"kagura/out/{name}.kagura").read_bytes().partition(b"\n")
        return json.loads(head), data

    def give(self, name, form, data, **details):
        folder = self.root / "kagura/in"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.x").write_bytes(data)
        told = {"form": form, "file": f"{name}.x", "details": details, "summary": f"{form}, 1", "shell": ""}
        (folder / "index.json").write_text(json.dumps({name: told}))


@pytest.fixture
def rig(tmp_path):
    for path, data in inbox_files().items():
        file = tmp_path / "kagura/lib" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return Rig(tmp_path)


SAME = {
    "prints": "print('ü', end='')",
    "error": "def f():\n    return 1 / 0\nf()\n",
    "chain": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e",
    "context": "try:\n    {}[1]\nexcept KeyError:\n    undefined",
    "syntax": "x = (\n",
    "late syntax": "def f():\n    return\nreturn 1",
    "exit": "import sys; print(1); sys.exit(3)",
    "exit text": "import sys; sys.exit('no')",
    "exit none": "raise SystemExit",
    "main": "if __name__ == '__main__':\n    import sys; print(sys.argv, __file__, sys.path[0], __doc__)",
    "input": "import sys; print(sys.stdin.read(), input.__name__)",
    "coding": b"# -*- coding: latin-1 -*-\nprint('ok')",
    "bom": b"\xef\xbb\xbfprint('bom')",
    "future": "from __future__ import annotations\ndef f(x: undefined): ...\nprint(f.__annotations__)",
    "atexit": "import atexit; atexit.register(print, 'last'); print('first')",
    "thread": "import threading; threading.Thread(target=print, args=('t',)).start()",
    "pickle": (
        "import pickle\nclass A: pass\ndef f(): return 3\n"
        "print(pickle.loads(pickle.dumps(f))(), type(pickle.loads(pickle.dumps(A()))))"
    ),
    "excepthook": (
        "import sys\nsys.excepthook = lambda t, v, tb: print('hooked', t, tb.tb_frame.f_code.co_filename)\n1 / 0"
    ),
    "names": "x = 1\nprint(sorted(n for n in globals() if n != '__annotations__'))",
    "warning": "import warnings; warnings.warn('careful')",
    "nothing": "",
    "comment": "# nothing",
    "docstring": "'doc'\nprint(__doc__)",
    "spawn": (
        "import multiprocessing as mp\ndef f(x): return x + 1\nif __name__ == '__main__':\n"
        "    for how in ('spawn', 'fork'):\n        with mp.get_context(how).Pool(2) as p: print(p.map(f, [1, 2]))"
    ),
    "hard exit": "import os; print('x', flush=True); os._exit(5)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
}


@pytest.mark.parametrize("name", SAME)
def test_a_program_does_what_it_does_under_plain_python(rig, name):
    ours, plain = rig.run(SAME[name], stdin="typed"), rig.plain(SAME[name], stdin="typed")
    assert (ours.code, ours.out, ours.err) == (plain.code, plain.out, plain.err)
    assert ours.shown == []


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        ("1 + 1", "2\n"),
        ("'a'", "'a'\n"),
        ("None", ""),
        ("1;", ""),
        ("(1 +\n 2)  ; # quiet", ""),
        ("x = 1\nx", "1\n"),
        ("if True:\n    5", ""),
        ("'ü' ; ", ""),
        ("from __future__ import annotations\n{'a': [1]}", "{'a': [1]}\n"),
        ("class A:\n    def __repr__(self): return 'an A'\nA()", "an A\n"),
        ("print(1); 2", "1\n2\n"),
        ("display(1, 'x')", "1\n'x'\n"),
        ("x: int = 3", ""),
    ],
)
def test_the_last_expression_is_shown_as_in_a_notebook(rig, source, printed):
    ended = rig.run(source)
    assert (ended.code, ended.out, ended.err, ended.shown) == (0, printed, "", [])


RICH = "class A:\n    def __repr__(self): return 'plain'\n    def {}(self, **k): return {!r}\n"


@pytest.mark.parametrize(
    ("method", "answer", "shown"),
    [
        ("_repr_html_", "<b>x</b>", ("text/html", "plain", b"<b>x</b>")),
        ("_repr_markdown_", "# x", ("text/markdown", "plain", b"# x")),
        ("_repr_svg_", "<svg/>", ("image/svg+xml", "plain", b"<svg/>")),
        ("_repr_png_", b"\x89PNG\n", ("image/png", "plain", b"\x89PNG\n")),
        ("_repr_png_", "iVBORw==", ("image/png", "plain", b"\x89PNG")),
        ("_repr_mimebundle_", {"text/html": "<i>", "text/plain": "i"}, ("text/html", "i", b"<i>")),
        ("_repr_mimebundle_", ({"text/markdown": "m"}, {}), ("text/markdown", "plain", b"m")),
        (
            "_repr_mimebundle_",
            {"text/html": "<script>1</script>", "image/svg+xml": "<svg>"},
            ("image/svg+xml", "plain", b"<svg>"),
        ),
    ],
)
def test_the_richest_form_is_shown(rig, method, answer, shown):
    for end in ("A()", "display(A())"):
        ended = rig.run(RICH.format(method, answer) + end)
        assert (ended.code, ended.out, ended.shown) == (0, "", [shown])


def test_a_formula_that_has_no_other_words_is_shown_as_it_is_written(rig):
    bare = "class A:\n    def _repr_latex_(self): return '$x^2$'\nA()"
    assert rig.run(bare).out == "$x^2$\n"
    assert rig.run(bare.replace("class A:", "class A:\n    def __repr__(self): return 'x**2'")).out == "x**2\n"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("input('Name? ')", "Nobody can type into a box: "),
        ("get_ipython().user_ns", "neither IPython's shell nor the notebook's kernel is there."),
    ],
)
def test_what_a_notebook_has_and_a_box_has_not_is_said_below_python_s_own_words(rig, source, told):
    ended, plain = rig.run(source), rig.plain(source)
    assert ended.code == plain.code == 1
    assert ended.err.startswith(plain.err)
    assert told in ended.err.removeprefix(plain.err)


def test_a_form_that_fails_is_told_and_the_plain_one_is_shown(rig):
    ended = rig.run("class A:\n    def _repr_html_(self): 1/0\n    def __repr__(self): return 'plain'\nA()")
    assert (ended.code, ended.out) == (0, "plain\n")
    assert ended.err == "A form of this A could not be made: ZeroDivisionError: division by zero\n"


def test_open_figures_are_shown_once_and_in_their_order(rig):
    source = (
        "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nfig = plt.figure()\ndisplay(fig)\n"
        "from IPython.display import display as other, HTML\nother(HTML('<b>'))\n"
        "plt.figure(figsize=(1, 1))\nraise KeyError"
    )
    ended = rig.run(source)
    assert [mime for mime, _, _ in ended.shown] == ["image/png", "image/png", "text/html", "image/png"]
    assert ended.code == 1
    assert "run.py" not in ended.err


def test_what_is_shown_under_an_id_is_updated_in_its_place(rig):
    source = (
        "from IPython.display import HTML, Markdown, update_display\n"
        "bar = display(HTML('0 %'), display_id=True)\ndisplay(Markdown('below'))\n"
        "for done in range(300): bar.update(HTML(f'{done} %'))\n"
        "display(HTML('draft'), display_id='mine')\nupdate_display(HTML('final'), display_id='mine')\n"
        "bar.display(HTML('another'))\nword = display('one', display_id=True)\nword.update('two')"
    )
    ended = rig.run(source)
    assert (ended.code, ended.out, ended.err) == (0, "'one'\n'two'\n", "")
    assert [data for _, _, data in ended.shown] == [b"299 %", b"below", b"final", b"another"]


def test_what_was_shown_is_taken_away_by_clear_output(rig):
    source = (
        "from IPython.display import HTML, clear_output\ndisplay(HTML('gone'))\nclear_output()\n"
        "for frame in range(300):\n    clear_output(wait=True)\n    display(HTML(f'frame {frame}'))\n"
        "display(HTML('below'))\nclear_output(wait=True)"
    )
    ended = rig.run(source)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert [data for _, _, data in ended.shown] == [b"frame 299", b"below"]


def test_outputs_are_kept_when_the_program_ends_well_and_told_when_they_cannot_be(rig):
    ended = rig.run("a = [1, (2,)]\nb = print\nc = 'x'", outputs="a,b,c,d")
    assert ended.code == 0
    assert ended.err.startswith("b was not kept: a builtin_function_or_method cannot cross")
    assert rig.kept("a") == (
        {"form": "json", "details": {}, "summary": "list, 2 items (tuples become lists)"},
        b"[1,[2]]",
    )
    assert rig.kept("c")[1] == b"x"
    assert "error" in rig.kept("b")[0]
    assert not (rig.root / "kagura/out/d.kagura").exists()
    rig.run("e = 1\nraise SystemExit(0)", outputs="e")
    rig.run("f = 1\nraise SystemExit(1)", outputs="f")
    rig.run("g = 1\n1/0", outputs="g")
    assert [one.name for one in sorted((rig.root / "kagura/out").iterdir())] == [
        "a.kagura",
        "b.kagura",
        "c.kagura",
        "e.kagura",
    ]


def test_an_output_too_large_is_refused_with_its_size(rig):
    ended = rig.run("big = 'x' * 2_000_000", outputs="big")
    assert ended.err == "big was not kept: it has 1.9 MiB, and 976.6 KiB may cross.\n"


def test_inputs_are_globals_and_loaded_only_where_they_are_named(rig):
    rig.give("words", "json", b'["a"]')
    assert rig.run("print(words, 'words' in globals())", inputs="words").out == "['a'] True\n"
    assert rig.run("print('w' + 'ords' in globals())", inputs="words").out == "False\n"


def test_a_box_without_the_package_says_which_and_what_to_do(rig):
    rig.give("df", "frame", b"", library="pandas")
    blocked = "import sys; sys.modules['pandas'] = None\n"
    (rig.root / "sitecustomize.py").write_text(blocked)
    ended = rig.run("print(df)", inputs="df", env={"PYTHONPATH": str(rig.root)})
    assert ended.code == 1
    assert ended.err.startswith("df cannot be used here: a frame travels by pandas, which this box does not have.")
    assert "--image python" in ended.err
    (rig.root / "sitecustomize.py").write_text(blocked.replace("pandas", "pyarrow"))
    ended = rig.run(
        "import pandas as pd\ndf = pd.DataFrame({'a': [1]})", outputs="df", env={"PYTHONPATH": str(rig.root)}
    )
    assert ended.err.startswith("df was not kept: a DataFrame travels by pyarrow, which this box does not have.")


def test_modules_of_the_project_that_are_called_like_ours_change_nothing(rig):
    for name in ("json", "pack", "kagura_box_runner", "pathlib", "dataclasses"):
        (rig.root / f"{name}.py").write_text("raise RuntimeError('planted')")
    ended = rig.run("print(1)\n2", outputs="")
    assert (ended.code, ended.out, ended.err) == (0, "1\n2\n", "")
