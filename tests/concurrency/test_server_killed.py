"""P1 and P2: the server is killed at random moments, in mid-call. Nothing acknowledged is lost, nothing doubled.

The seed of a run is fixed where SCALE is short and new where it is full; PAYMENT_IDEM_SEED repeats a run.
"""

import hashlib
import os
import random
import threading
import time
from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest
from acknowledged import OWN_ROWS, Checkpoint, Client, Creation, Delivery, Journal, Work, retried
from calls import contents
from harness import HANG_GUARD_S, Tenant, scaled, wait_until
from server import Server

ROUNDS = scaled(short=20, full=1000)
SEED = int(os.environ.get("PAYMENT_IDEM_SEED") or scaled(short=1, full=random.getrandbits(32)))
CLIENTS, ORDERS = 8, 12
INVARIANTS_EVERY = scaled(short=1, full=25)  # rounds; what is broken stays broken, so that the last look is enough
RANK = {status: rank for rank, status in enumerate("PENDING PROCESSING FAILED EXPIRED COMPLETED".split())}

LOOKS = {
    "orders": "SELECT client_txn_id, order_id::text, status::text, paid_minor FROM payment_idem.orders",
    "receipts": "SELECT event_id, order_reference, receipt, encode(payload_sha256, 'hex') AS sha256, first_outcome,"
    " received_at::text FROM payment_idem.event_receipts",
    "ledger": "SELECT receipt, order_id::text, amount_minor FROM payment_idem.transactions",
    "outbox": "SELECT receipt, order_id::text, seq, attempts, lease_token::text, delivered_at FROM payment_idem.outbox",
    "exceptions": "SELECT exception_id, order_id::text FROM payment_idem.exceptions",
    "anomalies": "SELECT identity, encode(payload_sha256, 'hex') AS sha256 FROM payment_idem.anomalies",
    "own": "SELECT event_id FROM own_rows",
}


@pytest.fixture
def server():
    # Without autovacuum nobody but the test takes a transaction id. Recovery syncs every file of the cluster, one by
    # one or, as here, all at once: the same, and a second less each time.
    settings = "fsync=on", "synchronous_commit=on", "autovacuum=off", "recovery_init_sync_method=syncfs"
    server = Server("killed", *settings)
    yield server
    server.drop()


def look(db, tenant: Tenant) -> SimpleNamespace:
    """What the tables hold of the tenant."""
    return SimpleNamespace(
        **{name: db.execute(f"{sql} WHERE tenant = $1", [tenant.id]).fetchall() for name, sql in LOOKS.items()}
    )


def fingerprint(db, tenant: Tenant) -> str:
    rows = sorted((table, sorted(rows.items())) for table, rows in contents(db, tenant).items())
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def next_transaction_id(db) -> str:
    return db.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS xid").fetchone()["xid"]


def check_invariants(db):
    assert db.execute("SELECT * FROM payment_idem.check_invariants()").fetchall() == []


# --- a round ----------------------------------------------------------------------------------------------------


