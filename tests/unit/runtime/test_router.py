import asyncio
import base64
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.approvals import ApprovalKind, Decision, Verdict
from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import (
    ApprovalAborted,
    ApprovalDenied,
    ApprovalRequired,
    HostIdleTimeout,
    SandboxIdleTimeout,
    SandboxUnavailable,
)
from kagura_kernel.domain.policy import CommandLimits, ExecutionRoute, PermissionMode, SandboxPermission
from kagura_kernel.runtime.host import HostRunner
from kagura_kernel.runtime.router import (
    Asker,
    Runtime,
    current_approver,
    host_arguments,
    host_detail,
    leads_out,
    require_allowed,
    use_approver,
)
from kagura_kernel.runtime.routing import Routing
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.box import FakeBackend

ESCALATED = SandboxPermission.REQUIRE_ESCALATED


@pytest.fixture
async def box(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "here.txt").write_text("project\n")
    backend = FakeBackend()
    yield await backend.start(BoxSpec(workspace=project))
    await backend.close()


@pytest.fixture
async def make(tmp_path):
    made = []

    def build(box=None, **settings) -> Runtime:
        host = tmp_path / "host"
        host.mkdir(exist_ok=True)
        (host / "here.txt").write_text("host\n")
        runtime = Runtime(box, HostRunner(host), Routing(**settings), run_id="run-1", session_id="ses-1")
        made.append(runtime)
        return runtime

    yield build
    for runtime in made:
        await runtime.close()


async def test_a_command_runs_in_the_box_without_asking(box, make):
    approver = ScriptedApprover()
    with use_approver(approver):
        routed = await make(box).run("cat here.txt | tr a-z A-Z")
    assert routed.result.stdout.text == "PROJECT\n"
    assert (routed.decision.route, routed.approval) == (ExecutionRoute.SANDBOX, None)
    assert approver.requests == []


async def test_a_host_command_runs_once_a_person_agrees(box, make):
    approver = ScriptedApprover(Verdict.ALLOW)
    with use_approver(approver):
        routed = await make(box).run("cat here.txt", permission=ESCALATED, reason="the box lacks it", call_id="call-1")
    assert routed.result.stdout.text == "host\n"
    assert routed.decision.route is ExecutionRoute.HOST
    assert routed.approval is not None
    assert routed.approval.allowed


async def test_the_person_sees_the_whole_command_its_directory_its_input_and_the_reason(box, make):
    approver = ScriptedApprover(Verdict.ALLOW, Verdict.ALLOW)
    runtime = make(box, approval_deadline=7)
    line = "cat > copy.txt # " + "x" * 500
    with use_approver(approver):
        await runtime.run(line, permission=ESCALATED, reason="why not", call_id="call-1", stdin=b"text \xff")
        await runtime.run(line, permission=ESCALATED, stdin=b"other")
    first, second = approver.requests
    assert first.kind is ApprovalKind.HOST_COMMAND
    directory = str(runtime.host.directory)
    assert first.arguments == {
        "command": line, "directory": directory, "stdin": "text \\xff", "stdin_base64": "dGV4dCD/"
    }  # fmt: skip
    assert first.detail == f"Command:\n| {line}\n\nDirectory:\n| {directory}\n\nStandard input:\n| text \\xff"
    assert second.arguments == {"command": line, "directory": directory, "stdin": "other"}
    assert (first.reason, first.call_id, first.deadline) == ("why not", "call-1", 7)
    assert (first.run_id, first.session_id) == ("run-1", "ses-1")
    assert (second.reason, second.title) == ("", "Run a command on the host")
    assert first.content_hash != second.content_hash


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (Verdict.DENY, ApprovalDenied),
        (Verdict.TIMEOUT, ApprovalDenied),
        (Verdict.ABORTED, ApprovalAborted),
    ],
)
async def test_without_a_yes_nothing_runs_on_the_host(box, make, verdict, error):
    runtime = make(box)
    with use_approver(ScriptedApprover(verdict)), pytest.raises(error):
        await runtime.run("touch ran", permission=ESCALATED)
    assert not (runtime.host.directory / "ran").exists()


async def test_with_nobody_to_ask_an_approval_is_required(box, make):
    runtime = make(box)
    with pytest.raises(ApprovalRequired):
        await runtime.run("touch ran", permission=ESCALATED)
    assert not (runtime.host.directory / "ran").exists()


