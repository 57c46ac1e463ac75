"""What a message or a click sets off: an answer, a stop, one of the few commands that a chat has, or a run.

What a click says is believed only where one of our own posts, in that thread, bears exactly that button. A run is named
before it begins, so that it can be stopped, and found again, at any moment.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from kagura_kernel.cockpit import message_intent
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.restart import stopped
from kagura_kernel.cockpit.transports import changes
from kagura_kernel.cockpit.transports.followers import Followers, Posting
from kagura_kernel.cockpit.transports.messages import IN_FULL, cut, fits, listed, one_line, status_text, whole_file
from kagura_kernel.cockpit.transports.transport import (
    Clicked,
    Heard,
    Post,
    PostRefused,
    Said,
    SentFile,
    Turn,
    Turns,
)
from kagura_kernel.domain import errors
from kagura_kernel.domain.approvals import ApprovalRequest, Decision
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.domain.variables import MAX_VARIABLES, PackedVariable
from kagura_kernel.domain.visible import printed, whole
from kagura_kernel.journal import views
from kagura_kernel.journal.chats import ChatBook
from kagura_kernel.journal.rows import RunRow
from kagura_kernel.journal.session_registry import sessions
from kagura_kernel.runs.request import RunRequest


class Refused(Exception):
    """Something that came over a chat and is not done; the text says why, as a clause."""

    def __init__(self, why: str, approval_id: str = "") -> None:
        super().__init__(why)
        self.approval_id = approval_id  # The approval that it was about; empty for none


@dataclass(frozen=True, slots=True)
class Deciding:
    """Answers approvals over one chat."""

    cockpit: Cockpit  # What is acted on
    book: ChatBook  # What stands in the chat
    via: str  # The chat's name, which the journal has as the way of an answer
    limit: int  # Characters of a question that can be shown there

    def open_request(self, approval_id: str) -> ApprovalRequest:
        """The approval, if a run that goes on still waits for it; blocks.

        Raises:
            Refused: it is decided, unknown, or the run that asked is over.
        """
        request = next((one for one in self.cockpit.pending() if one.id == approval_id), None)
        if request is None:
            raise Refused("this approval is decided already, or there is none of this name", approval_id)
        if request.run_id not in {row.run_id for row in views.unfinished(self.cockpit.journal)}:
            raise Refused("the run that asked is over", approval_id)
        return request

    def decide(self, approval_id: str, *, allow: bool, by: str, answer: str) -> Decision:
        """Answer an approval; blocks.

        Raises:
            Refused: it cannot be answered any more, or is to be allowed though this chat has only a part of it.
        """
        request = self.open_request(approval_id)
        if allow and self._is_cut(request):
            raise Refused(f"only a part of it stands here: {IN_FULL}", approval_id)
        try:
            return self.cockpit.decide(approval_id, allow, by=by, via=self.via, answer=answer)
        except errors.ApprovalError as error:
            raise Refused(error.message.rstrip("."), approval_id) from error

    def _is_cut(self, request: ApprovalRequest) -> bool:
        """Whether it stands in this chat without what does not fit: nobody allows what cannot be read."""
        if fits(request, self.limit) or self.book.post_about(request.id) is None:
            return False
        return self.book.post_about(whole_file(request.id)) is None


LEAST = 6
"""Characters that an id may be named by; with fewer of them a slip of the finger names something else."""


def ending(word: str, prefix: str) -> str:
    """What an id ends with that was typed: all of a whole one, otherwise what stands behind its first letters.

    The prefix is `app` or `run`.

    Raises:
        UsageError: it is too short to name anything.
    """
    typed = whole(word.casefold())
    if re.fullmatch(rf"{prefix}-[0-9a-z]{{14}}", typed):
        return typed
    end = typed.removeprefix(f"{prefix}-")
    if len(end) < LEAST:
        raise errors.UsageError(f"Too short: give the whole id, `{prefix}-…`, or at least its last {LEAST} characters.")
    return end


def the_one(word: str, prefix: str, ids: Iterable[str]) -> str:
    """The one of these that was meant; empty for none.

    Raises:
        UsageError: it is too short, or fits several.
    """
    end = ending(word, prefix)
    found = [one for one in ids if one.endswith(end)]
    if len(found) > 1:
        raise errors.UsageError(f"That fits {len(found)} of them: {', '.join(found)}. Give the whole id.")
    return found[0] if found else ""


ANYWHERE = frozenset({"approve", "deny", "help", "kill", "status"})
"""Those that need no thread."""

HELP = (
    "A message begins a run, goes on from the one before in this thread, or is said to the one that goes on here. "
    "/status · /kill [RUN] · /instead TASK: stop it and go on with this · "
    "/approve [APPROVAL] [ANSWER] · /deny [APPROVAL] [REMARK] · /changes · /apply [FILES] · /discard [FILES] · "
    "/undo [FILES] · "
    "/resume [RUN]. A word alone does too: yes, no, status, stop, resume."
)

_UNCLEAR = {
    "which option": "A question waits here: answer it in words, or with one of the numbers below it.",
    "asked later": "That was asked only after you had written this. Read it, and say it again.",
    "nothing waits": "Nothing waits for an answer here.",
    "nothing runs": "Nothing goes on in this thread that could be stopped.",
    "while it runs": "A run goes on here. Wait for it, say stop, or write in another thread.",
    "nothing said": "There was nothing in that message.",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was said, and by whom."""

    thread: str
    session: str | None  # Its session; None outside of threads
    by: str  # Who
    message_id: str  # By which message or click, as the book knows it


