"""Boxes that stay for the next cell: what stays in them, and what never does."""

import json
import threading

import pytest

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.events import BoxStarted
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.domain.variables import CellPlace, PackedVariable
from kagura_kernel.membrane.credentials.injection.settings import EnvInjection
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.runs.box_runner.pack import pack
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.credential_fake import FakeProvider
from kagura_kernel.testing.patience import wait_until


@pytest.fixture
def cell(project):
    """Runs a cell that stays, and gives its outcome."""

    def run(cockpit, code, *, count=None, **options):
        given = {"language": "python", "keep": True, "place": CellPlace(count=count)} | options
        return cockpit.launch(RunRequest(code, project=project, **given)).result(60)

    return run


def started(cockpit, outcome):
    return next(row.event for row in cockpit.journal.events(run_id=outcome.run_id) if isinstance(row.event, BoxStarted))


def output(cockpit, outcome):
    return next(row.event.text for row in cockpit.journal.events(run_id=outcome.run_id, kinds=("tool.finished",)))


def given(name, value):
    packed = pack(value, 1000)
    return PackedVariable(name, packed.form, packed.data, packed.details, packed.summary)


def test_a_cell_goes_on_with_variables_imports_directory_and_files_of_the_one_before(cockpit, cell, backend):
    first = cell(
        cockpit, "import os, math as m\nx = 41\nos.makedirs('sub')\nos.chdir('sub')\nopen('f', 'w').close()", count=5
    )
    second = cell(cockpit, "print(x + m.floor(1.5), os.path.basename(os.getcwd()), os.listdir('.'))", count=6)
    assert second.text == "42 sub ['f']\n"
    assert len(backend.boxes) == 1
    assert (started(cockpit, first).goes_on, started(cockpit, first).stays) == ("", True)
    told = started(cockpit, second)
    assert (told.goes_on, told.goes_on_count, told.instead) == (first.run_id, 5, "")
    kinds = [row.event.kind for row in cockpit.journal.events(run_id=first.run_id)]
    assert kinds[-2:] == ["box.kept", "run.finished"]


def test_an_agent_and_cells_share_one_python(cockpit_with, cell, backend):
    brain = FakeBrain([Ask("python", {"code": "x += 1\nx"}), lambda results: results[-1].text])
    cockpit = cockpit_with(brain)
    cell(cockpit, "x = 41")
    assert "42" in cell(cockpit, "add one", language="").text
    assert "that of an earlier cell" in brain.turns[0].system
    assert "variables and imports of an earlier cell" in str(brain.turns[0].tools)
    assert cell(cockpit, "print(x)").text == "42\n"
    assert len(backend.boxes) == 1


def test_an_agent_is_told_what_others_have_changed_since_its_box_began(cockpit_with, cell, project):
    (project / "old.txt").write_text("as it was")
    brain = FakeBrain(["Seen."])
    cockpit = cockpit_with(brain)
    first = cell(cockpit, "open('ours.txt', 'w').write('1')")
    cockpit.changes_desk.apply(first.run_id, by="ann")
    for n in range(30):
        (project / f"theirs{n:02}.txt").write_text("2")
    cell(cockpit, "look", language="")
    told = brain.turns[0].system
    assert 'Changed outside of the sandbox since it began: "theirs00.txt", "theirs01.txt"' in told
    assert "and 10 more; read them anew" in told
    assert "old.txt" not in told
    assert "ours.txt" not in told


def test_a_failing_cell_keeps_its_box_and_a_plain_cell_leaves_it_alone(cockpit, cell, backend):
    assert cell(cockpit, "x = 41\nraise ValueError('no')").status == "failed"
    assert cell(cockpit, "print('x' in globals())", keep=False).text == "False\n"
    assert cell(cockpit, "print(x)").text == "41\n"
    assert len(backend.boxes) == 2


def test_variables_go_in_anew_and_come_out_of_each_cell(cockpit, cell):
    cell(cockpit, "y = n", inputs=(given("n", 1),), outputs=("y",))
    second = cell(cockpit, "z = n + y", inputs=(given("n", 10),), outputs=("z",))
    assert [one.name for one in second.outputs] == ["z"]
    assert b"11" in second.outputs[0].data


