"""Which paths of a project no change from a box may touch, and which files some program of the host obeys.

Protected is what makes a program of the host run something: what git, direnv and others read before they act, whole
environments of Python, and whatever a policy names. So is a path that cannot be shown on one line.

A person who opens the folder, commits, runs the tests or starts a kernel runs files that nobody names, outside of any
box. So these wait for a word where other changes are applied at once, and stand first where all wait. Their list cannot
be whole, so all that is hidden waits too.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from kagura_kernel.domain.imports import is_library
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.late_pattern import late_pattern
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.names import folded, folded_path, has_control, is_below, is_protected_name
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.sandbox.backend import BoxChange

_MAX_LINKS = 40
_MAX_DEPTH = 64
_MAX_TARGET = 4096


def landing(path: str, target: str) -> list[str] | None:
    """The components, from the project's root, that a link points to; None when it may lead out.

    Only a relative target is accepted whose `..` all stand at its beginning and are no more than there are directories
    above the link. Then the way is the same whether a component turns out to be a directory or a link that is itself
    accepted, and it cannot lead out in either case.
    """
    if not target or target.startswith("/") or len(target) > _MAX_TARGET or "\0" in target or has_control(target):
        return None
    steps = [step for step in target.split("/") if step not in ("", ".")]
    ups = 0
    while ups < len(steps) and steps[ups] == "..":
        ups += 1
    above = path.split("/")[:-1]
    if ups > len(above) or ".." in steps[ups:]:
        return None
    return above[: len(above) - ups] + steps[ups:]


def stays_inside(path: str, target: str, links_at: Callable[[str], Iterable[str]]) -> bool:
    """Whether a link leads to a place in the project by way of directories only.

    `links_at` gives the targets of the links that stand, or are to stand, at a path; none for everything else.
    """
    waiting = [(path, target)]
    known = set(waiting)
    while waiting:
        where, points_to = waiting.pop()
        parts = landing(where, points_to)
        if parts is None or len(parts) > _MAX_DEPTH or len(known) > _MAX_LINKS:
            return False
        for depth in range(1, len(parts)):
            if any(True for _ in links_at("/".join(parts[:depth]))):
                return False
        end = "/".join(parts)
        further = [(end, onward) for onward in (links_at(end) if end else ()) if (end, onward) not in known]
        known.update(further)
        waiting.extend(further)
    return True


# An environment says so itself: the first is venv's file, the second conda's directory.
_ENVIRONMENT = frozenset({"pyvenv.cfg", "conda-meta"})
# Where the project's root is itself an environment, these are the environment's and the rest is the project's.
_OF_ENVIRONMENT = frozenset({"bin", "conda-meta", "etc", "include", "lib", "lib64", "pyvenv.cfg", "scripts", "share"})
# A directory that holds the file and one of the others is a repository to git, without any `.git`.
_HEAD = "HEAD"
_OF_REPOSITORY = frozenset({"objects", "refs", "commondir"})
_FILES = frozenset({"pyvenv.cfg", _HEAD})
_MARKERS = _ENVIRONMENT | _OF_REPOSITORY | {_HEAD}
_FOLDED = {folded(name): name for name in _MARKERS}


class GitRules(Protocol):
    """What git reads and runs of a project, by itself or for somebody who works there."""

    @property
    def held(self) -> tuple[str, ...]:
        """Paths below the project's root that stay as they are, each as a whole."""

    @property
    def starter(self) -> str:
        """What may run any other file of the project, in a few words; empty where nothing does."""

    @property
    def packages(self) -> frozenset[str]:
        """Folders below the root that are packages by what git follows."""

    def finish(self) -> None:
        """Make all of it known, where only what a start needs was looked for; may block."""

    def held_in(self, folder: str) -> tuple[str, ...]:
        """Further paths that stay as they are, for a repository in a folder below the root; may block."""


