"""Images on their way to a run's model, in a box without walls."""

import io
import sys
from pathlib import Path

import pytest
from PIL import Image as Pillow

from kagura_kernel.domain.images import SENT_SIDE, Image, NoImageError, read_image
from kagura_kernel.runs.exchange import ExchangeDirectory, SearchPaths
from kagura_kernel.runs.images import MOST_IMAGES, ModelImages
from tests.unit.runs.conftest import SECRET


def picture(size: tuple[int, int], kind: str = "PNG", **more: object) -> Image:
    out = io.BytesIO()
    Pillow.linear_gradient("L").resize(size).convert("RGB").save(out, kind, **more)
    return read_image(out.getvalue(), "a.png")


@pytest.fixture
def images(stage):
    # The interpreter of the tests has Pillow, as one in a box has that draws.
    search = SearchPaths((str(Path(sys.executable).parent), "/usr/bin", "/bin"), ("",))
    return ModelImages(ExchangeDirectory(stage.box, search=search), stage.recorder, stage.membrane.scrubber)


async def test_one_that_fits_is_sent_as_it_is_and_recorded_by_its_hash(stage, images):
    image = picture((300, 200))
    assert await images.show("c1", image) is image
    (row,) = stage.recorder.variables
    said = (row.call_id, row.name, row.mime, row.width, row.height, row.bytes, row.sha256, row.tokens)
    assert said == ("c1", "a.png", "image/png", 300, 200, len(image.data), image.sha256, 80)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
async def test_one_that_is_too_large_is_made_smaller_in_the_box_and_turned_as_it_was_held(stage, images, kind):
    exif = Pillow.Exif()
    exif[0x0112] = 6
    more = {"exif": exif} if kind == "JPEG" else {}
    sent = await images.show("c1", picture((4000, 2000), kind, **more))
    size = (SENT_SIDE // 2, SENT_SIDE) if more else (SENT_SIDE, SENT_SIDE // 2)
    assert (sent.width, sent.height, sent.name, sent.mime) == (*size, "a.png", f"image/{kind.lower()}")
    assert Pillow.open(io.BytesIO(sent.data)).size == size
    assert (row := stage.recorder.variables[0]).sha256 == sent.sha256, row


async def test_what_cannot_be_made_smaller_is_told_with_its_reason_and_not_sent(stage, images, tmp_path):
    large = picture((4000, 20))
    with pytest.raises(NoImageError, match=r"4,000 × 20 pixels .* could not be made smaller"):
        await images.show("c1", Image(large.mime, 4000, 20, large.data[:60]))

    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'PIL'\" >&2\nexit 1\n")
    python.chmod(0o755)
    search = SearchPaths((str(tmp_path), "/usr/bin", "/bin"), ("",))
    without = ModelImages(ExchangeDirectory(stage.box, search=search), stage.recorder, stage.membrane.scrubber)
    with pytest.raises(NoImageError, match="Python in the box has no Pillow"):
        await without.show("c1", large)

    python.write_text("#!/bin/sh\nhead -c 9000000 /dev/zero\n")
    with pytest.raises(NoImageError, match="its bytes are no image"):
        await without.show("c1", large)
    assert stage.recorder.variables == []


async def test_a_secret_is_not_sent_and_a_run_has_an_end_of_images(images):
    image = picture((3, 3))
    with pytest.raises(NoImageError, match="holds a secret"):
        await images.show("c1", Image(image.mime, 3, 3, image.data + SECRET.encode()))
    for _ in range(MOST_IMAGES):
        await images.show("c1", image)
    with pytest.raises(NoImageError, match=f"{MOST_IMAGES} images"):
        await images.show("c1", image)
