import pytest

from kagura_kernel.membrane.protection import HIDDEN, SHADOWS, STANDS_IN, runs_by_itself


def reason(path: str, *, added: bool = True) -> str:
    return runs_by_itself(path, added=added, installed=lambda name: name in {"stack_data", "json", "shop"})


@pytest.mark.parametrize(
    "path",
    [
        ".claude/settings.json",
        ".mcp.json",
        "CLAUDE.md",
        "web/AGENTS.md",
        ".vscode/tasks.json",
        "sub/.vscode/settings.json",
        ".VSCode/Tasks.json",
        ".vscode",
        ".idea/workspace.xml",
        ".devcontainer/devcontainer.json",
        ".husky/pre-commit",
        ".githooks/post-checkout",
        ".pre-commit-config.yaml",
        ".github/workflows/test.yml",
        ".gitlab-ci.yml",
        "tests/conftest.py",
        "pyproject.toml",
        "setup.cfg",
        "jupyter_server_config.py",
        "docs/conf.py",
        ".azure-pipelines/build.yml",
        ".agents/skills/look/SKILL.md",
        "node_modules/.bin/eslint",
        "Makefile",
        "lib/GNUmakefile",
        "paper/latexmkrc",
        "lib/BSDmakefile",
        "web/vitest.workspace.ts",
        "rules.mk",
        "package.json",
        "web/package.json",
        ".npmrc",
        "eslint.config.mjs",
        "evil.pth",
        "sitecustomize.py",
        "sitecustomize/__init__.py",
        "usercustomize.pyc",
        "kagura_kernel.py",
        "kagura_kernel/__init__.py",
        "kagura_kernel.cpython-311-x86_64-linux-gnu.so",
        "notes/analysis.ipynb",
        ".pdbrc",
        ".env",
        "setup.py",
        "\u200bconftest.py",
        *("Cargo.toml", "rust-toolchain.toml", "rust-toolchain", "pom.xml", "build.sbt"),
        *(
            "project/plugins.sbt",
            "mix.exs",
            "Package.swift",
            "build.gradle",
            "gradle/wrapper/gradle-wrapper.properties",
        ),
        *("gradle.properties", "buildSrc/src/Rule.kt", ".octaverc", "startup.m", "ansible.cfg"),
        *("default.nix", "shell.nix", "flake.nix", "devbox.json", "tasks.py"),
        *("tasks/__init__.py", "manage.py", "backend/manage.py", ".commitlintrc", ".commitlintrc.json"),
        *("conf.py", "docs/source/conf.py", "hatch_build.py", "pdm_build.py", ".coveragerc"),
        *("BUILD.bazel", "BUILD", "lib/BUILD", "WORKSPACE", "MODULE.bazel"),
        *(".bazelrc", "rules.bzl", "Snakefile", "nextflow.config", "docker-compose.yml"),
        *("docker-compose.override.yaml", "compose.yaml", "Procfile", "turbo.json", "nx.json"),
        *("lerna.json", ".luacheckrc", ".lintr", ".RData", "renv/activate.R"),
        *(".iex.exs", "stack.yaml", "Shop.csproj", "dune", "project.clj"),
        *("hie.yaml", ".storybook/main.js", ".foorc.cjs", "karma.conf.js", "book.toml"),
        *(
            "_quarto.yml",
            "netlify.toml",
            ".readthedocs.yaml",
            ".bashrc",
            ".ssh/config",
            "build.py",
            ".config/fish/config.fish",
        ),
        *("Dockerfile", "web/Dockerfile.dev", "api.dockerfile", "Containerfile", "sub/main.tf", "a.tofu", "a.pkr.hcl"),
        *(".htaccess", "alembic/env.py", "jupytext.py", ".jupytext.py"),
        *(".tekton/push.yaml", ".replit", ".idx/dev.nix", ".codesandbox/tasks.json", "QWEN.md", ".qwen/settings.json"),
        *("binding.gyp", "Package@swift-5.9.swift", "App.csproj.user", "configure", "tox.toml", "dags/daily.py"),
        *(".luarc.jsonc", "zuul.d/jobs.yaml", "ci_scripts/ci_post_clone.sh", ".config/git/config", ".clj-kondo/x.clj"),
    ],
)
def test_what_somebody_runs_or_obeys_unasked_is_told_with_its_reason(path):
    assert reason(path, added=False)


