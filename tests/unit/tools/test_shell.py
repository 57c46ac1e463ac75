from pathlib import PurePosixPath

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import UnknownName
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.runtime.host import HostRunner
from kagura_kernel.runtime.router import Runtime, use_approver
from kagura_kernel.runtime.routing import Routing
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.tools.fences import TEXT_LENGTH
from kagura_kernel.tools.shell import BoxPrograms, CommandLeases
from kagura_kernel.tools.standard import standard_toolbox

SHOW_TOKEN = "import os; print(os.environ.get('TOKEN', 'none'))"


async def test_bash_tells_output_complaints_and_exit_code(hand):
    result = await hand("bash", command="echo out; echo err >&2; exit 3")
    assert result.text == "out\n[stderr]\nerr\n[exit code 3]"
    assert (result.is_error, result.exit_code, result.route) == (True, 3, "sandbox")
    assert sorted(hand.heard) == [b"err\n", b"out\n"]


async def test_each_bash_call_is_a_fresh_shell_in_the_workspace(hand):
    await hand("bash", command="mkdir d; cd d; X=1; touch here")
    result = await hand("bash", command="ls d; echo $X")
    assert result.text == "here"


async def test_the_model_is_told_what_becomes_of_jobs_in_the_background(hand):
    (spec,) = [tool for tool in hand.toolbox.specs() if tool.name == "bash"]
    assert "Jobs left in the background are stopped when the line ends" in spec.description
    assert "when the sandbox is closed" in spec.description


async def test_a_host_command_shows_the_person_the_line_and_the_reason(hand):
    approver = ScriptedApprover(Verdict.ALLOW)
    with use_approver(approver):
        result = await hand("bash", command="echo on the host", host=True, reason="needs the network")
    assert (result.text, result.route, result.is_error) == ("on the host", "host", False)
    (request,) = approver.requests
    assert (request.reason, request.call_id) == ("needs the network", "call-1")
    assert "echo on the host" in request.detail


async def test_a_refused_host_command_is_an_answer(hand):
    with use_approver(ScriptedApprover(Verdict.DENY)):
        result = await hand("bash", command="echo x", host=True)
    assert result.is_error
    assert "ERR_APPROVAL_DENIED" in result.text


async def test_a_command_that_takes_too_long_answers_with_its_last_words(hand):
    for seconds in (1, 10, 60):
        result = await hand("bash", command="echo started; sleep 600", timeout=seconds)
        if not result.text.endswith("It had printed nothing."):
            break
    assert result.is_error
    assert "ERR_SANDBOX_COMMAND_TIMEOUT" in result.text
    assert result.text.endswith("The end of its output:\nstarted")


async def test_a_silent_one_says_that_it_printed_nothing(hand):
    assert (await hand("bash", command="sleep 60", timeout=1)).text.endswith("It had printed nothing.")


async def test_a_flood_is_bounded_and_kept_in_a_file(hand):
    result = await hand("bash", command="seq 1 200000")
    assert len(result.text) < TEXT_LENGTH + 500
    assert result.text.startswith("1\n2\n")
    assert "\n200000\n" in result.text
    assert result.spill is not None
    assert (hand.spill / result.spill).read_text().split()[-1] == "200000"


async def test_a_missing_program_comes_with_a_hint(hand):
    result = await hand("bash", command="no-such-program-anywhere")
    assert result.exit_code == 127
    assert "host=true" in result.text


async def test_an_empty_command_and_a_wrong_timeout_are_not_run(hand):
    assert "must not be empty" in (await hand("bash", command="")).text
    assert "must lie between" in (await hand("bash", command="true", timeout=0)).text
    assert "must lie between" in (await hand("bash", command="true", timeout=100_000)).text


async def test_a_nul_is_refused(hand):
    result = await hand("bash", command="ls\0")
    assert result.is_error
    assert "null byte" in result.text


async def test_python_code_runs_whatever_its_quotes_and_length(hand):
    code = "print('a \"b\" $c `d`')\n" + f"x = '{'y' * 300_000}'\nprint(len(x))"
    result = await hand("python", code=code)
    assert result.text == 'a "b" $c `d`\n300000'
    assert result.route == "sandbox"


async def test_python_imports_from_the_workspace_and_tells_tracebacks(hand):
    await hand.put("mine.py", b"value = 7")
    assert (await hand("python", code="import mine; print(mine.value)")).text == "7"
    result = await hand("python", code="print('before')\n1/0")
    assert result.is_error
    assert "before" in result.text
    assert "ZeroDivisionError" in result.text


