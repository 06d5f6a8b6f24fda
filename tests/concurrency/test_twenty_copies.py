"""Copies of one signed event, and events that want the same thing, in many clients at the same moment."""

import secrets

import pytest
from harness import (
    BEGIN,
    COMMIT,
    ROLLBACK,
    UNTOUCHED,
    at_once,
    held,
    paid_once,
    scaled,
    sleep,
    start_together,
    wait_until,
    waiting,
)

ROUNDS = scaled(short=5, full=200)
PAIR_ROUNDS = scaled(short=50, full=1000)
WRAPPED = {"autocommit": lambda call: [call], "transaction": lambda call: [BEGIN, call, sleep(0.05), COMMIT]}


@pytest.fixture(autouse=True)
def no_deadlock(db, fleet):
    """The server counts no deadlock. (A victim would also have told its client: 40P01.)"""

    def deadlocks():
        fleet.reset()
        for sender in fleet.senders:
            sender.run(("SELECT pg_stat_force_next_flush()", []))
        sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return db.execute(sql).fetchone()["deadlocks"]

    before = deadlocks()
    yield
    assert deadlocks() == before


def contend(db, senders, order, script):
    """Has every sender run the script while the order's row is held, and lets go when all of them wait for it.

    A round in which they did not all wait proves nothing: None.
    """
    with held(order):
        start_together(db, [(sender, script) for sender in senders])
        try:
            wait_until(lambda: waiting(db, senders) == len(senders), "all rivals waiting", seconds=20)
            contended = True
        except TimeoutError:
            contended = False
    answers = [sender.finish() for sender in senders]
    return answers if contended else None


def contended_round(db, senders, tenant, wrap, **facts):
    """One round that counts: the order, the call that pays it, and what each sender was answered."""
    for _ in range(3):
        order = tenant.order()
        call = order.paid(**facts)
        if answers := contend(db, senders, order, wrap(call)):
            return order, call, answers
    pytest.fail("the senders never all waited for one another")


def assert_one_first(answers, first, reason=None, number="transaction_id"):
    """One delivery was the first, every other one a duplicate that tells the same story; nobody saw an error."""
    results = [answer.result for answer in answers]
    (winner,) = [result for result in results if result["outcome"] != "duplicate"]
    assert (winner["outcome"], winner["reason"]) == (first, reason)
    for result in results:
        assert result["http_status"] == 200
        assert result["reason"] == reason
        assert result["first_outcome"] == first
        for column in ("event_id", "order_id", "order_status", number, "payload_sha256"):
            assert str(result[column]) == str(winner[column]) != "None"