def test_another_session_never_gets_the_box(cockpit, cell):
    cell(cockpit, "x = 41")
    assert cell(cockpit, "print('x' in globals())", session="other").text == "False\n"
    assert cell(cockpit, "print(x)").text == "41\n"
    assert cell(cockpit, "print('x' in globals())", new_session=True).text == "False\n"


def test_nothing_listens_in_a_box_that_waits(cockpit_with, cell):
    """The proxy of the run before is gone, and what was connected to it."""
    cockpit = cockpit_with()
    cell(
        cockpit,
        "import os, socket\nport = int(os.environ['HTTP_PROXY'].rpartition(':')[2])\n"
        "old = socket.create_connection(('127.0.0.1', port))",
    )
    seen = cell(
        cockpit,
        "print(int(os.environ['HTTP_PROXY'].rpartition(':')[2]) != port or old.recv(1))\n"
        "print(socket.socket().connect_ex(('127.0.0.1', port)))",
    )
    assert seen.status == "done"
    assert seen.text.splitlines()[1] != "0"


def test_a_host_command_that_was_allowed_is_asked_about_again(cockpit_with, project, await_question):
    host = Ask("bash", {"command": "echo from the host", "host": True, "reason": "to see it"})
    cockpit = cockpit_with([host, lambda results: results[-1].text])
    for allow, said in ((True, "from the host"), (False, "ERR_APPROVAL_DENIED")):
        handle = cockpit.launch(RunRequest("do it", project=project, keep=True))
        cockpit.decide(await_question(cockpit).id, allow=allow, by="ann", via="cell")
        assert said in handle.result(60).text


def test_a_box_with_credentials_does_not_stay_and_no_such_run_goes_on_in_one(cockpit_with, cell, backend):
    injection = EnvInjection(way="env", variables={"TOKEN": "{token}"})
    registry = Registry({"fake": FakeProvider(scopes=frozenset({"read"}))}, {"fake": (injection,)})
    settings = Settings(preapproved_grants=("fake:read",), keep=True)
    cockpit = cockpit_with(registry=registry, settings=settings)
    with pytest.raises(UsageError, match="holds credentials ends with its run"):
        cell(cockpit, "x", grants=("fake:read",))
    cell(cockpit, "x = 41", keep=False)
    code = "import os\nprint('TOKEN' in os.environ, 'x' in globals())"
    held = cell(cockpit, code, keep=False, grants=("fake:read",))
    assert (held.text, started(cockpit, held).stays) == ("True False\n", False)
    assert backend.boxes[1].channel.closed
    assert cell(cockpit, code, keep=False).text == "False True\n"


def test_changes_that_wait_are_proposed_once_and_what_is_changed_further_by_the_later_cell(cockpit, cell, project):
    first = cell(cockpit, "open('a', 'w').write('1')\nopen('b', 'w').write('1')")
    second = cell(cockpit, "open('b', 'a').write('2')\nopen('c', 'w').write(open('a').read())")
    assert first.changed_files == ["a", "b"]
    assert second.changed_files == ["b", "c"]
    states = {one.path: one.state for one in cockpit.changes(first.run_id)}
    assert states == {"a": "proposed", "b": "discarded"}
    cockpit.changes_desk.apply(first.run_id, by="ann")
    cockpit.changes_desk.apply(second.run_id, by="ann")
    assert [(project / name).read_text() for name in "abc"] == ["1", "12", "1"]
    third = cell(cockpit, "open('a', 'a').write('3')")
    assert [(one.path, one.state) for one in third.changes] == [("a", "proposed")]


def test_what_a_person_discarded_stays_in_the_box_and_is_not_proposed_again(cockpit, cell):
    first = cell(cockpit, "open('a', 'w').write('1')")
    cockpit.changes_desk.discard(first.run_id, by="ann")
    second = cell(cockpit, "print(open('a').read())")
    assert (second.text, second.changed_files) == ("1\n", [])


