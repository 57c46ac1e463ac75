"""Repositories on loopback and in folders: what they offer, and what somebody in their place cannot do."""

import json
import os
import re
import shutil
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import Metadata

from kagura_kernel.cockpit.plugins import PluginShelf
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import PluginRefused, PluginRepositoryError, UnknownName, UsageError
from kagura_kernel.domain.plugins import PluginPermissions, Risk
from kagura_kernel.plugins.manifest import load_found
from kagura_kernel.plugins.repositories.publish import Issue, packed, publish
from kagura_kernel.plugins.repositories.trusted import place_of
from kagura_kernel.plugins.signature import make_key, secret_key
from tests.support.plugin_rig import PluginRig, write_plugin

BY = {"by": "ada", "via": "test"}


class Handler(SimpleHTTPRequestHandler):
    """Files of a folder, without a log."""

    elsewhere = ""

    def do_GET(self):
        """A file, or the way to elsewhere."""
        if not self.elsewhere:
            super().do_GET()
            return
        self.send_response(302)
        self.send_header("Location", self.elsewhere + self.path)
        self.end_headers()

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
async def rig(tmp_path):
    made = PluginRig(tmp_path / "rig", clock=SystemClock())
    yield made
    await made.close()


@pytest.fixture
def shelf(rig):
    return PluginShelf(lambda: rig.manager, rig.home)


@pytest.fixture
def site(tmp_path):
    return tmp_path / "site"


@pytest.fixture
def url(site):
    """Where the site is served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def issue(shelf, site, tmp_path):
    """Publishes a version of the greeter."""

    def make(version="1.0.0", **keys):
        made = write_plugin(tmp_path / "work" / version, version=version, **keys)
        return shelf.repositories.publish(site, [made], tmp_path / "site.key", days=30)

    return make


@pytest.fixture
def trusted(shelf, url, issue):
    """The site, with one version, trusted by its root's hash."""
    first = issue()
    return shelf.repositories.add(url, root=None, sha256=first.root_sha256, name="site", **BY)[0]


def installed(rig):
    found = load_found(rig.user / "greeter", "user")
    return found.manifest.version


@pytest.mark.usefixtures("trusted")
def test_what_was_published_is_found_installed_and_updated_with_what_is_other(rig, shelf, issue):
    [hit] = shelf.repositories.search(["PLUGIN", "greeter"])
    assert (hit.offer.version, hit.installed, hit.offer.entry.risk) == ("1.0.0", "", Risk.UNKNOWN)
    assert shelf.repositories.search(["nothing"]) == []
    shelf.install("greeter", None, **BY)
    assert rig.manager.row("ses-1", "greeter", None).state == "discovered"
    assert shelf.repositories.updates() == []
    issue("1.10.0", permissions={"net": ["example.org"]}, files={"more.py": b"A = 1\n"})
    issue("2.0.0-beta.1")
    [update] = shelf.repositories.updates()
    assert update.difference.lines() == [
        "version: 1.0.0, now 1.10.0",
        "files: plugin.json changed, more.py added",
        "permissions: new: reaches example.org",
    ]
    assert rig.manager.row("ses-1", "greeter", None).update == "1.10.0"
    assert installed(rig) == "1.0.0"
    shelf.repositories.update(update, **BY)
    assert (installed(rig), rig.manager.row("ses-1", "greeter", None).update) == ("1.10.0", "")
    assert shelf.repositories.search([])[0].installed == "1.10.0"


def test_a_folder_is_a_repository_too_and_any_version_can_be_named(rig, shelf, site, issue):
    issue()
    issue("1.1.0")
    shelf.repositories.add(str(site), root=site / "metadata/1.root.json", sha256=None, name=None, **BY)
    shelf.install("greeter@1.0.0", None, repository="site", **BY)
    assert installed(rig) == "1.0.0"
    with pytest.raises(PluginRefused, match="is there already"):
        shelf.install("greeter", None, **BY)
    with pytest.raises(UnknownName, match="version of greeter"):
        shelf.install("greeter@3.0.0", None, replace=True, **BY)


@pytest.mark.usefixtures("trusted")
def test_what_was_changed_or_comes_from_elsewhere_is_left_alone(rig, shelf, issue):
    shelf.install("greeter", None, **BY)
    (rig.user / "greeter" / "README.md").write_text("mine")
    issue("1.1.0")
    assert shelf.repositories.updates() == []
    with pytest.raises(PluginRefused, match="as it is now"):
        shelf.repositories.updates("greeter")


