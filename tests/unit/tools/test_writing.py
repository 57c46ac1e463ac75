async def test_a_new_file_comes_with_its_directories(hand):
    result = await hand("write_file", path="d/e/a.txt", content="Grüße\n")
    assert result.text == "Created d/e/a.txt: 8 bytes."
    assert await hand.get("d/e/a.txt") == "Grüße\n".encode()


async def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(hand):
    await hand("bash", command="echo old > run.sh; chmod 755 run.sh")
    assert (await hand("write_file", path="run.sh", content="")).text == "Replaced run.sh: 0 bytes."
    assert await hand.get("run.sh") == b""
    assert (await hand("bash", command="stat -c %a run.sh")).text == "755"


async def test_half_a_character_writes_nothing(hand):
    result = await hand("write_file", path="a.txt", content="\ud800")
    assert result.is_error
    assert (await hand("list_files")).text == "(the directory is empty)"


async def test_writing_outside_of_the_workspace_or_over_a_directory_is_refused(hand):
    assert "ERR_BOX_FILE" in (await hand("write_file", path="/etc/x", content="")).text
    await hand.put("d/x", b"")
    assert (await hand("write_file", path="d", content="")).is_error


async def test_an_edit_changes_one_passage(hand):
    await hand.put("a.py", b"x = 1\r\ny = 1\r\n")
    assert (await hand("edit_file", path="a.py", old="x = 1\ny", new="z = 2\ny")).text == "Changed a.py: 1 passage."
    assert await hand.get("a.py") == b"z = 2\r\ny = 1\r\n"


async def test_an_edit_can_change_every_occurrence(hand):
    await hand.put("a.py", b"a a a")
    assert (await hand("edit_file", path="a.py", old="a", new="b", replace_all=True)).text.endswith("3 passages.")
    assert await hand.get("a.py") == b"b b b"


async def test_an_edit_that_cannot_be_made_leaves_the_file_and_names_it(hand):
    await hand.put("a.py", b"a a")
    for old, new in (("a", "b"), ("zzz", "b"), ("a", "a"), ("a a", "\ud800")):
        result = await hand("edit_file", path="a.py", old=old, new=new)
        assert result.is_error
    assert "a.py was not changed: 'old' occurs 2 times" in (await hand("edit_file", path="a.py", old="a", new="b")).text
    assert await hand.get("a.py") == b"a a"


async def test_binary_and_missing_files_are_not_edited(hand):
    await hand.put("a.bin", b"\0a")
    assert "binary" in (await hand("edit_file", path="a.bin", old="a", new="b")).text
    assert "ENOENT" in (await hand("edit_file", path="none", old="a", new="b")).text


async def test_a_secret_is_not_replaced_by_the_marker_that_was_shown_for_it(hand):
    await hand("write_file", path=".env", content="TOKEN=abc\nDEBUG=0\n")
    shown = "TOKEN=[REDACTED:token]\nDEBUG=1\n"
    refused = await hand("write_file", path=".env", content=shown)
    assert refused.is_error
    assert "its secrets would be lost" in refused.text
    hinted = await hand("edit_file", path=".env", old="TOKEN=[REDACTED:token]\nDEBUG=0", new="DEBUG=1")
    assert "a secret that you are not shown" in hinted.text
    assert (await hand("edit_file", path=".env", old="DEBUG=0", new="DEBUG=1")).text.startswith("Changed")
    assert "Created" in (await hand("write_file", path="docs.md", content=shown)).text
    assert "Replaced" in (await hand("write_file", path="docs.md", content=f"{shown}More.\n")).text


async def test_a_secret_behind_a_link_is_not_replaced_by_the_marker_either(hand):
    await hand("bash", command="echo TOKEN=abc > .env.local; ln -s .env.local .env; ln -s none loose")
    refused = await hand("write_file", path=".env", content="TOKEN=[REDACTED:token]\nDEBUG=1\n")
    assert "its secrets would be lost" in refused.text
    assert await hand.get(".env.local") == b"TOKEN=abc\n"
    assert "Replaced" in (await hand("write_file", path=".env", content="DEBUG=1\n")).text
    assert await hand.get(".env.local") == b"DEBUG=1\n"
    assert "Created" in (await hand("write_file", path="loose", content="[REDACTED:token]")).text