@dataclass(frozen=True, slots=True)
class Acting:
    """Carries out messages. Used on one loop."""

    cockpit: Cockpit  # What is acted on
    followers: Followers  # Know what goes on in a thread
    turns: Turns  # Know what is about to begin there
    posting: Posting  # How posts and files get into the threads
    deciding: Deciding  # Answers approvals

    async def understood(self, said: Said, place: Place, *, in_turn: bool) -> message_intent.Meaning:
        """What a message asks for, as its thread stood for whoever wrote it.

        Args:
            said: The message.
            place: Where it was said.
            in_turn: Whether its turn has come: then what was said later does not count.
        """
        begins = [] if in_turn else self.turns.begins(place.thread)
        following = self.followers.running(place.thread)
        standing = await asyncio.to_thread(self._standing, place, [*following, *begins])
        prose = self.cockpit.classifies
        meaning = message_intent.understand(said.text, standing, prose=prose)
        # A stop waits for no question that is just being put.
        if not isinstance(meaning, message_intent.AnswerSaid | message_intent.Unclear | message_intent.Ambiguous):
            return meaning
        parts: dict[bool, list[ApprovalRequest]] = {True: [], False: []}
        for request in standing.waiting:
            parts[await self.posting.was_seen(said, request.id)].append(request)
        seen_then = replace(standing, waiting=parts[True], unseen=parts[False])
        return message_intent.understand(said.text, seen_then, prose=prose)

    async def tell(self, meaning: message_intent.Meaning, place: Place) -> str | Post | Offering:
        """Do what a message asks for, and say what came of it.

        Raises:
            KaguraError: it could not be done; the message says why.
            Refused: it answers an approval that cannot be answered any more.
        """
        told: str | Post | Offering = ""
        match meaning:
            case message_intent.AnswerSaid(approval_id=approval_id, allow=allow, text=text):
                told = await self._decide(approval_id, allow=allow, by=place.by, answer=text)
            case message_intent.StatusAsked():
                told = await self._status(place)
            case message_intent.StopSaid():
                told = await self._stop(await self._runs_meant((), place), place)
            case message_intent.SentenceSaid(run_id=run_id, text=text):
                told = await self._say(run_id, text, place)
            case message_intent.CommandSaid(line=line):
                told = await self._command(line, place)
            case message_intent.Unclear(why="which approval", choices=choices):
                told = f"Several wait for that word. Say /approve or /deny with one of {', '.join(choices)}."
            case message_intent.Unclear(why=why):
                told = _UNCLEAR[why]
            case message_intent.TaskSaid() | message_intent.Ambiguous():
                raise TypeError("a task is launched, and what is ambiguous is settled, not told")
        return told

    async def stopped(self, place: Place) -> str:
        """Stop the run of a thread, and return when it is over; which it was.

        Raises:
            NotThisTime: nothing goes on there.
        """
        ours = self.followers.running(place.thread)
        run_id = (await asyncio.to_thread(self._standing, place, ours)).running
        if not run_id:
            raise errors.NotThisTime("Nothing goes on in this thread. Write the task without `/instead`.")
        await stopped(self.cockpit, run_id, by=place.by)
        return run_id

    async def _say(self, run_id: str, text: str, place: Place) -> str:
        sentence = Sentence(text, place.by, self.deciding.via)
        try:
            await asyncio.to_thread(self.cockpit.say, run_id, sentence)
        except errors.NotHeard as error:
            return f"{run_id} was not told: {error.why}. `/instead` and a task stops it and goes on with that."
        return f"{run_id} hears it at its next turn."

    def last_run(self, place: Place) -> str:
        """The newest run of a thread; empty where there was none. Blocks."""
        found = sessions(self.cockpit.journal, limit=1, names=[place.session or ""])
        return found[0].last_run if found else ""

    def _standing(self, place: Place, ours: list[str]) -> message_intent.SessionState:
        journal = self.cockpit.journal
        found = [row.run_id for row in views.unfinished(journal) if row.session_id == place.session]
        running = [*found, *(run_id for run_id in ours if run_id not in found)]
        waiting = [one for one in self.cockpit.pending() if {one.run_id, *one.lineage} & set(running)]
        return message_intent.SessionState(running[0] if running else "", waiting, ran=bool(self.last_run(place)))

    async def _decide(self, approval_id: str, *, allow: bool, by: str, answer: str) -> str:
        decision = await asyncio.to_thread(self.deciding.decide, approval_id, allow=allow, by=by, answer=answer)
        return f"{'Allowed' if decision.allowed else 'Denied'}: {approval_id}."

    async def _status(self, place: Place) -> str:
        running, pending = await asyncio.to_thread(self._going_on)
        return status_text(running, pending, place.session, self.turns.begins(place.thread))

    def _going_on(self) -> tuple[list[RunRow], list[ApprovalRequest]]:
        return views.unfinished(self.cockpit.journal), self.cockpit.pending()

    async def _stop(self, run_ids: list[str], place: Place) -> str:
        """Stop runs, those too that are only about to begin."""
        begins = self.turns.begins()
        self.turns.stop(run_ids, place.by)
        stopped = []
        for run_id in run_ids:
            try:
                # One that has not been let in yet is known here alone.
                if run_id not in begins or self.cockpit.handle(run_id) is not None:
                    await asyncio.to_thread(self.cockpit.kill, run_id, by=place.by)
            except errors.RunOver:
                if run_ids == [run_id]:
                    raise
            else:
                stopped.append(run_id)
        return f"{', '.join(stopped)} {'is' if len(stopped) == 1 else 'are'} being stopped."

    async def _command(self, line: str, place: Place) -> str | Post | Offering:
        word, *words = line.split() or [""]
        verb = word.casefold()
        if verb in message_intent.COMMANDS and verb not in ANYWHERE and place.session is None:
            raise errors.NotThisTime(f"/{verb} is about a thread: write it in one, with a mention of me.")
        match verb:
            case "help":
                return HELP
            case "status":
                return await self._status(place)
            case "kill":
                return await self._stop(await self._runs_meant(words, place), place)
            case "approve" | "deny":
                if not words:
                    raise errors.UsageError(f"/{verb} needs an approval here, as in `/{verb} app-…`.")
                approval_id, answer = await asyncio.to_thread(self._approval_meant, words[0], " ".join(words[1:]))
                return await self._decide(approval_id, allow=verb == "approve", by=place.by, answer=answer)
            case "changes" | "apply" | "discard" | "undo":
                return await self._changes(verb, line.strip()[len(word) :].strip(), place)
            case _:
                raise errors.UnknownName("command of a chat", one_line(word, 40), message_intent.COMMANDS)

    async def _runs_meant(self, words: Sequence[str], place: Place) -> list[str]:
        going = await asyncio.to_thread(views.unfinished, self.cockpit.journal)
        known = {row.run_id: row.session_id for row in going}
        if words:
            named = dict.fromkeys([*known, *self.followers.going_on(), *self.turns.begins()])
            if not (found := the_one(words[0], "run", named)):
                raise errors.RunUnknown(words[0])
            return [found]
        if place.session is None:
            raise errors.UsageError("/kill needs a run here, as in `/kill run-…`; /status tells which go on.")
        here = [run_id for run_id, session in known.items() if session == place.session]
        here += [*self.followers.running(place.thread), *self.turns.begins(place.thread)]
        if not here:
            raise errors.NotThisTime("Nothing goes on in this thread.")
        return list(dict.fromkeys(here))

    def _approval_meant(self, wanted: str, said: str) -> tuple[str, str]:
        """The approval, and what is answered to it."""
        pending = {one.id: one for one in self.cockpit.pending()}
        found = the_one(wanted, "app", pending)
        if not found:
            # Looked up as it was written, so that the answer says that it does not wait.
            return wanted, said
        answer = message_intent.chosen(said, pending[found].options)
        if answer is None:
            raise errors.UsageError(f"{found} has no answer {said}.")
        return found, answer

    async def _changes(self, verb: str, line: str, place: Place) -> Post | Offering:
        """Look at changes of the thread's last run or decide about them, and say what is in which state now."""
        run_id = await asyncio.to_thread(self.last_run, place)
        if not run_id:
            raise errors.NotThisTime("There was no run in this thread yet.")
        limit = self.posting.transport.limit
        if verb != "changes":
            states, offer = await asyncio.to_thread(changes.settle, self.cockpit, verb, line, run_id, place.by)
            head = f"Changes of {run_id}, {verb}: {len(states)}"
            return Offering(await self._whole(head, listed(states, limit), "\n".join(states), place), offer)
        if line:
            difference = await asyncio.to_thread(changes.difference, self.cockpit, run_id, line)
            return await self._whole(f"{one_line(line)} of {run_id}", cut(difference, limit), difference, place)
        states = await asyncio.to_thread(changes.states, self.cockpit, run_id)
        head = f"Changes of {run_id}: {len(states)}"
        lines = [*states, *await asyncio.to_thread(changes.commits, self.cockpit, run_id)]
        return await self._whole(head, listed(lines, limit), "\n".join(lines), place)

    async def _whole(self, head: str, shown: tuple[str, bool], whole: str, place: Place) -> Post:
        """What fits; where that is not all, whole as a file too."""
        told, is_cut = shown
        if not is_cut:
            return Post(head, told)
        try:
            subject, content = f"file:said:{place.message_id}", printed(whole).encode()
            await self.posting.upload(place.thread, subject, "changes.txt", content)
        except PostRefused:
            return Post(f"{head} · the rest could not be put here: `kagura-kernel changes` shows it", told)
        return Post(f"{head} · all of it is in the file", told)


