"""A cluster of a test's own, whose server can be killed as a crash of the machine would end it."""

import os
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psycopg
from harness import ROOT, connect, wait_until


def cluster(command: str, name: str, *arguments: str) -> str:
    line = [ROOT / "scripts/cluster.sh", command, name, *arguments]
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout


def children(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, after_name = stat.read_text().rpartition(") ")
        except OSError:
            continue  # gone in the meantime
        if int(after_name.split()[1]) == parent:
            found.append(int(stat.parent.name))
    return found


class Server:
    """Its postmaster is a child of ours: once killed it is gone, however late the system reaps orphans."""

    def __init__(self, name: str, *settings: str):
        self.name = name
        self.process = None
        cluster("start", name, *settings)
        cluster("fresh", name, name)
        exports = dict(word.split("=", 1) for word in shlex.split(cluster("env", name, name)) if "=" in word)
        self.where = {"host": exports["PGHOST"], "port": exports["PGPORT"], "user": exports["PGUSER"], "dbname": name}
        self.home = Path(exports["PGHOST"])
        self.command = shlex.split((self.home / "data/postmaster.opts").read_text())
        cluster("stop", name)

    def connect(self) -> psycopg.Connection:
        return connect(**self.where)

    def start(self) -> psycopg.Connection:
        """Starts it and returns a connection, the first one after recovery."""
        return wait_until(self._connection, "recovery")

    def _connection(self) -> psycopg.Connection | None:
        # It gives up where a backend of the last one lives yet; as a supervisor would, start it again.
        if self.process is None or self.process.poll() is not None:
            self.spawn()
        try:
            return self.connect()
        except psycopg.OperationalError:
            time.sleep(0.01)
            return None

    def spawn(self):
        owner = (self.home / "data").stat()
        as_owner = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        with open(self.home / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, **as_owner
            )

    def family(self) -> list[int]:
        return children(self.process.pid)

    def kill(self, family: list[int] = ()):
        """SIGKILL to the postmaster and to `family`; children that are not in it end when they notice."""
        self.process.kill()
        for child in family:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self.process.wait()

    def drop(self):
        if self.process and self.process.poll() is None:
            self.kill(self.family())
        cluster("drop", self.name)