@dataclass(eq=False, repr=False)
class Protection:
    """Answers for one project and one list of changes."""

    project: ProjectFiles  # The project on the host
    present: Mapping[str, str]  # The paths that the changes leave in place, with the target of each that is a link
    subpaths: Iterable[str] = ()  # Paths below the root that a policy protects, with everything below them
    # A folder that is a repository of its own to further such paths; is asked when a change lies below it
    held_in: Callable[[str], tuple[str, ...]] = lambda _: ()

    def __post_init__(self) -> None:
        self._subpaths = tuple(self.subpaths)
        self._links: dict[str, list[str]] = {}
        self._proposed: dict[str, set[str]] = {}
        self._found: dict[str, frozenset[str]] = {}
        for path, target in self.present.items():
            self._propose(path)
            if target:
                self._links.setdefault(folded_path(path), []).append(target)

    def covers(self, path: str) -> bool:
        """Whether the path may not be changed at all."""
        if has_control(path) or is_protected_name(path) or self._look(path):
            return True
        if any(is_below(path, root) for root in self._subpaths):
            return True
        parts = path.split("/")
        return any(self._guards("/".join(parts[:depth]), parts[0]) for depth in range(len(parts)))

    def refuses_link(self, path: str, target: str) -> bool:
        """Whether a link may not stand there, because it could lead out of the project or to what is protected.

        Nor may it where it would bring something else to a protected path below it.
        """
        hides = any(is_below(root, path) for root in self._subpaths)
        return hides or is_protected_name(target) or not stays_inside(path, target, self._links_at)

    def _links_at(self, path: str) -> Iterator[str]:
        yield from self._links.get(folded_path(path), ())
        standing = self.project.target(path)
        if standing is not None:
            yield standing

    def _propose(self, path: str) -> None:
        parts = path.split("/")
        for depth, part in enumerate(parts):
            name = _FOLDED.get(folded(part), "")
            if name and (name not in _FILES or depth == len(parts) - 1):
                self._proposed.setdefault(folded_path("/".join(parts[:depth])), set()).add(name)

    def _look(self, path: str) -> bool:
        """Note what the directories on the way hold; whether the way ends at a link to an environment, or at one."""
        parts = path.split("/")
        for directory, handle in self.project.directories(path):
            if directory not in self._found:
                self._found[directory] = frozenset(name for name in _MARKERS if _is_there(handle, name))
                if directory and _is_there(handle, ".git"):
                    self._subpaths += self.held_in(directory)
            following = parts[directory.count("/") + 1 if directory else 0]
            if any(_leads_to(handle, f"{following}/{name}") for name in _ENVIRONMENT):
                return True
        return False

    def _guards(self, directory: str, first: str) -> bool:
        names = self._found.get(directory, frozenset()) | self._proposed.get(folded_path(directory), set())
        if _HEAD in names and names & _OF_REPOSITORY:
            return True
        return bool(names & _ENVIRONMENT) and (directory != "" or folded(first) in _OF_ENVIRONMENT)


def _is_there(directory: int, name: str) -> bool:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return name not in _FILES or not stat.S_ISDIR(found.st_mode)


def _leads_to(directory: int, path: str) -> bool:
    # Followed on purpose: the project's own link to an environment elsewhere is the way programs take to it.
    try:
        os.stat(path, dir_fd=directory)
    except OSError:
        return False
    return True


def present(changes: Iterable[FileChange | BoxChange]) -> dict[str, str]:
    """What changes leave in place, as `Protection` takes it."""
    return {c.path: c.target if c.kind == "link" else "" for c in changes if c.status != "deleted"}


