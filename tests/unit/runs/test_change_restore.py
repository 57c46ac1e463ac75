"""What one box's run changed lies in another box as it lay there, whatever it was."""

import base64
import json
import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import BoxFileError, WorkspaceError
from kagura_kernel.domain.images import Image, NoImageError
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.changes import Collector
from kagura_kernel.membrane.credentials.needles import needles
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.runs.change_restore import restore_changes
from kagura_kernel.runs.exchange import MAX_BYTES, MAX_RESULTS, ExchangeDirectory, Results
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.runs.variables import make_exchange
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.redaction import BlindRedactor
from tests.unit.runs.conftest import SECRET

SHAPE = (
    "find . -mindepth 1 \\( -type f -o -type l \\) -printf '%P %m %l ' \\( -type f -exec sh -c "
    "'sha256sum < \"$1\"' _ {} \\; -o -printf '\\n' \\) | LC_ALL=C sort; find . -mindepth 1 -type d -printf '%P\\n' | "
    "LC_ALL=C sort"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "kept").mkdir(parents=True)
    (root / "kept" / "same.txt").write_text("as it was\n")
    (root / "text.txt").write_text("one\ntwo\n")
    (root / "gone.txt").write_text("soon gone\n")
    (root / "old" / "inner").mkdir(parents=True)
    (root / "old" / "inner" / "a.txt").write_text("a\n")
    (root / "file-then-folder").write_text("a file\n")
    (root / "folder-then-file").mkdir()
    (root / "folder-then-file" / "b.txt").write_text("b\n")
    (root / "folder-then-link").mkdir()
    (root / "folder-then-link" / "c.txt").write_text("c\n")
    (root / "link-then-file").symlink_to("text.txt")
    (root / "link-then-folder").symlink_to("kept")
    (root / "script.sh").write_text("echo hello\n")
    return root


@pytest.fixture
async def backend() -> AsyncIterator[FakeBackend]:
    made = FakeBackend()
    yield made
    await made.close()


async def changed(box: Box, line: str, project: Path, blobs: BlobStore) -> list[FileChange]:
    result = await box.run(shell_command(line))
    assert result.ok, result.stderr.text
    collector = Collector(ProjectFiles(project), blobs, since=0.0, protected=(".git",), limit_bytes=2**26)
    return await collector.collect(box, {})


async def shape(box: Box) -> str:
    result = await box.run(shell_command(SHAPE))
    assert result.ok, result.stderr.text
    return result.stdout.text


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("printf 'one\\nthree\\n' > text.txt; mkdir -p new/deep; echo x > new/deep/x.txt", id="text"),
        pytest.param("head -c 300000 /dev/urandom > data.bin; printf 'a\\0b' > small.bin", id="binary"),
        pytest.param("rm gone.txt; rm -r old", id="deletions"),
        pytest.param("chmod 755 script.sh", id="mode"),
        pytest.param("ln -s kept/same.txt new-link; ln -s nowhere broken; mkdir d; ln -s ../kept d/up", id="links"),
        pytest.param("rm file-then-folder; mkdir file-then-folder; echo in > file-then-folder/in.txt", id="folder"),
        pytest.param("rm link-then-file; echo own > link-then-file", id="own file"),
        pytest.param("rm link-then-folder; mkdir link-then-folder; echo z > link-then-folder/z", id="own folder"),
        pytest.param("mv kept moved; mv moved/same.txt moved/other.txt", id="rename"),
        pytest.param("printf y > ' a b'; printf y > -- ; printf y > -n", id="names"),
        pytest.param("printf x > \"$(printf 'caf\\351')\"", id="no utf-8"),
    ],
)
async def test_a_fresh_box_becomes_like_the_one_that_was_left(line, project, backend, blobs):
    first = await backend.start(BoxSpec(workspace=project))
    changes = await changed(first, line, project, blobs)
    left = await shape(first)
    await first.close()
    second = await backend.start(BoxSpec(workspace=project))
    assert await restore_changes(second, changes, blobs) == len(changes)
    assert await shape(second) == left