@pytest.mark.parametrize(
    "path",
    [
        *("a.txt", "shop/cart.py", "tests/test_cart.py", "docs/conftest.md", "src/makefile_parser.py", "notes.md"),
        *("kagura_kernel/domain/policy.py", ".github/ISSUE_TEMPLATE.md", "data/package.json.gz", "vscode/tasks.json"),
        *("README.md", "sub/tasks.py", "web/src/config.ts", "hooks/useCart.ts", "shop/conf.py"),
        *(
            "shop/tasks/__init__.py",
            "src/build.py",
            "src/build/run.ts",
            "src/workspace.rs",
            "shop/settings.py",
            "src/compose.ts",
        ),
        *("data/profile.csv", "src/lib.rs", "a.tfvars", "src/main.swift", "lib/shop.ex", "shop/manager.py", "run.sh"),
        *("src/main/java/App.java", "analysis.R", "model.m", "requirements.txt", "dockerfiles.py", "config.yaml"),
        *(".gitignore", "web/.dockerignore", "empty/.gitkeep", ".editorconfig", ".github/FUNDING.yml"),
        *(".pytest_cache/v/cache/lastfailed", ".mypy_cache/3.12/a.json", "src/.ruff_cache/0.1/x", ".coverage"),
    ],
)
def test_what_only_runs_when_somebody_names_it_is_not(path):
    assert reason(path) == ""


@pytest.mark.parametrize("path", [".unheard-of", "web/.unheard/of.md", ".github/.of", "src/.mypy_cache/.of", ".flake8"])
def test_all_that_is_hidden_is_told_since_the_list_cannot_be_whole(path):
    assert reason(path, added=False) == HIDDEN


@pytest.mark.parametrize(
    "path", ["stack_data.py", "org.py", "simplejson.py", "json/__init__.py", "json.cpython-311.so", "shop.pyc"]
)
def test_a_new_module_at_the_top_that_bears_the_name_of_an_installed_one_is_told(path):
    assert reason(path) == SHADOWS
    assert reason(path, added=False) == ""


@pytest.mark.parametrize(
    "path",
    [
        "sub/runpy.py",
        "sub/org.py",
        "a/b/multiprocessing.py",
        "sub/json/__init__.py",
        "src/types.cpython-311.so",
        "scripts/queue.pyc",
    ],
)
def test_a_new_module_with_a_name_of_the_standard_library_is_told_in_any_folder_that_is_no_package(path):
    assert reason(path) == STANDS_IN
    assert reason(path, added=False) == ""
    assert runs_by_itself(path, added=True, is_package=lambda folder: folder in {"sub", "a/b", "src", "scripts"}) == ""


@pytest.mark.parametrize("path", ["sub/json/data.py", "sub/runpy.md", "sub/__init__.py", "sub/__pycache__/json.pyc"])
def test_what_no_name_of_the_standard_library_leads_to_is_free_in_any_folder(path):
    assert reason(path) == ""


@pytest.mark.parametrize("path", ["lib/stack_data.py", "work/shop/__init__.py", "a/b/simplejson.pyc"])
def test_a_new_module_with_the_name_of_an_installed_one_is_told_in_any_folder_that_is_no_package(path):
    assert reason(path) == SHADOWS
    assert reason(path, added=False) == ""
    assert runs_by_itself(path, added=True, installed=lambda _: True, is_package=lambda _: True) == ""


def test_the_names_of_what_is_installed_here_are_known():
    assert runs_by_itself("requests.py", added=True) == SHADOWS
    assert runs_by_itself("pytest.py", added=True) == SHADOWS
    assert runs_by_itself("my_own_module.py", added=True) == ""