# Patterns are compared as `folded` writes names, and may lie anywhere in the project. A star stands for any part of one
# name; one that ends with a slash means a folder with all that is in it. One that begins with a slash means the top
# alone, since elsewhere many name files of their own so.
_PATTERNS = {
    "an agent takes commands and settings from it": """
        .agents/ .aider* .amazonq/ .amp/ .augment/ .claude-plugin/ .claude/ .clinerules .codebuddy/ .codex/ .continue/
        .crush.json .cursor/ .factory/ .gemini/ .github/agents/ .github/hooks/ .goose* .iflow/ .junie/ .kiro/ .mcp.json
        .opencode/ .openhands/ .qwen/ .roo/ .trae/ .windsurf/ crush.json gptme.toml hooks/hooks.json mcp.json
        opencode.json*
    """,
    "an agent obeys it": """
        .cursorrules .github/copilot-instructions.md .github/instructions/ .github/prompts/ .goosehints .rules
        .windsurfrules agent.md agents.*.md agents.md claude.*.md claude.md gemini.md qwen.md warp.md
    """,
    "an editor runs what it says when the folder is opened": """
        *.code-workspace *.sublime-project *.xcodeproj/ *.xcworkspace/ .bbprojectd/ .classpath .clj-kondo/ .codesandbox/
        .dir-locals*.el .emacs.desktop .exrc .externaltoolbuilders/ .fleet/ .helix/ .idea/ .idx/ .kateproject* .lazy.lua
        .luarc.json .luarc.jsonc .lvimrc .merlin .nova/ .nvim.lua .nvimrc .project .replit .settings/ .stackblitzrc
        .theia/ .vim/ .vimrc .vimrc.local .vs/ .vscode/ .ycm_extra_conf.py .zed/ analysis_options.yaml cask hie.yaml
        nbproject/ omnisharp.json replit.nix rust-analyzer.toml
    """,
    "an editor starts a container as it says, and commands on this machine before": """
        .devcontainer.json .devcontainer/ .devfile.yaml .gitpod.yml devfile.yaml
    """,
    "git, or what it starts at a commit, runs what it says": """
        .commitlintrc* .cz.json .czrc .gitattributes .gitconfig .githooks/ .gitlint .gitmodules .husky/ .huskyrc*
        .lefthook* .lfsconfig .lintstagedrc* .overcommit.yml .pre-commit-config.yaml .pre-commit-hooks.yaml
        .simple-git-hooks.* captainhook.json cog.toml grumphp.y*ml lefthook*.y*ml lint-staged.config.* prek.toml
        simple-git-hooks.*
    """,
    "a build service runs it after a push, with that project's secrets": """
        .appveyor.yml .azure-pipelines/ .bitrise.yml .build.yml .buildkite/ .builds/ .circleci/ .cirrus.star .cirrus.yml
        .depot/ .drone.y*ml .eas/ .ebextensions/ .forgejo/ .gitea/ .github/actions/ .github/dependabot.y*ml
        .github/workflows/ .gitlab-ci*.yml .gitlab/ .harness/ .onedev-buildspec.yml .packit.yaml .platform.app.yaml
        .readthedocs.y*ml .releaserc* .renovaterc* .scrutinizer.yml .semaphore/ .space.kts .teamcity/ .tekton/
        .travis.yml .woodpecker* .zuul.d/ .zuul.yaml action.y*ml amplify.yml apprunner.yaml appspec.yml appveyor.yml
        azure-pipelines*.yml bitbucket-pipelines.yml bitrise.yml buildspec.yml ci_scripts/ cloudbuild.y*ml
        codemagic.yaml codeship-*.yml fly.toml heroku.yml jenkinsfile jenkinsfile.* netlify.toml nixpacks.toml now.json
        railway.json railway.toml render.yaml renovate.json* vercel.json wercker.yml wrangler.json* wrangler.toml
        zuul.d/
    """,
    "tools take variables from it, and with them what they run": """
        .env .env.* .flaskenv .renviron .rprofile
    """,
    "a shell, or what manages its tools, runs it when the folder is entered": """
        .autoenv* .config/mise/ .devenv* .direnv/ .mise* .mise/ .pdm-python .rtx* .sdkmanrc .tool-versions default.nix
        devbox.json devenv.* flake.nix mise*.toml pixi.toml rust-toolchain rust-toolchain.toml shell.nix
    """,
    "make, or a tool like it, runs what it says": """
        *.bzl *.cabal *.cmake *.csproj *.csproj.user *.dockerfile *.fsproj *.gemspec *.gradle *.gradle.kts *.mk *.nimble
        *.nims *.opam *.pkr.hcl *.pkr.json *.props *.rake *.rockspec *.sbt *.targets *.tf *.tf.json *.thor *.tofu
        *.tofu.json *.vbproj *.vcxproj /build.py /tasks.py /tasks/__init__.py appraisals bb.edn berksfile binding.gyp
        brewfile bsdmakefile buck build build.bazel build.boot build.clj build.mill build.ninja build.pl build.rs
        build.sc build.xml build.zig buildsrc/ cabal.project* capfile cargo.toml cdk.json cmakelists.txt
        cmakepresets.json cmakeuserpresets.json conanfile.* config.nims configure configure.ac containerfile
        containerfile.* cpanfile cross.toml dangerfile deps.edn deps/build.jl devspace.y*ml directory.build.props
        directory.build.rsp directory.build.targets dist.ini dockerfile dockerfile.* dodo.py dub.json dub.sdl dune
        dune-project dune-workspace earthfile erlang.mk fabfile.py fastlane/ gemfile gems.rb global.json gnumakefile
        gradle.properties gradle/*.toml gradle/wrapper/ gradlew gradlew.bat guardfile helmfile.y*ml hook/build.dart
        invoke.y*ml justfile kbuild latexmkrc makefile makefile.* makefile.pl manage.py meson.build mix.exs module.bazel
        mvnw mvnw.cmd myocamlbuild.ml nim.cfg noxfile.py nuget.config package.swift package.yaml package@swift-*.swift
        pavement.py podfile pom.xml premake5.lua profiles.clj project.clj project/*.properties project/*.scala
        pulumi.y*ml rakefile rakefile.rb rebar.config* sconscript sconstruct serverless.y*ml setup.hs setup.lhs setup.py
        shadow-cljs.edn shard.yml skaffold.y*ml stack.yaml steepfile taskfile.y*ml terragrunt.hcl thorfile tiltfile
        tools/bazel tox.ini user.clj vagrantfile workspace workspace.bazel workspace.bzlmod wscript xmake.lua
    """,
    "npm, or a tool like it, runs the scripts that it names": """
        .npmrc .pnp.* .pnpmfile.* .yarn/ .yarnrc* angular.json bunfig.toml composer.json deno.json* lerna.json
        node_modules/.bin/ nx.json package.json package.json5 pnpm-workspace.yaml project.json rush.json turbo.json
    """,
    "JavaScript tools and editors run it as their settings": """
        *.conf.cjs *.conf.js *.conf.mjs *.conf.ts *.config.cjs *.config.cts *.config.js *.config.mjs *.config.mts
        *.config.ts babel.config.json brunch-config.* ember-cli-build.js gruntfile.* gulpfile.* jest.config.json
        setuptests.* tslint.json typedoc.json vitest.workspace.* webpack.mix.js
    """,
    "pytest runs it before any test": """
        conftest.py
    """,
    "pytest, or a tool that builds or checks, takes from it what to load and run": """
        airflow.cfg airflow_local_settings.py alembic.ini alembic/env.py celeryconfig.py features/environment.py
        gunicorn.conf.py hatch.toml hatch_build.py locustfile.py migrations/env.py mypy.ini pdm_build.py pipfile
        poetry.toml pylintrc pylintrc.toml pyproject.toml pytest.ini pytest.toml scrapy.cfg setup.cfg tox.toml uv.toml
    """,
    "Jupyter, IPython or what makes documentation runs it as its settings": """
        .ipython/ .jupyter/ .jupytext* /conf.py _bookdown.y*ml _config.y*ml _extensions/ _plugins/ _quarto.y*ml
        book.toml doc/conf.py docs/conf.py documentation/conf.py ipython_config.py ipython_kernel_config.py
        jupyter_*config.json jupyter_*config.py jupytext.json jupytext.py jupytext.toml jupytext.y*ml mkdocs.y*ml
        myst.yml source/conf.py
    """,
    "an interpreter, or a tool of its language, runs it when it starts": """
        _targets.r autoexec.sas config/config.exs config/runtime.exs ecs.php finish.m pathdef.m phpcs.xml*
        phpstan*.neon* phpunit.xml* profile.do psalm.xml* rails_helper.rb rector.php renv/activate.r spec_helper.rb
        startup.m test/test_helper.rb test_helper.exs
    """,
    "Python runs it when it starts": """
        *.pth sitecustomize.* sitecustomize/ usercustomize.* usercustomize/
    """,
    "a debugger runs its lines when it starts": """
        .gdbinit .lldbinit .pdbrc
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
    "a tool that starts servers or pipelines runs what it says": """
        *.smk .dvc/ .procfile .tmuxinator.y*ml .tmuxp.y*ml ansible.cfg callback_plugins/ compose*.y*ml config.ru
        dags/*.py dbt_project.yml docker-compose*.y*ml dvc.yaml filter_plugins/ lookup_plugins/ main.nf mlproject
        mprocs.y*ml nextflow.config process-compose*.y*ml procfile procfile.dev profiles.yml snakefile supervisord.conf
    """,
    "a web server obeys it": """
        .htaccess .user.ini
    """,
}
_REASONS = tuple(_PATTERNS)


def _expression(pattern: str) -> str:
    name = re.escape(pattern.strip("/")).replace(r"\*", "[^/]*")
    name = f"(?<!/){name}" if pattern.startswith("/") else name
    return f"{name}(?:/.*)?" if pattern.endswith("/") else name


# All at once, since a run may change tens of thousands of files.
_FITTING = late_pattern(
    "(?:^|.*/)(?:"
    + "|".join(f"({'|'.join(map(_expression, patterns.split()))})" for patterns in _PATTERNS.values())
    + ")",
    re.DOTALL,
)

