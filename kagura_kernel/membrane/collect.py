"""From a box's workspace to a list of changes that a person can read and decide on.

What a box says about its files is the box's word: paths are checked, contents are taken as they come and named by
their hash here, sizes are bounded here. Nothing of the project is touched.

Files that some program of the host runs, or obeys, without anybody naming them: one list, each with its reason.

A person who opens the folder, commits, runs the tests or starts a kernel runs them too, outside of any box. So they
wait for a word where other changes are applied at once, and stand first where all wait.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kagura_kernel.domain.changes import ChangeState, ChangeStatus, FileChange, in_order
from kagura_kernel.domain.errors import BoxFileError, WorkspaceTooLarge
from kagura_kernel.domain.files import FileSystem
from kagura_kernel.domain.imports import is_library
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.difference import (
    MAX_DIFF_BYTES,
    MAX_DIFF_INPUT,
    MAX_RUN_DIFF_BYTES,
    is_text,
    not_shown,
    size_of,
    unified_diff,
)
from kagura_kernel.membrane.names import folded_path
from kagura_kernel.membrane.project import HostState, ProjectFiles, UnsafePath, link_hash, split_path
from kagura_kernel.membrane.protection import GitRules, Protection, present
from kagura_kernel.sandbox.backend import Box, BoxChange

_PIECE = 1 << 20


class SecretFound(Exception):
    """A content holds a live secret; nothing of it is kept."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One content that is stored.

    Attributes:
        sha256: Its name in the store.
        size: Bytes, as they came.
        content: The bytes, if they are few enough for a diff.
    """

    sha256: str
    size: int
    content: bytes | None


class Contents:
    """Takes the contents of one run, however often it is asked.

    Args:
        blobs: Where they go.
        limit_bytes: What the run may store in all. A content that it has stored before costs nothing.
        scrubber: Knows the secrets that no stored content may hold.
    """

    def __init__(self, blobs: BlobStore, limit_bytes: int, scrubber: Scrubber | None = None) -> None:
        self._blobs = blobs
        self._limit = limit_bytes
        self._scrubber = scrubber
        self._stored = 0
        self._known: set[str] = set()
        self._sizes: dict[str, int] = {}

    async def take(self, files: FileSystem, told: BoxChange) -> Taken:
        """Read and store one file; what a box tells of its size is the most that is read.

        Raises:
            BoxFileError: it cannot be read, or has grown since it was told; nothing of it is kept.
            WorkspaceTooLarge: the run has stored as much as it may.
            SecretFound: it holds a live secret.
        """
        kept = bytearray()
        most = max(0, told.size)
        digest = hashlib.sha256()
        search = self._scrubber.search() if self._scrubber is not None else None
        # Probably what is stored already; only its hash can tell, at its end.
        looks_known = self._sizes.get(told.path) == most

        async def pieces() -> AsyncIterator[bytes]:
            offset = 0
            ended = False
            while not ended:
                asked = min(_PIECE, most - offset + 1)
                piece = await files.read(told.path, offset=offset, limit=asked)
                if search is not None and search.feed(piece):
                    raise SecretFound
                digest.update(piece)
                offset += len(piece)
                if offset > most:
                    raise BoxFileError(told.path, "EFBIG", "it grew while it was read")
                # Less than was asked for is the end, so that a small file takes one question.
                ended = len(piece) < asked
                is_new = digest.hexdigest() not in self._known if ended else not looks_known
                if is_new and self._stored + offset > self._limit:
                    raise WorkspaceTooLarge(told.path, self._stored + offset, self._limit)
                if len(kept) <= MAX_DIFF_INPUT:
                    kept.extend(piece[: MAX_DIFF_INPUT + 1 - len(kept)])
                yield piece

        sha256, size = await self._blobs.put(pieces())
        if sha256 not in self._known:
            self._known.add(sha256)
            self._stored += size
        self._sizes[told.path] = size
        return Taken(sha256, size, bytes(kept) if len(kept) <= MAX_DIFF_INPUT else None)


# Patterns are compared as `folded` writes names, and may lie anywhere in the project. A star stands for any part of one
# name; one that ends with a slash means a folder with all that is in it. One that begins with a slash means the top
# alone, since elsewhere many name files of their own so.
_PATTERNS = {
    "an agent takes commands and settings from it": """
        .agents/ .aider* .amazonq/ .amp/ .augment/ .claude-plugin/ .claude/ .clinerules .codebuddy/
        .codex/ .continue/ .crush.json .cursor/ .factory/ .gemini/ .github/agents/ .github/hooks/
        .goose* .iflow/ .junie/ .kiro/ .mcp.json .opencode/ .openhands/ .qwen/ .roo/ .trae/
        .windsurf/ crush.json gptme.toml hooks/hooks.json mcp.json opencode.json*
    """,
    "an agent obeys it": """
        .cursorrules .github/copilot-instructions.md .github/instructions/ .github/prompts/
        .goosehints .rules .windsurfrules agent.md agents.*.md agents.md claude.*.md claude.md
        gemini.md qwen.md warp.md
    """,
    "an editor runs what it says when the folder is opened": """
        *.code-workspace *.sublime-project *.xcodeproj/ *.xcworkspace/ .bbprojectd/ .classpath
        .clj-kondo/ .codesandbox/ .dir-locals*.el .emacs.desktop .exrc .externaltoolbuilders/
        .fleet/ .helix/ .idea/ .idx/ .kateproject* .lazy.lua .luarc.json .luarc.jsonc .lvimrc
        .merlin .nova/ .nvim.lua .nvimrc .project .replit .settings/ .stackblitzrc .theia/ .vim/
        .vimrc .vimrc.local .vs/ .vscode/ .ycm_extra_conf.py .zed/ analysis_options.yaml cask
        hie.yaml nbproject/ omnisharp.json replit.nix rust-analyzer.toml
    """,
    "an editor starts a container as it says, and commands on this machine before": """
        .devcontainer.json .devcontainer/ .devfile.yaml .gitpod.yml devfile.yaml
    """,
    "git, or what it starts at a commit, runs what it says": """
        .commitlintrc* .cz.json .czrc .gitattributes .gitconfig .githooks/ .gitlint .gitmodules .husky/
        .huskyrc* .lefthook* .lfsconfig .lintstagedrc* .overcommit.yml .pre-commit-config.yaml
        .pre-commit-hooks.yaml .simple-git-hooks.* captainhook.json cog.toml grumphp.y*ml lefthook*.y*ml
        lint-staged.config.* prek.toml simple-git-hooks.*
    """,
    "a build service runs it after a push, with that project's secrets": """
        .appveyor.yml .azure-pipelines/ .bitrise.yml .build.yml .buildkite/ .builds/ .circleci/
        .cirrus.star .cirrus.yml .depot/ .drone.y*ml .eas/ .ebextensions/ .forgejo/ .gitea/
        .github/actions/ .github/dependabot.y*ml .github/workflows/ .gitlab-ci*.yml .gitlab/
        .harness/ .onedev-buildspec.yml .packit.yaml .platform.app.yaml .readthedocs.y*ml
        .releaserc* .renovaterc* .scrutinizer.yml .semaphore/ .space.kts .teamcity/ .tekton/
        .travis.yml .woodpecker* .zuul.d/ .zuul.yaml action.y*ml amplify.yml apprunner.yaml
        appspec.yml appveyor.yml azure-pipelines*.yml bitbucket-pipelines.yml bitrise.yml
        buildspec.yml ci_scripts/ cloudbuild.y*ml codemagic.yaml codeship-*.yml fly.toml heroku.yml
        jenkinsfile jenkinsfile.* netlify.toml nixpacks.toml now.json railway.json railway.toml
        render.yaml renovate.json* vercel.json wercker.yml wrangler.json* wrangler.toml zuul.d/
    """,
    "tools take variables from it, and with them what they run": """
        .env .env.* .flaskenv .renviron .rprofile
    """,
    "a shell, or what manages its tools, runs it when the folder is entered": """
        .autoenv* .config/mise/ .devenv* .direnv/ .mise* .mise/ .pdm-python .rtx* .sdkmanrc
        .tool-versions default.nix devbox.json devenv.* flake.nix mise*.toml pixi.toml
        rust-toolchain rust-toolchain.toml shell.nix
    """,
    "make, or a tool like it, runs what it says": """
        *.bzl *.cabal *.cmake *.csproj *.csproj.user *.fsproj *.gemspec *.gradle *.gradle.kts *.mk
        *.nimble *.nims *.opam *.props *.rake *.rockspec *.sbt *.targets *.thor *.vbproj *.vcxproj
        .bazel* .bundle/ .cargo/ .justfile .jvmopts .kitchen.yml .mvn/ .phan/ .qmake.conf .sbtopts
        .terraform/ /build.py /tasks.py /tasks/__init__.py appraisals bb.edn berksfile binding.gyp
        brewfile buck build build.bazel build.boot build.clj build.mill build.ninja build.pl
        build.rs build.sc build.xml build.zig buildsrc/ cabal.project* capfile cargo.toml cdk.json
        cmakelists.txt cmakepresets.json cmakeuserpresets.json conanfile.* config.nims configure
        configure.ac cpanfile cross.toml dangerfile deps.edn deps/build.jl devspace.y*ml
        directory.build.props directory.build.rsp directory.build.targets dist.ini dodo.py dub.json
        dub.sdl dune dune-project dune-workspace earthfile erlang.mk fabfile.py fastlane/ gemfile
        gems.rb global.json gnumakefile gradle.properties gradle/*.toml gradle/wrapper/ gradlew
        gradlew.bat guardfile helmfile.y*ml hook/build.dart invoke.y*ml justfile kbuild makefile
        makefile.* makefile.pl manage.py meson.build mix.exs module.bazel mvnw mvnw.cmd
        myocamlbuild.ml nim.cfg noxfile.py nuget.config package.swift package.yaml
        package@swift-*.swift pavement.py podfile pom.xml premake5.lua profiles.clj project.clj
        project/*.properties project/*.scala pulumi.y*ml rakefile rakefile.rb rebar.config*
        sconscript sconstruct serverless.y*ml setup.hs setup.lhs setup.py shadow-cljs.edn shard.yml
        skaffold.y*ml stack.yaml steepfile taskfile.y*ml terragrunt.hcl thorfile tiltfile
        tools/bazel tox.ini user.clj vagrantfile workspace workspace.bazel workspace.bzlmod wscript
        xmake.lua
    """,
    "npm, or a tool like it, runs the scripts that it names": """
        .npmrc .pnp.* .pnpmfile.* .yarn/ .yarnrc* angular.json bunfig.toml composer.json deno.json*
        lerna.json node_modules/.bin/ nx.json package.json package.json5 pnpm-workspace.yaml
        project.json rush.json turbo.json
    """,
    "JavaScript tools and editors run it as their settings": """
        *.conf.cjs *.conf.js *.conf.mjs *.conf.ts *.config.cjs *.config.cts *.config.js *.config.mjs
        *.config.mts *.config.ts .*rc.cjs .*rc.js .*rc.mjs .*rc.ts .babelrc* .c8rc* .eleventy.js
        .eslintrc* .graphqlrc* .markdownlint-cli2.* .mocharc* .nycrc* .parcelrc .postcssrc*
        .prettierrc* .release-it.* .remarkrc* .storybook/ .stylelintrc* .swcrc .taprc
        babel.config.json brunch-config.* ember-cli-build.js gruntfile.* gulpfile.* jest.config.json
        setuptests.* tslint.json typedoc.json webpack.mix.js
    """,
    "pytest runs it before any test": """
        conftest.py
    """,
    "pytest, or a tool that builds or checks, takes from it what to load and run": """
        .coveragerc* .mypy.ini .pytest.ini .pytest.toml airflow.cfg airflow_local_settings.py
        alembic.ini alembic/env.py celeryconfig.py features/environment.py gunicorn.conf.py
        hatch.toml hatch_build.py locustfile.py migrations/env.py mypy.ini pdm_build.py pipfile
        poetry.toml pyproject.toml pytest.ini pytest.toml scrapy.cfg setup.cfg tox.toml uv.toml
    """,
    "Jupyter, IPython or what makes documentation runs it as its settings": """
        .ipython/ .jupyter/ .jupytext* /conf.py _bookdown.y*ml _config.y*ml _extensions/ _plugins/
        _quarto.y*ml book.toml doc/conf.py docs/conf.py documentation/conf.py ipython_config.py
        ipython_kernel_config.py jupyter_*config.json jupyter_*config.py jupytext.json jupytext.py
        jupytext.toml jupytext.y*ml mkdocs.y*ml myst.yml source/conf.py
    """,
    "an interpreter, or a tool of its language, runs it when it starts": """
        .busted .credo.exs .erlang .formatter.exs .ghci .iex.exs .irbrc .lintr .luacheckrc
        .ocamlinit .octaverc .php-cs-fixer* .php_cs* .proverc .pryrc .radian_profile .rdata .rspec
        .rubocop.yml .simplecov .solargraph.yml _targets.r autoexec.sas config/config.exs
        config/runtime.exs ecs.php finish.m pathdef.m phpcs.xml* phpstan*.neon* phpunit.xml*
        profile.do psalm.xml* rails_helper.rb rector.php renv/activate.r spec_helper.rb startup.m
        test/test_helper.rb test_helper.exs
    """,
    "Python runs it when it starts": """
        *.pth sitecustomize.* sitecustomize/ usercustomize.* usercustomize/
    """,
    "a debugger runs its lines when it starts": """
        .gdbinit .lldbinit .pdbrc
    """,
    "a tool that looks at code runs what it says": """
        .flake8 .pylintrc .pylintrc.toml .sqlfluff .tflint.hcl pylintrc pylintrc.toml
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
        *.smk .dvc/ .procfile .tmuxinator.y*ml .tmuxp.y*ml ansible.cfg callback_plugins/
        compose*.y*ml config.ru dags/*.py dbt_project.yml docker-compose*.y*ml dvc.yaml
        filter_plugins/ lookup_plugins/ main.nf mlproject mprocs.y*ml nextflow.config
        process-compose*.y*ml procfile procfile.dev profiles.yml snakefile supervisord.conf
    """,
    "a web server obeys it": """
        .htaccess .user.ini
    """,
    "a shell, or another program of every day, obeys it where a home is, or has a link to it": """
        .ackrc .ansible.cfg .aws/config .bash_* .bashrc .config/autostart/ .config/fish/
        .config/git/ .config/nvim/ .config/systemd/ .cshrc .docker/config.json .emacs .emacs.d/
        .forward .gnupg/ .hgrc .inputrc .kshrc .kube/config .lessfilter .local/bin/ .login .mailcap
        .profile .psqlrc .pythonrc* .screenrc .sqliterc .ssh/ .tcshrc .terraformrc .tmux.conf
        .xinitrc .xprofile .xsession* .zlogin .zlogout .zprofile .zshenv .zshrc
    """,
}
_REASONS = tuple(_PATTERNS)


def _expression(pattern: str) -> str:
    name = re.escape(pattern.strip("/")).replace(r"\*", "[^/]*")
    name = f"(?<!/){name}" if pattern.startswith("/") else name
    return f"{name}(?:/.*)?" if pattern.endswith("/") else name


# All at once, since a run may change tens of thousands of files.
_FITTING = re.compile(
    "(?:^|.*/)(?:"
    + "|".join(f"({'|'.join(map(_expression, patterns.split()))})" for patterns in _PATTERNS.values())
    + ")",
    re.DOTALL,
)

