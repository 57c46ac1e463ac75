from __future__ import annotations

import base64
import json
import struct

import pytest

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.runs.exchange import MAX_BYTES, MAX_RESULTS, ExchangeDirectory, Results
from kagura_kernel.runs.redacting import Redacting
from kagura_kernel.runs.variables import make_exchange

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 2, 3) + b"rest"


def boxed(mime, data, text="plain"):
    return json.dumps({"mime": mime, "text": text}).encode() + b"\n" + data


@pytest.fixture
def exchange(stage):
    return ExchangeDirectory(stage.box)


@pytest.fixture
def results(stage, exchange):
    return Results(exchange, stage.recorder, stage.membrane.scrubber, Redacting(None))


async def put(exchange, **files):
    for name, data in files.items():
        await exchange.box.files.write(f"{exchange.shown('c1')}/{name.replace('__', '.')}", data)


async def test_what_a_program_shows_is_recorded_in_its_order(stage, exchange, results):
    await put(exchange, b0002__shown=boxed("text/html", b"<b>"), a0001__shown=boxed("image/png", PNG, ""))
    words = await results.collect("c1")
    first, second = stage.recorder.results
    assert (first.mime, base64.b64decode(first.data), first.bytes, first.call_id) == ("image/png", PNG, len(PNG), "c1")
    assert (second.mime, second.data, second.text) == ("text/html", "<b>", "plain")
    assert words == "Shown to the person: image/png, 28 bytes.\nShown to the person: text/html, 3 bytes.\nplain"
    assert await results.collect("c2") == ""


async def test_files_of_other_programs_are_shown_by_the_end_of_their_name(stage, exchange, results):
    await put(exchange, x__png=PNG, y__md=b"# Title", z__csv=b"a,b", w__svg=b"<svg/>")
    await results.collect("c1")
    assert [one.mime for one in stage.recorder.results] == ["image/svg+xml", "image/png", "text/markdown"]


async def test_the_folder_for_what_a_call_shows_is_there_before_its_program(stage, exchange, results):
    await exchange.open_call("c1")
    line = f"echo '# Title' > {exchange.shown('c1')}/note.md"
    assert (await stage.box.run(shell_command(line))).ok
    await results.collect("c1")
    assert [one.data for one in stage.recorder.results] == ["# Title\n"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (boxed("image/png", b"<script>"), "no PNG image"),
        (boxed("image/png", PNG[:20]), "no PNG image"),
        (boxed("image/png", PNG[:16] + struct.pack(">II", 2**31, 1)), "too large to show"),
        (boxed("image/png", PNG[:16] + struct.pack(">II", 0, 1)), "too large to show"),
        (boxed("image/gif", PNG), "no GIF image"),
        (boxed("image/gif", b"GIF89a" + b"\xff" * 4), "too large to show"),
        (boxed("image/jpeg", b"\xff\xd8\xff" + b"\0" * 40), "no JPEG image"),
        (boxed("image/webp", b"RIFF" + b"\0" * 40), "no WEBP image"),
        (boxed("text/javascript", b"1"), "cannot be understood"),
        (boxed(["text/html"], b"1"), "cannot be understood"),
        (boxed("text/html", b"1", text=[1]), "cannot be understood"),
        (b"no head at all", "cannot be understood"),
        (b"[" * 100_000 + b"\n", "cannot be understood"),
        (boxed("text/html", b"x" * (MAX_BYTES + 1)), "2.0 MiB are shown"),
        (boxed("text/html", b"x" * 10 * MAX_BYTES), "2.0 MiB are shown"),
    ],
    ids=range(15),
)
async def test_what_is_wrong_or_too_large_leaves_a_note_and_nothing_else(stage, exchange, results, data, words):
    await put(exchange, a__shown=data)
    told = await results.collect("c1")
    [row] = stage.recorder.results
    assert words in row.note
    assert words in told
    assert (row.data, row.text) == ("", "")


async def test_a_call_shows_so_many_and_a_run_so_much(stage, exchange, results):
    await put(exchange, **{f"{number:04d}__shown": boxed("text/plain", b"x") for number in range(MAX_RESULTS + 5)})
    await results.collect("c1")
    assert len(stage.recorder.results) == MAX_RESULTS + 1
    assert stage.recorder.results[-1].note == f"5 more results were not kept: a call may show {MAX_RESULTS}."
    await put(exchange, **{f"{number:04d}__shown": boxed("text/plain", b"x" * MAX_BYTES) for number in range(6)})
    stage.recorder.results.clear()
    await results.collect("c1")
    notes = [one.note for one in stage.recorder.results if one.note]
    assert any("a run may show 10.0 MiB in all" in note for note in notes)
    assert sum(one.bytes for one in stage.recorder.results if not one.note) <= 5 * MAX_BYTES


async def test_an_image_that_holds_a_leased_secret_is_not_kept(stage, exchange, results):
    secret = stage.membrane.scrubber.needles()[0].encode()
    await put(exchange, a__shown=boxed("image/png", PNG + secret))
    await results.collect("c1")
    assert "secret" in stage.recorder.results[0].note


async def test_links_folders_and_pipes_among_the_results_are_passed_over(stage, exchange, results):
    folder = exchange.shown("c1")
    await stage.box.run(
        shell_command(f"mkdir -p {folder}/d.png; ln -s /etc/hostname {folder}/l.txt; mkfifo {folder}/p.md")
    )
    assert await results.collect("c1") == ""
    assert stage.recorder.results == []


async def test_a_call_of_any_name_has_a_folder_of_its_own(exchange):
    assert exchange.shown("../../etc").endswith("/shown/______etc")
    assert exchange.shown("x" * 500).endswith("x" * 64)


async def test_a_python_program_of_a_box_shows_what_it_displays(stage):
    exchange = await make_exchange(stage, for_shell=False)
    path = f"{exchange.scratch}/cell.py"
    await stage.box.files.write(path, b"class A:\n    def _repr_markdown_(self): return '# hi'\nA()")
    result = await stage.box.run(Command(exchange.python(path, "cell"), env=exchange.environment("cell")))
    assert (result.exit_code, result.stdout.text, result.stderr.text) == (0, "", "")
    await Results(exchange, stage.recorder, stage.membrane.scrubber, Redacting(None)).collect("cell")
    [row] = stage.recorder.results
    assert (row.mime, row.data, row.text) == ("text/markdown", "# hi", "")