# Of what nobody runs: texts, tables, pictures, sound. Packages are installed from lists of them that are texts, and
# pytest runs texts whose names begin like those of tests.
_DATA = late_pattern(
    r"(?!test[^/]*\.txt)[^/]+\.(?:adoc|arrow|avif|avro|bib|bmp|csv|docx|feather|flac|geojson|gif|h5|hdf5|heic|ico|jpe?g|"
    r"jsonl|log|md|mov|mp3|mp4|nc|ndjson|npy|npz|odt|ods|ogg|orc|parquet|pdf|png|pptx|psv|rst|svg|tex|tiff?|tsv|txt|wav|"
    r"webm|webp|xlsx)"
)
_NO_TEXT = late_pattern(r".*(?:require|constraint|depend|cmakelists).*\.txt")


def is_data(path: str) -> bool:
    """Whether a file is known to be what nobody runs, by its name: one that is no program by its mode or beginning."""
    whole = folded_path(path)
    return _DATA.fullmatch(whole.rpartition("/")[2]) is not None and not _NO_TEXT.fullmatch(whole)


def called_by(starter: str) -> str:
    """The reason of a file that something of the project may run."""
    return f"{starter} may run it"


_OF_JYTHON = "org"
"""What `copy` and `pickle` import where it is there."""

