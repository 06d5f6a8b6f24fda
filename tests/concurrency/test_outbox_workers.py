"""Workers that take messages from the outbox: each message once, under a lease that holds what it promises."""

import csv
import os
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from harness import BEGIN, COMMIT, Sender, connect, given, scaled, wait_until

MESSAGES = scaled(short=400, full=4000)
PSQL = str(Path(os.environ.get("PG_BIN", "")) / "psql")
CLAIM = "SELECT * FROM payment_idem.claim($1, $2, $3::interval, NULL, $4)"


def fill(tenant, messages: int):
    """Pays as many orders."""
    for _ in range(messages):
        sql, parameters = tenant.order().paid()
        row = tenant.db.execute(sql, given(parameters)).fetchone()
        assert row["outcome"] == "applied"


def claim(connection, tenant, worker="worker", rows=10, lease="60 s") -> list:
    return connection.execute(CLAIM, [worker, rows, lease, tenant.id]).fetchall()


def ack(connection, message) -> bool:
    return connection.execute("SELECT payment_idem.ack($1) AS ok", [message["lease_token"]]).fetchone()["ok"]


def nack(connection, message, retry_after=None) -> bool:
    sql = "SELECT payment_idem.nack($1, 'broker is down', $2::interval) AS ok"
    return connection.execute(sql, [message["lease_token"], retry_after]).fetchone()["ok"]


class PsqlConnection:
    """As much of a connection as claim and ack need, through psql: a new session for each statement."""

    def execute(self, sql, parameters):
        for number, value in enumerate(parameters, 1):
            sql = sql.replace(f"${number}", f"'{value}'")
        output = subprocess.run([PSQL, "-Xq", "--csv", "-c", sql], check=True, capture_output=True, text=True).stdout
        self.rows = list(csv.DictReader(output.splitlines()))
        for row in self.rows:
            if "ok" in row:
                row["ok"] = row["ok"] == "t"
        return self

    def fetchall(self):
        return self.rows

    def fetchone(self):
        return self.rows[0]


def work(tenant, connection, name: str, start: Barrier) -> Counter:
    """Claims and acknowledges in autocommit until nothing is left; returns what it delivered, and how often."""
    delivered = Counter()
    start.wait()
    while batch := claim(connection, tenant, name):
        for message in batch:
            delivered[str(message["message_id"])] += 1
            assert ack(connection, message)
    return delivered


def test_each_message_is_delivered_once(db, tenant):
    """B85: six workers through a driver and two through psql."""
    fill(tenant, MESSAGES)
    start = Barrier(8)
    connections = [connect() for _ in range(6)] + [PsqlConnection(), PsqlConnection()]
    with ThreadPoolExecutor(8) as workers:
        jobs = [
            workers.submit(work, tenant, connection, f"worker {number}", start)
            for number, connection in enumerate(connections)
        ]
        shares = [job.result() for job in jobs]
    for connection in connections[:6]:
        connection.close()

    deliveries = sum(shares, Counter())
    assert len(deliveries) == MESSAGES
    assert set(deliveries.values()) == {1}
    assert sum(1 for share in shares if share) > 1, "the workers did not work side by side"
    left = db.execute(
        "SELECT attempts, delivered_at IS NULL AS open, count(*) FROM payment_idem.outbox"
        " WHERE tenant = $1 GROUP BY 1, 2",
        [tenant.id],
    ).fetchall()
    assert left == [{"attempts": 1, "open": False, "count": MESSAGES}]


def test_claims_side_by_side_share_no_message(tenant):
    """B85: a claim that has not committed hides its rows and blocks nobody; rolled back, it returns them."""
    fill(tenant, 20)
    with connect(autocommit=False) as undecided, connect() as other:
        other.execute("SET lock_timeout = '1s'")
        first = {message["message_id"] for message in claim(undecided, tenant)}
        second = {message["message_id"] for message in claim(other, tenant)}
        assert (len(first), len(second), first & second) == (10, 10, set())
        assert claim(other, tenant) == []
        undecided.rollback()
        again = claim(other, tenant)
        assert {message["message_id"] for message in again} == first
        assert {message["attempts"] for message in again} == {1}


def test_rolled_back_ack_delivers_again(db, tenant):
    fill(tenant, 1)
    with connect(autocommit=False) as worker:
        (message,) = claim(worker, tenant, lease="1 s")
        worker.commit()
        assert ack(worker, message)
        worker.rollback()
    (again,) = wait_until(lambda: claim(db, tenant), "the lease ends")
    assert (again["message_id"], again["attempts"]) == (message["message_id"], 2)


