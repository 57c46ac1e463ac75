import sys
from pathlib import Path

import pytest

from kagura_kernel.sandbox import python_view as pythonenv
from kagura_kernel.sandbox.python_view import PythonView, current_view, find_view


def make_python(prefix: Path) -> Path:
    """Something that looks like an installed Python."""
    for folder in ("bin", "lib/python3.11/site-packages"):
        (prefix / folder).mkdir(parents=True)
    (prefix / "bin" / "python3.11").write_text("#!/bin/sh\n")
    (prefix / "bin" / "python3").symlink_to("python3.11")
    return prefix / "bin" / "python3"


def make_venv(prefix: Path, base: Path) -> Path:
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    (prefix / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (prefix / "bin" / "python").symlink_to(base)
    return prefix / "bin" / "python"


def view_of(python: Path, *prefixes: Path, avoid: tuple[Path, ...] = (), user_site: Path | None = None) -> PythonView:
    return find_view(
        python=str(python),
        prefixes=[str(prefix) for prefix in prefixes],
        avoid=avoid,
        user_site=str(user_site) if user_site else None,
    )


def test_an_environment_and_its_base_are_shown_where_they_lie(tmp_path: Path) -> None:
    base = make_python(tmp_path / "pyenv" / "3.11")
    python = make_venv(tmp_path / "project" / ".venv", base)
    view = view_of(python, tmp_path / "project" / ".venv", tmp_path / "pyenv" / "3.11", avoid=(tmp_path / "project",))
    assert view.directories == (str(tmp_path / "project" / ".venv"), str(tmp_path / "pyenv" / "3.11"))
    assert view.path == (str(tmp_path / "project" / ".venv" / "bin"),)
    assert view.links == ()


def test_an_interpreter_that_was_started_by_a_relative_name_is_shown_under_its_plain_one(tmp_path: Path) -> None:
    base = make_python(tmp_path / "pyenv" / "3.11")
    python = make_venv(tmp_path / "venv", base)
    (tmp_path / "project").mkdir()
    view = view_of(tmp_path / "project" / ".." / "venv" / "bin" / "python", tmp_path / "venv", tmp_path / "pyenv")
    assert (view.python, view.path, view.links) == (str(python), (str(python.parent),), ())


def test_a_system_python_needs_nothing() -> None:
    view = find_view(python="/usr/bin/python3", prefixes=["/usr", "/usr"])
    assert view.directories == ()
    assert view.links == ()


@pytest.mark.parametrize("inside", ["", "project", "some/where/project"])
def test_a_prefix_that_holds_the_project_or_the_home_is_shown_by_its_parts(tmp_path: Path, inside: str) -> None:
    prefix = tmp_path / "home"
    python = make_python(prefix)
    (prefix / "letters").mkdir()
    (prefix / inside).mkdir(parents=True, exist_ok=True)
    view = view_of(python, prefix, avoid=(prefix / inside,))
    assert view.directories == (str(prefix / "bin"), str(prefix / "lib"))


def test_the_root_is_never_a_prefix(tmp_path: Path) -> None:
    shown = find_view(python=str(tmp_path / "python"), prefixes=["/"]).directories
    assert "/" not in shown
    assert "/etc" not in shown


def test_a_prefix_below_a_link_is_shown_under_both_names(tmp_path: Path) -> None:
    make_python(tmp_path / "cpython-3.11.7")
    (tmp_path / "cpython-3.11").symlink_to("cpython-3.11.7")
    view = view_of(tmp_path / "cpython-3.11" / "bin" / "python3", tmp_path / "cpython-3.11")
    assert view.directories == (str(tmp_path / "cpython-3.11"), str(tmp_path / "cpython-3.11.7"))


def test_links_on_the_way_to_the_interpreter_are_remade(tmp_path: Path) -> None:
    base = make_python(tmp_path / "opt" / "python")
    (tmp_path / "shims").mkdir()
    (tmp_path / "shims" / "python").symlink_to(base)
    python = make_venv(tmp_path / "venv", tmp_path / "shims" / "python")
    view = view_of(python, tmp_path / "venv", tmp_path / "opt" / "python")
    assert view.links == ((str(tmp_path / "shims" / "python"), str(base)),)


def test_a_ring_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert len(view_of(tmp_path / "a").links) <= 16


def test_passwords_of_package_indexes_are_covered(tmp_path: Path) -> None:
    base = make_python(tmp_path / "python")
    (tmp_path / "python" / "pip.conf").write_text("[global]\nindex-url = https://user:password@example.org/\n")
    view = view_of(base, tmp_path / "python")
    assert view.hidden == (str(tmp_path / "python" / "pip.conf"),)


def test_configuration_is_covered_at_every_depth_and_the_harmless_kept(tmp_path: Path) -> None:
    base = make_python(tmp_path / "conda")
    python = make_venv(tmp_path / "conda" / "tools" / "env", base)
    for file in (
        "conda/etc/jupyter/jupyter_server_config.json",
        "conda/etc/fonts/fonts.conf",
        "conda/etc/service.toml",
        "conda/conda-meta/history",
        "conda/envs/other/pip.conf",
        "conda/tools/env/etc/ipython/ipython_config.py",
        "conda/tools/env/.netrc",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("secret")
    view = view_of(python, tmp_path / "conda" / "tools" / "env", tmp_path / "conda")
    assert view.directories == (str(tmp_path / "conda"),)
    assert {path.removeprefix(f"{tmp_path}/conda/") for path in view.hidden} == {
        "conda-meta",
        "envs",
        "etc/jupyter",
        "etc/service.toml",
        "tools/env/.netrc",
        "tools/env/etc/ipython",
    }


def test_an_environment_is_not_covered_with_its_neighbours(tmp_path: Path) -> None:
    python = make_venv(tmp_path / "conda" / "envs" / "mine", make_python(tmp_path / "conda"))
    (tmp_path / "conda" / "envs" / "mine" / "uv.toml").write_text("")
    view = view_of(python, tmp_path / "conda" / "envs" / "mine", tmp_path / "conda")
    assert view.hidden == (str(tmp_path / "conda" / "envs" / "mine" / "uv.toml"),)


def test_a_prefix_below_a_link_is_covered_under_both_names(tmp_path: Path) -> None:
    make_python(tmp_path / "3.11.7")
    (tmp_path / "3.11.7" / "etc" / "jupyter").mkdir(parents=True)
    (tmp_path / "3.11").symlink_to("3.11.7")
    view = view_of(tmp_path / "3.11" / "bin" / "python3", tmp_path / "3.11")
    assert set(view.hidden) == {str(tmp_path / name / "etc" / "jupyter") for name in ("3.11", "3.11.7")}


def test_links_in_configuration_are_covered_where_they_lead_and_not_outside(tmp_path: Path) -> None:
    base = make_python(tmp_path / "python")
    (tmp_path / "python" / "etc").mkdir()
    (tmp_path / "python" / "share" / "config").mkdir(parents=True)
    (tmp_path / "python" / "etc" / "inner").symlink_to("../share/config")
    (tmp_path / "python" / "etc" / "outer").symlink_to(tmp_path)
    view = view_of(base, tmp_path / "python")
    assert view.hidden == (str(tmp_path / "python" / "share" / "config"),)


def test_of_a_prefix_shown_by_its_parts_no_configuration_is_shown(tmp_path: Path) -> None:
    python = make_python(tmp_path / "home")
    (tmp_path / "home" / "etc" / "jupyter").mkdir(parents=True)
    (tmp_path / "home" / "conda-meta").mkdir()
    view = view_of(python, tmp_path / "home", avoid=(tmp_path / "home" / "project",))
    assert view.directories == (str(tmp_path / "home" / "bin"), str(tmp_path / "home" / "lib"))


def test_packages_of_the_user_are_shown_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_site = tmp_path / "home" / ".local" / "lib" / "python3.11" / "site-packages"
    user_site.mkdir(parents=True)
    monkeypatch.setattr("site.getuserbase", lambda: str(tmp_path / "home" / ".local"))
    view = view_of(make_python(tmp_path / "python"), tmp_path / "python", user_site=user_site)
    assert view.directories == (str(user_site), str(tmp_path / "python"))
    assert view.env == (("PYTHONUSERBASE", str(tmp_path / "home" / ".local")),)


def test_the_running_interpreter_is_what_is_shown() -> None:
    view = current_view()
    assert view.python == sys.executable
    shown = ("/usr", *view.directories)
    assert any(sys.prefix == path or sys.prefix.startswith(f"{path}/") for path in shown)
    assert any(sys.base_prefix == path or sys.base_prefix.startswith(f"{path}/") for path in shown)


def test_an_environment_can_have_a_layer_and_its_base_cannot(tmp_path: Path) -> None:
    base = make_python(tmp_path / "pyenv" / "3.11")
    env = tmp_path / "env"
    python = make_venv(env, base)
    (env / "lib/python3.11/site-packages").mkdir(parents=True)
    view = view_of(python, env, tmp_path / "pyenv" / "3.11")
    assert view.layered == (str(env),)
    assert view.own == ()
    assert view.packages == (str(env), f"{env}/lib/python3.11/site-packages")


def test_an_installation_without_an_environment_has_a_layer_itself_by_all_its_names(tmp_path: Path) -> None:
    make_python(tmp_path / "3.11.7")
    (tmp_path / "3.11").symlink_to(tmp_path / "3.11.7")
    view = view_of(tmp_path / "3.11/bin/python3", tmp_path / "3.11")
    assert view.layered == (str(tmp_path / "3.11"), str(tmp_path / "3.11.7"))


def test_of_a_prefix_that_is_shown_by_its_parts_each_directory_has_a_layer(tmp_path: Path) -> None:
    home = tmp_path / "home"
    python = make_venv(home, make_python(tmp_path / "base"))
    (home / "lib/python3.11/site-packages").mkdir(parents=True)
    view = view_of(python, home, avoid=(home,))
    assert view.layered == (f"{home}/bin", f"{home}/lib")
    assert f"{home}/lib/python3.11/site-packages" in view.packages


def test_the_systems_own_python_has_no_layer_and_an_environment_beside_it_has(tmp_path: Path, monkeypatch) -> None:
    assert find_view(python="/usr/bin/python3", prefixes=["/usr", "/usr"]).layered == ()
    python = make_venv(tmp_path / "usr" / "env", make_python(tmp_path / "usr"))
    monkeypatch.setattr(pythonenv, "SYSTEM", (str(tmp_path / "usr"),))
    view = view_of(python, tmp_path / "usr" / "env", tmp_path / "usr")
    assert view.directories == ()
    assert view.layered == (str(tmp_path / "usr" / "env"),)


def test_the_users_packages_have_a_layer_and_their_programs_a_place(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("site.getuserbase", lambda: str(tmp_path / "local"))
    user_site = tmp_path / "local/lib/python3.11/site-packages"
    user_site.mkdir(parents=True)
    view = view_of(Path("/usr/bin/python3"), Path("/usr"), user_site=user_site)
    assert view.layered == (str(user_site),)
    assert view.own == (str(tmp_path / "local" / "bin"),)
    assert view.path == ("/usr/bin", str(tmp_path / "local" / "bin"))
