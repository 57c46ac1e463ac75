import os
import stat
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import keyring
import pytest

from kagura_kernel.assembly import load_settings
from kagura_kernel.assembly.local_services import LocalService
from kagura_kernel.assembly.settings_file import write_setting, write_settings
from kagura_kernel.cli.main import main
from kagura_kernel.cli.setup import PARTS, Talk, Walk
from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.journal.settings_text import with_setting
from tests.support.openai_server import OpenAIServer

SECRET = "sk-very-secret"


@pytest.fixture
def file(books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This person's settings, which nobody has written yet."""
    del books
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "KAGURA_BRAIN", "KAGURA_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config" / "kagura-kernel" / "config.toml"


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """What is in the keychain."""
    kept: dict[tuple[str, str], str] = {}
    monkeypatch.setattr(keyring, "set_password", lambda service, name, secret: kept.update({(service, name): secret}))
    monkeypatch.setattr("kagura_kernel.membrane.credentials.secret.keychain_name", lambda: "a chain")
    return kept


Answer = Callable[..., str]


@pytest.fixture
def walk() -> Answer:
    """Walks through a part with these answers, and tells what was said."""

    def through(part: str, *answers: str, secret: str = "", asks: bool = True) -> str:
        said: list[str] = []
        coming: Iterator[str] = iter(answers)

        def ask(question: str) -> str:
            said.append(question)
            return next(coming)

        found = Walk(os.environ, asks=asks, talk=Talk(ask, lambda _: secret, said.append))
        found.through(part, load_settings(os.environ))
        assert next(coming, None) is None
        assert SECRET not in "\n".join(said)
        return "\n".join(said)

    return through


def written(file: Path) -> dict[str, object]:
    return tomllib.loads(file.read_text()) if file.exists() else {}


def test_whoever_answers_with_the_enter_key_changes_nothing(walk, file):
    for part in PARTS:
        walk(part, "")
    assert not file.exists()


def test_a_box_is_chosen_and_an_answer_that_is_none_is_asked_again(walk, file):
    assert "That is none of them." in walk("sandbox", "9", "x", "4")
    assert written(file) == {"box": "bubblewrap"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_service_is_chosen_and_its_key_goes_into_the_keychain_alone(walk, file, chain):
    walk("brain", "3", "1", "gpt-x", secret=SECRET)
    assert written(file) == {
        "endpoint": "openai",
        "model": "gpt-x",
        "brain": "pydantic_ai",
        "endpoints": {"openai": {"key_keyring": "kagura-kernel/openai"}},
    }
    assert chain == {("kagura-kernel", "openai"): SECRET}
    assert SECRET not in file.read_text()


def test_a_model_on_this_machine_needs_no_key(walk, file, chain):
    assert "It needs no key" in walk("brain", "3", "2", "")
    assert written(file) == {"endpoint": "ollama", "brain": "pydantic_ai"}
    assert chain == {}


def test_the_model_of_another_service_is_not_kept_and_that_of_the_same_one_is(walk, file):
    walk("brain", "3", "2", "qwen3:32b")
    walk("brain", "3", "2", "")
    assert written(file)["model"] == "qwen3:32b"
    walk("brain", "3", "3", "")
    assert (written(file)["endpoint"], written(file)["model"]) == ("lmstudio", "")


@pytest.mark.usefixtures("chain")
def test_a_service_of_ones_own_is_named_by_its_url(walk, file):
    walk("brain", "3", "12", "mine", "https://models.example.org/v1", "m", secret=SECRET)
    assert written(file)["endpoints"] == {
        "mine": {"url": "https://models.example.org/v1", "key_keyring": "kagura-kernel/mine"}
    }


def test_a_service_of_ones_own_that_answers_on_this_machine_offers_its_models(walk, file):
    with OpenAIServer(models=("small", "large")) as server:
        assert "large of mine" in walk("brain", "3", "12", "mine", server.url, "2")
    assert written(file) == {
        "endpoint": "mine",
        "model": "large",
        "brain": "pydantic_ai",
        "endpoints": {"mine": {"url": server.url}},
    }


def test_without_a_keychain_the_key_is_kept_nowhere_and_that_is_said(walk, file, monkeypatch):
    from keyring.backends.fail import Keyring

    monkeypatch.setattr(keyring, "get_keyring", Keyring)
    assert "It was not kept: this machine has no keychain" in walk("brain", "3", "1", "", secret=SECRET)
    assert "endpoints" not in written(file)


def test_a_keychain_that_is_a_file_of_plain_text_gets_no_key(walk, file, monkeypatch):
    from keyrings.alt.file import PlaintextKeyring

    monkeypatch.setattr(keyring, "get_keyring", PlaintextKeyring)
    monkeypatch.setattr(keyring, "set_password", pytest.fail)
    assert "a file of plain text" in walk("brain", "3", "1", "", secret=SECRET)
    assert "endpoints" not in written(file)


def test_a_password_in_the_url_of_a_memory_is_refused_and_not_repeated(walk, file):
    said = walk("memory", "4", "postgresql://ada:hunter2@db/memories", "ada@db/memories", "")
    assert "use ~/.pgpass" in said
    assert "it begins with postgresql://" in said
    assert "hunter2" not in said
    assert "That is no file" in walk("memory", "3", "postgresql://ada:hunter2@db/memories", "")
    assert not file.exists()
    walk("memory", "4", "postgresql://ada@db/memories")
    assert written(file) == {"memory": "postgresql://ada@db/memories"}


def test_what_would_be_wrong_is_not_written(file):
    write_setting({"KAGURA_CONFIG": str(file)}, "box", "docker")
    with pytest.raises(ConfigurationError):
        write_setting({"KAGURA_CONFIG": str(file)}, "write", "sometimes")
    assert written(file) == {"box": "docker"}


@pytest.mark.usefixtures("file")
def test_a_variable_that_overrides_what_is_written_is_named(walk, monkeypatch):
    monkeypatch.setenv("KAGURA_BOX", "docker")
    assert "The variable KAGURA_BOX overrides it" in walk("sandbox", "2")


def test_where_nobody_is_asked_nothing_is_written(walk, file):
    file.parent.mkdir(parents=True)
    file.write_text('brain = "nobody"\nbox = "paper"\nmemory = "relative"\n')
    before = file.read_text()
    for part in PARTS:
        walk(part, asks=False)
    assert file.read_text() == before


def test_what_nothing_could_make_right_is_set_back_together(file, capsys):
    file.parent.mkdir(parents=True)
    file.write_text('brain = "nobody"\nbox = "paper"\nmemory = "relative"\npool_size = 2\n')
    main(["setup", "--yes"])
    assert written(file) == {"brain": "auto", "box": "auto", "memory": "", "pool_size": 2}
    assert capsys.readouterr().out.startswith(f"brain = 'auto' was written to {file}.\nmemory = ")


@pytest.mark.parametrize(
    ("name", "value"), [("box", "docker"), ("box", "ssh"), ("memory", "postgresql://ada@127.0.0.1:9/memories")]
)
def test_what_only_does_not_work_now_stays_as_somebody_has_chosen_it(file, name, value, capsys):
    write_setting({"KAGURA_CONFIG": str(file)}, name, value)
    before = file.read_text()
    assert main(["setup", "memory" if name == "memory" else "sandbox", "--yes"]) in (0, 3)
    assert file.read_text() == before
    assert "was written" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "table", "after"),
    [
        ("", "", 'box = "x"\n'),
        ("# mine\nbrain = 'auto' # so\n", "", "# mine\nbrain = 'auto' # so\nbox = \"x\"\n"),
        ('box = "y"\n', "", 'box = "x"\n'),
        ("[env]\nbox = 'z'\n", "", "box = \"x\"\n\n[env]\nbox = 'z'\n"),
        ("a = 1\n\n[env]\nbox = 'z'\n", "", "a = 1\nbox = \"x\"\n\n[env]\nbox = 'z'\n"),
        ("a = 1", "t.u", 'a = 1\n\n[t.u]\nbox = "x"\n'),
        ("[t.u] # his\nb = 2\n[v]\n", "t.u", '[t.u] # his\nbox = "x"\nb = 2\n[v]\n'),
        ("[t.u]\nbox = 2\n", "t.u", '[t.u]\nbox = "x"\n'),
    ],
)
def test_a_setting_is_put_where_it_belongs_and_all_else_stays(text, table, after):
    assert with_setting(text, "box", "x", table=table) == after
    tomllib.loads(after)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", '[t]\nbox = ["x", "y"]\n'),
        ('[t]\nbox = [ # mine\n  "a", "]",\n]\nb = 2\n', '[t]\nbox = ["x", "y"]\nb = 2\n'),
        ('[t]\nbox = """\na\n"""\n', '[t]\nbox = ["x", "y"]\n'),
    ],
)
def test_a_list_is_put_in_place_of_what_stood_there_over_however_many_lines(text, after):
    assert with_setting(text, "box", ["x", "y"], table="t") == after
    tomllib.loads(after)


