"""A hundred sessions wait for one order that a stuck transaction holds; what others get, and how fast, is unchanged.

Latencies are measured in turn, without those waiters and with them, in one run; the figures are printed.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from statistics import median, quantiles

import pytest
from harness import HANG_GUARD_S, connect, given, held, paid_once, scaled, wait_until, waiting

STUCK = 100
ROUNDS = scaled(short=4, full=40)  # each without and with waiters
CALLS = scaled(short=300, full=1_000)  # of each kind in each half of a round
SLOWER = 3  # times; generous, for the machine has other things to do


def call(connection, statement) -> dict:
    sql, parameters = statement
    (row,) = connection.execute(sql, given(parameters)).fetchall()
    return row


@pytest.fixture
def sessions():
    with ExitStack() as stack:
        yield [stack.enter_context(connect()) for _ in range(STUCK)]


@pytest.fixture
def workers(sessions):
    with ThreadPoolExecutor(STUCK) as pool:
        yield pool


@pytest.fixture
def impatient():
    """Whoever uses it has nothing to wait for: a wait for a lock is an error."""
    with connect(options="-c lock_timeout=200ms") as connection:
        yield connection


def test_latency_of_the_others(db, new_tenant, sessions, workers, impatient):
    tenant, other_tenant = new_tenant(), new_tenant()
    settled = tenant.order()
    duplicate = settled.paid()
    assert call(db, duplicate)["outcome"] == "applied"
    latencies = {}

    def measure(waiters: str, stuck):
        """Deliveries to other orders, of another tenant, and again of a settled event of the stuck order."""
        ours, theirs = ([one.order() for _ in range(CALLS)] for one in (tenant, other_tenant))
        first_deliveries = {"another order": ours, "another tenant": theirs}
        calls = {what: [(order.paid(), "applied") for order in orders] for what, orders in first_deliveries.items()}
        calls["a duplicate"] = [(stuck, "duplicate")] * CALLS
        for turn in zip(*calls.values()):
            for what, (statement, outcome) in zip(calls, turn):
                began = time.perf_counter()
                row = call(impatient, statement)
                latencies.setdefault((what, waiters), []).append(time.perf_counter() - began)
                assert row["outcome"] == outcome

    measure("warm-up", duplicate)
    late = []
    for _ in range(ROUNDS):
        measure("without", duplicate)
        with held(settled):
            waiting_calls = [settled.paid() for _ in sessions]
            running = [workers.submit(call, session, one) for session, one in zip(sessions, waiting_calls)]
            wait_until(lambda: waiting(db, sessions) == STUCK, "all wait for the stuck order")
            measure("with", duplicate)
            assert waiting(db, sessions) == STUCK
        late += [future.result(HANG_GUARD_S)["reason"] for future in running]
    assert late == ["second_payment"] * STUCK * ROUNDS  # the order is paid; each of them is seen, none is lost

    for what in ["another order", "another tenant", "a duplicate"]:
        without, with_waiters = ([1e6 * one for one in latencies[what, waiters]] for waiters in ("without", "with"))
        print(
            f"{what}: {median(without):.0f} µs without, {median(with_waiters):.0f} µs with {STUCK} waiters (medians,"
            f" ratio {median(with_waiters) / median(without):.2f});"
            f" 99 %: {quantiles(without, n=100)[-1]:.0f} and {quantiles(with_waiters, n=100)[-1]:.0f} µs"
        )
        assert median(with_waiters) < SLOWER * median(without)


@pytest.mark.parametrize("payments", ["one event", "one payment", "many payments"])
def test_all_of_the_waiters_end_properly(db, tenant, sessions, workers, impatient, payments):
    """P1: whatever they bring, copies of an event, events of one payment, or payments of their own."""
    order, settled_before = tenant.order(), []
    for type in ("attempted", "nobody.knows"):
        settled_before.append(order.paid(type=type))
        assert call(db, settled_before[-1])["outcome"] in ("applied", "recorded")
    match payments:
        case "one event":
            calls = [order.paid()] * STUCK
        case "one payment":
            calls = [order.paid(payment="pi_shared") for _ in sessions]
        case _:
            calls = [order.paid() for _ in sessions]
    with held(order):
        running = [workers.submit(call, session, one) for session, one in zip(sessions, calls)]
        wait_until(lambda: waiting(db, sessions) == STUCK, "all wait for the stuck order")
        for statement in settled_before:
            assert call(impatient, statement)["outcome"] == "duplicate"
        other = tenant.order()
        assert call(impatient, other.paid())["outcome"] == "applied"
        assert waiting(db, sessions) == STUCK
    rows = [future.result(HANG_GUARD_S) for future in running]
    assert [row["outcome"] for row in rows].count("applied") == 1
    rest = {(row["outcome"], row["reason"]) for row in rows if row["outcome"] != "applied"}
    assert rest == {
        "one event": {("duplicate", None)},
        "one payment": {("recorded", "same_payment")},
        "many payments": {("exception", "second_payment")},
    }[payments]
    state = order.state()
    receipts = 1 if payments == "one event" else STUCK
    exceptions = STUCK - 1 if payments == "many payments" else 0
    # One line more than the payment's: that of the attempt.
    assert state == paid_once(receipts + 1, exceptions) | {"ledger": 2, "transitions": 2}
    assert other.state() == paid_once()