@dataclass(frozen=True, slots=True)
class Offering:
    """An answer with buttons about changes."""

    post: Post
    offer: changes.Offer


_ACTION = re.compile(
    r"(allow|deny|kill|resume|o[0-4]|undo|mine|theirs):((?:app|run)-[0-9a-z]{14}):([0-9a-f]{32})(?::([0-9a-f]{12}|-))?"
)
_ABOUT_RUNS = frozenset({"kill", "resume", *changes.BUTTONS})


def subject_of(heard: Heard) -> tuple[str, str]:
    """The approval and the run that a click claims to be about; empty where it does not."""
    found = _ACTION.fullmatch(heard.action) if isinstance(heard, Clicked) else None
    if found is None:
        return "", ""
    subject = found[2]
    return ("", subject) if subject.startswith("run-") else (subject, "")


class Copied(Refused):
    """The button stands below another post than the one that counts: what is left of a try whose end nobody heard."""


@dataclass(frozen=True, slots=True)
class Clicking:
    """Carries out clicks."""

    cockpit: Cockpit  # What is acted on
    book: ChatBook  # Which buttons are ours
    deciding: Deciding  # Answers approvals

    async def click(self, clicked: Clicked, by: str) -> str | Offering:
        """Do what a button says; where it asks to go on from a run, that is left to the caller, who is told which.

        Of changes it is told what became of them.

        Raises:
            Copied: it stands below an older copy of one of our posts.
            Refused: it is none of ours, or is about something that is over.
        """
        verb, subject, seen = await self._checked(clicked)
        if verb == "resume":
            return subject
        if verb in changes.BUTTONS:
            states, offer = await asyncio.to_thread(changes.press, self.cockpit, verb, subject, seen, by)
            return Offering(Post(f"Changes of {subject}", listed(states, self.deciding.limit)[0]), offer)
        if verb == "kill":
            try:
                await asyncio.to_thread(self.cockpit.kill, subject, by=by)
            except errors.RunError as error:
                raise Refused(error.message.rstrip(".")) from error
            return ""
        request = await asyncio.to_thread(self.deciding.open_request, subject)
        answer = _option(verb, request.options)
        allow = verb != "deny"
        await asyncio.to_thread(self.deciding.decide, subject, allow=allow, by=by, answer=answer)
        return ""

    async def _checked(self, clicked: Clicked) -> tuple[str, str, str]:
        found = _ACTION.fullmatch(clicked.action)
        if found is None:
            raise Refused("the button is none of ours")
        verb, subject, token, seen = found.groups()
        if (verb in _ABOUT_RUNS) != subject.startswith("run-"):
            raise Refused("the button is none of ours")
        if verb in changes.BUTTONS:
            post = await asyncio.to_thread(self.book.answer_about, subject, token)
        else:
            post = await asyncio.to_thread(self.book.post_about, subject)
        if post is None or not hmac.compare_digest(post.token, token) or post.thread != clicked.thread:
            raise Refused("the button is none of ours")
        if post.post_id and clicked.post_id and post.post_id != clicked.post_id:
            raise Copied("this is an older copy: use the newer one below it", subject)
        return verb, subject, seen or ""


