import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.grammar import InputRequest
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.jupyter.cell import from_cell, help_text, parse_cell, parse_options, wants_help
from kagura_kernel.jupyter.dialect import ENTRY, rewrite
from kagura_kernel.jupyter.magics import Magics, register, unregister
from kagura_kernel.jupyter.surface import Surface, surface_of
from kagura_kernel.runs.request import RunRequest


@pytest.fixture
def shell():
    found = InteractiveShell()
    yield found
    found.history_manager.end_session()


def test_registering_twice_is_the_same_as_once_and_unregistering_undoes_it(shell):
    before = list(shell.input_transformers_cleanup)
    register(shell)
    register(shell)
    assert shell.input_transformers_cleanup == [rewrite, *before]
    assert {"kagura", "sandbox"} <= set(shell.magics_manager.magics["cell"])
    assert "kagura" in shell.magics_manager.magics["line"]
    unregister(shell)
    assert shell.input_transformers_cleanup == before
    assert not {"kagura", "sandbox"} & set(shell.magics_manager.magics["cell"])
    assert not hasattr(shell, ENTRY)


def test_help_is_printed_without_bringing_anything_else_in(shell, capsys):
    register(shell)
    shell.run_line_magic("kagura", "")
    assert "%kagura approve ID" in capsys.readouterr().out


def test_question_marks_show_all_that_help_shows(shell):
    register(shell)
    described = {name: shell.object_inspect_text(name) for name in ("%kagura", "%%kagura", "%%sandbox")}
    assert "%kagura approve ID" in described["%kagura"]
    assert "--budget" in described["%%kagura"]
    assert "python|bash" in described["%%sandbox"]


def test_nothing_is_filled_into_the_options_of_a_cell_that_code_runs(shell, monkeypatch):
    seen = []
    monkeypatch.setattr(Magics, "inside", lambda _self, *given: seen.append(given))
    register(shell)
    shell.user_ns["name"] = "x"
    shell.run_cell_magic("kagura", "--session {name} $name", "Go for {name}.")
    shell.run_cell_magic("sandbox", "--session {name}", "print('{name}')")
    assert [line for _, line, _ in seen] == ["--session {name} $name", "--session {name}"]


def test_several_commands_each_show_what_they_have_to_show(shell, monkeypatch, capsys):
    monkeypatch.setattr("kagura_kernel.jupyter.steering.run_line", lambda _shell, line, prefix: prefix + line)
    register(shell)
    assert shell.kagura_commands("runs", "cost") == "/cost"
    assert capsys.readouterr().out.strip() == "/runs"


def test_our_words_are_completed_in_a_python_cell_and_pythons_are_left_alone(shell):
    register(shell)
    with provisionalcompleter():

        def found(text):
            return [one.text for one in shell.Completer.completions(text, len(text))]

        assert found("%kagura appr") == ["approvals", "approve"]
        assert found("x = 1\n%kagura kil") == ["kill"]
        assert found("%%kagura --budg") == ["--budget"]
        shell.user_ns["salt"] = 1
        assert "salt" in found("sal")
        unregister(shell)
        assert "approve" not in found("%kagura appr")


def kernel(**content):
    return SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda _channel: {"content": content}))


def test_whoever_runs_a_notebook_without_a_person_says_that_input_is_not_allowed():
    assert surface_of(kernel(allow_stdin=False)) is Surface.HEADLESS
    assert surface_of(kernel()) is Surface.HEADLESS
    assert surface_of(kernel(allow_stdin=True)) is Surface.NOTEBOOK