def test_what_a_person_changed_meanwhile_is_never_overwritten(cockpit, cell, project):
    cell(cockpit, "pass")
    (project / "data.csv").write_text("mine\n")
    second = cell(cockpit, "open('data.csv', 'a').write('box')")
    assert [(one.path, one.state) for one in second.changes] == [("data.csv", "conflict")]


def test_a_verification_tries_all_that_is_in_the_box(cockpit_with, cell):
    cockpit = cockpit_with([Ask("bash", {"command": "cp a b"}), "Done."])
    cell(cockpit, "open('a', 'w').write('1')")
    assert cell(cockpit, "copy it", language="", verify="cmp a b").verified


def test_a_person_ends_it_and_so_does_a_new_conversation(cockpit, cell, backend):
    assert cockpit.end_box() is None
    cell(cockpit, "x = 41", count=5)
    assert [part.reason for part in cockpit.status().others] == ["fake, that of [5], waits for a next cell"]
    assert cockpit.end_box().name == "[5]"
    wait_until(lambda: backend.boxes[0].channel.closed)
    cell(cockpit, "x = 41", count=6)
    cockpit.begin_anew()
    wait_until(lambda: backend.boxes[1].channel.closed)


def test_a_box_that_died_meanwhile_is_told_and_another_one_begins(cockpit, cell, backend):
    first = cell(cockpit, "x = 41", count=5)
    backend.boxes[0].channel.fail("somebody killed it")
    wait_until(lambda: cockpit.journal.events(run_id=first.run_id)[-1].event.kind == "box.closed")
    second = cell(cockpit, "print('x' in globals())")
    assert (second.text, started(cockpit, second).instead) == ("False\n", "that of [5] is gone: somebody killed it")


def test_a_time_out_interrupts_and_the_session_goes_on(cockpit, cell):
    stopped = cell(cockpit, "x = 41\nimport time\ntime.sleep(600)", command_timeout=0.5)
    assert (stopped.status, stopped.error_code) == ("failed", "ERR_SANDBOX_COMMAND_TIMEOUT")
    assert cell(cockpit, "print(x)").text == "41\n"


def test_a_cell_that_is_stopped_keeps_its_box_and_what_it_had(cockpit, cell, project):
    code = "x = 41\nimport time\nprint('begun', flush=True)\ntime.sleep(600)"
    handle = cockpit.launch(RunRequest(code, "python", project=project, keep=True))
    begun = threading.Event()
    handle.subscribe(lambda event: begun.set() if event.kind == "output.streamed" else None)
    assert begun.wait(60)
    handle.kill("ann")
    assert handle.result(60).status == "killed"
    assert cell(cockpit, "print(x)").text == "41\n"


def test_a_session_that_ended_is_told_where_its_variables_are_missed(cockpit, cell):
    ended = cell(cockpit, "x = 41\nimport os\nos._exit(3)")
    notes = [row.event.text for row in cockpit.journal.events(run_id=ended.run_id, kinds=("noted",))]
    assert notes == ["The Python session ended with this cell: its variables and imports are gone, the files are not."]
    again = cell(cockpit, "print('x' in globals())")
    notes = [row.event.text for row in cockpit.journal.events(run_id=again.run_id, kinds=("noted",))]
    assert (again.text, notes[-1][:41]) == ("False\n", "The Python session of the cells before ha")


def test_a_traceback_shows_the_line_of_the_cell_that_wrote_it(cockpit, cell):
    cell(cockpit, "def f():\n    return 1 / 0", count=5)
    failed = cell(cockpit, "f()", count=6)
    said = output(cockpit, failed)
    assert "return 1 / 0" in said
    assert "calls/5/cell.py" in said


def test_no_box_stays_behind(cockpit, cell, backend):
    for name in "abcdef":
        cell(cockpit, "pass", session=name)
    wait_until(lambda: sum(not box.channel.closed for box in backend.boxes) == 4)
    boxes = list(backend.boxes)
    cockpit.close()
    assert all(box.channel.closed for box in boxes)


