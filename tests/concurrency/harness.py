"""What the concurrency tests share: tenants and their signed events, client processes, a barrier and a gate."""

import hashlib
import hmac
import json
import os
import random
import secrets
import select
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psycopg
from psycopg.rows import dict_row

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HANG_GUARD_S = 60  # nothing here takes a tenth of it; it only turns a hang into a failure
ANY_OFFSET_S = 0.020  # the failure reports' "at once": each session starts up to 20 ms after the others

INGEST = "SELECT * FROM payment_idem.ingest($1, $2, $3::bytea, $4)"
BEGIN, COMMIT, ROLLBACK = ("BEGIN", []), ("COMMIT", []), ("ROLLBACK", [])

os.environ["PGOPTIONS"] = f"-c statement_timeout={HANG_GUARD_S}s"


def scaled(*, short: int, full: int) -> int:
    return {"short": short, "full": full}[os.environ.get("SCALE", "short")]


def connect(**options) -> psycopg.Connection:
    options = {"autocommit": True, "row_factory": dict_row} | options
    return psycopg.connect(cursor_factory=psycopg.RawCursor, **options)


def wait_until(condition, what: str, seconds: float = HANG_GUARD_S):
    """Returns the first true value of `condition()`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s in vain: {what}")
        time.sleep(0.002)
    return value


def sleep(seconds: float):
    return ("SELECT pg_sleep($1)", [seconds])


# --- tenants and their events -----------------------------------------------------------------------------------


def sign(secret: str, body: bytes) -> str:
    """The `generic` gateway's signature."""
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def sign_stripe(secret: str, body: bytes, at: int | None = None) -> str:
    at = int(time.time()) if at is None else at
    return f"t={at},v1={hmac.new(secret.encode(), b'%d.' % at + body, hashlib.sha256).hexdigest()}"


SIGN = {"generic": sign, "stripe": sign_stripe}


class Tenant:
    """A tenant with one source, `default`, whose orders are those of merchant m1."""

    def __init__(self, db: psycopg.Connection, gateway: str = "generic"):
        self.db = db
        self.gateway = gateway
        self.id = str(uuid.uuid4())
        self.secret = secrets.token_hex(16)
        db.execute("SELECT payment_idem.create_tenant($1, $2)", [f"test {self.id}", self.id])
        db.execute(
            "SELECT payment_idem.create_source($1, 'default', $2, $3::jsonb)",
            [self.id, gateway, json.dumps({"merchant_id": "m1"})],
        )
        db.execute("SELECT payment_idem.add_secret($1, 'default', $2)", [self.id, self.secret])

    def create_order(self, reference: str, amount: str = "10.00", gateway_order_id: str | None = None):
        """The statement that creates an order of 1000 minor units, for a script."""
        return (
            "SELECT * FROM payment_idem.create_order($1, 'm1', $2, $3::numeric, 'USD', gateway_order_id => $4)",
            [self.id, reference, amount, gateway_order_id],
        )

    def order(self, reference: str | None = None, amount: str = "10.00") -> "Order":
        reference = reference or f"O-{secrets.token_hex(6)}"
        row = self.db.execute(*self.create_order(reference, amount)).fetchone()
        assert row["outcome"] == "created"
        return Order(self, reference, row["order_id"])

    def deliver(self, body: bytes, event_id: str | None):
        """The statement that delivers these bytes, signed, for a script."""
        return (INGEST, [self.id, event_id, {"hex": body.hex()}, SIGN[self.gateway](self.secret, body)])

    def event(
        self,
        order: str | None,
        event_id: str | None = None,
        type: str = "paid",
        amount: int = 1000,
        payment: str | None = None,
        **more,
    ):
        """The statement that delivers an event of the `generic` gateway; what is not told is new."""
        event_id = event_id or f"evt_{secrets.token_hex(6)}"
        body = {
            "id": event_id,
            "type": type,
            "order": order,
            "amount": amount,
            "currency": "usd",
            "payment": payment or f"pi_{secrets.token_hex(6)}",
        } | more
        body = {key: value for key, value in body.items() if value is not None}
        return self.deliver(json.dumps(body).encode(), event_id)

    def receipts(self) -> int:
        sql = "SELECT count(*) FROM payment_idem.event_receipts WHERE tenant = $1"
        return self.db.execute(sql, [self.id]).fetchone()["count"]

    def faults(self) -> list:
        sql = "SELECT * FROM payment_idem.check_invariants() WHERE tenant = $1"
        return self.db.execute(sql, [self.id]).fetchall()


@dataclass(frozen=True)
class Order:
    tenant: Tenant
    reference: str
    id: uuid.UUID

    def paid(self, **more):
        """The statement that delivers a payment of it."""
        return self.tenant.event(self.reference, **more)

    def lock(self):
        return (
            "SELECT FROM payment_idem.orders WHERE tenant = $1 AND order_id = $2 FOR UPDATE",
            [self.tenant.id, str(self.id)],
        )

    def state(self) -> dict:
        """Its status, and how many rows of each kind exist for it."""
        return self.tenant.db.execute(
            """
            SELECT status::text, paid_minor,
                (SELECT count(*) FROM payment_idem.event_receipts WHERE (tenant, order_id) = ($1, $2)) AS receipts,
                (SELECT count(*) FROM payment_idem.transactions WHERE (tenant, order_id) = ($1, $2)) AS ledger,
                (SELECT count(*) FROM payment_idem.transactions WHERE (tenant, order_id) = ($1, $2)
                    AND from_status <> to_status) AS transitions,
                (SELECT count(*) FROM payment_idem.outbox WHERE (tenant, order_id) = ($1, $2)) AS outbox,
                (SELECT count(*) FROM payment_idem.exceptions WHERE (tenant, order_id) = ($1, $2)) AS exceptions
            FROM payment_idem.orders WHERE (tenant, order_id) = ($1, $2)
            """,
            [self.tenant.id, self.id],
        ).fetchone()