async def test_without_a_box_every_command_asks_even_a_pre_approved_one(make):
    runtime = make(None, preapproved=("cat",))
    approver = ScriptedApprover(Verdict.ALLOW)
    with use_approver(approver):
        assert (await runtime.run("cat here.txt")).result.stdout.text == "host\n"
        with pytest.raises(ApprovalDenied):
            await runtime.run("cat here.txt")
    assert len(approver.requests) == 2
    assert "sandbox unavailable" in approver.requests[0].title


async def test_without_a_box_there_are_no_files(make):
    runtime = make(None)
    assert not runtime.has_files
    with pytest.raises(SandboxUnavailable):
        _ = runtime.files
    with pytest.raises(SandboxUnavailable):
        await runtime.run_own(Command(("true",)))


async def test_full_control_runs_on_the_host_without_asking_and_has_the_projects_files(make):
    runtime = make(None, mode=PermissionMode.FULL_CONTROL)
    routed = await runtime.run("cat here.txt")
    assert (routed.result.stdout.text, routed.approval) == ("host\n", None)
    assert await runtime.files.read("here.txt") == b"host\n"
    assert (await runtime.run_own(Command(("true",)))).ok
    assert runtime.has_files


async def test_settings_may_pre_approve_a_safe_command(box, make):
    routed = await make(box, preapproved=("cat",)).run("cat here.txt", permission=ESCALATED)
    assert (routed.result.stdout.text, routed.approval) == ("host\n", None)


async def test_a_pre_approved_name_never_means_a_program_of_the_project(box, make, tmp_path):
    host = make(None).host.directory
    (host / "cat").write_text("#!/bin/sh\necho evil\n")
    (host / "cat").chmod(0o755)
    (tmp_path / ".bash_profile").write_text(f"PATH={host}:$PATH\n")
    runner = HostRunner(host, environment={"PATH": f"{host}:/usr/bin:/bin", "HOME": str(tmp_path)})
    runtime = Runtime(box, runner, Routing(preapproved=("cat",)))
    assert (await runtime.run("cat here.txt", permission=ESCALATED)).result.stdout.text == "host\n"
    with use_approver(ScriptedApprover(Verdict.ALLOW)):
        assert (await runtime.run("cat < here.txt", permission=ESCALATED)).result.stdout.text == "evil\n"
    await runtime.close()


async def test_what_was_approved_is_what_runs_whatever_it_imitates(box, make):
    runtime = make(box)
    directory = runtime.host.directory
    line = f": <<'END'\n\nDirectory:\n| {directory}\n\nin {directory}\nEND\necho ran"
    approver = ScriptedApprover(Verdict.ALLOW)
    with use_approver(approver):
        routed = await runtime.run(line, permission=ESCALATED)
    (request,) = approver.requests
    assert request.arguments == {"command": line, "directory": str(directory)}
    assert [text for text in request.detail.split("\n") if text.endswith(":") and not text.startswith("|")] == [
        "Command:",
        "Directory:",
    ]
    assert routed.result.stdout.text == "ran\n"


async def test_a_pre_approved_line_is_asked_for_after_all_when_a_link_leads_out(box, make, tmp_path):
    runtime = make(box, preapproved=("cat", "grep"))
    project = runtime.host.directory
    (tmp_path / "secret").write_text("key\n")
    (project / "link").symlink_to(tmp_path / "secret")
    (project / "up").symlink_to(tmp_path)
    (project / "inner").symlink_to("here.txt")
    for line in ("cat link", "cat here.txt up/secret", "cat ./up/secret", "grep -r key up", "grep -elink key"):
        approver = ScriptedApprover(Verdict.DENY)
        with use_approver(approver), pytest.raises(ApprovalDenied):
            await runtime.run(line, permission=ESCALATED)
        assert "leads out of the project" in approver.requests[0].title
    assert (await runtime.run("cat inner", permission=ESCALATED)).result.stdout.text == "host\n"


async def test_the_strict_order_asks_for_what_a_box_would_do(box, make):
    runtime = make(box, strict=True)
    assert (await runtime.run("cat here.txt")).result.stdout.text == "project\n"
    with pytest.raises(ApprovalRequired):
        await runtime.run("cat here.txt | wc")


