import pytest

from kagura_kernel.patterns.startup_settings import GitSetting, read_settings, runs_more, starts_known

PROJECT, REPOSITORY = "/home/ann/shop", "/home/ann/shop/.git"
CONFIG = f"{REPOSITORY}/config"


def judged(name: str, value: str, file: str = CONFIG) -> str:
    return runs_more([GitSetting(file, name, value)], ["pre-push.sample"], PROJECT, REPOSITORY, PROJECT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.bare", "false"),
        ("user.name", "Ann"),
        ("remote.origin.url", "git@example.org:shop.git"),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("branch.main.merge", "refs/heads/main"),
        ("push.default", "simple"),
        ("push.autosetupremote", "true"),
        ("credential.helper", "osxkeychain"),
        ("credential.helper", "gcloud.sh"),
        ("credential.https://example.org.helper", ""),
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.process", "git-lfs filter-process"),
        ("filter.lfs.required", "true"),
        ("core.fsmonitor", "true"),
        ("alias.push", "!evil"),
    ],
)
def test_what_runs_nothing_of_the_project_is_harmless(name, value):
    assert judged(name, value) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.hookspath", ".husky"),
        ("core.sshcommand", "./ssh.sh"),
        ("core.fsmonitor", "./watch.sh"),
        ("core.askpass", "ask"),
        ("credential.helper", "!./helper"),
        ("credential.helper", "/home/ann/shop/helper"),
        ("filter.strip.clean", "python strip.py"),
        ("filter.lfs.clean", "git-lfs clean -- %f; evil"),
        ("gpg.program", "./sign"),
        ("gpg.ssh.program", "sign"),
        ("commit.gpgsign", "true"),
        ("remote.origin.push", "+refs/heads/*:refs/heads/*"),
        ("remote.origin.mirror", "true"),
        ("remote.origin.receivepack", "evil"),
        ("url.https://evil.example/.pushinsteadof", "https://example.org/"),
        ("push.recursesubmodules", "on-demand"),
        ("push.default", "matching"),
        ("protocol.ext.allow", "always"),
        ("core.alternaterefscommand", "./refs.sh"),
        ("gc.recentobjectshook", "./recent.sh"),
        ("hook.lint.command", "./lint.sh"),
    ],
)
def test_what_names_a_program_or_bends_a_push_is_told(name, value):
    assert judged(name, value) == f"git's setting {name} may change what it runs or where it pushes"


def test_hooks_are_told_and_samples_are_none():
    assert runs_more([], ["pre-push.sample"], PROJECT, REPOSITORY, PROJECT) == ""
    assert runs_more([], ["pre-push.sample", "pre-push"], PROJECT, REPOSITORY, PROJECT) == "the repository has hooks"


def test_settings_in_the_projects_own_files_are_told():
    assert judged("user.name", "Ann", f"{PROJECT}/.gitconfig") == "the project's own files hold settings of git"
    assert judged("user.name", "Ann", "/home/ann/.gitconfig") == ""
    assert judged("user.name", "Ann", f"{PROJECT}/.github/config") == "the project's own files hold settings of git"


def test_what_git_lists_is_read_as_it_is_meant():
    listed = "file:.git/config\0core.hooksPath\n.husky\0command line:\0a.b\n\0file:../shop/x\0c.d\none\ntwo\0"
    assert read_settings(listed, PROJECT) == [
        GitSetting(CONFIG, "core.hookspath", ".husky"),
        GitSetting("", "a.b", ""),
        GitSetting(f"{PROJECT}/x", "c.d", "one\ntwo"),
    ]
    assert read_settings("", PROJECT) == []


@pytest.mark.parametrize(
    "value", ["./shared.git", "shared", f"{PROJECT}/a/b.git", f"file://{PROJECT}/b.git", "../shop/b"]
)
@pytest.mark.parametrize("name", ["remote.origin.url", "remote.origin.pushurl"])
def test_a_remote_whose_hooks_an_agent_can_write_is_told(name, value):
    assert judged(name, value) == f"git's setting {name} names a repository among the project's own files"


@pytest.mark.parametrize(
    "value", ["../shared.git", "git@example.org:a/b.git", "https://example.org/a.git", "host:b.git"]
)
def test_a_remote_elsewhere_is_not_told(value):
    assert judged("remote.origin.url", value) == ""