CALLED = "a hook or an alias of git may run it"
_OF_JYTHON = "org"
"""What `copy` and `pickle` import where it is there."""

_TRIED = frozenset(
    {"brotli", "brotlicffi", "cchardet", "chardet", "colorama", "orjson", "simplejson", "socks", "ujson"}
) | {_OF_JYTHON}
"""Modules that the standard library, or packages that nearly everybody has, import where they are there."""

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
    folder, module = _module(path) if added else ("", "")
    if not folder:
        return SHADOWS if module and (module in _TRIED or installed(module)) else ""
    stands_in = module == _OF_JYTHON or module in sys.stdlib_module_names
    return STANDS_IN if stands_in and not is_package(folder) else ""


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
    return folder, name


MAX_GLANCES = 100
"""Protected files whose content is read in one collection, so that a person can see what was tried."""


HOLDS_LEASED = "it holds a leased credential"
"""The reason of a change that is protected because its name, its target or its content holds a live secret."""

AT_ONCE = 16
"""Files of the project that are looked at before the first of them is compared; their contents are in memory."""

SHORT = 8 * 1024
"""Bytes of both sides up to which a diff takes less than asking a thread for it."""

LEFT = "it was left in the box"
"""The reason of a change whose content was not brought out before something ended the collection."""

_OLD_HOLDS_LEASED = "… no diff is shown: the project's own file holds a leased credential\n"