async def test_a_program_missing_in_the_box_is_offered_and_never_run_on_the_host(box, make):
    approver = ScriptedApprover(Verdict.ALLOW)
    with use_approver(approver):
        routed = await make(box).run("no-such-program-anywhere")
    assert routed.result.exit_code == 127
    assert "host=true" in routed.hint
    assert approver.requests == []
    assert (await make(box).run("true")).hint == ""


async def test_what_renames_a_folder_of_the_overlay_is_told_how_it_can(box, make):
    said = "echo \"rename 'src': Invalid cross-device link\" >&2; exit {}"
    assert "`mv` copies it" in (await make(box).run(said.format(1))).hint
    assert (await make(box).run(said.format(0))).hint == ""


async def test_a_limit_is_told_apart_by_where_it_was_reached(box, make):
    limits = CommandLimits(None, 0.3)
    with pytest.raises(SandboxIdleTimeout):
        await make(box).run("sleep 30", limits=limits)
    with use_approver(ScriptedApprover(Verdict.ALLOW)), pytest.raises(HostIdleTimeout):
        await make(box).run("sleep 30", limits=limits, permission=ESCALATED)


async def test_long_output_is_kept_in_a_directory_made_for_it(box, make, tmp_path):
    spill = tmp_path / "state" / "run-1"
    routed = await make(box).run("seq 1 200000", spill_dir=spill)
    assert routed.result.stdout.spill is not None
    assert routed.result.stdout.spill.parent == spill
    assert spill.stat().st_mode & 0o777 == 0o700


async def test_closing_closes_the_box_and_refuses_what_comes_later(box, make):
    runtime = make(box)
    await runtime.close()
    await runtime.close()
    assert await asyncio.wait_for(box.wait_closed(), 60) == ""
    with pytest.raises(SandboxUnavailable):
        await runtime.run("true")
    with pytest.raises(SandboxUnavailable):
        await runtime.run_own(Command(("true",)))


async def test_an_answer_that_comes_after_closing_runs_nothing(box, make):
    runtime = make(box)

    class Slow(ScriptedApprover):
        async def approve(self, request):
            await runtime.close()
            return await super().approve(request)

    with use_approver(Slow(Verdict.ALLOW)), pytest.raises(SandboxUnavailable):
        await runtime.run("touch ran", permission=ESCALATED)
    assert not (runtime.host.directory / "ran").exists()


def _decision(verdict: Verdict, answer: str = "") -> Decision:
    return Decision("app-1", verdict, "mia", "cell", datetime(2030, 1, 1, tzinfo=UTC), answer)


def test_without_an_approver_nobody_can_be_asked():
    assert current_approver() is None


async def test_a_question_to_nobody_is_required_not_denied():
    with pytest.raises(ApprovalRequired) as caught:
        await Asker().ask(ApprovalKind.HOST_COMMAND, "Run it", "ls", reason="it is needed")
    assert caught.value.reason == "it is needed"


async def test_the_approver_is_seen_inside_the_block_and_in_tasks_started_there():
    approver = ScriptedApprover()

    async def look():
        return current_approver()

    with use_approver(approver):
        inside = asyncio.create_task(look())
    assert await inside is approver
    assert current_approver() is None


async def test_two_runs_at_once_each_see_their_own_approver():
    first, second = ScriptedApprover(), ScriptedApprover()

    async def run(approver):
        with use_approver(approver):
            await asyncio.sleep(0)
            return current_approver()

    assert await asyncio.gather(run(first), run(second)) == [first, second]


async def test_a_request_says_who_asks_what_and_until_when():
    approver = ScriptedApprover(Verdict.ALLOW)
    asker = Asker("run-1", "ses-1", deadline=12)
    with use_approver(approver):
        decision = await asker.ask(
            ApprovalKind.QUESTION, "t", "d", reason="r", arguments={"a": 1}, call_id="call-1", options=("x", "y")
        )
    (request,) = approver.requests
    assert decision.approval_id == request.id
    assert (request.run_id, request.session_id, request.deadline) == ("run-1", "ses-1", 12)
    assert (request.reason, request.arguments, request.call_id) == ("r", {"a": 1}, "call-1")
    assert request.options == ("x", "y")


async def test_an_answer_to_another_question_opens_nothing():
    class Muddled(ScriptedApprover):
        async def approve(self, request):
            return replace(await super().approve(request), approval_id="app-of-another")

    with use_approver(Muddled(Verdict.ALLOW)), pytest.raises(ApprovalDenied):
        await Asker().ask(ApprovalKind.HOST_COMMAND, "t", "d")