async def test_nothing_is_written_through_a_link_of_the_project(project, backend, blobs):
    first = await backend.start(BoxSpec(workspace=project))
    changes = await changed(first, "rm link-then-file; echo own > link-then-file", project, blobs)
    second = await backend.start(BoxSpec(workspace=project))
    await restore_changes(second, changes, blobs)
    assert await second.files.read("text.txt") == b"one\ntwo\n"


@pytest.mark.parametrize("line", ["rm -r folder-then-file; echo now > folder-then-file", "rm -r old; ln -s kept old"])
async def test_what_took_the_place_of_a_folder_is_laid_where_it_may_be(line, project, backend, blobs):
    first = await backend.start(BoxSpec(workspace=project))
    changes = await changed(first, line, project, blobs)
    [kept] = [change for change in changes if change.state == "protected"]
    second = await backend.start(BoxSpec(workspace=project))
    may = [replace(change, state="proposed") if change is kept else change for change in changes]
    await restore_changes(second, may, blobs)
    assert await shape(second) == await shape(first)


async def test_what_is_protected_stays_where_it_was_made(project, backend, tmp_path):
    box = await backend.start(BoxSpec(workspace=project))
    hook = FileChange(".git/hooks/pre-commit", "added", new_sha256="0" * 64, state="protected")
    assert await restore_changes(box, [hook], BlobStore(tmp_path / "blobs")) == 0


async def test_a_content_that_is_gone_is_told(project, backend, tmp_path):
    box = await backend.start(BoxSpec(workspace=project))
    lost = FileChange("lost.txt", "added", new_sha256="0" * 64)
    with pytest.raises(WorkspaceError, match=r"lost\.txt is not kept any more"):
        await restore_changes(box, [lost], BlobStore(tmp_path / "blobs"))


@pytest.mark.parametrize("path", ["/etc/passwd", "../out", "a/../../out", ""])
async def test_a_path_that_leads_out_is_refused(path, project, backend, tmp_path):
    box = await backend.start(BoxSpec(workspace=project))
    with pytest.raises(WorkspaceError, match="leads out"):
        await restore_changes(box, [FileChange(path, "deleted")], BlobStore(tmp_path / "blobs"))


async def test_what_the_box_refuses_is_told(project, backend, tmp_path):
    box = await backend.start(BoxSpec(workspace=project))
    with pytest.raises(BoxFileError, match="name too long"):
        await restore_changes(box, [FileChange("n" * 300, "deleted")], BlobStore(tmp_path / "blobs"))


async def test_more_names_than_fit_into_one_line_are_removed(project, backend, blobs):
    (project / "many").mkdir()
    for number in range(600):
        (project / "many" / f"{number:03}-{'x' * 150}").touch()
    first = await backend.start(BoxSpec(workspace=project))
    changes = await changed(first, "rm -r many", project, blobs)
    second = await backend.start(BoxSpec(workspace=project))
    await restore_changes(second, changes, blobs)
    assert await shape(second) == await shape(first)


PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 2, 3) + b"kindsCRC."
END = struct.pack(">I4sI", 0, b"IEND", 0)


def boxed(mime, data, text="plain"):
    return json.dumps({"mime": mime, "text": text}).encode() + b"\n" + data


@pytest.fixture
def exchange(stage):
    return ExchangeDirectory(stage.box)


@pytest.fixture
def results(stage, exchange):
    return Results(exchange, stage.recorder, stage.membrane.scrubber, Redacting(BlindRedactor()))


async def put(exchange, **files):
    for name, data in files.items():
        await exchange.box.files.write(f"{exchange.shown('c1')}/{name.replace('__', '.')}", data)


