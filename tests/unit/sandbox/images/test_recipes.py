import fnmatch
import io
import re
import shutil
import tarfile

import pytest

from kagura_kernel.domain.errors import ConfigurationError, UnknownName
from kagura_kernel.sandbox.images.recipes import RECIPES, Lock, Recipes, chain_for, recipe_named

HERE = Recipes.found()


@pytest.fixture
def copied(tmp_path):
    """The recipes in a directory that a test may change."""
    shutil.copytree(HERE.directory, tmp_path / "images")
    return Recipes(tmp_path / "images")


def test_a_recipe_is_built_after_all_that_it_stands_on():
    assert [one.name for one in chain_for(["aws"])] == ["base", "python", "node", "aws"]
    assert [one.name for one in chain_for([])] == ["base", "python", "node", "aws", "agent"]
    assert [one.name for one in chain_for(["gcloud"])][-1] == "gcloud"
    assert [one.name for one in chain_for(["server"])] == ["base", "server"]


def test_an_unknown_recipe_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownName, match="Did you mean 'python'"):
        chain_for(["pyton"])


def test_recipes_that_are_nowhere_are_said(monkeypatch, tmp_path):
    monkeypatch.setenv("KAGURA_IMAGES", str(tmp_path))
    with pytest.raises(ConfigurationError, match="KAGURA_IMAGES"):
        Recipes.found()


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_recipe_names_its_base_as_an_argument_and_ends_as_the_agent(recipe):
    text = HERE.files(recipe)[recipe.dockerfile].decode()
    base = HERE.default_base(recipe)
    assert (
        base == f"kagura/{recipe.base}:latest" if recipe.base else re.fullmatch(r"debian:\S+@sha256:[0-9a-f]{64}", base)
    )
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE)[-1] == "65532:65532"
    assert "curl |" not in text
    assert ("NOT BUILT IN THE TESTS" in text) is not recipe.tested


@pytest.mark.parametrize("recipe", [one for one in RECIPES if one.tested], ids=lambda recipe: recipe.name)
def test_every_recipe_that_installs_is_locked(recipe):
    assert HERE.lock_state(recipe) == "locked"


def test_locks_name_versions_and_hashes_and_no_address():
    for recipe in RECIPES:
        for name, content in HERE.files(recipe).items():
            text = content.decode()
            if name.endswith(".apt.lock"):
                assert all(re.fullmatch(r"[a-z0-9.+-]+=[\w.+:~-]+", line) for line in text.splitlines())
            if name.endswith(".pip.lock"):
                pins = re.findall(r"^[\w.-]+==[\w.]+[^\n]*\\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
                assert len(pins) == text.count("==")
            if "lock" in name:
                assert "://" not in re.sub(r'"(?:url|homepage|funding)": "[^"]*"', "", text)


def test_a_build_by_hand_finds_every_file_that_a_recipe_copies():
    lines = (HERE.directory / ".dockerignore").read_text().splitlines()
    let_through = [line.removeprefix("!") for line in lines if line.startswith("!")]
    for recipe in RECIPES:
        text = HERE.files(recipe)[recipe.dockerfile].decode()
        for copied_files in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
            for name in copied_files.split():
                assert (HERE.directory / name).exists()
                assert any(fnmatch.fnmatch(name.rstrip("/"), pattern) for pattern in let_through)


def test_an_emptied_lock_is_told(copied):
    (copied.directory / "node.apt.lock").write_text("")
    assert copied.lock_state(recipe_named("node")) == "unlocked"


def test_an_identity_changes_with_a_lock_the_base_and_the_mode_and_with_nothing_else(copied):
    recipe = recipe_named("node")
    before = copied.identity(recipe, "sha256:1", Lock.FLOOR)
    (copied.directory / "python.apt.lock").write_text("x=1\n")
    (copied.directory / "settings" / "ca.pem").write_text("x")
    assert copied.identity(recipe, "sha256:1", Lock.FLOOR) == before
    assert copied.identity(recipe, "sha256:2", Lock.FLOOR) != before
    assert copied.identity(recipe, "sha256:1", Lock.STRICT) != before
    (copied.directory / "node.apt.lock").write_text("x=1\n")
    assert copied.identity(recipe, "sha256:1", Lock.FLOOR) != before


def test_a_context_holds_the_recipe_and_what_fetching_needs_and_is_the_same_each_time():
    recipe = recipe_named("python")
    context = HERE.context(recipe, {"ca.pem": b"a certificate"})
    assert context == HERE.context(recipe, {"ca.pem": b"a certificate"})
    with tarfile.open(fileobj=io.BytesIO(context)) as archive:
        names = set(archive.getnames())
    assert {"python.Dockerfile", "python.pip.lock", "python.apt", "python.apt.lock", "settings/ca.pem"} <= names
    assert not any(name.startswith(("base", "node")) for name in names)
