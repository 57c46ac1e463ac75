"""Tools of other packages are held to what every tool is held to."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kagura_kernel.domain.errors import ApprovalAborted, SandboxUnavailable, UsageError
from kagura_kernel.domain.tools import ToolCall, ToolResult, ToolSpec
from kagura_kernel.tools import extension_tools
from kagura_kernel.tools.extension_tools import OwnTool, ToolPlace, own_tools
from kagura_kernel.tools.fences import TEXT_LENGTH
from kagura_kernel.tools.toolbox import CallContext, Toolbox

SPEC = ToolSpec(
    "colour", "Says a colour.", {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
)


class Colour:
    """A tool that does what the test says."""

    def __init__(self, answer: Any = "blue", spec: Any = SPEC) -> None:
        self.spec = spec
        self.answer = answer

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> Any:
        del arguments, context
        if isinstance(self.answer, BaseException):
            raise self.answer
        if isinstance(self.answer, float):
            await asyncio.sleep(self.answer)
        return ToolResult(self.answer) if isinstance(self.answer, str) else self.answer


class NoBox:
    """A runtime without a box."""

    box = None


async def answer(tool: Colour, **arguments: Any) -> ToolResult:
    return await Toolbox([OwnTool(tool)]).call(ToolCall("call-1", "colour", arguments or {"name": "sky"}))


async def test_it_answers():
    assert await answer(Colour()) == ToolResult("blue")


async def test_its_arguments_are_checked_even_where_it_says_that_it_does_that_itself():
    result = await answer(Colour(spec=replace(SPEC, foreign=True)), hue=3)
    assert result.is_error
    assert "was not called" in result.text


async def test_whatever_it_raises_is_an_answer_that_names_the_kind_alone(caplog):
    result = await answer(Colour(ValueError("hunter2")))
    assert (result.is_error, result.text) == (True, "colour failed: ValueError.")
    assert "the tool colour failed" in caplog.text
    # That something which it asked took too long says nothing of how long it took itself.
    assert (await answer(Colour(TimeoutError()))).text == "colour failed: TimeoutError."


async def test_what_must_end_the_run_still_does():
    with pytest.raises(ApprovalAborted):
        await answer(Colour(ApprovalAborted("run-1")))
    with pytest.raises(SandboxUnavailable):
        await answer(Colour(SandboxUnavailable("it is gone")))


async def test_one_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(extension_tools, "CALL_SECONDS", 0.05)
    result = await answer(Colour(3600.0))
    assert result.is_error
    assert "was given up" in result.text


@pytest.mark.parametrize("nothing", [None, {"text": "blue"}, 7])
async def test_what_is_no_answer_is_told(nothing):
    assert (await answer(Colour(nothing))).text == "colour gave no answer."


async def test_an_answer_is_cut_to_what_a_model_reads():
    result = await answer(Colour("x" * 10 * TEXT_LENGTH))
    assert len(result.text) < TEXT_LENGTH + 200
    assert "characters left out" in result.text


@pytest.mark.parametrize(
    "spec",
    [
        None,
        replace(SPEC, name="two words"),
        replace(SPEC, name=""),
        replace(SPEC, input_schema={"type": "string"}),
    ],
)
def test_what_is_no_description_makes_no_tool(spec):
    with pytest.raises(TypeError):
        OwnTool(Colour(spec=spec))


def test_it_cannot_take_the_name_of_another_tool():
    with pytest.raises(UsageError, match="'colour'"):
        own_tools([lambda _place: Colour()], NoBox(), ["bash", "colour"])
    with pytest.raises(UsageError, match="'colour'"):
        own_tools([lambda _place: Colour(), lambda _place: Colour()], NoBox(), [])


async def test_what_it_has_to_work_with_is_the_box_and_never_the_host():
    place = ToolPlace(NoBox())
    with pytest.raises(UsageError, match="no box"):
        await place.run(["id"])
    with pytest.raises(UsageError, match="no box"):
        _ = place.files
    assert [name for name in dir(place) if not name.startswith("_")] == ["files", "run"]