def test_a_setting_is_taken_away_and_all_else_stays():
    assert with_setting("[t]\na = 1\nbox = [\n1]\nb = 2\n", "box", None, table="t") == "[t]\na = 1\nb = 2\n"
    assert with_setting("a = 1\n", "box", None) == "a = 1\n"
    assert with_setting("a = 1\n", "box", None, table="t") == "a = 1\n"


def test_what_belongs_together_is_written_in_its_order_or_not_at_all(file):
    tokens = {"bot_token_env": "BOT", "app_token_env": "APP", "operators": ["U1"]}
    write_settings({"KAGURA_CONFIG": str(file)}, tokens, table="transports.slack")
    before = file.read_text()
    assert before == '[transports.slack]\nbot_token_env = "BOT"\napp_token_env = "APP"\noperators = ["U1"]\n'
    with pytest.raises(ConfigurationError):
        write_settings({"KAGURA_CONFIG": str(file)}, {"operators": [], "app_token_env": None}, table="transports.slack")
    assert file.read_text() == before


def test_any_text_can_be_a_value():
    value = 'C:\\x "y"\n\x7f…\t\U0001f9a9'
    assert tomllib.loads(with_setting("", "model", value))["model"] == value


def test_without_a_terminal_it_tells_the_rows_and_says_what_is_still_to_be_done(file, prints):
    told = prints("setup", "brain", code=3)
    assert told.startswith("brain\n\nWARN  brain")
    assert "ANTHROPIC_API_KEY" in told
    assert main(["setup", "memory"]) == 0
    assert not file.exists()