def test_cells_of_the_asking_notebook_that_came_since_the_box_began_are_no_change_of_a_later_cell(
    cockpit_with, cell, project
):
    def write(*sources):
        cells = [
            {"id": f"c{n}", "cell_type": "code", "source": one, "metadata": {}, "outputs": [], "execution_count": None}
            for n, one in enumerate(sources)
        ]
        book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
        (project / "work.ipynb").write_text(json.dumps(book))

    write("1", "2")
    cockpit = cockpit_with()
    place = CellPlace(str(project / "work.ipynb"))
    edit = "t = open('work.ipynb').read()\nopen('work.ipynb', 'w').write(t.replace('\"{}\"', '\"{}\"'))"
    first = cell(cockpit, edit.format(1, 10), place=place)
    write("1", "2", "3")
    second = cell(cockpit, edit.format(2, 20), place=place)
    assert [[one.path for one in run.changes] for run in (first, second)] == [["work.ipynb#c0"], ["work.ipynb#c1"]]


def test_what_a_later_cell_takes_back_waits_no_more_and_what_a_person_brought_in_is_left_alone(cockpit, cell, project):
    first = cell(cockpit, "for name in 'abc': open(name, 'w').write('1')")
    cockpit.changes_desk.apply(first.run_id, ["c"], by="ann")
    (project / "b").write_text("1")
    second = cell(cockpit, "import os\nos.remove('a')")
    states = {one.path: one.state for one in cockpit.changes(first.run_id)}
    assert states == {"a": "discarded", "b": "proposed", "c": "applied"}
    assert second.changed_files == []
    assert [one.path for one in cell(cockpit, "open('a', 'w').write('1')").changes] == ["a"]


def test_what_a_later_cell_takes_back_after_a_person_has_applied_it_is_proposed(cockpit, cell, project):
    (project / "a").write_text("1")
    first = cell(cockpit, "import os\nopen('a', 'w').write('2')\nopen('b', 'w').write('1')")
    cockpit.changes_desk.apply(first.run_id, by="ann")
    second = cell(cockpit, "open('a', 'w').write('1')\nos.remove('b')")
    assert [(one.path, one.status, one.state) for one in second.changes] == [
        ("a", "modified", "proposed"),
        ("b", "deleted", "proposed"),
    ]
    cockpit.changes_desk.apply(second.run_id, by="ann")
    assert ((project / "a").read_text(), (project / "b").exists()) == ("1", False)
    assert cell(cockpit, "pass").changes == ()


def test_what_a_later_cell_takes_back_goes_on_waiting_while_other_cells_run(cockpit, cell, project):
    (project / "a").write_text("1")
    first = cell(cockpit, "import os\nopen('a', 'w').write('2')\nopen('b', 'w').write('1')")
    cockpit.changes_desk.apply(first.run_id, by="ann")
    second = cell(cockpit, "open('a', 'w').write('1')\nos.remove('b')")
    assert cell(cockpit, "open('c', 'w').close()").changed_files == ["c"]
    assert [(one.path, one.state) for one in cockpit.changes(second.run_id)] == [("a", "proposed"), ("b", "proposed")]
    cockpit.changes_desk.apply(second.run_id, by="ann")
    assert ((project / "a").read_text(), (project / "b").exists()) == ("1", False)
    assert cell(cockpit, "pass").changes == ()


@pytest.mark.parametrize("undone", [False, True])
def test_a_change_on_top_of_one_that_waits_is_no_conflict_with_what_was_applied_before(cockpit, cell, project, undone):
    (project / "a").write_text("1")
    write = "open('a', 'w').write('{}')"
    first = cell(cockpit, write.format(2))
    cockpit.changes_desk.apply(first.run_id, by="ann")
    if undone:
        cockpit.changes_desk.undo(first.run_id, None, by="ann")
    second = cell(cockpit, write.format(3))
    third = cell(cockpit, write.format(4))
    assert [(one.path, one.state) for run in (second, third) for one in run.changes] == [("a", "proposed")] * 2
    assert {one.state for one in cockpit.changes(second.run_id)} == {"discarded"}
    cockpit.changes_desk.apply(third.run_id, by="ann")
    assert (project / "a").read_text() == "4"
    (project / "a").write_text("mine")
    assert [one.state for one in cell(cockpit, write.format(5)).changes] == ["conflict"]