@dataclass(frozen=True, slots=True)
class _Compared:
    """A diff that has been told, and of what."""

    old_sha256: str
    new_sha256: str
    diff: str
    binary: bool


@dataclass(slots=True)
class _Round:
    """One collection: what it knows, and what it has read so far."""

    protection: Protection
    ours: Mapping[str, str]
    weight: int = 0
    glances: int = 0
    names: set[str] = field(default_factory=set)

    def may_glance(self, told: BoxChange) -> bool:
        """Whether a protected file's content is shown all the same: a whole environment is not read for nothing."""
        if told.size > MAX_DIFF_BYTES or self.glances >= MAX_GLANCES:
            return False
        self.glances += 1
        return True

    def unlike_others(self, name: str) -> str:
        """The name, numbered when another scrubbed name has become the same."""
        numbered, number = name, 1
        while numbered in self.names:
            number += 1
            numbered = f"{name} {number}"
        self.names.add(numbered)
        return numbered


class Collector:
    """Collects one run's changes; may be asked again as the run goes on.

    Args:
        project: The project on the host.
        blobs: Where new contents go.
        since: When the run began, seconds since 1970: what changed in the project later than that is a conflict.
        protected: Relative paths that never change, beside those that `Protection` knows.
        limit_bytes: How much all new contents of the run may weigh together.
        diff_bytes: How much all its diffs may; with 0 none is made, None is the usual.
        scrubber: Knows the secrets that neither the project nor the store may get.
        git: What git reads and runs of the project; None where nobody asked it.
    """

    def __init__(
        self,
        project: ProjectFiles,
        blobs: BlobStore,
        *,
        since: float,
        protected: tuple[str, ...],
        limit_bytes: int,
        diff_bytes: int | None = None,
        scrubber: Scrubber | None = None,
        git: GitRules | None = None,
    ) -> None:
        self._project = project
        self._contents = Contents(blobs, limit_bytes, scrubber)
        self._scrubber = scrubber
        self._since = since
        self._protected = protected
        self._git = git
        self._made: set[str] = set()
        self._limit = limit_bytes
        self._compared: dict[str, _Compared] = {}
        self._diff_room = MAX_RUN_DIFF_BYTES if diff_bytes is None else diff_bytes

    async def collect(
        self, box: Box, ours: Mapping[str, str], into: list[FileChange] | None = None
    ) -> list[FileChange]:
        """What differs now, sorted by path; what somebody would run unasked stands first.

        A file that cannot be read, or grows while it is read, is told as protected, and its diff says why. Of what is
        protected, large files and most of many are told without their content. What holds a live secret, in its name,
        its target or its content, is protected, nothing of it is stored, and its name is told without the secret.

        Args:
            box: A box that is still running.
            ours: Hash of each path that this run has already put into the project, so that it is no conflict.
            into: Filled and returned. Whatever ends the collection early, it has all that differs then: what was
                brought out, and what was not as protected.

        Raises:
            WorkspaceTooLarge: the new contents weigh more than the limit.
            SandboxUnavailable: the box is gone, and its workspace with it.
        """
        told = [one for one in await box.changes() if _is_safe(one.path)]
        held_in = self._git.held_in if self._git is not None else lambda _: ()
        this = _Round(Protection(self._project, present(told), self._protected, held_in), ours)
        changes: list[FileChange] = [] if into is None else into
        done = 0
        try:
            while done < len(told):
                few = told[done : done + AT_ONCE]
                # One thread for a few of them: of many small files, asking for threads would take most of the time.
                looked = await asyncio.to_thread(self._look_at, few, this.protection)
                for one, (old, protected) in zip(few, looked, strict=True):
                    change = (
                        self._without_secret(one, this)
                        if self._is_secret(one)
                        else await self._one(box, one, this, old, protected=protected)
                    )
                    if change is not None:
                        changes.append(change)
                    done += 1
        finally:
            changes += [self._left(one, this) for one in told[done:]]
            changes[:] = in_order(changes)
        return changes

    def _left(self, told: BoxChange, this: _Round) -> FileChange:
        if self._is_secret(told):
            return self._without_secret(told, this)
        mode = told.mode & 0o777
        return FileChange(
            told.path, told.status, told.kind, told.size, mode, target=told.target, state="protected", reason=LEFT
        )

    def _is_secret(self, told: BoxChange) -> bool:
        return self._holds(told.path) or self._holds(told.target)

    async def _one(
        self, box: Box, told: BoxChange, this: _Round, old: HostState, *, protected: bool
    ) -> FileChange | None:
        state: ChangeState = "protected" if protected else self._verdict(told, old, this.ours)
        if told.status == "deleted":
            if not old.kind:
                return None
            change = FileChange(told.path, "deleted", old_sha256=old.sha256, state=state)
            change = replace(change, kind="link") if old.kind == "link" else change
            return await self._with_diff(change, old, b"")
        status: ChangeStatus = "modified" if old.kind else "added"
        mode = told.mode & 0o777
        change = FileChange(told.path, status, told.kind, told.size, mode, old.sha256, target=told.target, state=state)
        runs = self._runs(told.path, added=status == "added")
        if told.kind == "link" and not runs:
            # It may lead to a package, which then is one under this name too.
            runs = self._runs(f"{told.path}/__init__.py", added=status == "added")
        change = replace(change, runs=runs)
        if protected and not this.may_glance(told):
            return replace(change, diff="… protected, and never applied: its content was left in the box\n")
        try:
            new = await self._take(box, told, this)
        except (SecretFound, BoxFileError) as error:
            return _untaken(change, error)
        if new.sha256 == old.sha256 and (told.kind == "link" or _executable(mode) == _executable(old.mode)):
            return None
        change = replace(change, size=new.size, new_sha256=new.sha256)
        return await self._with_diff(change, old, new.content)

    def _runs(self, path: str, *, added: bool) -> str:
        if added and path.endswith("/__init__.py"):
            self._made.add(path)
        called = self._git is not None and self._git.may_run(path)
        return runs_by_itself(path, added=added, is_package=self._is_package) or (CALLED if called else "")

    def _is_package(self, folder: str) -> bool:
        # Otherwise a run could make one of a folder first.
        said = f"{folder}/__init__.py"
        return said not in self._made and self._old_state(said).kind == "file"

    def _holds(self, content: str | bytes | None) -> bool:
        return self._scrubber is not None and bool(content) and self._scrubber.holds(os.fsencode(content or b""))

    def _without_secret(self, told: BoxChange, this: _Round) -> FileChange:
        shown = self._scrubber.scrub if self._scrubber is not None else str
        path, target = this.unlike_others(shown(told.path)), shown(told.target)
        mode = told.mode & 0o777
        change = FileChange(path, told.status, told.kind, told.size, mode, target=target, state="protected")
        return replace(change, reason=HOLDS_LEASED)

    def _look_at(self, few: Sequence[BoxChange], protection: Protection) -> list[tuple[HostState, bool]]:
        return [self._look(one, protection) for one in few]

    def _look(self, told: BoxChange, protection: Protection) -> tuple[HostState, bool]:
        old = self._old_state(told.path)
        try:
            protected = old.kind == "other" or protection.covers(told.path)
            if told.kind == "link" and told.status != "deleted":
                protected = protected or protection.refuses_link(told.path, told.target)
        except OSError:
            # What cannot be looked at cannot be cleared either.
            return old, True
        return old, protected

    def _old_state(self, path: str) -> HostState:
        try:
            return self._project.state(path, keep=MAX_DIFF_INPUT)
        except OSError:
            # Something unreadable or unwalkable stands there; it is in the way, and that is all we need to know.
            return HostState(kind="other", changed=float("inf"))

    async def _take(self, box: Box, told: BoxChange, this: _Round) -> Taken:
        if told.kind == "link":
            return Taken(link_hash(told.target), len(told.target), os.fsencode(told.target))
        this.weight += max(0, told.size)
        if this.weight > self._limit:
            raise WorkspaceTooLarge(told.path, this.weight, self._limit)
        return await self._contents.take(box.files, told)

    def _verdict(self, told: BoxChange, old: HostState, ours: Mapping[str, str]) -> ChangeState:
        if old.kind and old.changed > self._since and ours.get(told.path) != old.sha256:
            return "conflict"
        return "proposed"

    async def _with_diff(self, change: FileChange, old: HostState, new: bytes | None) -> FileChange:
        if change.size + old.size < SHORT:
            return self._compare(change, old, new)
        return await asyncio.to_thread(self._compare, change, old, new)

    def _compare(self, change: FileChange, old: HostState, new: bytes | None) -> FileChange:
        if self._holds(old.content):
            return replace(change, diff=_OLD_HOLDS_LEASED)
        known = self._compared.get(change.path)
        if known is None or (known.old_sha256, known.new_sha256) != (change.old_sha256, change.new_sha256):
            diff = _diff(change, old, new, is_room=self._diff_room >= MAX_DIFF_BYTES)
            known = _Compared(change.old_sha256, change.new_sha256, diff or "", binary=diff is None)
            self._diff_room = max(0, self._diff_room - size_of(known.diff))
            self._compared[change.path] = known
        return replace(change, diff=known.diff, binary=known.binary)


def _untaken(change: FileChange, error: SecretFound | BoxFileError) -> FileChange:
    if isinstance(error, SecretFound):
        return replace(change, state="protected", reason=HOLDS_LEASED)
    return replace(change, state="protected", diff=f"… nothing of it was taken: {error.reason}\n")


def _is_safe(path: str) -> bool:
    try:
        split_path(path)
    except UnsafePath:
        return False
    return True


def _executable(mode: int) -> bool:
    # Like git: of a file's permissions only this one is content; the rest follows the host's umask.
    return bool(mode & 0o100)


def _diff(change: FileChange, old: HostState, new: bytes | None, *, is_room: bool) -> str | None:
    """The diff, or what stands for it when there is no room; None where either side is no text."""
    before = old.content if old.kind else b""
    if before is None or new is None or not is_text(before) or not is_text(new):
        return None
    if change.kind == "link" or old.kind == "link":
        before, new = before + b"\n" if before else b"", new + b"\n" if new else b""
    return unified_diff(change.path, before, new) if is_room else not_shown(len(before), len(new))