@pytest.mark.usefixtures("file")
def test_all_of_it_ends_with_the_rest_of_the_machine(capsys, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    code = main(["setup", "--yes"])
    told = capsys.readouterr().out
    places = [told.index(f"{part}\n\n") for part in (*PARTS, "the machine")]
    assert places == sorted(places)
    assert code == (3 if "FAIL  box" in told else 0)
    assert SECRET not in told


def test_who_has_a_brain_that_can_think_is_not_told_how_to_get_one(walk, file, monkeypatch):
    monkeypatch.setenv("HOME", str(file.parent))
    assert "Sign in once" in walk("brain", asks=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    assert walk("brain", asks=False) == ""


@pytest.mark.parametrize("asks", [True, False])
def test_a_program_that_is_not_on_the_path_is_named_by_its_whole_path(walk, file, monkeypatch, tmp_path, asks):
    monkeypatch.setenv("HOME", str(file.parent))
    program = tmp_path / "_bundled" / "claude"
    monkeypatch.setattr("kagura_kernel.brain.claude_auth.find_program", lambda _environ: program)
    monkeypatch.setattr("kagura_kernel.cli.setup.local_services", lambda _: [])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"by typing `{program}` in a terminal" in walk("brain", *(["2"] if asks else []), asks=asks)
    (tmp_path / "claude").touch(0o755)
    assert "by typing `claude` in a terminal" in walk("brain", *(["2"] if asks else []), asks=asks)


def test_a_model_that_answers_on_this_machine_is_offered(walk, file, monkeypatch):
    found = [LocalService("ollama", ("small", "qwen3:32b"))]
    monkeypatch.setattr("kagura_kernel.cli.setup.local_services", lambda _: found)
    assert "Your settings name qwen3:32b of ollama now." in walk("brain", "5")
    assert written(file) == {"brain": "pydantic_ai", "endpoint": "ollama", "model": "qwen3:32b"}


def test_a_key_for_claude_goes_into_the_keychain_alone(walk, file, chain):
    walk("brain", "2", secret=SECRET)
    assert written(file) == {"claude_key_keyring": "kagura-kernel/anthropic"}
    assert chain == {("kagura-kernel", "anthropic"): SECRET}
