from __future__ import annotations

from kagura_kernel.tools.fences import TEXT_BYTES


async def test_lines_are_numbered_like_cat_n(hand):
    await hand.put("a.txt", b"one\ntwo\n")
    assert (await hand("read_file", path="a.txt")).text == "     1\tone\n     2\ttwo"


async def test_a_part_is_chosen_by_offset_and_limit_and_says_how_to_go_on(hand):
    await hand.put("a.txt", "\n".join(str(n) for n in range(1, 101)).encode())
    result = await hand("read_file", path="a.txt", offset=10, limit=2)
    assert result.text == "    10\t10\n    11\t11\n… up to line 11 of 100 lines; go on with offset=12"
    assert (await hand("read_file", path="a.txt", offset=100)).text == "   100\t100"


async def test_a_line_beyond_the_end_is_an_error_that_tells_the_length(hand):
    await hand.put("a.txt", b"one\n")
    result = await hand("read_file", path="a.txt", offset=5)
    assert result.is_error
    assert result.text == "The file has 1 lines; there is no line 5."


async def test_an_empty_file_says_so(hand):
    await hand.put("a.txt", b"")
    assert (await hand("read_file", path="a.txt")).text == "(the file is empty)"


async def test_binary_files_are_refused(hand):
    await hand.put("a.bin", b"\0\1\2" * 1_000_000)
    result = await hand("read_file", path="a.bin")
    assert result.is_error
    assert "binary" in result.text


async def test_a_long_file_is_bounded_and_can_be_read_to_its_end(hand):
    await hand.put("a.txt", b"".join(b"%d %s\n" % (n, b"x" * 50) for n in range(40_000)))
    result = await hand("read_file", path="a.txt")
    assert len(result.text) < TEXT_BYTES + 200
    assert "go on with offset=" in result.text
    last = await hand("read_file", path="a.txt", offset=40_000)
    assert last.text.startswith(" 40000\t39999 ")


async def test_a_very_long_line_is_cut_and_its_length_told(hand):
    await hand.put("a.txt", b"y" * 100_000)
    assert (await hand("read_file", path="a.txt")).text.endswith("… (100000 characters)")


async def test_bytes_that_are_no_text_are_shown_as_such(hand):
    await hand.put("a.txt", b"caf\xe9\n")
    assert (await hand("read_file", path="a.txt")).text == "     1\tcaf\ufffd"


async def test_a_missing_file_and_a_path_outside_are_errors(hand):
    assert "ENOENT" in (await hand("read_file", path="none")).text
    assert "ERR_BOX_FILE" in (await hand("read_file", path="/etc/passwd")).text


async def test_a_directory_is_listed_by_name(hand):
    await hand.put("b/x", b"1")
    await hand.put("a.txt", b"12345")
    await hand("bash", command="ln -s a.txt link")
    assert (await hand("list_files")).text == "a.txt  5\nb/\nlink -> a.txt"
    assert (await hand("list_files", path="b")).text == "x  1"
    assert (await hand("list_files", path="gone")).is_error


async def test_a_name_that_is_no_text_is_shown_so_that_it_can_be_kept(hand):
    await hand("bash", command="touch $'a\\xff'")
    for result in (await hand("list_files"), await hand("glob", pattern="*")):
        assert result.text.startswith("a")
        assert result.text.encode()


async def test_an_empty_directory_says_so(hand):
    assert (await hand("list_files")).text == "(the directory is empty)"


async def test_a_directory_of_thousands_is_bounded(hand):
    await hand("bash", command="seq -f 'f%g' 1 700 | xargs touch")
    assert (await hand("list_files")).text.endswith("… and 200 more")
    assert (await hand("glob", pattern="f*")).text.endswith("… and more; narrow the pattern")


async def test_glob_finds_paths_below_a_directory(hand):
    await hand.put("a.py", b"")
    await hand.put("d/b.py", b"")
    await hand.put("d/c.txt", b"")
    assert (await hand("glob", pattern="**/*.py")).text == "a.py\nd/b.py"
    assert (await hand("glob", pattern="*", path="d")).text == "d/b.py\nd/c.txt"
    assert (await hand("glob", pattern="*.md")).text == "Nothing matches."
