import base64

from kagura_kernel.domain.images import Image, NoImageError
from kagura_kernel.tools.fences import TEXT_LENGTH
from kagura_kernel.tools.standard import ReadFileTool
from kagura_kernel.tools.toolbox import CallContext

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


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


async def test_an_image_is_shown_to_a_model_that_takes_images_and_refused_to_any_other(hand):
    shown: list[tuple[str, Image]] = []

    async def show(call_id: str, image: Image) -> Image:
        shown.append((call_id, image))
        return image

    await hand.put("plots/dot.png", DOT)
    tool = ReadFileTool(hand.runtime, show)
    result = await tool.call({"path": "plots/dot.png"}, CallContext("c1"))
    dot = Image("image/png", 1, 1, DOT, "plots/dot.png")
    assert (result.text, result.images, shown) == ("plots/dot.png: image/png, 1 × 1.", (dot,), [("c1", dot)])
    assert "shown to you as images" in tool.spec.description

    assert "binary" in (await hand("read_file", path="plots/dot.png")).text


async def test_an_image_that_is_not_shown_is_an_error_that_says_why(hand):
    async def show(_call_id: str, _image: Image) -> Image:
        raise NoImageError("it is the last straw")

    await hand.put("whole.png", DOT)
    await hand.put("torn.png", DOT[:-20])
    tool = ReadFileTool(hand.runtime, show)
    results = [await tool.call({"path": path}, CallContext("c1")) for path in ("whole.png", "torn.png")]
    assert [(one.text, one.is_error, one.images) for one in results] == [
        ("whole.png is an image that is not shown to you: it is the last straw.", True, ()),
        ("torn.png is an image that is not shown to you: it is broken off.", True, ()),
    ]


async def test_a_long_file_is_bounded_and_can_be_read_to_its_end(hand):
    await hand.put("a.txt", b"".join(b"%d %s\n" % (n, b"x" * 50) for n in range(40_000)))
    result = await hand("read_file", path="a.txt")
    assert len(result.text) < TEXT_LENGTH + 200
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


async def test_lines_end_where_grep_and_an_interpreter_say_that_they_do(hand):
    await hand.put("a.py", "one\r\n\x0ctwo \u2028 still two\n\nfour".encode())
    assert (await hand("read_file", path="a.py")).text == (
        "     1\tone\n     2\t\x0ctwo \u2028 still two\n     3\t\n     4\tfour"
    )


async def test_half_a_character_of_utf_16_is_shown_as_such_and_ends_no_run(hand):
    await hand.put("a.txt", b"\xff\xfea\x00\x00\xd8\n\x00")
    assert (await hand("read_file", path="a.txt")).text == "     1\ta\ufffd"
