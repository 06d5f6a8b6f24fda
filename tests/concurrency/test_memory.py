"""A session's memory stays where it is after the first calls, however many follow, in one transaction or in many.

Resident memory is taken from the kernel, without what is shared with other processes. The figures are printed.
"""

import threading
from pathlib import Path

import psycopg
import pytest
from harness import Tenant, connect, scaled

FIRST = scaled(short=20_000, full=200_000)
OTHER = scaled(short=5_000, full=100_000)
LARGE = scaled(short=200, full=4_000)
STATEMENT = 500  # calls in one statement
BATCHED = 50
BODY = 20_000
LIMIT = 2**20  # max_payload_bytes, if left out
GROWTH_KB = 1_024  # beside a few bodies, which the allocator may keep for the next call

# The calls from $3 to $4, made in the server. `n` numbers a call, and $5 and it name what the call is about.
DELIVER = """
    SELECT r.outcome, count(*)
    FROM generate_series($3::int, $4::int) AS n
    CROSS JOIN LATERAL (SELECT convert_to({body}, 'UTF8') AS payload) AS b
    CROSS JOIN LATERAL payment_idem.ingest(
        $1::uuid, NULL, b.payload, encode(hmac(b.payload, {secret}, 'sha256'), 'hex')) AS r
    GROUP BY 1
"""
BATCH = """
    SELECT r.outcome, count(*)
    FROM (SELECT array_agg(b.payload), array_agg(encode(hmac(b.payload, $2::text::bytea, 'sha256'), 'hex'))
          FROM generate_series($3::int, $4::int) AS n
          CROSS JOIN LATERAL (SELECT convert_to({body}, 'UTF8') AS payload) AS b
          GROUP BY n / {batched}) AS a (payloads, sigs)
    CROSS JOIN LATERAL payment_idem.ingest_batch($1::uuid, NULL, a.payloads, a.sigs) AS r
    GROUP BY 1
"""
CREATE_ORDER = """
    SELECT o.outcome, count(*)
    FROM generate_series($3::int, $4::int) AS n
    CROSS JOIN LATERAL payment_idem.create_order(
        $1::uuid, 'm1', $5::text || n, 10.00, 'USD', now() + interval '1 day', 'g' || $5 || n, left($2::text, $6::int)
    ) AS o
    GROUP BY 1
"""


def paid(id: str = "n", about: str = "n") -> str:
    """SQL for a body of $6 bytes, more or less."""
    return f"""format(
        '{{"id":"%s","type":"paid","order":"%s","amount":1000,"currency":"usd","payment":"%2$s","note":"%3$s"}}',
        $5::text || {id}, $5 || {about}, repeat('x', $6::int - 300))"""


def deliver(body: str, secret: str = "$2::text::bytea") -> str:
    return DELIVER.format(body=body, secret=secret)


# What makes the calls of a kind, which begins with the one outcome of them all.
KINDS = {
    "applied": deliver(paid()),
    "parked": deliver(paid()),
    "exception": deliver("format('{%s %s', $5::text || n, repeat('x', $6::int - 100))"),  # unreadable
    # Of n only in name: else PostgreSQL would make one call and repeat its answer.
    "duplicate": deliver(paid("'0'", "'0' || left('', n)")),
    "digest_conflict": deliver(paid("'0'")),
    "rejected": deliver(paid(), secret="$2::text::bytea || 'x'"),
    f"parked in batches of {BATCHED}": BATCH.format(body=paid(), batched=BATCHED),
    "created": CREATE_ORDER,
}


class Resident:
    """The private memory of a backend in kilobytes, and the most of it while a block runs."""

    def __init__(self, session):
        self.status = Path(f"/proc/{session.info.backend_pid}/status")
        self.peak = self.now()
        self.over = threading.Event()
        self.watcher = threading.Thread(target=self._watch)

    def now(self) -> int:
        (line,) = [line for line in self.status.read_text().splitlines() if line.startswith("RssAnon:")]
        return int(line.split()[1])

    def _watch(self):
        while not self.over.wait(0.01):
            self.peak = max(self.peak, self.now())

    def __enter__(self):
        self.watcher.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.watcher.join()


def contexts(session) -> dict:
    """PostgreSQL's own account of where the memory is."""
    rows = session.execute(
        "SELECT concat_ws(' in ', name, parent) AS name, sum(total_bytes)::bigint AS bytes"
        " FROM pg_backend_memory_contexts GROUP BY 1"
    )
    return {row["name"]: row["bytes"] for row in rows}


def check_flat(session, tenant, kind: str, calls: int, length: int = BODY, one_transaction: bool = True):
    """What the first tenth of the calls took is enough for all the others."""
    name, step = kind.replace(" ", "_"), min(STATEMENT, calls // 20)

    def run(kind: str, first: int, last: int, by: psycopg.Connection = session):
        rows = by.execute(KINDS[kind], [tenant.id, tenant.secret, first, last, name, length]).fetchall()
        assert rows == [{"outcome": kind.split()[0], "count": last - first + 1}]

    if kind == "applied":  # an order that the transaction itself made costs PostgreSQL memory of its own (combo CIDs)
        run("created", 1, calls, tenant.db)
    if kind in ("duplicate", "digest_conflict"):
        run("parked", 0, 0)
    with Resident(session) as resident:
        if one_transaction:
            session.execute("BEGIN")
        for first in range(1, calls, step):
            if first == calls // 10 + 1:
                warm = resident.peak = resident.now()
                before = contexts(session)
            run(kind, first, first + step - 1)
        last, after = resident.now(), contexts(session)
        if one_transaction:
            session.execute("COMMIT")
    growth = {name: bytes - before.get(name, 0) for name, bytes in after.items()}
    grown = {name: bytes for name, bytes in growth.items() if bytes > 50_000}
    print(
        f"{calls} {kind}, {length} bytes, {'one transaction' if one_transaction else f'{step} in a transaction'}:"
        f" {warm} kB after a tenth, {last} kB at the end, {resident.peak} kB at most,"
        f" {1024 * (last - warm) / (0.9 * calls):.1f} bytes a call; contexts that grew: {grown or 'none'}"
    )
    bodies = (BATCHED if "batches" in kind else 1) * length // 1024
    assert last - warm < GROWTH_KB + 4 * bodies, f"it grows: {grown}"
    assert resident.peak - warm < GROWTH_KB + 8 * bodies  # a call may hold several copies for its time


@pytest.fixture(scope="module")
def database(db):
    """One of its own: so many rows would slow down whoever looks through all tables later."""
    db.execute("DROP DATABASE IF EXISTS memory WITH (FORCE)")
    db.execute("CREATE DATABASE memory")
    with connect(dbname="memory") as connection:
        connection.execute("CREATE EXTENSION payment_idem")
        connection.execute("CREATE EXTENSION pgcrypto")
        yield connection
        assert connection.execute("SELECT * FROM payment_idem.check_invariants()").fetchall() == []
    db.execute("DROP DATABASE memory")


@pytest.fixture
def session(database):
    with connect(dbname="memory") as connection:
        yield connection


@pytest.mark.parametrize("one_transaction", [True, False], ids=["one_transaction", "many_transactions"])
def test_first_deliveries(database, session, one_transaction):
    check_flat(session, Tenant(database), "applied", FIRST, one_transaction=one_transaction)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "applied"])
def test_other_calls(database, session, kind):
    check_flat(session, Tenant(database), kind, OTHER)


@pytest.mark.parametrize("kind", ["parked", "duplicate", "exception"])
def test_bodies_of_the_size_limit(database, session, kind):
    check_flat(session, Tenant(database), kind, LARGE, LIMIT)