class Round:
    """A tenant with some orders, and all that its application, its gateway and its workers are going to send."""

    def __init__(self, db, rng: random.Random):
        self.tenant = Tenant(db)
        self.acknowledged: list[tuple[int, list[dict]]] = []
        self.expected = {}  # what each order comes to, in whatever order its events came and however often
        self.wrapped = set()  # the events that are delivered in a transaction with a row of the caller's own
        deliveries = []
        for order in range(ORDERS):
            calls, expected = self.story(order)
            paid = {"status": "COMPLETED", "paid_minor": 1000, "payments": 1, "queued": 1}
            self.expected[f"O{order}"] = paid | expected
            event_ids = dict.fromkeys(parameters[1] for _, parameters in calls)
            self.wrapped |= {event_id for event_id in event_ids if rng.random() < 0.5}
            deliveries += [Delivery([call], call[1][1] in self.wrapped) for call in calls for _ in range(2)]
        jobs = [Creation(self.tenant.create_order(f"O{order}")) for order in range(ORDERS) for _ in range(2)]
        jobs += batched(rng, deliveries) + [Work(self.tenant.id) for _ in range(2 * ORDERS)] + [Checkpoint()]
        rng.shuffle(jobs)
        self.jobs = dict(enumerate(jobs))

    def story(self, order: int) -> tuple[list, dict]:
        """The deliveries of an order's events, and in what its end differs from another order's."""
        reference, payment = f"O{order}", f"pi_{order}"
        attempted = self.tenant.event(reference, type="attempted")
        paid = self.tenant.event(reference, payment=payment)
        third, exceptions, anomalies = {
            0: (self.tenant.event(reference), 1, 0),  # a second payment
            1: (self.tenant.event(reference, amount=999), 1, 0),
            2: (self.tenant.event(reference, paid[1][1], payment=payment, note="other bytes"), 0, 1),
            3: (self.tenant.event(reference, type="failed"), 0, 0),
            4: (self.tenant.event(reference, payment=payment, utr=f"utr_{order}"), 0, 0),  # the same payment
            5: (self.tenant.event(reference, type="nobody.knows"), 0, 0),
        }[order % 6]
        counts = {"receipts": 3 - anomalies, "exceptions": exceptions, "anomalies": anomalies}
        return [attempted, paid, third], counts

    def missing(self, db) -> list:
        """What was acknowledged and is not there, or not as it was told."""
        there = look(db, self.tenant)
        orders = {order["client_txn_id"]: order for order in there.orders}
        receipts = {receipt["event_id"]: receipt for receipt in there.receipts}
        booked = {(line["receipt"], line["order_id"]) for line in there.ledger}
        queued = {(row["order_id"], row["seq"]): row for row in there.outbox}
        raised = {(row["exception_id"], row["order_id"]) for row in there.exceptions}
        noticed = {(row["identity"], row["sha256"]) for row in there.anomalies}

        def kept(job, answer) -> bool:
            if isinstance(job, Creation):
                order = orders.get(job.call[1][1], {})
                return order.get("order_id") == answer["order_id"] and RANK[order["status"]] >= RANK[answer["status"]]
            if isinstance(job, Work):
                row = queued.get((answer["order_id"], answer["seq"]))
                if row and row["attempts"] > answer["attempts"]:
                    return not answer.get("ack")  # only a lease that was not acknowledged goes to another
                delivered = "ack" not in answer or (answer["ack"] and row and row["delivered_at"])
                return bool(row and row["lease_token"] == answer["lease_token"] and delivered)
            event_id, sha256 = answer["event_id"], answer["payload_sha256"]
            receipt = receipts.get(event_id)
            if not receipt:
                return False
            if answer["outcome"] == "digest_conflict":
                return receipt["sha256"] != sha256 and (event_id, sha256) in noticed
            if answer["order_status"]:
                order = next(o for o in there.orders if o["order_id"] == answer["order_id"])
                if RANK[order["status"]] < RANK[answer["order_status"]]:
                    return False
            return (
                receipt["sha256"] == sha256
                and receipt["first_outcome"] == answer["first_outcome"]
                and answer["transaction_id"] in (None, receipt["receipt"])
                and answer["exception_id"] in (None, receipt["receipt"])
                and (not answer["transaction_id"] or (receipt["receipt"], answer["order_id"]) in booked)
                and (not answer["exception_id"] or (receipt["receipt"], answer["order_id"]) in raised)
                and (answer["order_status"] != "COMPLETED" or (answer["order_id"], 1) in queued)
            )

        return [
            (self.jobs[number], answer)
            for number, answers in self.acknowledged
            for answer in answers
            if not kept(self.jobs[number], answer)
        ]

    def unheard(self, db) -> int:
        """How many events are committed though nobody heard of it."""
        heard = {answer.get("event_id") for _, answers in self.acknowledged for answer in answers}
        return sum(receipt["event_id"] not in heard for receipt in look(db, self.tenant).receipts)

    def torn(self, db) -> Counter:
        """Rows of the caller's own without their event, and the other way round."""
        there = look(db, self.tenant)
        events = Counter(receipt["event_id"] for receipt in there.receipts if receipt["event_id"] in self.wrapped)
        own = Counter(row["event_id"] for row in there.own)
        return (events - own) + (own - events)

    def redeliver(self, db, numbers) -> list[str]:
        """Sends these again (no worker's turn among them), and returns the outcomes."""
        return [
            answer["outcome"]
            for number in numbers
            if isinstance(self.jobs[number], Creation | Delivery)
            for answers in retried(self.jobs[number], db)
            for answer in answers
        ]

    def assert_changes_nothing(self, db, numbers):
        before = fingerprint(db, self.tenant), next_transaction_id(db)
        assert set(self.redeliver(db, numbers)) <= {"duplicate", "digest_conflict", "existing"}
        assert (fingerprint(db, self.tenant), next_transaction_id(db)) == before

    def assert_complete(self, db):
        """Each event has one receipt and each order one payment and one message, after all that was sent to it."""
        there = look(db, self.tenant)
        reference_of = {order["order_id"]: order["client_txn_id"] for order in there.orders}
        reference_of |= {receipt["event_id"]: receipt["order_reference"] for receipt in there.receipts}
        counts = {
            "payments": Counter(reference_of[line["order_id"]] for line in there.ledger if line["amount_minor"]),
            "queued": Counter(reference_of[row["order_id"]] for row in there.outbox),
            "receipts": Counter(receipt["order_reference"] for receipt in there.receipts),
            "exceptions": Counter(reference_of[row["order_id"]] for row in there.exceptions),
            "anomalies": Counter(reference_of[row["identity"]] for row in there.anomalies),
        }
        assert len(there.orders) == ORDERS
        assert {
            order["client_txn_id"]: {"status": order["status"], "paid_minor": order["paid_minor"]}
            | {what: count[order["client_txn_id"]] for what, count in counts.items()}
            for order in there.orders
        } == self.expected

    def assert_survived(self, db, rng: random.Random):
        """What has to hold after a recovery, and after everything has been delivered once and twice more."""
        assert self.missing(db) == []
        assert not self.torn(db)
        heard = {number for number, _ in self.acknowledged}
        everything = rng.sample(list(self.jobs), len(self.jobs))
        self.assert_changes_nothing(db, [number for number in everything if number in heard])
        self.redeliver(db, everything)
        self.assert_complete(db)
        assert not self.torn(db)
        self.assert_changes_nothing(db, everything)
        self.left = fingerprint(db, self.tenant)