@pytest.mark.usefixtures("trusted")
def test_another_repository_that_claims_a_plugin_cannot_offer_it_an_update(shelf, issue, tmp_path):
    shelf.install("greeter", None, **BY)
    other, key = tmp_path / "another", tmp_path / "another.key"
    shelf.repositories.publish(other, [tmp_path / "work/1.0.0/greeter"], key, days=30)
    shelf.repositories.add(str(other), root=other / "metadata/1.root.json", sha256=None, name=None, **BY)
    theirs = write_plugin(tmp_path / "theirs", version="9.0.0")
    shelf.repositories.publish(other, [theirs], key, days=30)
    assert shelf.repositories.updates() == []
    with pytest.raises(UsageError, match=r"another, site.*offer the 9.0.0 of another.*--repository"):
        shelf.repositories.updates("greeter")
    # A mirror that offers what the other one does leaves no doubt.
    issue("9.1.0")
    shelf.repositories.publish(other, [tmp_path / "work/9.1.0/greeter"], key, days=30)
    [update] = shelf.repositories.updates()
    assert update.offer.version == "9.1.0"


@pytest.mark.usefixtures("trusted")
def test_an_approval_does_not_go_over_to_an_update(rig, shelf, issue):
    shelf.install("greeter", None, **BY)
    rig.approve("greeter")
    issue("1.1.0")
    shelf.repositories.update(shelf.repositories.updates()[0], **BY)
    assert not rig.row().approved
    assert rig.row().state == "discovered"


def refused(shelf, match):
    with pytest.raises(PluginRepositoryError, match=match) as raised:
        shelf.install("greeter", None, replace=True, **BY)
    assert raised.value.code == "ERR_PLUGIN_REPOSITORY"


@pytest.mark.usefixtures("trusted")
def test_an_older_index_than_was_seen_is_refused(shelf, site, issue):
    before = (site / "metadata/timestamp.json").read_bytes()
    issue("1.1.0")
    shelf.repositories.search([])
    (site / "metadata/timestamp.json").write_bytes(before)
    refused(shelf, "older index")


@pytest.mark.usefixtures("trusted")
def test_parts_of_different_times_are_refused(shelf, site, issue):
    shelf.repositories.search([])
    issue("1.1.0")
    shutil.copy(site / "metadata/1.targets.json", site / "metadata/2.targets.json")
    refused(shelf, "parts of different ones")


@pytest.mark.usefixtures("trusted")
def test_an_index_that_nobody_could_have_signed_is_refused(shelf, site):
    index = site / "metadata/timestamp.json"
    index.write_bytes(re.sub(rb'"version": ?1\b', b'"version": NaN', index.read_bytes()))
    refused(shelf, "no index that can be used")


def test_an_index_that_has_expired_is_refused(shelf, site, url, tmp_path):
    make_key(tmp_path / "old.key")
    long_ago = datetime.now(UTC) - timedelta(days=31)
    first = publish(site, [], tmp_path / "old.key", days=30, now=long_ago)
    with pytest.raises(PluginRepositoryError, match="has expired"):
        shelf.repositories.add(url, root=None, sha256=first.root_sha256, name="site", **BY)
    assert shelf.repositories.trusted() == ()


@pytest.mark.usefixtures("trusted")
def test_another_key_is_refused_however_whole_its_repository_is(shelf, site, tmp_path):
    shutil.rmtree(site)
    evil = write_plugin(tmp_path / "evil", version="9.0.0")
    shelf.repositories.publish(site, [evil], tmp_path / "evil.key", days=30)
    refused(shelf, "not signed with the keys that you trust")


def test_a_root_that_is_not_the_one_that_is_meant_is_not_trusted(shelf, url, issue):
    issue()
    with pytest.raises(PluginRepositoryError, match="another root than is meant"):
        shelf.repositories.add(url, root=None, sha256="0" * 64, name="site", **BY)
    with pytest.raises(UsageError, match="which root you trust"):
        shelf.repositories.add(url, root=None, sha256=None, name="site", **BY)
    for no_hash in ("", "0" * 63, "the usual one"):
        with pytest.raises(UsageError, match="64 hexadecimal digits"):
            shelf.repositories.add(url, root=None, sha256=no_hash, name="site", **BY)
    assert shelf.repositories.trusted() == ()


@pytest.mark.parametrize("data", [b"PK something else", b"\0" * 100_000], ids=["another", "longer"])
@pytest.mark.usefixtures("trusted")
def test_another_archive_is_refused_and_nothing_is_installed(rig, shelf, site, data):
    [archive] = (site / "targets").iterdir()
    archive.write_bytes(data)
    refused(shelf, "not those that its index names")
    assert not (rig.user / "greeter").exists()


def test_an_index_that_promises_less_than_its_archive_asks_for_is_refused(rig, shelf, site, url, tmp_path):
    found = load_found(write_plugin(tmp_path / "work", permissions={"net": ["example.org"]}), "user")
    meek = replace(found, manifest=found.manifest.model_copy(update={"permissions": PluginPermissions()}))
    make_key(tmp_path / "k")
    issue = Issue(meek, packed(found.content), ".tar.gz", Risk.LOW)
    first = publish(site, [issue], tmp_path / "k", days=30, now=datetime.now(UTC))
    shelf.repositories.add(url, root=None, sha256=first.root_sha256, name="site", **BY)
    refused(shelf, "what its archive does not hold")
    assert not (rig.user / "greeter").exists()