_TRIED = frozenset(
    {"brotli", "brotlicffi", "cchardet", "chardet", "colorama", "orjson", "simplejson", "socks", "ujson"}
) | {_OF_JYTHON}
"""Modules that the standard library, or packages that nearly everybody has, import where they are there."""

HIDDEN = "tools take their settings from hidden files, and with them what they run"
# The rest of what is hidden: what a tool only leaves out, keeps for itself, or shows to people.
_HARMLESS = late_pattern(
    r"(?:.*/)?(?:\.(?:[\w-]*ignore|editorconfig|gitkeep|keep|mailmap|nojekyll)|\.coverage|"
    r"\.(?:github|hypothesis|ipynb_checkpoints|mypy_cache|pytest_cache|ruff_cache)/[^.].*)"
)
SHADOWS = "Python may take it for the installed package of that name"
STANDS_IN = "Python that is started there takes it for the standard library's module of that name"


def runs_by_itself(
    path: str,
    *,
    added: bool,
    installed: Callable[[str], bool] = is_library,
    is_package: Callable[[str], bool] = lambda _: False,
) -> str:
    """Why somebody would run a file, or obey it, whom nobody asked to, in half a sentence; empty where nobody would.

    Args:
        path: Relative to the project root, with `/`.
        added: Whether it is new: a module may bear the name of an installed one, and be what that was installed from.
        installed: Whether a module of a name is there outside of the project.
        is_package: Whether a folder is a package of the person's, whose modules have any name: they are not found by
            that name alone, as those of a folder are that somebody works in or starts a script from.
    """
    fitting = _FITTING.fullmatch(folded_path(path))
    if fitting is not None and fitting.lastindex is not None:
        return _REASONS[fitting.lastindex - 1]
    if (path.startswith(".") or "/." in path) and not _HARMLESS.fullmatch(path):
        return HIDDEN
    folder, module = _module(path) if added else ("", "")
    if not module or (folder and is_package(folder)):
        return ""
    if folder and (module == _OF_JYTHON or module in sys.stdlib_module_names):
        return STANDS_IN
    return SHADOWS if module in _TRIED or installed(module) else ""


def _module(path: str) -> tuple[str, str]:
    """The folder in which Python would find a file, and the name by which; no name for what it would not import."""
    folder, _, file = path.rpartition("/")
    name, _, ending = file.partition(".")
    if ending not in ("py", "pyc", "so") and not ending.endswith((".so", ".pyc")):
        return "", ""
    if folder.endswith("__pycache__"):
        return "", ""
    if name == "__init__":
        folder, _, name = folder.rpartition("/")
    return (folder, name) if name.isidentifier() else ("", "")