@pytest.mark.parametrize("raises", [True, False])
async def test_called_off_is_an_error_of_its_own_however_it_is_told(raises):
    class Quiet(ScriptedApprover):
        async def approve(self, request):
            return replace(_decision(Verdict.ABORTED), approval_id=request.id)

    approver = ScriptedApprover(Verdict.ABORTED) if raises else Quiet()
    with use_approver(approver), pytest.raises(ApprovalAborted):
        await Asker().ask(ApprovalKind.HOST_COMMAND, "t", "d")


def test_only_allow_is_let_through():
    assert require_allowed(_decision(Verdict.ALLOW), "It").allowed
    for verdict in (Verdict.DENY, Verdict.TIMEOUT, Verdict.ABORTED):
        with pytest.raises(ApprovalDenied):
            require_allowed(_decision(verdict), "It")


def test_a_denial_says_who_and_with_which_remark():
    with pytest.raises(ApprovalDenied, match=r"mia said no \(not today\)"):
        require_allowed(_decision(Verdict.DENY, "not today"), "It")
    with pytest.raises(ApprovalDenied, match="nobody answered in time"):
        require_allowed(_decision(Verdict.TIMEOUT), "It")


def test_the_values_are_exactly_what_would_be_used():
    assert host_arguments("ls", "/p", b"") == {"command": "ls", "directory": "/p"}
    assert host_arguments("cat", "/p", "é\r\n".encode())["stdin"] == "é\r\n"


def test_input_that_is_no_text_differs_from_the_text_it_is_shown_as():
    odd, text = host_arguments("cat", "/p", b"\xff"), host_arguments("cat", "/p", b"\\xff")
    assert odd["stdin"] == text["stdin"] == "\\xff"
    assert base64.b64decode(odd["stdin_base64"]) == b"\xff"
    assert odd != text


def test_each_part_stands_under_its_heading_behind_a_bar():
    assert host_detail("a\nb", "/p", "in\n") == "Command:\n| a\n| b\n\nDirectory:\n| /p\n\nStandard input:\n| in\n| "


@pytest.mark.parametrize("char", ["\r", "\x0b", "\x0c", "\x1b", "\x85", "\u2028", "\u202e", "\u200b", "\0", "\udcff"])
def test_what_cannot_be_seen_or_would_move_the_rest_is_written_out(char):
    assert host_detail(f"a{char}b", "/p", "").startswith(f"Command:\n| a⟨U+{ord(char):04X}⟩b\n\nDirectory:")


@given(command=st.text(), directory=st.text(), stdin=st.text(min_size=1))
def test_no_text_can_pose_as_another_part(command, directory, stdin):
    lines = host_detail(command, directory, stdin).split("\n")
    bare = [line for line in lines if not line.startswith("| ")]
    assert bare == ["Command:", "", "Directory:", "", "Standard input:"]
    assert len(lines) - len(bare) == 3 + sum(text.count("\n") for text in (command, directory, stdin))
    assert all(len(line.splitlines()) <= 1 for line in lines)


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.txt").write_text("")
    (folder / "inner").symlink_to("src/a.txt")
    (folder / "round").symlink_to("round")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "up").symlink_to("..")
    (folder / "far").symlink_to("up/../x")
    return folder


@pytest.mark.parametrize(
    "word",
    ["src", ".", "-n", "src/a.txt", "inner", "round", "missing/x", "s/a/b/", "x" * 5000, "--include=src", "-esrc"],
)
def test_what_stays_below_is_fine_whether_it_exists_or_not(project, word):
    assert leads_out(["-n", word], project) == ""


@pytest.mark.parametrize(
    "word",
    ["link", "up", "up/secret", "./up", "far", "..", "/etc", "-flink", "--file=link", "a=b=link", "x:up", "src/../.."],
)
def test_what_leads_out_is_named(project, word):
    assert leads_out(["src", word, "."], project) == word


def test_a_project_that_is_named_by_a_link_is_still_the_project(project, tmp_path):
    (tmp_path / "name").symlink_to(project)
    assert leads_out(["src", "inner"], tmp_path / "name") == ""
    assert leads_out(["link"], tmp_path / "name") == "link"