@pytest.mark.usefixtures("trusted")
def test_nothing_is_fetched_from_elsewhere_without_https(shelf, monkeypatch):
    with pytest.raises(UsageError, match="https://"):
        place_of("http://example.org/plugins")
    monkeypatch.setattr(Handler, "elsewhere", "http://example.org")
    refused(shelf, "HTTPS alone")


@pytest.mark.usefixtures("trusted")
def test_a_server_that_is_away_is_told_with_its_name(shelf, site):
    shutil.rmtree(site)
    refused(shelf, "repository 'site' cannot be read: it cannot be fetched: the server answers 404")


def test_publishing_keeps_versions_as_they_are_and_signs_nothing_that_it_has_not_made(shelf, site, issue, tmp_path):
    assert issue().added == ("greeter 1.0.0",)
    assert issue().added == ()
    with pytest.raises(PluginRefused, match="is published as 1"):
        issue(files={"more.py": b"A = 1\n"})
    with pytest.raises(PluginRefused, match="is not published"):
        issue("1.1.0", source="import subprocess\n")
    with pytest.raises(UsageError, match=r"no repository in .* to sign anew"):
        shelf.repositories.publish(tmp_path / "typo", [], tmp_path / "typo.key", days=30)
    with pytest.raises(PluginRepositoryError, match="is no repository, and not empty"):
        shelf.repositories.publish(tmp_path / "work", [], tmp_path / "typo.key", days=30)
    assert not (tmp_path / "typo").exists()
    assert not (tmp_path / "typo.key").exists()
    make_key(tmp_path / "other.key")
    with pytest.raises(PluginRepositoryError, match="another key"):
        shelf.repositories.publish(site, [], tmp_path / "other.key", days=30)
    index = site / "metadata/2.targets.json"
    document = json.loads(index.read_bytes())
    document["signed"]["targets"] = {}
    index.write_text(json.dumps(document))
    with pytest.raises(PluginRepositoryError, match="cannot be read"):
        issue("1.1.0")


def test_nothing_is_signed_below_a_root_that_somebody_else_has_made(shelf, site, issue, tmp_path):
    """Who has had the folder has it name our key beside theirs, so that we would sign what they put into the index."""
    issue()
    theirs = tmp_path / "theirs"
    evil = write_plugin(tmp_path / "evil", version="9.0.0")
    shelf.repositories.publish(theirs, [evil], tmp_path / "their.key", days=30)
    root = Metadata.from_file(str(theirs / "metadata/1.root.json"))
    root.signed.keys.update(Metadata.from_file(str(site / "metadata/1.root.json")).signed.keys)
    root.sign(CryptoSigner(secret_key(tmp_path / "their.key")))
    root.to_file(str(theirs / "metadata/1.root.json"))
    shutil.rmtree(site)
    shutil.copytree(theirs, site)
    before = {path.name for path in (site / "metadata").iterdir()}
    with pytest.raises(PluginRepositoryError, match="another key"):
        issue("1.1.0")
    assert {path.name for path in (site / "metadata").iterdir()} == before


def test_a_pipe_in_a_folder_holds_nobody_up(shelf, site, issue):
    first = issue()
    shelf.repositories.add(str(site), root=None, sha256=first.root_sha256, name="site", **BY)
    (site / "metadata/timestamp.json").unlink()
    os.mkfifo(site / "metadata/timestamp.json")
    refused(shelf, "something else than a file")


@pytest.mark.usefixtures("trusted")
def test_without_the_library_it_is_said_what_to_install(shelf, monkeypatch):
    monkeypatch.setitem(sys.modules, "tuf.ngclient", None)
    refused(shelf, "kagura-kernel\\[repositories\\]")


@pytest.mark.usefixtures("trusted", "project_here")
def test_a_word_that_can_mean_a_folder_and_a_repository_s_plugin_is_asked_about(shelf):
    with pytest.raises(UsageError, match=r"Say \./greeter for the folder"):
        shelf.install("greeter", None, **BY)


@pytest.fixture
def project_here(tmp_path: Path, monkeypatch):
    write_plugin(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.usefixtures("trusted")
def test_a_repository_is_trusted_no_longer_and_what_it_showed_is_forgotten(rig, shelf):
    shelf.repositories.remove("site", **BY)
    assert shelf.repositories.trusted() == ()
    assert not (rig.home / "plugin-repositories" / "site").exists()
    with pytest.raises(UsageError, match="You trust no repository yet"):
        shelf.repositories.search([])