def test_stale_token_is_refused(tenant):
    """B87: the lease ended while its worker was busy, and another worker took the message."""
    fill(tenant, 1)
    with connect() as slow, connect() as quick:
        (lost,) = claim(slow, tenant, "slow", lease="1 s")
        assert claim(quick, tenant, "quick") == []
        (message,) = wait_until(lambda: claim(quick, tenant, "quick"), "the lease ends")
        assert (message["message_id"], message["attempts"]) == (lost["message_id"], 2)
        assert message["lease_token"] != lost["lease_token"]

        assert ack(slow, lost) is False
        assert nack(slow, lost) is False
        assert ack(quick, message) is True
        assert ack(quick, message) is True, "its answer may have been lost"
        assert nack(quick, message) is False
        assert ack(slow, lost) is False
        assert claim(slow, tenant) == []


@pytest.mark.parametrize("language", Sender.COMMANDS)
def test_worker_killed_between_delivery_and_ack(tenant, language):
    """B87: the second delivery has the same message id, so that the consumer can drop one."""
    fill(tenant, 1)
    worker = Sender(language)
    answer = worker.run((CLAIM, ["victim", 1, "1 s", tenant.id]))
    ((message,),) = answer.rows
    worker.kill()
    worker.close()
    with connect() as other:
        (again,) = wait_until(lambda: claim(other, tenant), "the lease ends")
        assert str(again["message_id"]) == message["message_id"]
        assert ack(other, again) is True


def test_nacked_message_comes_back(tenant):
    fill(tenant, 1)
    with connect() as worker:
        (message,) = claim(worker, tenant)
        assert nack(worker, message, "1 hour") is True
        assert ack(worker, message) is False
        assert claim(worker, tenant) == []
        ahead = worker.execute(
            "SELECT available_at - clock_timestamp() BETWEEN '59 min' AND '1 hour' AS ok"
            " FROM payment_idem.outbox WHERE tenant = $1",
            [tenant.id],
        ).fetchone()
        assert ahead["ok"]


def test_lease_is_measured_from_the_claim(tenant):
    """B89: late in an old transaction a lease is as long as in a new one."""
    fill(tenant, 1)
    with connect(autocommit=False) as worker:
        worker.execute("SELECT pg_sleep(4)")
        (message,) = worker.execute(
            "SELECT *, lease_until - clock_timestamp() > '57 s' AS whole"
            " FROM payment_idem.claim('late', 1, '60 s', NULL, $1)",
            [tenant.id],
        ).fetchall()
        assert message["whole"]
        assert nack(worker, message, "60 s")
        retry = worker.execute(
            "SELECT available_at - clock_timestamp() > '57 s' AS whole FROM payment_idem.outbox WHERE tenant = $1",
            [tenant.id],
        ).fetchone()
        assert retry["whole"]


def test_claim_waits_for_no_lock(tenant):
    """B89: a message that somebody has locked is left out; the claim takes the others at once."""
    fill(tenant, 2)
    locked = "SELECT receipt FROM payment_idem.outbox WHERE tenant = $1 ORDER BY receipt LIMIT 1 FOR UPDATE"
    with connect() as holder, connect() as worker:
        worker.execute("SET lock_timeout = '100ms'")
        with holder.transaction():
            holder.execute(locked, [tenant.id])
            assert len(claim(worker, tenant)) == 1
            assert claim(worker, tenant) == []
        assert len(claim(worker, tenant)) == 1


def test_event_that_commits_late_is_still_delivered(db, fleet, tenant):
    """B84: a lower number that commits after a higher one was read."""
    late, early = fleet(2)
    slow, quick = tenant.order(), tenant.order()
    assert late.run(BEGIN, slow.paid()).told == ("applied", None)
    assert early.run(quick.paid()).told == ("applied", None)

    (message,) = claim(db, tenant)
    assert message["order_id"] == quick.id
    assert ack(db, message)
    assert claim(db, tenant) == []

    assert late.run(COMMIT).sqlstate is None
    (message,) = claim(db, tenant)
    assert message["order_id"] == slow.id
    assert ack(db, message)
    numbers = db.execute(
        "SELECT order_id FROM payment_idem.outbox WHERE tenant = $1 ORDER BY receipt", [tenant.id]
    ).fetchall()
    assert [row["order_id"] for row in numbers] == [slow.id, quick.id], "the late one has the lower number"
