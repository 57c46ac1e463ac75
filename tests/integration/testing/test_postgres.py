import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from kagura_kernel.testing.patience import wait_until
from tests.support.postgres_network import postgres_server, why_not

pytestmark = pytest.mark.postgres
KEEP = """
from tests.support.postgres_network import postgres_server
with postgres_server() as server:
    print(server.home, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def _installed() -> None:
    if why := why_not():
        pytest.skip(why)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_databases_are_fresh_and_the_server_listens_on_nothing_but_its_socket():
    with postgres_server() as server:
        urls = [server.new_database(), server.new_database()]
        engines = [create_engine(url) for url in urls]
        with engines[0].begin() as connection:
            connection.execute(text("CREATE TABLE mine (id INTEGER)"))
            assert connection.execute(text("SHOW listen_addresses")).scalar_one() == ""
        with engines[1].begin() as connection:
            assert connection.execute(text("SELECT to_regclass('mine')")).scalar_one() is None
        for engine in engines:
            engine.dispose()
    assert not server.home.exists()


def test_a_server_whose_starter_is_killed_ends_with_it():
    with subprocess.Popen(
        [sys.executable, "-c", KEEP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        home = Path(starter.stdout.readline().strip())
        try:
            server = int((home / "data" / "postmaster.pid").read_text().split()[0])
            assert is_there(server)
            starter.send_signal(signal.SIGKILL)
            starter.wait()
            wait_until(lambda: not is_there(server))
        finally:
            starter.kill()
            shutil.rmtree(home, ignore_errors=True)