def test_ipython_without_a_terminal_has_nobody_to_ask(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    assert surface_of(SimpleNamespace()) is Surface.HEADLESS
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    assert surface_of(SimpleNamespace()) is Surface.TERMINAL
    monkeypatch.setattr("sys.stdin", None)
    assert surface_of(SimpleNamespace()) is Surface.HEADLESS


def test_an_agent_cell_becomes_an_intent():
    line = "--brain b --model m --budget 2 --max-turns 3 --replay c.jsonl --session s --write none --timeout 5 --idle 2"
    intent = from_cell(parse_cell("kagura", line, "\n Do it. \n"), Surface.NOTEBOOK, None, room=0)
    assert intent == RunRequest(
        task="Do it.",
        brain="b",
        model="m",
        budget_usd=2.0,
        max_turns=3,
        replay=Path("c.jsonl"),
        session="s",
        write_mode=WriteMode.NONE,
        command_timeout=5.0,
        idle_timeout=2.0,
        origin="notebook",
        place=CellPlace(),
    )


def test_a_sandbox_cell_becomes_an_intent_with_its_code_untouched():
    intent = from_cell(parse_cell("sandbox", "bash --new", " ls \n"), Surface.HEADLESS, None, room=0)
    assert intent == RunRequest(
        task=" ls \n", language="bash", new_session=True, headless=True, origin="notebook", place=CellPlace()
    )


@pytest.mark.parametrize("magic", ["kagura", "sandbox"])
def test_an_empty_cell_is_answered_with_the_usage(magic):
    with pytest.raises(UsageError, match=f"the cell is empty[^\\n]*\\nusage: %%{magic}"):
        parse_cell(magic, "", " \n ")


parse_kagura, parse_sandbox = partial(parse_options, "kagura"), partial(parse_options, "sandbox")


def test_an_empty_line_leaves_every_choice_to_the_settings():
    assert parse_kagura("") == RunRequest()
    assert parse_sandbox("") == RunRequest(language="python")


def test_every_option_of_a_kagura_line_is_understood():
    line = (
        "--brain claude --model fast --box docker --image python --session work --budget $0.25 --timeout 10s "
        "--idle 5 --max-turns 3 --write through --record 'my run.jsonl' --bg"
    )
    assert parse_kagura(line) == RunRequest(
        brain="claude",
        model="fast",
        box="docker",
        image="python",
        session="work",
        budget_usd=0.25,
        command_timeout=10.0,
        idle_timeout=5.0,
        max_turns=3,
        write_mode=WriteMode.THROUGH,
        record=Path("my run.jsonl"),
        background=True,
    )


@pytest.mark.parametrize("parse", [parse_kagura, parse_sandbox])
def test_hosts_and_credentials_may_be_named_several_times_and_with_commas(parse):
    options = parse("--net github,ask --grant github:read --net files.example.org:8443 --net ask --writable-root")
    assert options.net == ("github", "ask", "files.example.org:8443")
    assert options.grants == ("github:read",)
    assert options.writable_root
    assert (parse("").net, parse("").grants, parse("").writable_root) == ((), (), False)


@pytest.mark.parametrize("parse", [parse_kagura, parse_sandbox])
@pytest.mark.parametrize(
    ("line", "inputs"),
    [
        ("-i df", (("df", "df"),)),
        ("-i a,b --in c", (("a", "a"), ("b", "b"), ("c", "c"))),
        ("-ia -i=b --in=c", (("a", "a"), ("b", "b"), ("c", "c"))),
        ("-i x=f(1,2)", (("x", "f(1,2)"),)),
        ("-i x=df['a'] -i a", (("x", "df['a']"), ("a", "a"))),
        ("-i 'top=df[df.x > 3]'", (("top", "df[df.x > 3]"),)),
        ("-i \"top=df[df.name == 'a b']\"", (("top", "df[df.name == 'a b']"),)),
        ("-i x='a b'", (("x", "'a b'"),)),
        ("-i x={'a':1}", (("x", "{'a':1}"),)),
        ("-i df -i df", (("df", "df"),)),
    ],
)
def test_a_variable_goes_in_by_its_name_or_as_what_an_expression_gives(parse, line, inputs):
    assert parse(line).expressions == tuple(InputRequest(*one) for one in inputs)


@pytest.mark.parametrize("parse", [parse_kagura, parse_sandbox])
def test_variables_come_back_by_name_and_braces_are_left_alone_unless_asked_otherwise(parse):
    options = parse("-o a,b --out c -ob --fmt")
    assert (options.outputs, options.fmt) == (("a", "b", "c"), True)
    assert (parse("").expressions, parse("").outputs, parse("").fmt) == ((), (), False)
    assert parse("--session {name}").session == "{name}"


@pytest.mark.parametrize("word", ["localhost", "none", "debian-mirror", "our-npm", "intranet", "npm:443", "[::1]:80"])
def test_a_word_that_may_be_a_host_or_a_set_of_ones_own_is_left_alone(word):
    assert parse_sandbox(f"--net {word}").net == (word,)


def test_a_badly_formed_grant_is_not_repeated():
    with pytest.raises(UsageError) as caught:
        parse_kagura("--grant ghp-a-pasted-secret")
    assert "PROVIDER:SCOPE" in caught.value.message
    assert "pasted" not in caught.value.message


@pytest.mark.parametrize("line", ["bash --new --write none", "--new bash --write none", "--new --write none bash"])
def test_the_language_of_a_sandbox_may_stand_anywhere(line):
    assert parse_sandbox(line) == RunRequest(language="bash", new_session=True, write_mode=WriteMode.NONE)


def test_zero_lifts_a_time_limit():
    assert parse_sandbox("--timeout 0 --idle 0").command_timeout == 0


def test_a_home_directory_is_found_in_a_file_name(private_home):
    assert parse_kagura("--replay ~/a.jsonl").replay == private_home / "a.jsonl"


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("--bugdet 3", "no option '--bugdet' here. Did you mean --budget?"),
        ("--budget=x --bugdet=3", "'x' is no amount in USD"),
        ("--budget", "--budget needs a value: `--budget USD`"),
        ("--budget 0", "buys nothing"),
        ("--budget -1", "no amount in USD"),
        ("--budget nan", "no amount in USD"),
        ("--timeout soon", "no number of seconds"),
        ("--timeout inf", "no number of seconds"),
        ("--max-turns 0", "--max-turns: '0' is too small"),
        ("--max-turns 1.5", "no whole number"),
        ("--write trough", "Did you mean through?"),
        ("--session a --new", "--session and --new do not go together"),
        ("--session ''", "name of the session is empty"),
        ("--record a --replay b", "--record and --replay do not go together"),
        ("--replay ''", "name of the file is empty"),
        ("count the files", "The task goes into the lines below"),
        ("--brain 'open", "a quote is not closed"),
        ("--bud 3", "no option '--bud'"),
        ("--net pyhton-packages", "Did you mean python-packages?"),
        ("--net gihub", "A host of this name is written gihub:443."),
        ("--net a,,b", "has one too many; several stand without spaces"),
        ("--net", "--net needs a value"),
        ("--grant github:", "a grant is written PROVIDER:SCOPE"),
        ("--writable-rot", "Did you mean --writable-root?"),
        ("--writable-root=yes", "--writable-root takes no value"),
        ("--brain --model x", "--brain needs a value: `--brain NAME`"),
        ("-i 2x", "'2x' cannot name a variable"),
        ("-i größe", "`-i value=größe` gives it such a name there"),
        ("-i x=1+", "'1+' is no Python expression"),
        ("-i top=df[df.x > 3]", "one with spaces stands in quotes"),
        ("-o a,,b", "has one too many; several stand without spaces"),
        ("-o a-b", "'a-b' cannot name a variable"),
        ("--inn x", "Did you mean --in?"),
        ("--brain x\\", "nothing stands behind the backslash"),
    ],
)
def test_a_bad_option_is_answered_with_what_is_wrong(line, part):
    with pytest.raises(UsageError) as caught:
        parse_kagura(line)
    assert part in caught.value.message