def offered(runtime, *names: str):
    def environment(asked):
        for name in asked:
            if name not in names:
                raise UnknownName("lease", name, names)
        return {"TOKEN": "+".join(asked)} if asked else {}

    return standard_toolbox(runtime, leases=CommandLeases(names, environment))


async def told(toolbox, tool: str, **arguments: object) -> ToolResult:
    return await toolbox.call(ToolCall("call-1", tool, arguments))


async def test_one_command_gets_the_credentials_that_it_names_and_the_next_one_none(hand):
    toolbox = offered(hand.runtime, "aws:deploy", "aws:read")
    for tool, argument in (("bash", {"command": "echo ${TOKEN-none}"}), ("python", {"code": SHOW_TOKEN})):
        assert (await told(toolbox, tool, **argument, leases=["aws:deploy"])).text == "aws:deploy"
        assert (await told(toolbox, tool, **argument)).text == "none"


async def test_a_command_on_the_host_gets_no_credential(hand):
    toolbox = offered(hand.runtime, "aws:deploy")
    with use_approver(ScriptedApprover(Verdict.ALLOW)):
        result = await told(toolbox, "bash", command="echo ${TOKEN-none}", host=True, leases=["aws:deploy"])
    assert (result.text, result.route) == ("none", "host")


async def test_a_credential_that_the_run_does_not_hold_is_not_offered(hand):
    toolbox = offered(hand.runtime, "aws:deploy")
    result = await told(toolbox, "bash", command="true", leases=["aws:admin"])
    assert result.is_error
    assert "must hold nothing but aws:deploy" in result.text
    assert all("leases" not in spec.input_schema["properties"] for spec in hand.toolbox.specs())


def programs(runtime):
    async def python(call_id: str, code: bytes) -> Command:
        await runtime.files.write(f"{call_id}.py", code)
        return Command(("python3", "-u", f"{call_id}.py"))

    def shows(call_id: str) -> str:
        return str(PurePosixPath(runtime.files.root, "shown", call_id))

    return BoxPrograms(lambda call: {"CALL": call, "PLAIN": "word"}, python, shows)


async def test_commands_find_the_variables_of_their_call(hand):
    toolbox = standard_toolbox(hand.runtime, programs=programs(hand.runtime))
    assert (await told(toolbox, "bash", command="echo $CALL $PLAIN; ls shown")).text == "call-1 word\ncall-1"
    code = "import os, sys; print(os.environ['PLAIN'], sys.argv, [sys.stdin.read()])"
    assert (await told(toolbox, "python", code=code)).text == "word ['call-1.py'] ['']"


async def test_a_python_call_that_takes_too_long_is_named_and_not_by_how_it_is_run(hand):
    toolbox = standard_toolbox(hand.runtime, programs=programs(hand.runtime))
    result = await told(toolbox, "python", code="import time; time.sleep(600)", timeout=1)
    assert result.text.startswith("The python call ran longer than 1 s and was stopped")
    assert "call-1.py" not in result.text


async def test_a_command_on_the_host_finds_no_variable_of_the_box(hand):
    toolbox = standard_toolbox(hand.runtime, programs=programs(hand.runtime))
    with use_approver(ScriptedApprover(Verdict.ALLOW)):
        result = await told(toolbox, "bash", command="echo ${PLAIN-none}", host=True)
    assert (result.text, result.route) == ("none", "host")


async def test_python_that_a_person_is_asked_about_is_the_plain_line_with_its_code(hand, tmp_path):
    strict = Runtime(hand.runtime.box, HostRunner(tmp_path), Routing(strict=True))
    toolbox = standard_toolbox(strict, programs=programs(strict))
    approver = ScriptedApprover(Verdict.DENY)
    with use_approver(approver):
        await told(toolbox, "python", code="print(1)")
    (request,) = approver.requests
    assert request.arguments["command"] == "python3 -u -"
    assert request.arguments["stdin"] == "print(1)"


async def test_a_model_is_told_what_becomes_of_a_last_expression(hand):
    def description(toolbox):
        return next(spec.description for spec in toolbox.specs() if spec.name == "python")

    assert "a last expression is not shown" in description(hand.toolbox)
    assert "a last expression is shown as in a notebook" in description(
        standard_toolbox(hand.runtime, programs=programs(hand.runtime))
    )