def _option(verb: str, options: tuple[str, ...]) -> str:
    if not verb.startswith("o"):
        return ""
    number = int(verb[1:])
    if number >= len(options):
        raise Refused("the question has no such answer")
    return options[number]


LATER = "The server is being stopped and begins nothing new. Say it again once it is back."

_AT_ONCE = 2
"""Runs that one chat sets going at the same time: threads are left for a stop, which must not wait for them."""


class NotBegun(Exception):
    """A run is not begun; the text says why, in one sentence."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A run to be begun."""

    place: Place  # What asks for it, in a thread
    turn: Turn  # Its turn there, and its name
    task: str = ""  # What to do
    files: Sequence[SentFile] = ()  # What was sent along
    resume: str = ""  # The run that it goes on from, as a person names it; empty for a fresh one


@dataclass(frozen=True, slots=True)
class ChatTerms:
    """What holds for one chat."""

    # Who may say anything, by the names that the chat gives them; nobody else is heard, and an empty list is nobody
    operators: frozenset[str] = frozenset()
    project: Path | None = None  # The project of its runs; None is the working directory
    brain: str | None = None  # Their brain; None leaves it to the settings
    # Their box; with one, this brain and this box are those of runs that are gone on with too. None as for `brain`
    box: str | None = None


def terms_of(operators: Collection[str], project: Path | None = None, brain: str | None = None) -> ChatTerms:
    """Terms for these operators; blanks around a name are dropped, and an empty name is nobody."""
    return ChatTerms(frozenset(name.strip() for name in operators if name.strip()), project, brain)