def paid_once(receipts: int = 1, exceptions: int = 0) -> dict:
    """The state() of an order of 1000 that was paid exactly once."""
    return {
        "status": "COMPLETED",
        "paid_minor": 1000,
        "receipts": receipts,
        "ledger": 1,
        "transitions": 1,
        "outbox": 1,
        "exceptions": exceptions,
    }


UNTOUCHED = {
    "status": "PENDING",
    "paid_minor": 0,
    "receipts": 0,
    "ledger": 0,
    "transitions": 0,
    "outbox": 0,
    "exceptions": 0,
}


# --- client processes -------------------------------------------------------------------------------------------


def given(parameters: list) -> list:
    """The parameters of a statement as a driver takes them."""
    return [bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in parameters]


@dataclass(frozen=True)
class Answer:
    """What became of a script: the rows of each statement that ran, and the error that ended it."""

    rows: list
    sqlstate: str | None
    message: str | None

    @property
    def result(self) -> dict:
        """The one row that ingest returned in it."""
        assert self.sqlstate is None, f"{self.sqlstate}: {self.message}"
        (row,) = [row for rows in self.rows for row in rows if "first_outcome" in row]
        return row

    @property
    def told(self) -> tuple:
        return self.result["outcome"], self.result["reason"]


class Sender:
    """A client process in one of the languages; it holds one connection and does what its scripts say."""

    COMMANDS = {"python": [sys.executable, HERE / "sender.py"], "node": ["node", HERE / "sender.js"]}

    def __init__(self, language: str, **environment: str):
        self.language = language
        self.busy = False
        self.process = subprocess.Popen(
            self.COMMANDS[language],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"NODE_PATH": str(ROOT / "build/node/node_modules")} | environment,
        )

    @cached_property
    def pid(self) -> int:
        """The process id of its backend."""
        return self._read()

    def _read(self):
        ready, _, _ = select.select([self.process.stdout], [], [], 2 * HANG_GUARD_S)
        line = self.process.stdout.readline() if ready else ""
        assert line, f"the {self.language} client {'died' if ready else 'hangs'}"
        return json.loads(line)

    def start(self, script: list):
        assert self.pid and not self.busy
        self.busy = True
        self.process.stdin.write(json.dumps(script) + "\n")
        self.process.stdin.flush()

    def finish(self) -> Answer:
        answer = Answer(**self._read())
        self.busy = False
        return answer

    def run(self, *script) -> Answer:
        self.start(list(script))
        return self.finish()

    def kill(self):
        """SIGKILL: it says no goodbye to the server."""
        self.process.kill()
        self.process.wait(HANG_GUARD_S)

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(HANG_GUARD_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process.stdout.close()


class Fleet:
    """Client processes, every other one Python and Node, started when first asked for."""

    def __init__(self):
        self.senders: list[Sender] = []

    def __call__(self, count: int) -> list[Sender]:
        while len(self.senders) < count:
            self.senders.append(Sender(["python", "node"][len(self.senders) % 2]))
        return self.senders[:count]

    def reset(self):
        """No sender is in a transaction or at work: nothing of a failed test reaches the next one."""
        for sender in self.senders:
            if sender.busy:
                sender.kill()
            else:
                sender.run(ROLLBACK)
        self.senders = [sender for sender in self.senders if not sender.busy]

    def close(self):
        for sender in self.senders:
            sender.process.stdin.close()  # all of them first, so that they end side by side
        for sender in self.senders:
            sender.close()


# --- a barrier and a gate ---------------------------------------------------------------------------------------


def waiting(db: psycopg.Connection, clients: list) -> int:
    """How many of these senders or connections are waiting for a lock, by the server's own word."""
    pids = [client.pid if isinstance(client, Sender) else client.info.backend_pid for client in clients]
    sql = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND pid = ANY ($1)"
    return db.execute(sql, [pids]).fetchone()["count"]


def start_together(db: psycopg.Connection, jobs: list[tuple[Sender, list]]):
    """Starts each sender on its script behind one advisory lock, and opens it when all of them stand there."""
    barrier = random.getrandbits(62)
    db.execute("SELECT pg_advisory_lock($1::bigint)", [barrier])
    for sender, script in jobs:
        sender.start([("SELECT pg_advisory_xact_lock_shared($1::bigint)", [str(barrier)]), *script])
    wait_until(lambda: waiting(db, [sender for sender, _ in jobs]) == len(jobs), "all at the barrier")
    db.execute("SELECT pg_advisory_unlock($1::bigint)", [barrier])


def at_once(db: psycopg.Connection, *jobs: tuple[Sender, list]) -> list[Answer]:
    """Runs the scripts together, each with a random offset, and returns their answers in the same order."""
    start_together(db, [(sender, [sleep(random.uniform(0, ANY_OFFSET_S)), *script]) for sender, script in jobs])
    return [sender.finish() for sender, _ in jobs]


@contextmanager
def held(order: Order):
    """Another session holds the order's row until the block ends."""
    with connect() as holder, holder.transaction():
        holder.execute(*order.lock())
        yield