def book(**sources):
    facts = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [facts | {"id": ident, "source": source} for ident, source in sources.items()]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


def test_cells_that_later_cells_move_again_stand_where_they_have_them(cockpit, cell, project):
    file = project / "work.ipynb"
    file.write_text(book(a="1", b="2"))
    orders = ["ba", "ab", "acb", "abc", "cab"]
    sources = {"a": "1", "b": "2", "c": "3"}
    for order in orders:
        moved = cell(cockpit, f"open('work.ipynb', 'w').write({book(**{one: sources[one] for one in order})!r})")
        cockpit.changes_desk.apply(moved.run_id, by="ann")
        assert "".join(one["id"] for one in json.loads(file.read_text())["cells"]) == order


def test_a_cell_below_one_that_waits_in_an_earlier_run_can_be_applied_alone(cockpit, cell, project):
    file = project / "work.ipynb"
    file.write_text(book(a="1", z="9"))
    for sources in ({"b": "2"}, {"b": "2", "c": "3"}):
        run = cell(cockpit, f"open('work.ipynb', 'w').write({book(a='1', **sources, z='9')!r})")
    assert cockpit.changes_desk.apply(run.run_id, by="ann").applied == ("work.ipynb#c",)
    assert [one["id"] for one in json.loads(file.read_text())["cells"]] == ["a", "c", "z"]


@pytest.mark.parametrize("place", ["", "work.ipynb"])
def test_cells_that_were_applied_are_taken_back_by_cells_and_a_persons_stay(cockpit_with, cell, project, place):
    def sources():
        return {one["id"]: "".join(one["source"]) for one in json.loads(file.read_text())["cells"]}

    def write(text):
        code = f"open('work.ipynb', 'w').write({text!r})"
        return cell(cockpit, code, place=CellPlace(str(project / place) if place else ""))

    def states(outcome):
        return [(one.path.partition("#")[2], one.status, one.state) for one in outcome.changes]

    file, cockpit = project / "work.ipynb", cockpit_with()
    file.write_text(before := book(a="1", b="2", c="3", d="4"))
    first = write(book(a="10", new="5", b="2", d="4"))
    assert cockpit.changes_desk.apply(first.run_id, by="ann").conflicts == ()
    assert sources() == {"a": "10", "new": "5", "b": "2", "d": "4"}
    # A person changes a cell that no run has touched.
    file.write_text(file.read_text().replace('"4"', '"40"'))
    assert write(book(a="10", new="5", b="2", d="4")).changes == ()
    further = write(book(a="10", new="6", b="2", d="4"))
    assert states(further) == [("new", "modified", "proposed")]
    taken_back = write(before)
    assert sorted(states(taken_back)) == [
        ("a", "modified", "proposed"),
        ("c", "added", "proposed"),
        ("new", "deleted", "proposed"),
    ]
    assert cockpit.changes_desk.apply(taken_back.run_id, by="ann").conflicts == ()
    assert sources() == {"a": "1", "b": "2", "c": "3", "d": "40"}
    assert cell(cockpit, "pass", place=CellPlace(str(project / place) if place else "")).changes == ()


def test_what_was_written_through_is_taken_back_in_the_project_when_it_is_in_the_box(cockpit_with, project):
    (project / "a").write_text("1")
    cockpit = cockpit_with(
        [
            Ask("bash", {"command": "printf 2 > a; printf 1 > b"}),
            Ask("bash", {"command": "printf 1 > a; rm b"}),
            "Taken back.",
        ]
    )
    request = RunRequest("try it", project=project, write_mode=WriteMode.THROUGH)
    assert cockpit.launch(request).result(60).status == "done"
    assert ((project / "a").read_text(), (project / "b").exists()) == ("1", False)
