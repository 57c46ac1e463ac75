import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.sandbox.supervisor.root_layer import (
    MEMBERS,
    RANGE_INSIDE,
    Block,
    choose_block,
    find_range,
    mapping_commands,
)
from kagura_kernel.sandbox.supervisor.stage import _FIRST_ID, _IDS

BLOCK = Block(1000, 1001, 200_000, 300_000)


def test_root_is_the_box_and_everyone_else_an_id_of_the_block() -> None:
    assert [BLOCK.user(number) for number in (0, 1, 33, 65534, 65535)] == [1000, 200_000, 200_032, 265_533, 265_534]
    assert [BLOCK.group(number) for number in (0, 1, 33)] == [1001, 300_000, 300_032]


@given(st.integers(0, 2**32 - 1))
def test_no_id_of_the_host_is_ever_reached_outside_of_the_block(inside: int) -> None:
    assert BLOCK.user(inside) == 1000 or 200_000 <= BLOCK.user(inside) < 200_000 + MEMBERS


def test_the_maps_say_the_same_in_the_kernels_words() -> None:
    assert BLOCK.uid_map == "0 1000 1\n1 200000 65535"
    assert BLOCK.gid_map == "0 1001 1\n1 300000 65535"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("kagura:300000:65536\n", 300_000),
        ("alice:100000:65536\nkagura:300000:65535", 300_000),
        ("kagura:300000:1000\nkagura:500000:65536", 500_000),
        ("kagura:300000:1000", None),
        ("kagura:0:4294967295", None),
        ("kagura:lots:65536\nkagura:300000", None),
        ("", None),
    ],
)
def test_a_range_is_taken_from_its_owners_first_line_that_is_long_enough(text: str, first: int | None) -> None:
    assert find_range(text, "kagura") == first


def test_an_administrators_register_is_followed_when_both_files_name_us(tmp_path: Path) -> None:
    users, groups = tmp_path / "subuid", tmp_path / "subgid"
    users.write_text("kagura:400000:65536\n")
    groups.write_text("kagura:500000:65536\n")
    assert choose_block(7, str(users), str(groups)) == Block(7, 7, 400_000, 500_000)
    groups.write_text("alice:500000:65536\n")
    assert choose_block(7, str(users), str(groups)).first_uid > 400_000


def test_without_a_register_a_block_of_nobodys_is_drawn_anew_each_time(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    drawn = [choose_block(7, missing, missing) for _ in range(40)]
    assert len({block.first_uid for block in drawn}) > 1
    for block in drawn:
        assert block.first_uid == block.first_gid
        assert block.first_uid >= _FIRST_ID + _IDS
        assert block.first_uid + MEMBERS < 2**31


def test_an_ordinary_user_is_given_the_commands_that_map_their_own_range(tmp_path: Path) -> None:
    register = tmp_path / "subuid"
    register.write_text(f"{os.geteuid()}:400000:65536\n")
    commands = mapping_commands(1000, ("/bin/newuidmap", "/bin/newgidmap"), str(register), str(register))
    range_words = [str(RANGE_INSIDE), "400000", str(MEMBERS)]
    assert commands == [
        ["/bin/newuidmap", "{pid}", "1000", str(os.geteuid()), "1", *range_words],
        ["/bin/newgidmap", "{pid}", "1000", str(os.getegid()), "1", *range_words],
    ]


def test_there_is_no_command_where_either_register_has_no_range(tmp_path: Path) -> None:
    register = tmp_path / "subuid"
    register.write_text(f"{os.geteuid()}:400000:65536\n")
    missing = str(tmp_path / "none")
    for users, groups in ((str(register), missing), (missing, str(register)), (missing, missing)):
        assert mapping_commands(1000, ("a", "b"), users, groups) == []
