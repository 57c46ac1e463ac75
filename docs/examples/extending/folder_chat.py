"""A chat of one's own: a shared folder. Whoever may write into `people/ann` is ann; answers stand in `threads`."""

import asyncio
import contextlib
import json
import os
import re
from pathlib import Path

from kagura_kernel.assembly.chats import ChatKind, ChatSettings
from kagura_kernel.cockpit.transports.transport import Clicked, Said, SentFile, TransportError
from kagura_kernel.domain.visible import printed

LARGEST = 100_000


class FolderSettings(ChatSettings):
    folder: str


class FolderChat:
    name = "folder"
    limit = 4000

    def __init__(self, folder):
        self._folder = Path(folder)
        self._listening = None

    async def open(self, hear):
        if not (self._folder / "people").is_dir():
            raise TransportError(self.name, "let us in", "it has no folder `people`")
        self._listening = asyncio.create_task(self._listen(hear))

    async def close(self):
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def post(self, thread, post):
        # One that may be out already, since we were stopped while it was written, is not said a second time.
        if post.may_be_out and (out := sorted(self._post(thread, "").parent.glob(f"*-{post.mark}.json"))):
            return out[0].stem
        post_id = f"{await self._try('take a post', self._now)}-{post.mark}"
        await self._try("take a post", self._put, self._post(thread, post_id), _shown(post, edits=0))
        return post_id

    def order(self, post_id):
        return int(post_id.partition("-")[0])

    async def edit(self, thread, post_id, post):
        path = self._post(thread, post_id)
        edits = json.loads(path.read_text())["edits"] + 1 if path.exists() else 0
        await self._try("take an edit", self._put, path, _shown(post, edits=edits))

    async def upload(self, thread, name, content):
        path = self._folder / "threads" / thread / "files" / Path(name).name
        await self._try("take a file", self._put, path, content)

    async def _listen(self, hear):
        while True:
            # A folder that is away for a while is looked into again.
            with contextlib.suppress(OSError):
                for path in sorted(self._folder.glob("people/*/*.json")):
                    if (heard := _heard(path)) is not None:
                        await hear(heard)
                        # Not before it is kept: what is still there after a crash is heard again, under the same name.
                        path.unlink()
            await asyncio.sleep(0.1)

    async def _try(self, what, work, *given):
        try:
            return await asyncio.to_thread(work, *given)
        except OSError as error:
            raise TransportError(self.name, what, str(error.strerror)) from error

    def _now(self):
        # By the folder's own clock, which says of messages too when they were written.
        clock = self._folder / "clock"
        clock.write_bytes(b"")
        return clock.stat().st_mtime_ns

    def _put(self, path, content):
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".half")
        half.write_bytes(content)
        half.replace(path)

    def _post(self, thread, post_id):
        return self._folder / "threads" / thread / f"{post_id}.json"


def _heard(path):
    """What somebody wrote; None for what is not written to its end yet, or makes no sense."""
    # The folder says who it is, never the text.
    message_id, operator = f"{path.parent.name}/{path.name}", path.parent.name
    try:
        given = json.loads(_read(path, LARGEST))
        thread = re.fullmatch(r"[a-z0-9-]{1,40}", given["thread"])[0]
        if "press" in given:
            return Clicked(message_id, thread, operator, str(given["press"]), str(given["post"]))
        files = tuple(_sent(path.with_name(Path(name).name)) for name in given.get("files", ()))
        return Said(message_id, thread, operator, str(given["text"]), files, order=path.stat().st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sent(path):
    async def read(limit):
        try:
            return await asyncio.to_thread(_read, path, limit)
        except OSError as error:
            raise TransportError("folder", "hand out a file", str(error.strerror)) from error

    return SentFile(path.name, path.stat().st_size, read)


def _read(path, limit):
    # A link could lead to what its writer may not read, and a pipe would have no end.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read(limit)


def _shown(post, *, edits):
    # Words of others stand in a field of their own: nothing in them can pose as ours, as a button or as a link.
    told = {"ours": printed(post.ours), "theirs": printed(post.theirs), "edits": edits}
    told["buttons"] = [[printed(button.label), button.action] for button in post.buttons]
    return json.dumps(told, ensure_ascii=False, indent=1).encode()


KIND = ChatKind(lambda settings, tokens: FolderChat(settings.folder), FolderSettings)