async def test_what_a_program_shows_is_recorded_in_its_order(stage, exchange, results):
    await put(exchange, b0002__shown=boxed("text/html", b"<b>"), a0001__shown=boxed("image/png", PNG, ""))
    words, images = await results.collect("c1")
    first, second = stage.recorder.results
    assert (first.mime, base64.b64decode(first.data), first.bytes, first.call_id) == ("image/png", PNG, len(PNG), "c1")
    assert (second.mime, second.data, second.text) == ("text/html", "<b>", "plain")
    assert words == "Shown to the person: image/png, 33 bytes.\nShown to the person: text/html, 3 bytes.\nplain"
    assert images == ()
    assert (await results.collect("c2")).words == ""


async def test_an_image_is_shown_to_a_brain_as_well_or_it_is_told_why_not(stage, exchange):
    async def show(_call_id: str, image: Image) -> Image:
        if stage.recorder.results[-1].data == base64.b64encode(PNG + END).decode():
            return image
        raise NoImageError("it is too much")

    both = Results(exchange, stage.recorder, stage.membrane.scrubber, Redacting(BlindRedactor()), show)
    await put(exchange, a__shown=boxed("image/png", PNG + END, ""), b__shown=boxed("image/png", PNG + END + b"x"))
    await put(exchange, c__shown=boxed("image/png", PNG))
    words, images = await both.collect("c1")
    assert [(one.width, one.height, one.data) for one in images] == [(2, 3, PNG + END)]
    assert words.splitlines() == [
        "Shown to the person: image/png, 45 bytes. You see it as well, 2 × 3.",
        "Shown to the person: image/png, 46 bytes. Not shown to you: it is too much.",
        "plain",
        "Shown to the person: image/png, 33 bytes. Not shown to you: it is broken off.",
        "plain",
    ]


async def test_files_of_other_programs_are_shown_by_the_end_of_their_name(stage, exchange, results):
    await put(exchange, x__png=PNG, y__md=b"# Title", z__csv=b"a,b", w__svg=b"<svg/>")
    await results.collect("c1")
    assert [one.mime for one in stage.recorder.results] == ["image/svg+xml", "image/png", "text/markdown"]


async def test_the_folder_for_what_a_call_shows_is_there_before_its_program(stage, exchange, results):
    folder = exchange.shown("c1")
    assert not (await stage.box.run(replace(shell_command("true"), shows=folder))).shown
    ran = await stage.box.run(replace(shell_command(f"echo '# Title' > {folder}/note.md"), shows=folder))
    assert (ran.ok, ran.shown) == (True, True)
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
    assert words in told.words
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
    secret = max(needles([Secret(SECRET)]), key=len).encode()
    await put(exchange, a__shown=boxed("image/png", PNG + secret))
    await results.collect("c1")
    assert "secret" in stage.recorder.results[0].note


async def test_links_folders_and_pipes_among_the_results_are_passed_over(stage, exchange, results):
    folder = exchange.shown("c1")
    await stage.box.run(
        shell_command(f"mkdir -p {folder}/d.png; ln -s /etc/hostname {folder}/l.txt; mkfifo {folder}/p.md")
    )
    assert await results.collect("c1") == ("", ())
    assert stage.recorder.results == []


async def test_a_call_of_any_name_has_a_folder_of_its_own(exchange):
    assert exchange.shown("../../etc").endswith("/shown/______etc")
    assert exchange.shown("x" * 500).endswith("x" * 64)


async def test_a_python_program_of_a_box_shows_what_it_displays(stage):
    exchange = await make_exchange(stage, for_shell=False)
    path = f"{exchange.scratch}/cell.py"
    await stage.box.files.write(path, b"class A:\n    def _repr_markdown_(self): return '# hi'\nA()")
    result = await stage.box.run(Command(await exchange.python(path, "cell"), env=exchange.environment("cell")))
    assert (result.exit_code, result.stdout.text, result.stderr.text) == (0, "", "")
    await Results(exchange, stage.recorder, stage.membrane.scrubber, Redacting(BlindRedactor())).collect("cell")
    [row] = stage.recorder.results
    assert (row.mime, row.data, row.text) == ("text/markdown", "# hi", "")
