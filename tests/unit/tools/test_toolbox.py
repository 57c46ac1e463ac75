import pytest

from kagura_kernel.domain.errors import (
    ApprovalAborted,
    ApprovalDenied,
    ApprovalRequired,
    BoxFileError,
    HostError,
    JournalUnwritable,
    SandboxCommandTimeout,
    SandboxDied,
    SandboxProtocolError,
    SandboxUnavailable,
    UsageError,
)
from kagura_kernel.domain.tools import ToolCall, ToolResult, ToolSpec
from kagura_kernel.tools import schema
from kagura_kernel.tools.toolbox import CallContext, Toolbox, ends_the_run


class Echo:
    """A real tool of one line; raises when it is made to."""

    def __init__(self, error: BaseException | None = None, name: str = "echo") -> None:
        self.spec = ToolSpec(name, "says it again", schema.arguments("text", text=schema.text("what")))
        self.error = error
        self.contexts: list[CallContext] = []

    async def call(self, arguments, context):
        self.contexts.append(context)
        if self.error:
            raise self.error
        return ToolResult(arguments["text"])


CALL = ToolCall("call-1", "echo", {"text": "hi"})


async def test_a_call_reaches_its_tool_with_its_context(tmp_path):
    echo = Echo()

    def listen(chunk):
        pass

    toolbox = Toolbox([echo, Echo(name="other")], spill_dir=tmp_path)
    assert await toolbox.call(CALL, listen) == ToolResult("hi")
    assert echo.contexts == [CallContext("call-1", listen, tmp_path)]
    assert [spec.name for spec in toolbox.specs()] == ["echo", "other"]


async def test_an_unknown_tool_is_an_answer_with_a_guess():
    result = await Toolbox([Echo()]).call(ToolCall("c", "eko", {}))
    assert result.is_error
    assert result.text == "There is no tool 'eko'. Did you mean 'echo'? There are: echo."
    assert result.route == ""


async def test_wrong_arguments_are_an_answer_and_the_tool_is_not_called():
    echo = Echo()
    result = await Toolbox([echo]).call(ToolCall("c", "echo", {"txt": 1}))
    assert result.is_error
    assert "'text' is missing" in result.text
    assert echo.contexts == []


@pytest.mark.parametrize(
    "error",
    [
        ApprovalDenied("The host command", "mia said no"),
        ApprovalRequired("The host command", "why"),
        BoxFileError("a", "ENOENT", "no such file"),
        HostError("gone"),
        SandboxCommandTimeout("sleep", 90),
        UsageError("not so"),
    ],
)
async def test_what_a_brain_may_know_is_an_answer_with_its_code(error):
    result = await Toolbox([Echo(error)]).call(CALL)
    assert result.is_error
    assert error.message in result.text
    assert error.code in result.text
    assert not ends_the_run(error)


@pytest.mark.parametrize(
    "error",
    [
        ApprovalAborted("The host command"),
        SandboxUnavailable("gone"),
        SandboxDied("box-1", "killed"),
        SandboxProtocolError("box-1", "garbage"),
        JournalUnwritable("journal", "disk full"),
    ],
)
async def test_what_must_end_the_run_is_raised(error):
    with pytest.raises(type(error)):
        await Toolbox([Echo(error)]).call(CALL)
    assert ends_the_run(error)


async def test_a_mistake_of_ours_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        await Toolbox([Echo(ZeroDivisionError())]).call(CALL)


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ValueError, match="share a name"):
        Toolbox([Echo(), Echo()])