def test_the_answer_to_a_bad_option_ends_with_the_usage():
    with pytest.raises(UsageError) as caught:
        parse_kagura("--nonsense")
    assert "usage: %%kagura [--brain NAME]" in caught.value.message


@pytest.mark.parametrize(("line", "part"), [("pyhton", "Did you mean python?"), ("bash python", "no word 'python'")])
def test_a_bad_language_is_answered_with_what_was_meant(line, part):
    with pytest.raises(UsageError) as caught:
        parse_sandbox(line)
    assert part in caught.value.message


@pytest.mark.parametrize(
    ("line", "part"),
    [("--foo", "no option '--foo' here.\n"), ("--budget 3", "no option '--budget' here"), ("--bx docker", "--box?")],
)
def test_only_a_near_name_is_offered_and_an_unknown_option_is_named_before_its_value(line, part):
    with pytest.raises(UsageError) as caught:
        parse_sandbox(line)
    assert part in caught.value.message


@pytest.mark.parametrize(("line", "asks"), [("--help", True), ("bash -h", True), ("?", True), ("--brain help", False)])
def test_help_is_asked_for_in_the_usual_ways(line, asks):
    assert wants_help(line) is asks


@pytest.mark.parametrize(("magic", "parse"), [("kagura", parse_kagura), ("sandbox", parse_sandbox)])
def test_help_has_one_line_for_each_option(magic, parse):
    with pytest.raises(UsageError) as caught:
        parse("--nonsense")
    lines = help_text(magic).splitlines()
    for option in set(re.findall(r"--[a-z-]+", caught.value.message)) - {"--nonsense"}:
        assert len([line for line in lines if re.match(rf"  (-\w, )?{option}( |$)", line)]) == 1
    assert sum("each command may" in line and "not the whole run" in line for line in lines) == 2