@pytest.mark.parametrize(
    ("place", "told"), [(PROJECT, True), (f"{PROJECT}/a/x", True), (REPOSITORY, False), ("/o", False)]
)
def test_a_repository_whose_settings_an_agent_can_write_is_told(place, told):
    found = runs_more([GitSetting(f"{place}/config", "user.name", "Ann")], [], PROJECT, place, PROJECT)
    assert found == ("the repository itself lies among the project's own files" if told else "")


LFS = """#!/bin/sh
command -v git-lfs >/dev/null 2>&1 || { printf >&2 "\\n%s\\n\\n" "It is configured (see 'core.hookspath')."; exit 2; }
git lfs pre-push "$@"
"""


@pytest.mark.parametrize(
    "lines",
    [
        *("", LFS, "vim", "less -FRX", 'code --wait "$MERGED"', "/usr/bin/gh auth git-credential", "export A=1"),
        *('git log --format="%h | %s (%an)" | head -n 3', "git switch -c x", "git stash 2>/dev/null; true"),
        *('f() { git push -u origin "$(git symbolic-ref --short HEAD)"; }; f', "diff-so-fancy | less --tabs=4 -RFX"),
        *('git branch | grep -v "\\*" | while read b; do git branch -d "$b"; done', "awk -F: '{print $1}' x"),
        *('cd "$(git rev-parse --show-toplevel)" && git status', '"/usr/bin/git-crypt" clean', "ssh -i ~/.ssh/id"),
        "# a `comment` isn't\necho done # and this isn't",
    ],
)
def test_plain_lines_of_git_and_of_programs_of_every_day_are_known(lines):
    assert starts_known(lines, "/repo")


@pytest.mark.parametrize(
    "lines",
    [
        *(
            "pytest tests",
            "python -m unittest tests.x",
            "run-parts hooks.d",
            'perl -Ilib -e "use A::B"',
            "npm test",
            "make",
        ),
        *("cd a && cd b && ./x", "for name in a; do tools/$name.sh; done", "for f in tools/*; do $f; done", "tools/*"),
        *(
            "sh lint",
            '. "$(dirname "$0")/h"',
            "source tools/more.inc",
            "exec tools/runner",
            "npx lint-staged",
            "eval x",
        ),
        *("cd sub\nsh lint", "node $(git rev-parse --show-toplevel)/tools/x.js", "sh 'my tools/a script.sh'", "env x"),
        *(
            '"$PWD/tools/quoted.sh"',
            '"${HOME}/tools/quoted.sh"',
            "/repo/bin/git status",
            'bash -c "cd tools; ./deeper"',
        ),
        *("tools/../sub/./lint", "PYTHONPATH=src python -m check --all", "cd tools && python3 -c 'import nearby'", "x"),
        *(
            "exec pre-commit hook-impl --config=.pre-commit-config.yaml",
            "git -c core.pager=x log",
            "git bisect run ./t",
        ),
        *("git rebase -ix make main", "git submodule foreach ./x", "git rebase --exec=x", "PATH=./tools:$PATH git foo"),
        *(
            "awk -f x.awk",
            "sed -nf x.sed",
            "ssh -F settings host",
            "ssh -o ProxyCommand=./x host",
            "true | xargs tools/x",
        ),
        *(
            "cat <<EOF\nx\nEOF",
            "echo $(tools/x)",
            "echo `tools/x`",
            'echo "$(tools/x)"',
            "x=$(tools/x)",
            "cat < <(tools/x)",
        ),
        *("echo '", "echo a;tools/x", "echo a&tools/x", "echo a\ntools/x", "! tools/x", "if tools/x; then true; fi"),
        *("time -p tools/x", "A=1 tools/x", "echo a >out tools/x; tools/y", "f() { tools/x; }; f", "${x#y}; tools/x"),
        *(
            "trap 'x' EXIT",
            "exec -a n tools/x",
            'echo "a # b"; tools/x',
            "echo a > # no name\ntools/x",
            "export PATH=bin",
        ),
    ],
)
def test_whatever_else_may_run_something_of_the_project(lines):
    assert not starts_known(f"#!/bin/sh\n{lines}\ngit add README.md", "/repo")


