"""Clients of a server that is going to be killed: what it acknowledged is on their disk before they go on."""

import json
import os
import threading
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

import psycopg
from calls import in_batch, run

SERIALIZATION = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
OWN_ROWS = "CREATE TABLE own_rows (tenant uuid, event_id text)"


@dataclass(frozen=True)
class Delivery:
    """One event or, where there are several, a batch; `wrapped` in a transaction with the caller's own rows."""

    calls: list
    wrapped: bool

    def run(self, db):
        """Yields what is acknowledged: the answers, once they are committed."""
        with db.transaction() if self.wrapped else nullcontext():
            answers = run(db, self.calls[0] if len(self.calls) == 1 else in_batch(self.calls))
            assert len(answers) == len(self.calls)
            for (_, (tenant, event_id, *_)), answer in zip(self.calls, answers):
                if self.wrapped and answer["outcome"] == answer["first_outcome"]:
                    db.execute("INSERT INTO own_rows VALUES ($1, $2)", [tenant, event_id])
        yield answers


@dataclass(frozen=True)
class Creation:
    """The application makes an order."""

    call: tuple

    def run(self, db):
        yield db.execute(*self.call).fetchall()


@dataclass(frozen=True)
class Work:
    """A worker's turn: claim, then acknowledge."""

    tenant: str

    def run(self, db):
        messages = db.execute("SELECT * FROM payment_idem.claim('worker', 2, '1 second', NULL, $1)", [self.tenant])
        messages = messages.fetchall()
        yield messages
        for message in messages:
            (answer,) = db.execute("SELECT payment_idem.ack($1)", [message["lease_token"]]).fetchall()
            yield [message | answer]


@dataclass(frozen=True)
class Checkpoint:
    """Dirty pages go out, and the next changes of each page write it whole."""

    def run(self, db):
        db.execute("CHECKPOINT")
        yield []


def retried(job, db):
    """What callers are told to do: the whole transaction again after 40001 and 40P01."""
    for attempt in range(10):
        try:
            yield from job.run(db)
            return
        except SERIALIZATION:
            if attempt == 9:
                raise


class Journal:
    """A file whose lines are on the disk when `write` returns."""

    def __init__(self, path: Path):
        self.file = path.open("a")
        self.reader = path.open()

    def write(self, job: int, answers: list[dict]):
        self.file.write(json.dumps([job, answers], default=str) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def news(self) -> list[tuple[int, list[dict]]]:
        """What was written since it was last read: the numbers of jobs, and what they were told."""
        return [json.loads(line) for line in self.reader]


class Client(threading.Thread):
    """Does its jobs, one after the other, until the server is gone."""

    def __init__(self, connect, jobs: dict[int, object], journal: Journal, barrier: threading.Barrier):
        super().__init__()
        self.connect, self.jobs, self.journal, self.barrier = connect, jobs, journal, barrier
        self.acknowledged = 0
        self.in_flight = False
        self.fault = None

    def run(self):
        try:
            with closing(self.connect()) as db:
                self.barrier.wait()
                self.work(db)
        except BaseException as error:  # for the test to raise
            self.fault = error
            self.barrier.abort()

    def work(self, db):
        try:
            for number, job in self.jobs.items():
                self.in_flight = True
                for answers in retried(job, db):
                    self.in_flight = False
                    self.journal.write(number, answers)
                    self.acknowledged += 1
                    self.in_flight = True
                self.in_flight = False
        except psycopg.OperationalError as error:
            if error.sqlstate not in (None, "57P01"):  # the connection is gone, with or without a word
                raise
