"""Pictures that a person shows to the model with a task."""

from pathlib import Path

import pytest

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.events import AnyEvent, ImageSent
from kagura_kernel.domain.images import SENT_SIDE, read_image
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask, FakeBrain
from tests.support.gallery import png

NOTE = b"\0\0\0\x08tEXtwhere\0xycrc."
"""A part of a PNG that says where it was made."""


def noted(width: int, height: int) -> bytes:
    data = png(width, height)
    return data[:33] + NOTE + data[33:]


def test_a_picture_is_shown_with_the_task_by_its_name_alone_and_without_its_metadata(cockpit_with, project, tmp_path):
    (project / "plots").mkdir()
    (project / "plots" / "a.png").write_bytes(noted(20, 10))
    outside = tmp_path / "b.png"
    outside.write_bytes(png(4, 3))
    brain = FakeBrain([Ask("read_file", {"path": "plots/a.png"}), "Seen."], images=True)
    heard: list[AnyEvent] = []
    handle = cockpit_with(brain).launch(
        RunRequest(task="Look.", project=project, pictures=(Path("plots/a.png"), outside))
    )
    handle.subscribe(heard.append)
    assert handle.result(60).status == "done"

    (turn,) = brain.turns
    plain = read_image(png(20, 10)).data
    assert [(one.name, one.data) for one in turn.images] == [("plots/a.png", plain), ("b.png", png(4, 3))]
    sent = [one for one in heard if isinstance(one, ImageSent)]
    assert [(one.call_id == "task", one.name, one.width, one.tokens) for one in sent] == [
        (True, "plots/a.png", 20, 1),
        (True, "b.png", 4, 1),
        (False, "plots/a.png", 20, 1),
    ]
    assert sent[0].sha256 == sent[2].sha256 == read_image(plain).sha256


def test_what_cannot_be_shown_is_told_before_anything_begins(cockpit_with, project):
    (project / "a.txt").write_text("no picture")
    (project / "a.png").write_bytes(png(4, 3))
    (project / "bomb.png").write_bytes(png(4, 3, claims=(60_000, 60_000)))
    cockpit = cockpit_with(FakeBrain(images=True))
    for names, why in (
        (["gone.png"], "there is no such file"),
        (["."], "there is no such file"),
        (["a.txt"], "its bytes are no image"),
        (["bomb.png"], "it claims 60,000 × 60,000 pixels"),
        (["a.png"] * 21, "at most 20 pictures, not 21"),
    ):
        with pytest.raises(UsageError, match=why):
            cockpit.launch(RunRequest(task="Look.", project=project, pictures=tuple(map(Path, names))))
    assert cockpit.runs() == []


def test_a_brain_that_takes_no_images_is_not_shown_any(cockpit_with, project):
    (project / "a.png").write_bytes(png(4, 3))
    brain = FakeBrain([Ask("read_file", {"path": "a.png"}), "Done."])
    cockpit = cockpit_with(brain)
    with pytest.raises(UsageError, match=r"--picture.*images = true"):
        cockpit.launch(RunRequest(task="Look.", project=project, pictures=(Path("a.png"),)))
    heard: list[AnyEvent] = []
    handle = cockpit.launch(RunRequest(task="Look.", project=project))
    handle.subscribe(heard.append)
    handle.result(60)
    assert not [one for one in heard if isinstance(one, ImageSent)]


def test_a_picture_that_cannot_be_made_small_enough_ends_the_run_before_its_model_is_asked(cockpit_with, project):
    # It claims more than it holds, so that no library can make it smaller.
    (project / "large.png").write_bytes(png(4, 3, claims=(2 * SENT_SIDE, 3)))
    brain = FakeBrain(images=True)
    outcome = (
        cockpit_with(brain).launch(RunRequest(task="Look.", project=project, pictures=(Path("large.png"),))).result(60)
    )
    assert outcome.status == "failed"
    assert "large.png was not sent: it has 3,136 × 3 pixels" in str(outcome.error)
    assert brain.turns == []