@pytest.mark.parametrize("wrapping", WRAPPED)
@pytest.mark.parametrize("copies, rounds", [(20, ROUNDS), (50, max(1, ROUNDS // 5))])
def test_copies_of_one_event_have_one_effect(db, fleet, tenant, copies, rounds, wrapping):
    """The seed's concurrency test with 20, B01 with 50: half of them Python, half Node."""
    for _ in range(rounds):
        order, _, answers = contended_round(db, fleet(copies), tenant, WRAPPED[wrapping])
        assert len(answers) == copies
        assert_one_first(answers, "applied")
        assert order.state() == paid_once()


@pytest.mark.parametrize("wrapping", WRAPPED)
def test_copies_with_a_wrong_amount_fulfil_nothing(db, fleet, tenant, wrapping):
    for _ in range(ROUNDS):
        order, _, answers = contended_round(db, fleet(20), tenant, WRAPPED[wrapping], amount=999)
        assert_one_first(answers, "exception", "amount_mismatch", number="exception_id")
        assert order.state() == UNTOUCHED | {"receipts": 1, "exceptions": 1}


def test_copies_without_an_order_are_parked_once(db, fleet, tenant):
    for round in range(ROUNDS):
        event = tenant.event(f"O-{secrets.token_hex(6)}")
        start_together(db, [(sender, [event]) for sender in fleet(20)])
        results = [sender.finish().result for sender in fleet(20)]
        assert sorted(result["outcome"] for result in results) == ["duplicate"] * 19 + ["parked"]
        assert {(result["reason"], result["http_status"]) for result in results} == {("order_not_found", 200)}
        assert tenant.receipts() == round + 1


def test_events_of_one_payment_pay_once(db, fleet, tenant):
    """B02: one payment raises three types of event with ids of their own."""
    types = ["checkout_completed", "payment_succeeded", "charge_succeeded"]
    for _ in range(PAIR_ROUNDS):
        order, payment = tenant.order(), f"pi_{secrets.token_hex(6)}"
        answers = at_once(
            db, *((sender, [order.paid(type=type, payment=payment)]) for sender, type in zip(fleet(3), types))
        )
        told = [answer.told for answer in answers]
        assert sorted(told, key=str) == [("applied", None), ("recorded", "same_payment"), ("recorded", "same_payment")]
        assert order.state() == paid_once(receipts=3)


def test_second_payment_is_kept_as_an_exception(db, fleet, tenant):
    """B44: two payments of one order; the second one's money is neither booked nor lost."""
    for _ in range(PAIR_ROUNDS):
        order = tenant.order()
        answers = at_once(db, *((sender, [order.paid()]) for sender in fleet(2)))
        told = sorted((answer.told for answer in answers), key=str)
        assert told == [("applied", None), ("exception", "second_payment")]
        assert order.state() == paid_once(receipts=2, exceptions=1)
        surplus = tenant.db.execute(
            "SELECT kind, amount_minor, currency FROM payment_idem.exceptions"
            " WHERE (tenant, order_id) = ($1::uuid, $2) AND resolved_at IS NULL",
            [tenant.id, order.id],
        ).fetchone()
        assert surplus == {"kind": "second_payment", "amount_minor": 1000, "currency": "USD"}


@pytest.mark.parametrize("shared", ["payment", "utr", "payment and utr"])
def test_one_payment_never_pays_two_orders(db, fleet, tenant, shared):
    """B45, with each kind of reference."""
    for _ in range(PAIR_ROUNDS):
        orders = [tenant.order(), tenant.order()]
        reference = {kind: f"ref_{secrets.token_hex(6)}" for kind in shared.split(" and ")}
        answers = at_once(db, *((sender, [order.paid(**reference)]) for sender, order in zip(fleet(2), orders)))
        (paid, other) = sorted(zip(answers, orders), key=lambda pair: str(pair[0].told))
        assert (paid[0].told, other[0].told) == (("applied", None), ("exception", "reference_reused"))
        assert paid[1].state() == paid_once()
        assert other[1].state() == UNTOUCHED | {"receipts": 1, "exceptions": 1}


def test_one_id_with_two_bodies(db, fleet, tenant):
    """B15: whichever comes first keeps its digest; the other bytes are an anomaly and move nothing."""
    for _ in range(PAIR_ROUNDS):
        order, same = (
            tenant.order(),
            {"event_id": f"evt_{secrets.token_hex(6)}", "payment": f"pi_{secrets.token_hex(6)}"},
        )
        calls = [order.paid(**same), order.paid(**same, api="2025")]
        answers = at_once(db, *((sender, [call]) for sender, call in zip(fleet(2), calls)))
        first, other = sorted((answer.result for answer in answers), key=lambda result: result["outcome"])
        assert (first["outcome"], other["outcome"]) == ("applied", "digest_conflict")
        assert [result["http_status"] for result in (first, other)] == [200, 200]
        assert order.state() == paid_once()
        anomalies = tenant.db.execute(
            "SELECT kind, encode(first_sha256, 'hex') AS first, encode(payload_sha256, 'hex') AS other"
            " FROM payment_idem.anomalies WHERE (tenant, identity) = ($1, $2)",
            [tenant.id, same["event_id"]],
        ).fetchall()
        assert anomalies == [
            {"kind": "digest_conflict", "first": first["payload_sha256"], "other": other["payload_sha256"]}
        ]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_snapshot_that_is_too_old_is_said_to_be(db, fleet, tenant, level):
    """B77: a rival's snapshot cannot show the receipt; it is told 40001, never `duplicate`, and a retry finds it."""
    for _ in range(ROUNDS):
        order, call, answers = contended_round(
            db, fleet(20), tenant, lambda call: [(f"BEGIN ISOLATION LEVEL {level}", []), call, COMMIT]
        )
        assert sorted(answer.sqlstate or answer.result["outcome"] for answer in answers) == ["40001"] * 19 + ["applied"]
        assert {sender.run(call).told for sender in fleet(20)} == {("duplicate", None)}
        assert order.state() == paid_once()


def wait_behind(db, first, rivals, call):
    """`first` has delivered and not yet committed, and all rivals wait behind it."""
    assert first.run(BEGIN, call).result["outcome"] != "duplicate"
    start_together(db, [(rival, [call]) for rival in rivals])
    wait_until(lambda: waiting(db, rivals) == len(rivals), "rivals wait for the first delivery")


def test_waiter_applies_what_its_rival_rolled_back(db, fleet, tenant):
    """B06."""
    first, *rivals = fleet(6)
    for _ in range(ROUNDS):
        order = tenant.order()
        wait_behind(db, first, rivals, order.paid())
        assert first.run(ROLLBACK).sqlstate is None
        assert_one_first([rival.finish() for rival in rivals], "applied")
        assert order.state() == paid_once()


def test_waiter_parks_what_its_rival_rolled_back(db, fleet, tenant):
    """B06 for an event without an order."""
    first, *rivals = fleet(6)
    for round in range(ROUNDS):
        wait_behind(db, first, rivals, tenant.event(f"O-{secrets.token_hex(6)}"))
        assert first.run(ROLLBACK).sqlstate is None
        outcomes = sorted(rival.finish().result["outcome"] for rival in rivals)
        assert outcomes == ["duplicate"] * 4 + ["parked"]
        assert tenant.receipts() == round + 1


def test_duplicate_is_said_only_after_the_first_commit(db, fleet, tenant):
    """P4: while the first delivery is not committed, no rival has an answer."""
    first, *rivals = fleet(6)
    for _ in range(ROUNDS):
        order = tenant.order()
        wait_behind(db, first, rivals, order.paid())
        assert order.state() == UNTOUCHED
        assert first.run(COMMIT).sqlstate is None
        assert [rival.finish().told for rival in rivals] == [("duplicate", None)] * len(rivals)
        assert order.state() == paid_once()


def test_tenants_share_no_event_ids(db, fleet, new_tenant):
    """B09: the same event id, order reference and payment in two tenants."""
    tenants = [new_tenant(), new_tenant()]
    for _ in range(PAIR_ROUNDS):
        name = secrets.token_hex(6)
        orders = [tenant.order(f"O-{name}") for tenant in tenants]
        answers = at_once(
            db,
            *(
                (sender, [order.paid(event_id=f"evt_{name}", payment=f"pi_{name}")])
                for sender, order in zip(fleet(2), orders)
            ),
        )
        assert [answer.told for answer in answers] == [("applied", None)] * 2
        assert [order.state() for order in orders] == [paid_once()] * 2


def test_application_may_lock_the_order_before_or_after(db, fleet, tenant):
    """B74: one session locks the order and delivers, the other delivers and updates the order."""
    for _ in range(PAIR_ROUNDS):
        order = tenant.order()
        call = order.paid()
        update = (
            "UPDATE payment_idem.orders SET updated_at = clock_timestamp() WHERE (tenant, order_id) = ($1, $2)",
            [tenant.id, str(order.id)],
        )
        before, after = fleet(2)
        answers = at_once(
            db, (before, [BEGIN, order.lock(), sleep(0.01), call, COMMIT]), (after, [BEGIN, call, update, COMMIT])
        )
        assert_one_first(answers, "applied")
        assert order.state() == paid_once()


@pytest.fixture
def order_items(db, fleet):
    """A table of the application's that refers to orders; gives the statement that inserts a row."""
    table = f"order_items_{secrets.token_hex(4)}"
    db.execute(
        f"CREATE TABLE {table} (tenant uuid NOT NULL, order_id uuid NOT NULL,"
        " FOREIGN KEY (tenant, order_id) REFERENCES payment_idem.orders)"
    )
    yield lambda order: (f"INSERT INTO {table} VALUES ($1, $2)", [order.tenant.id, str(order.id)])
    fleet.reset()
    db.execute(f"DROP TABLE {table}")


def test_rows_that_refer_to_the_order_block_nothing(fleet, tenant, order_items):
    """B76: inserting a child row share-locks the order's key; neither side waits for the other."""
    impatient = ("SET LOCAL lock_timeout = '1s'", [])
    one, other = fleet(2)
    first = tenant.order()
    assert one.run(BEGIN, order_items(first)).sqlstate is None
    assert other.run(BEGIN, impatient, first.paid(), COMMIT).told == ("applied", None)
    assert one.run(COMMIT).sqlstate is None

    second = tenant.order()
    assert one.run(BEGIN, second.paid()).told == ("applied", None)
    assert other.run(BEGIN, impatient, order_items(second), COMMIT).sqlstate is None
    assert one.run(COMMIT).sqlstate is None
    assert [first.state(), second.state()] == [paid_once()] * 2


def test_child_rows_and_deliveries_crosswise(db, fleet, tenant, order_items):
    """B76: each session inserts a row for one order and delivers a payment of the other."""
    for _ in range(PAIR_ROUNDS):
        orders = [tenant.order(), tenant.order()]
        answers = at_once(
            db,
            *(
                (sender, [BEGIN, order_items(mine), sleep(0.005), other.paid(), COMMIT])
                for sender, mine, other in zip(fleet(2), orders, reversed(orders))
            ),
        )
        assert [answer.told for answer in answers] == [("applied", None)] * 2
        assert [order.state() for order in orders] == [paid_once()] * 2
