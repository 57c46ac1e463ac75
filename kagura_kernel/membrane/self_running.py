"""Files that some program of the host runs, or obeys, without anybody naming them: one list, each with its reason.

A person who opens the folder, commits, runs the tests or starts a kernel runs them too, outside of any box. So they
wait for a word where other changes are applied at once, and stand first where all wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kagura_kernel.domain.imports import is_library
from kagura_kernel.membrane.names import folded_path

# Patterns are compared as `folded` writes names, and may lie anywhere in the project. A star stands for any part of one
# name; one that ends with a slash means a folder with all that is in it.
_PATTERNS = {
    "an agent takes commands and settings from it": """
        .agents/ .aider* .amazonq/ .augment/ .claude/ .clinerules .codex/ .continue/ .cursor/ .gemini/ .goose*
        .junie/ .kiro/ .mcp.json .opencode/ .roo/ .trae/ .windsurf/ opencode.json*
    """,
    "an agent obeys it": """
        .cursorrules .github/copilot-instructions.md .github/instructions/ .goosehints .rules .windsurfrules
        agents.md agents.*.md claude.md claude.*.md gemini.md warp.md
    """,
    "an editor runs what it says when the folder is opened": """
        *.code-workspace *.sublime-project .dir-locals*.el .exrc .fleet/ .idea/ .lvimrc .nvim.lua .nvimrc
        .helix/ .vim/ .vimrc .vs/ .vscode/ .ycm_extra_conf.py .zed/
    """,
    "an editor starts a container as it says, and commands on this machine before": """
        .devcontainer/ .devcontainer.json .gitpod.yml
    """,
    "git, or what it starts at a commit, runs what it says": """
        .gitattributes .gitconfig .githooks/ .gitmodules .husky/ .huskyrc* .lefthook* .lintstagedrc*
        .overcommit.yml .pre-commit-config.yaml .pre-commit-hooks.yaml lefthook*.y*ml lint-staged.config.*
    """,
    "a build service runs it after a push, with that project's secrets": """
        .azure-pipelines/ .build.yml .builds/ .teamcity/
        .appveyor.yml .buildkite/ .circleci/ .cirrus.yml .drone.y*ml .forgejo/ .gitea/ .github/actions/
        .github/workflows/ .gitlab-ci*.yml .gitlab/ .semaphore/ .travis.yml .woodpecker* appveyor.yml
        azure-pipelines*.yml bitbucket-pipelines.yml cloudbuild.y*ml action.y*ml buildspec.yml jenkinsfile
        jenkinsfile.*
    """,
    "tools take variables from it, and with them what they run": """
        .env .env.* .flaskenv .rprofile .renviron
    """,
    "a shell, or what manages its tools, runs it when the folder is entered": """
        .autoenv* .mise* .mise/ .tool-versions devenv.nix flake.nix mise*.toml shell.nix
    """,
    "make, or a tool like it, runs what it says": """
        *.gemspec *.gradle *.gradle.kts *.mk .cargo/ .justfile .mvn/ build.rs cmakelists.txt
        directory.build.props directory.build.targets dodo.py fabfile.py gemfile meson.build tiltfile
        tools/bazel
        gnumakefile gradlew gradlew.bat justfile makefile makefile.* mvnw mvnw.cmd noxfile.py podfile
        rakefile sconstruct setup.py taskfile.y*ml tox.ini vagrantfile wscript
    """,
    "npm, or a tool like it, runs the scripts that it names": """
        .npmrc .pnp.* .pnpmfile.* .yarn/ .yarnrc* bunfig.toml composer.json deno.json* node_modules/.bin/
        package.json pnpm-workspace.yaml
    """,
    "JavaScript tools and editors run it as their settings": """
        *.config.cjs *.config.cts *.config.js *.config.mjs *.config.mts *.config.ts .babelrc* .eslintrc*
        .mocharc* .prettierrc* .stylelintrc* gruntfile.* gulpfile.*
    """,
    "pytest runs it before any test": """
        conftest.py
    """,
    "pytest, or a tool that builds or checks, takes from it what to load and run": """
        .mypy.ini .pytest.ini .pytest.toml mypy.ini pyproject.toml pytest.ini pytest.toml setup.cfg
    """,
    "Jupyter, IPython or what makes documentation runs it as its settings": """
        docs/conf.py doc/conf.py ipython_config.py ipython_kernel_config.py jupyter_*config.json jupyter_*config.py
        mkdocs.yml
    """,
    "an interpreter, or a tool of its language, runs it when it starts": """
        .ghci .irbrc .pryrc .rspec .rubocop.yml
    """,
    "Python runs it when it starts": """
        *.pth sitecustomize.* sitecustomize/ usercustomize.* usercustomize/
    """,
    "a debugger runs its lines when it starts": """
        .gdbinit .lldbinit .pdbrc
    """,
    "a tool that looks at code runs what it says": """
        .flake8 .pylintrc pylintrc
    """,
    "it stands in the place of this package when a notebook loads it": """
        kagura_kernel.* kagura_kernel/__init__.*
    """,
    "it is shown and run as a notebook of yours": """
        *.ipynb
    """,
    "a file manager starts it": """
        *.desktop autorun.inf
    """,
}
_REASONS = tuple(_PATTERNS)


def _expression(pattern: str) -> str:
    name = re.escape(pattern.rstrip("/")).replace(r"\*", "[^/]*")
    return f"{name}(?:/.*)?" if pattern.endswith("/") else name


# All at once, since a run may change tens of thousands of files.
_FITTING = re.compile(
    "(?:^|.*/)(?:"
    + "|".join(f"({'|'.join(map(_expression, patterns.split()))})" for patterns in _PATTERNS.values())
    + ")",
    re.DOTALL,
)

CALLED = "a hook or an alias of git may run it"
SHADOWS = "Python may take it for the installed package of that name"


def runs_by_itself(path: str, *, added: bool, installed: Callable[[str], bool] = is_library) -> str:
    """Why somebody would run a file, or obey it, whom nobody asked to, in half a sentence; empty where nobody would.

    Args:
        path: Relative to the project root, with `/`.
        added: Whether it is new: a module may bear the name of an installed one, and be what that was installed from.
        installed: Whether a module of a name is there outside of the project.
    """
    fitting = _FITTING.fullmatch(folded_path(path))
    if fitting is not None and fitting.lastindex is not None:
        return _REASONS[fitting.lastindex - 1]
    if added and (module := _module(path)) and installed(module):
        return SHADOWS
    return ""


def _module(path: str) -> str:
    """The name by which Python would import a file at the top of the project; empty for another file."""
    first, _, rest = path.partition("/")
    name, _, ending = (rest or first).partition(".")
    if ending not in ("py", "pyc", "so") and not ending.endswith((".so", ".pyc")):
        return ""
    if not rest:
        return name
    return first if name == "__init__" else ""