@pytest.mark.parametrize(
    "lines",
    [
        *("awk '{system(\"tools/\" $1)}' list", 'git diff --name-only | awk \'{ print "tools/" $0 | "sh" }\''),
        *("gawk -i tools/x.awk '{}'", "gawk '@load \"tools/x\"; {}'", "awk '\"tools/x\" | getline; {}'"),
        *("sed -n '1e tools/x' a", "sed 's/.*/&/e' list", "sed -e 's|a|b|ge' list"),
        *("vim -S tools/x", "nvim -c 'luafile tools/x'", "vim '+!tools/x'", "emacs --batch -l tools/x"),
        *(
            "sqlite3 x '.read tools/x'",
            "sqlite3 -init tools/x db",
            "pandoc -F tools/x a.md",
            "pandoc -t tools/x.lua a.md",
        ),
        *(
            "exiftool -config tools/x a",
            "jq 'include \"x\"; .'",
            "LESSOPEN='|tools/x %s' less a",
            "ed - a",
            "gh alias set x y",
        ),
        *("vim -u tools/x a", "vim -es a < tools/x", "vim -s tools/x a", "VIMINIT='so x' vim a", "less +!tools/x a"),
        *("ssh -I tools/x.so host", "ssh -oPROXYCOMMAND=tools/x host", "ssh-keygen -D tools/x.so", "less -ktools/x a"),
        *("bat --pager tools/x a", "delta --pager=tools/x", "sort --compress-program tools/x a", "nano -f tools/x a"),
        *("sqlite3 db < tools/x", "cat tools/x | sqlite3 db", "sqlite3 -batch db", "exiftool -if 'do \"x\"' a"),
        *("git clone -u tools/x . /tmp/y", "git clone -c core.fsmonitor=tools/x . /tmp/y", "HOME=tools git status"),
        *("XDG_CONFIG_HOME=tools git status", "AWS_CONFIG_FILE=tools/x aws s3 ls", "hx --config tools/x a"),
    ],
)
def test_programs_that_are_told_to_run_something_are_not_known(lines):
    assert not starts_known(lines, "/repo")


@pytest.mark.parametrize(
    "lines",
    [
        *("cp tools/* .git/hooks/", 'ln -sf ../../tools/x "$(git rev-parse --git-dir)/hooks/x"', "cd .git/hooks"),
        *("cat tools/x > .git/hooks/x", "tee .git/hooks/x", "git show :tools/x > .git/hooks/x"),
        *(
            "git config core.hooksPath tools",
            "git config --local include.path ../tools/x",
            "git config set alias.x '!x'",
        ),
        *("git difftool -yx tools/x",),
    ],
)
def test_what_makes_git_run_more_later_is_not_known(lines):
    assert not starts_known(lines, "/repo")


@pytest.mark.parametrize(
    "lines",
    [
        *(
            "awk -F'|' '{print $1 \"|\" $2}' x",
            "awk '$1 == 1 || $2 == 2 {print}' x",
            "awk '/a|b/' x",
            "sed -i 's/a/e/' x",
        ),
        *(
            "sed -n '/one/,/the end/p' x",
            "nvim -d a b -c 'wincmd w'",
            "vim -f '+set tw=72'",
            "emacs --eval '(ediff a b)'",
        ),
        *("sqlite3 x .dump", "pandoc -t plain x.docx", "jq -r .name x", "exiftool x.png", "cp a b", "cd sub"),
        *(
            "git config user.email",
            "git config core.hooksPath",
            "git config --get alias.x",
            "git config core.autocrlf input",
        ),
        *("git config user.name Ann", "git difftool --tool=vimdiff"),
    ],
)
def test_the_same_programs_with_plain_words_are_known(lines):
    assert starts_known(lines, "/repo")


@pytest.mark.parametrize("word", ["A", "1", "a-", "日"])
def test_a_file_that_is_one_long_word_is_read_in_one_go(word):
    # A look at the rest of it from each letter would take half a minute, and the whole process with it.
    assert not starts_known(word * (65_536 // len(word)), "/repo")


def test_of_very_many_substitutions_nothing_is_known():
    assert starts_known("echo" + " `date`" * 400, "/repo")
    assert not starts_known("echo" + " `date`" * 600, "/repo")


def test_a_function_of_the_lines_own_is_known_by_its_whole_name():
    assert starts_known("say-it () { echo yes; }\nsay-it", "/repo")
    assert not starts_known("say-it () { echo yes; }\nit", "/repo")
