"""B79: one stuck transaction holds an order. Its own deliveries wait or give up; nobody else notices."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
from harness import BEGIN, COMMIT, UNTOUCHED, connect, given, held, paid_once, wait_until, waiting

STUCK, FREE = 100, 20


def deliver(connection, call) -> tuple:
    """What the caller is told: outcome and http status, or the SQLSTATE."""
    sql, parameters = call
    try:
        row = connection.execute(sql, given(parameters)).fetchone()
        return row["outcome"], row["http_status"]
    except psycopg.Error as error:
        return ("error", error.sqlstate)


def sessions(stack: ExitStack, count: int, lock_timeout: str) -> list:
    return [stack.enter_context(connect(options=f"-c lock_timeout={lock_timeout}")) for _ in range(count)]


def test_stuck_order_holds_up_nobody_else(db, tenant):
    stuck, free = tenant.order(), [tenant.order() for _ in range(FREE)]
    call = stuck.paid()
    with ExitStack() as stack:
        patient = sessions(stack, STUCK, "0")
        # Any wait for a lock longer than this would be seen as an error.
        impatient = sessions(stack, FREE, "200ms")
        workers = stack.enter_context(ThreadPoolExecutor(STUCK + FREE))
        with held(stuck):
            waiters = [workers.submit(deliver, connection, call) for connection in patient]
            wait_until(lambda: waiting(db, patient) == STUCK, "all wait for the stuck order")
            others = [workers.submit(deliver, connection, order.paid()) for connection, order in zip(impatient, free)]
            assert [other.result() for other in others] == [("applied", 200)] * FREE
            assert waiting(db, patient) == STUCK
        answers = sorted(waiter.result() for waiter in waiters)
    assert answers == [("applied", 200)] + [("duplicate", 200)] * (STUCK - 1)
    assert [order.state() for order in [stuck, *free]] == [paid_once()] * (1 + FREE)


def test_lock_timeout_reaches_the_caller(db, tenant):
    """55P03 unchanged, and nothing kept: a later delivery is the first one."""
    stuck = tenant.order()
    call = stuck.paid()
    with ExitStack() as stack:
        impatient = sessions(stack, STUCK, "1s")
        workers = stack.enter_context(ThreadPoolExecutor(STUCK))
        with held(stuck):
            answers = list(workers.map(lambda connection: deliver(connection, call), impatient))
            assert answers == [("error", "55P03")] * STUCK
            assert stuck.state() == UNTOUCHED
        answers = sorted(workers.map(lambda connection: deliver(connection, call), impatient))
    assert answers == [("applied", 200)] + [("duplicate", 200)] * (STUCK - 1)
    assert stuck.state() == paid_once()


def test_duplicates_of_a_stuck_order_are_answered(db, tenant):
    """A duplicate takes no row lock, so that it has nothing to wait for."""
    order = tenant.order()
    attempted, paid, wrong = order.paid(type="attempted"), order.paid(), order.paid(amount=999)
    unmapped = order.paid(type="nobody.knows")
    calls = [attempted, wrong, paid, unmapped]
    assert [deliver(db, call)[0] for call in calls] == ["applied", "exception", "applied", "recorded"]
    with held(order), connect(options="-c lock_timeout=100ms") as impatient:
        for call in calls:
            assert deliver(impatient, call) == ("duplicate", 200)


def test_parked_event_of_a_stuck_reference_waits_alone(db, fleet, tenant):
    """An uncommitted create_order holds up the events of its own reference and no others."""
    creator, waiter = fleet(2)
    assert creator.run(BEGIN, tenant.create_order("O-stuck")).sqlstate is None
    waiter.start([tenant.event("O-stuck")])
    wait_until(lambda: waiting(db, [waiter]), "the event waits for its order")
    with connect(options="-c lock_timeout=200ms") as impatient:
        assert deliver(impatient, tenant.event("O-other")) == ("parked", 200)
    assert creator.run(COMMIT).sqlstate is None
    assert waiter.finish().told == ("applied", None)