def batched(rng: random.Random, deliveries: list[Delivery]) -> list[Delivery]:
    """Half of these, and the others some in one call each: those with rows of the caller's own among themselves."""
    alone, together = [], {False: [], True: []}
    for delivery in deliveries:
        if rng.random() < 0.5:
            alone.append(delivery)
        else:
            together[delivery.wrapped] += delivery.calls
    for wrapped, calls in together.items():
        rng.shuffle(calls)
        while calls:
            size = rng.randint(1, 5)
            alone.append(Delivery(calls[:size], wrapped))
            del calls[:size]
    return alone


def failed(clients: list[Client]) -> list[BaseException]:
    return [client.fault for client in clients if client.fault]


def killed_in_mid_call(server: Server, rng: random.Random, round: Round, journals: list[Journal]) -> int:
    """Lets the clients do the round's jobs and kills the server under them; returns how many calls were in flight."""
    barrier = threading.Barrier(CLIENTS + 1, timeout=HANG_GUARD_S)
    shares = [dict(list(round.jobs.items())[client::CLIENTS]) for client in range(CLIENTS)]
    clients = [Client(server.connect, share, journal, barrier) for share, journal in zip(shares, journals)]
    # A moment in the clients' progress, so that it does not depend on how fast the machine is, and a little more.
    progress, more = rng.randrange(2 * len(round.jobs) // 3), rng.uniform(0, 0.005)
    whole_family = rng.random() < 0.5
    for client in clients:
        client.start()
    barrier.wait()
    family = server.family() if whole_family else []
    wait_until(lambda: failed(clients) or sum(c.acknowledged for c in clients) >= progress, "the clients' progress")
    time.sleep(more)
    in_flight = wait_until(lambda: failed(clients) or sum(c.in_flight for c in clients), "a call in flight")
    server.kill(family)
    for client in clients:
        client.join(HANG_GUARD_S)
    for fault in failed(clients):
        raise fault
    round.acknowledged = [entry for journal in journals for entry in journal.news()]
    return in_flight


def test_nothing_acknowledged_is_lost_and_nothing_doubled(server, tmp_path, capsys):
    rng = random.Random(SEED)
    journals = [Journal(tmp_path / f"client-{client}.jsonl") for client in range(CLIENTS)]
    rounds, in_flight, acknowledged, unheard = [], 0, 0, 0
    db = server.start()
    db.execute(OWN_ROWS)
    for number in range(ROUNDS):
        round = Round(db, rng)
        rounds.append(round)
        db.close()
        try:
            in_flight += killed_in_mid_call(server, rng, round, journals)
            if rng.random() < 0.1:  # and again, during recovery
                server.spawn()
                time.sleep(rng.uniform(0, 0.2))
                server.kill(server.family())
            db = server.start()
            acknowledged += len(round.acknowledged)
            unheard += round.unheard(db)
            round.assert_survived(db, rng)
            if number % INVARIANTS_EVERY == 0:
                check_invariants(db)
        except BaseException as error:
            error.add_note(f"PAYMENT_IDEM_SEED={SEED}, round {number}")
            raise
    check_invariants(db)
    for round in rounds:  # nothing that a later crash has done to an earlier round
        assert fingerprint(db, round.tenant) == round.left
        round.assert_changes_nothing(db, round.jobs)
    assert_every_message_is_delivered(db, rounds)
    db.close()
    with capsys.disabled():
        print(
            f"\nserver killed {ROUNDS} times (PAYMENT_IDEM_SEED={SEED}): {in_flight} calls in flight,"
            f" {acknowledged} answers acknowledged and kept, {unheard} events committed whose answer was lost"
        )


def assert_every_message_is_delivered(db, rounds: list[Round]):
    """A lease whose holder died comes back; what was acknowledged does not. A message keeps its id all the while."""
    ids, done = defaultdict(set), set()
    for round in rounds:
        for number, answers in round.acknowledged:
            for message in answers if isinstance(round.jobs[number], Work) else []:
                ids[message["order_id"]].add(message["message_id"])
                done |= {message["message_id"]} if message.get("ack") else set()

    def all_delivered() -> bool:
        for message in db.execute("SELECT * FROM payment_idem.claim('last', 1000, '1 minute')").fetchall():
            assert str(message["message_id"]) not in done
            ids[str(message["order_id"])].add(str(message["message_id"]))
            assert db.execute("SELECT payment_idem.ack($1)", [message["lease_token"]]).fetchone()["ack"]
        return not db.execute("SELECT FROM payment_idem.outbox WHERE delivered_at IS NULL LIMIT 1").fetchall()

    wait_until(all_delivered, "every message delivered")
    assert Counter(map(len, ids.values())) == {1: ORDERS * len(rounds)}
