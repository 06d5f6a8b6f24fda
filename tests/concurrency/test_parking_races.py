"""An event and the order that it waits for, each in its own transaction at once: nobody may miss the other."""

import secrets
import time

import pytest
from harness import BEGIN, COMMIT, Answer, Order, Sender, at_once, paid_once, scaled, wait_until, waiting

ROUNDS = scaled(short=30, full=1000)
SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"
ATTEMPTS = 10  # a caller tries again after those two; with two or three sessions one retry is nearly always enough


@pytest.fixture(params=["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def in_transaction(request, db):
    """Wraps a call in a transaction whose snapshot, where the level keeps one, is older than the call."""

    def wrap(call):
        return [
            (f"BEGIN ISOLATION LEVEL {request.param}", []),
            ("SELECT count(*) FROM payment_idem.sources", []),
            ("SELECT pg_sleep(random() * 0.01)", []),
            call,
            ("SELECT pg_sleep(random() * 0.005)", []),
            COMMIT,
        ]

    return wrap


def until_done(sender: Sender, script: list, answer: Answer) -> Answer:
    """What the documentation tells callers to do: the whole transaction again, after these two errors and no other."""
    for attempt in range(ATTEMPTS):
        if answer.sqlstate not in (SERIALIZATION_FAILURE, DEADLOCK):
            return answer
        time.sleep(0.001 * attempt)
        answer = sender.run(*script)
    pytest.fail(f"no success in {ATTEMPTS} attempts: {answer}")


def race(db, jobs) -> list[Answer]:
    return [until_done(sender, script, answer) for (sender, script), answer in zip(jobs, at_once(db, *jobs))]


def created(tenant, answer, reference) -> Order:
    (row,) = [row for rows in answer.rows for row in rows if "order_id" in row and "http_status" not in row]
    assert answer.sqlstate is None
    return Order(tenant, reference, row["order_id"])


def still_parked(tenant) -> int:
    sql = "SELECT count(*) FROM payment_idem.event_receipts WHERE tenant = $1 AND outcome = 'parked'"
    return tenant.db.execute(sql, [tenant.id]).fetchone()["count"]


# How the event names its order, and the calls that make the order known by that name.
NAMES = {
    "reference": lambda tenant, ref, gw: (tenant.event(ref), [tenant.create_order(ref)]),
    "gateway order id": lambda tenant, ref, gw: (
        tenant.event(None, gateway_order_id=gw),
        [tenant.create_order(ref, gateway_order_id=gw)],
    ),
    "both": lambda tenant, ref, gw: (
        tenant.event(ref, gateway_order_id=gw),
        [tenant.create_order(ref, gateway_order_id=gw)],
    ),
    "gateway order id, told later": lambda tenant, ref, gw: (
        tenant.event(None, gateway_order_id=gw),
        [tenant.create_order(ref), tenant.create_order(ref, gateway_order_id=gw)],
    ),
}


@pytest.mark.parametrize("naming", NAMES)
def test_event_and_order_meet(db, fleet, tenant, in_transaction, naming):
    payer, creator = fleet(2)
    for _ in range(ROUNDS):
        name = secrets.token_hex(6)
        event, creations = NAMES[naming](tenant, f"O-{name}", f"gw_{name}")
        *earlier, last = creations
        assert creator.run(*earlier).sqlstate is None
        paid, made = race(db, [(payer, in_transaction(event)), (creator, in_transaction(last))])
        assert paid.result["outcome"] in ("applied", "parked")
        assert created(tenant, made, f"O-{name}").state() == paid_once()
        assert still_parked(tenant) == 0


@pytest.mark.parametrize("table", ["event_receipts", "orders", "order_keys", "payment_references"])
@pytest.mark.parametrize("naming", NAMES)
def test_order_appears_between_two_looks(db, fleet, tenant, naming, table):
    """At READ COMMITTED each statement of a call sees more than the one before; a table lock picks the moment."""
    payer, creator = fleet(2)
    name = secrets.token_hex(6)
    event, creations = NAMES[naming](tenant, f"O-{name}", f"gw_{name}")
    *earlier, last = creations
    assert creator.run(*earlier).sqlstate is None
    made = creator.run(BEGIN, last, (f"LOCK TABLE payment_idem.{table} IN ACCESS EXCLUSIVE MODE", []))
    payer.start([event])
    wait_until(lambda: waiting(db, [payer]), "the event waits for the creator")
    assert creator.run(COMMIT).sqlstate is None
    assert payer.finish().told == ("applied", None)
    assert created(tenant, made, f"O-{name}").state() == paid_once()


def test_copies_of_the_event_and_order_meet(db, fleet, tenant, in_transaction):
    """Two deliveries of one event and one order: the second delivery may try again what the first one parked."""
    *payers, creator = fleet(3)
    for _ in range(ROUNDS):
        reference = f"O-{secrets.token_hex(6)}"
        event = tenant.event(reference)
        *paid, made = race(
            db,
            [(payer, in_transaction(event)) for payer in payers]
            + [(creator, in_transaction(tenant.create_order(reference)))],
        )
        assert {answer.result["outcome"] for answer in paid} <= {"applied", "parked", "duplicate"}
        assert created(tenant, made, reference).state() == paid_once()
        assert still_parked(tenant) == 0


def test_two_payments_and_order_meet(db, fleet, tenant, in_transaction):
    """Two payments race the order: one is booked, the other one's money is an exception, and neither stays parked."""
    *payers, creator = fleet(3)
    for _ in range(ROUNDS):
        reference = f"O-{secrets.token_hex(6)}"
        *_, made = race(
            db,
            [(payer, in_transaction(tenant.event(reference))) for payer in payers]
            + [(creator, in_transaction(tenant.create_order(reference)))],
        )
        assert created(tenant, made, reference).state() == paid_once(receipts=2, exceptions=1)
        assert still_parked(tenant) == 0


def test_two_creators_and_event_meet(db, fleet, tenant, in_transaction):
    """The application itself creates the order twice."""
    payer, *creators = fleet(3)
    for _ in range(ROUNDS):
        reference = f"O-{secrets.token_hex(6)}"
        _, *made = race(
            db,
            [(payer, in_transaction(tenant.event(reference)))]
            + [(creator, in_transaction(tenant.create_order(reference))) for creator in creators],
        )
        one, other = [created(tenant, answer, reference) for answer in made]
        assert one.id == other.id
        assert one.state() == paid_once()
        assert still_parked(tenant) == 0
