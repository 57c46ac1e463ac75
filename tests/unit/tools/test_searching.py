import pytest

from kagura_kernel.tools.standard import _answer


async def test_matches_are_told_as_path_line_and_text(hand):
    await hand.put("src/a.py", b"import os\nprint(1)\n")
    await hand.put("b.txt", b"print(2)\n")
    assert (await hand("grep", pattern=r"print\(\d\)")).text == "b.txt:1:print(2)\nsrc/a.py:2:print(1)"
    assert (await hand("grep", pattern="print", path="src")).text == "src/a.py:2:print(1)"
    assert (await hand("grep", pattern="print", glob="*.txt")).text == "b.txt:1:print(2)"
    assert (await hand("grep", pattern="PRINT", ignore_case=True, max=1)).text.startswith(
        "b.txt:1:print(2)\n… and more"
    )


async def test_nothing_found_is_an_answer_and_no_error(hand):
    await hand.put("a", b"x")
    result = await hand("grep", pattern="y")
    assert (result.text, result.is_error) == ("Nothing matches in 1 files.", False)


async def test_a_pattern_never_reaches_a_shell(hand):
    await hand.put("a", b"$(touch evil) `touch evil`; 'x'\n")
    result = await hand("grep", pattern=r"\$\(touch evil\) `touch evil`; 'x'")
    assert result.text.startswith("a:1:")
    assert (await hand("list_files")).text.splitlines() == [f"a  {len(await hand.get('a'))}"]


async def test_a_wrong_pattern_is_explained(hand):
    result = await hand("grep", pattern="(")
    assert result.is_error
    assert "no regular expression" in result.text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"matches": [1], "more": false, "files": 1}',
        b"\xff",
        b"[" * 100_000,
        b'{"matches": [], "more": 1, "files": 1e999}',
    ],
)
def test_a_box_that_answers_nonsense_gives_an_error_and_no_crash(data):
    assert _answer(data).is_error


async def test_a_module_in_the_workspace_is_not_taken_for_the_librarys(hand):
    await hand.put("json.py", b"raise SystemExit('taken over')")
    await hand.put("a", b"x")
    assert (await hand("grep", pattern="x", glob="a")).text == "a:1:x"