@dataclass
class Launching:
    """Begins runs. Used on one loop."""

    cockpit: Cockpit  # What begins them
    followers: Followers  # Tells their threads
    book: ChatBook  # Where it is noted what a message has begun
    terms: ChatTerms  # What holds for them
    transport: str  # The chat's name, which the journal has as their origin
    draining: bool = False  # Whether nothing new is begun
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def begin(self, asked: Begin) -> None:
        """Set it going, and have its thread told of it from here on.

        Raises:
            NotBegun: it was stopped before it had begun, or the server is being stopped.
            KaguraError: it cannot be begun; the message says why.
        """
        run_id, thread = asked.turn.run_id, asked.turn.thread
        self._check(asked.turn)
        inputs = await self._inputs(asked.files)
        async with self._room:
            self._check(asked.turn)
            # Claimed first, so that it is not taken for one from elsewhere when it shows in the journal.
            self.followers.claim(run_id, thread)
            try:
                await asyncio.to_thread(self.book.began, asked.place.message_id, run_id)
                handle = await asyncio.to_thread(self.cockpit.launch, self._intent(asked, inputs))
            except BaseException:
                self.followers.release(run_id)
                raise
        if asked.turn.stopped_by:
            handle.kill(asked.turn.stopped_by)
        self.followers.follow(handle, thread, asked.place.message_id)

    def _check(self, turn: Turn) -> None:
        if turn.stopped_by:
            raise NotBegun(f"{turn.run_id} was stopped before it had begun.")
        if self.draining:
            raise NotBegun(LATER)

    def _intent(self, asked: Begin, inputs: tuple[PackedVariable, ...]) -> RunRequest:
        terms = self.terms
        return RunRequest(
            task=asked.task,
            session=asked.place.session,
            project=None if asked.resume else terms.project,
            brain=None if asked.resume and not terms.box else terms.brain,
            box=terms.box,
            origin=self.transport,
            started_by=asked.place.by,
            run_id=asked.turn.run_id,
            inputs=inputs,
            resume=asked.resume or None,
        )

    async def _inputs(self, files: Sequence[SentFile]) -> tuple[PackedVariable, ...]:
        """Files that were sent along, as variables of the run: never as files of the project."""
        if len(files) > MAX_VARIABLES:
            raise errors.UsageError(f"At most {MAX_VARIABLES} files go along with a message, not {len(files)}.")
        left = self.cockpit.room
        packed = []
        for number, file in enumerate(files, start=1):
            if file.size > left:
                raise errors.UsageError(
                    f"{one_line(file.name, 60)} does not fit: the files of one message have a limit."
                )
            data = await file.read(left)
            left -= len(data)
            shown = one_line(file.name, 80)
            words = re.sub(r"\W+", "_", shown, flags=re.ASCII).strip("_")[:60]
            name = f"file_{number}_{words}" if words else f"file_{number}"
            summary = f"the file {shown}, {len(data):,} bytes"
            packed.append(PackedVariable(name, "file", data, {"name": shown}, summary))
        return tuple(packed)
