"""`ingest_batch` from eight sessions: one effect per event (P1, P4), no deadlock whatever the batches share."""

import json
import random
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest
from harness import INGEST, Tenant, connect, given, held, scaled, sign, wait_until, waiting

SESSIONS = 8
KNOWN, LATE = 24, 8  # orders: there from the start, made meanwhile
BATCH = "SELECT * FROM payment_idem.ingest_batch($1, NULL, $2::bytea[], $3, $4)"
ANY = "any-merchant"  # a source that says nothing of the merchant

TOLD_AGAIN = {"duplicate", "digest_conflict"}


def event(event_id: str, order: str | None, payment: str | None = None, **more) -> bytes:
    body = {"id": event_id, "type": "paid", "order": order, "amount": 1000, "currency": "usd", "payment": payment}
    body |= more
    return json.dumps({key: value for key, value in body.items() if value is not None}).encode()


def ping(event_id: str) -> bytes:
    return event(event_id, None, type="ping")


def batch(tenant: Tenant, bodies: list[bytes], source: str = "default"):
    """The statement that delivers these bodies in one call."""
    return (BATCH, [tenant.id, bodies, [sign(tenant.secret, body) for body in bodies], source])


def single(tenant: Tenant, body: bytes, source: str):
    return (INGEST.replace("$4)", "$4, $5)"), [tenant.id, None, body, sign(tenant.secret, body), source])


def run(session: psycopg.Connection, statement) -> list[dict]:
    sql, parameters = statement
    return session.execute(sql, given(parameters)).fetchall()


def until_through(session: psycopg.Connection, level: str | None, statement) -> list[dict]:
    """Runs it in a transaction of its own, or in autocommit; only 40001 is a reason to try again."""
    while True:
        try:
            if level is None:
                return run(session, statement)
            with session.transaction():
                session.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
                return run(session, statement)
        except psycopg.errors.SerializationFailure:
            continue


def told(rows: list[dict]) -> list[tuple]:
    return [(row["outcome"], row["reason"]) for row in rows]


def leaves(db, tenant: Tenant) -> list[str]:
    """Every row that the tenant's orders and deliveries have left."""
    tables = "event_receipts", "transactions", "payment_references", "exceptions", "anomalies", "outbox", "orders"
    rows = [f"SELECT to_jsonb(x)::text AS row FROM payment_idem.{table} AS x WHERE tenant = $1" for table in tables]
    return [row["row"] for row in db.execute(f"{' UNION ALL '.join(rows)} ORDER BY 1", [tenant.id]).fetchall()]


def deadlocks(db, sessions: list[psycopg.Connection]) -> int:
    for session in [*sessions, db]:
        session.execute("SELECT pg_stat_force_next_flush()")
    db.execute("SELECT pg_stat_clear_snapshot()")
    sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    return db.execute(sql).fetchone()["deadlocks"]


# --- eight sessions ---------------------------------------------------------------------------------------------


def deliveries_of_a_shop() -> list[bytes]:
    """Its orders borrow each other's payments, event ids and gateway order ids."""
    bodies = [b'{"id":"broken"', b'{"id":"broken",', ping("ping_1"), ping("ping_2")]
    for n in range(KNOWN + LATE):
        order, neighbour = f"O{n}", n ^ 1
        bodies += [
            event(f"start_{n}", order, type="attempted"),
            event(f"paid_{n}", order, f"pay_{n}", utr=f"utr_{n}"),
            event(f"again_{n}", order, f"pay_{n}"),
            event(f"crossed_{n}", order, f"pay_{neighbour}", utr=f"utr_{n}x"),
            event(f"short_{n}", order, f"short_{n}", amount=999),
        ]
        if n % 4 < 2:  # one id, two bodies: of the order and, crossed, of its neighbour
            bodies.append(event(f"paid_{neighbour}", order, f"pay_{n}", amount=1001))
        if n >= KNOWN:  # by two names: the late order's, and the gateway's id of one that is there
            bodies.append(event(f"named_{n}", order, f"named_{n}", gateway_order_id=f"G{n - KNOWN}"))
    return bodies


def one_round(db, tenant: Tenant, sessions: list[psycopg.Connection], level: str | None, seed: str):
    for n in range(KNOWN):
        run(db, tenant.create_order(f"O{n}", gateway_order_id=f"G{n}"))
    bodies = deliveries_of_a_shop()

    def work(number: int) -> list[dict]:
        dice = random.Random(f"{seed} {number}")
        session, answers = sessions[number], []
        late = [KNOWN + n for n in range(LATE) if n % SESSIONS == number]
        for _ in range(3):
            some = dice.sample(bodies, 60)
            some += dice.sample(some, 5)  # twice in one batch
            answers += until_through(session, level, batch(tenant, dice.sample(some, len(some))))
            for body in dice.sample(bodies, 3):
                answers += until_through(session, level, tenant.deliver(body, None))
            for order in late:
                until_through(session, level, tenant.create_order(f"O{order}"))
        return answers

    with ThreadPoolExecutor(SESSIONS) as pool:
        answers = [answer for some in pool.map(work, range(SESSIONS)) for answer in some]
    answers += run(db, batch(tenant, bodies))

    news = [answer for answer in answers if answer["outcome"] not in TOLD_AGAIN]
    # Told once, when it came; and a parked one a second time, where a redelivery found its order.
    first = Counter(answer["payload_sha256"] for answer in news if answer["outcome"] == answer["first_outcome"])
    later = Counter(answer["payload_sha256"] for answer in news if answer["outcome"] != answer["first_outcome"])
    sql = "SELECT payload_sha256, first_outcome FROM payment_idem.event_receipts WHERE tenant = $1"
    receipts = [(row["payload_sha256"].hex(), row["first_outcome"]) for row in db.execute(sql, [tenant.id])]
    assert first == Counter(sha256 for sha256, _ in receipts)
    assert later <= Counter(sha256 for sha256, first_outcome in receipts if first_outcome == "parked")

    state = leaves(db, tenant)
    again = run(db, batch(tenant, random.Random(seed).sample(bodies, len(bodies))))
    assert {answer["outcome"] for answer in again} == TOLD_AGAIN
    assert leaves(db, tenant) == state


@pytest.mark.parametrize("level", [None, "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_shuffled_batches(db, tenants_of_module, level):
    """Known and late orders, crossed references and ids; single calls and `create_order` beside the batches."""
    sessions = [connect() for _ in range(SESSIONS)]
    before = deadlocks(db, sessions)
    end = time.monotonic() + scaled(short=4, full=45)
    rounds = 0
    while not rounds or time.monotonic() < end:
        tenants_of_module.append(Tenant(db))
        one_round(db, tenants_of_module[-1], sessions, level, f"{level} {rounds}")
        rounds += 1
    assert deadlocks(db, sessions) == before
    for session in sessions:
        session.close()


# --- as one by one ----------------------------------------------------------------------------------------------


def some_deliveries(dice: random.Random, count: int) -> list[bytes]:
    """Few orders, payments and event ids, so that they meet."""
    bodies = []
    for n in range(count):
        if bodies and dice.random() < 0.12:
            bodies.append(dice.choice(bodies))
            continue
        event_id = f"e{dice.randrange(12)}" if dice.random() < 0.25 else f"new_{n}_{dice.getrandbits(32)}"
        order, gateway_order = f"O{dice.randrange(4)}", f"G{dice.randrange(3)}"
        more = {
            "type": dice.choice(["paid"] * 7 + ["failed", "attempted", "expired", "ping"]),
            "amount": dice.choice([1000] * 5 + [999, 1]),
            "currency": dice.choice(["usd"] * 6 + ["eur"]),
            "gateway_order_id": gateway_order if dice.random() < 0.25 else None,
            "utr": f"u{dice.randrange(5)}" if dice.random() < 0.5 else None,
            "merchant_id": dice.choice(["m1", "m2", None]),
        }
        payment = f"p{dice.randrange(5)}" if dice.random() < 0.75 else None
        bodies.append(event(event_id, order if dice.random() < 0.9 else None, payment, **more))
    return bodies


class TwoTenants:
    """The same happens to both, until one gets its deliveries one by one and the other in a batch."""

    def __init__(self, db, tenants: list[Tenant]):
        self.db = db
        self.pair = one, many = Tenant(db), Tenant(db)
        tenants += self.pair
        for tenant in self.pair:
            db.execute("SELECT payment_idem.create_source($1, $2, 'generic')", [tenant.id, ANY])
            db.execute("SELECT payment_idem.add_secret($1, $2, $3)", [tenant.id, ANY, tenant.secret])

    def order(self, reference: str, merchant: str = "m1", gateway_order_id: str | None = None):
        sql = "SELECT payment_idem.create_order($1, $2, $3, 10, 'USD', gateway_order_id => $4)"
        for tenant in self.pair:
            self.db.execute(sql, [tenant.id, merchant, reference, gateway_order_id])

    def restore(self, reference: str):
        """The order comes by another way than create_order, so that nothing settles what is parked."""
        sql = """INSERT INTO payment_idem.orders
                     (tenant, order_id, merchant_id, client_txn_id, amount_minor, currency, created_at, updated_at)
                 VALUES ($1, gen_random_uuid(), 'm1', $2, 1000, 'USD', now(), now()) ON CONFLICT DO NOTHING"""
        for tenant in self.pair:
            self.db.execute(sql, [tenant.id, reference])

    def deliver(self, *bodies: bytes, source: str):
        for tenant in self.pair:
            for body in bodies:
                run(self.db, single(tenant, body, source))

    def compare(self, bodies: list[bytes], source: str):
        one, many = self.pair
        by_one = [row for body in bodies for row in run(self.db, single(one, body, source))]
        by_batch = run(self.db, batch(many, bodies, source))
        assert [self._comparable(row) for row in by_batch] == [self._comparable(row) for row in by_one]
        assert self._leaves(many) == self._leaves(one)

    def _comparable(self, answer: dict) -> tuple:
        same = "outcome", "reason", "http_status", "event_id", "order_status", "payload_sha256", "first_outcome"
        is_there = "order_id", "transaction_id", "exception_id"
        return tuple(answer[key] for key in same) + tuple(answer[key] is not None for key in is_there)

    def _leaves(self, tenant: Tenant) -> list[str]:
        """What differs from tenant to tenant is left out, and an event's number is the event."""
        sql = """
            WITH o AS (SELECT order_id, merchant_id || '/' || client_txn_id AS name, status, paid_minor, outbox_seq
                       FROM payment_idem.orders WHERE tenant = $1),
                 e AS (SELECT * FROM payment_idem.event_receipts WHERE tenant = $1)
            SELECT to_jsonb(o) - 'order_id' AS leaf FROM o
            UNION ALL SELECT jsonb_build_array('event', identity, outcome, reason, first_outcome, name, payment_refs)
                FROM e LEFT JOIN o USING (order_id)
            UNION ALL SELECT jsonb_build_array('line', l.event_id, seq, l.amount_minor, from_status, to_status, name)
                FROM payment_idem.transactions l JOIN o USING (order_id)
            UNION ALL SELECT jsonb_build_array('reference', p.kind, value, state, name, identity)
                FROM payment_idem.payment_references p JOIN o USING (order_id) JOIN e USING (receipt)
            UNION ALL SELECT jsonb_build_array('exception', x.kind, x.amount_minor, resolution, detail, name, identity)
                FROM payment_idem.exceptions x JOIN e ON receipt = exception_id LEFT JOIN o ON o.order_id = x.order_id
                WHERE x.tenant = $1
            UNION ALL SELECT jsonb_build_array('work', action, seq, name)
                FROM payment_idem.outbox JOIN o USING (order_id)
            UNION ALL SELECT jsonb_build_array('anomaly', kind, identity, encode(payload_sha256, 'hex'))
                FROM payment_idem.anomalies WHERE tenant = $1
            ORDER BY 1"""
        return [row["leaf"] for row in self.db.execute(sql, [tenant.id]).fetchall()]


def test_random_batches_as_one_by_one(db, tenants_of_module):
    for seed in range(scaled(short=150, full=5000)):
        dice = random.Random(seed)
        both, source = TwoTenants(db, tenants_of_module), dice.choice(["default", ANY])
        merchants = ["m1", "m2"] if source == ANY else ["m1"]
        for _ in range(dice.randint(1, 3)):
            both.order(f"O{dice.randrange(4)}", dice.choice(merchants), dice.choice([None, "G0", "G1"]))
        before = some_deliveries(dice, dice.randint(0, 4))
        both.deliver(*before, source=source)
        if dice.random() < 0.3:
            both.restore(f"O{dice.randrange(4)}")
        bodies = some_deliveries(dice, dice.randint(2, 8))
        bodies = dice.sample([*bodies, *before[:1]], len(bodies) + len(before[:1]))
        both.compare(bodies, source)
        both.deliver(*before, *bodies, source=source)  # whatever still waits for a restored order is tried again


def test_a_parked_event_behind_other_bytes(db, tenants_of_module):
    """A conflicting copy in front of it does not keep a parked event from its turn."""
    both = TwoTenants(db, tenants_of_module)
    parked = event("e1", "O1", "p1")
    both.deliver(parked, source="default")
    both.restore("O1")
    both.compare([event("e1", "O1", "p1", note="other bytes"), parked], "default")


def test_on_record_by_a_name_that_the_batch_books(db, tenants_of_module):
    """The exception on record knows p1, which the first of the batch books with u2; the second speaks of u2 alone."""
    both = TwoTenants(db, tenants_of_module)
    both.order("O1")
    both.deliver(event("e0", "O1", "p1", utr="u1", amount=999), source="default")
    both.compare([event("e1", "O1", "p1", utr="u2"), event("e2", "O1", utr="u2", amount=999)], "default")


# --- a rival at a certain moment --------------------------------------------------------------------------------


class Session:
    """A session in an explicit transaction, whose statements run in the background."""

    def __init__(self, db: psycopg.Connection, pool: ThreadPoolExecutor):
        self.db, self.pool = db, pool
        self.connection = connect(autocommit=False)

    def run(self, statement) -> list[dict]:
        return run(self.connection, statement)

    def start(self, statement) -> Future:
        return self.pool.submit(self.run, statement)

    def is_waiting(self) -> bool:
        return waiting(self.db, [self.connection]) == 1

    def start_and_wait(self, statement) -> Future:
        future = self.start(statement)
        wait_until(self.is_waiting, "it waits for a lock")
        return future

    def result(self, future: Future, statement) -> list[dict]:
        """Its rows; after 40001, those of another try."""
        try:
            return future.result()
        except psycopg.errors.SerializationFailure:
            self.connection.rollback()
            return self.run(statement)

    def finish(self, future: Future, statement) -> list[dict]:
        rows = self.result(future, statement)
        self.connection.commit()
        return rows


def finish_all(*jobs: tuple[Session, Future, tuple]) -> list[dict]:
    """Commits each as it gets through, whichever comes first, after 40001 another try; returns all rows."""
    rows, jobs = [], list(jobs)
    while jobs:
        wait_until(lambda: any(future.done() for _, future, _ in jobs), "one of them goes on")
        session, future, statement = next(job for job in jobs if job[1].done())
        jobs.remove((session, future, statement))
        try:
            rows += future.result()
            session.connection.commit()
        except psycopg.errors.SerializationFailure:
            session.connection.rollback()
            jobs.append((session, session.start(statement), statement))
    return rows


@pytest.fixture
def sessions(db):
    """Starts sessions; when the test is over, none of them is at work."""
    opened = []
    with ThreadPoolExecutor() as pool:

        def start() -> Session:
            opened.append(Session(db, pool))
            return opened[-1]

        yield start
        for session in opened:
            session.connection.cancel()
    for session in opened:
        session.connection.close()


@pytest.fixture
def any_merchants(db, tenant):
    """The tenant, with a source that leaves the merchant to the event, and m1's order S."""
    db.execute("SELECT payment_idem.create_source($1, $2, 'generic')", [tenant.id, ANY])
    db.execute("SELECT payment_idem.add_secret($1, $2, $3)", [tenant.id, ANY, tenant.secret])
    tenant.order("S")
    return tenant


def order_of_m2(tenant: Tenant):
    """Another merchant's order of the same name."""
    return ("SELECT * FROM payment_idem.create_order($1, 'm2', 'S', 10, 'USD')", [tenant.id])


def lock_orders(tenant: Tenant):
    return ("SELECT 1 FROM payment_idem.orders WHERE tenant = $1 FOR UPDATE", [tenant.id])


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_rival_has_one_of_its_events(tenant, sessions, end):
    """The batch waits for the rival's receipt; then that event is a duplicate, or its own, and the others go on."""
    tenant.order("O1"), tenant.order("O2")
    rival, session = sessions(), sessions()
    rival.run(tenant.deliver(ping("ping"), None))  # no order's lock keeps the two apart
    statement = batch(tenant, [event("e1", "O1", "p1"), ping("ping"), event("e2", "O2", "p2")])
    waits = session.start_and_wait(statement)
    rival.connection.execute(end)
    shared = "duplicate" if end == "COMMIT" else "recorded"
    assert told(session.finish(waits, statement)) == [("applied", None), (shared, "informational"), ("applied", None)]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_rival_takes_one_of_its_references(tenant, sessions, end):
    """What the batch had written is taken back and decided again: only the event in question ends otherwise."""
    tenant.order("O1"), tenant.order("O2"), tenant.order("O3")
    rival, session = sessions(), sessions()
    rival.run(tenant.deliver(event("e3", "O3", "p2"), None))
    statement = batch(tenant, [event("e1", "O1", "p1"), event("e2", "O2", "p2"), event("e2", "O2", "p2")])
    waits = session.start_and_wait(statement)
    rival.connection.execute(end)
    rows = session.finish(waits, statement)
    if end == "COMMIT":
        expected = [("applied", None), ("exception", "reference_reused"), ("duplicate", "reference_reused")]
    else:
        expected = [("applied", None), ("applied", None), ("duplicate", None)]
    assert told(rows) == expected
    booked = "COMPLETED" if end == "ROLLBACK" else "PENDING"
    assert [row["order_status"] for row in rows] == ["COMPLETED", booked, booked]


def test_its_order_is_deleted_and_made_again(db, tenant, sessions):
    """The order goes while the batch waits for its lock: the event parks where `create_order` finds it (P7)."""
    tenant.order("O1")
    rival, session, maker = sessions(), sessions(), sessions()
    rival.connection.execute("DELETE FROM payment_idem.orders WHERE tenant = $1", [tenant.id])
    statement = batch(tenant, [event("e1", "O1", "p1"), ping("ping")])
    waits = session.start_and_wait(statement)
    rival.connection.commit()
    assert told(session.result(waits, statement))[0] == ("parked", "order_not_found")
    made = maker.start(tenant.create_order("O1"))
    wait_until(lambda: made.done() or maker.is_waiting(), "create_order waits, or does not")
    session.connection.commit()
    assert [(row["outcome"], row["status"]) for row in made.result()] == [("created", "COMPLETED")]
    maker.connection.commit()


def test_one_exception_for_a_name_that_becomes_ambiguous(db, any_merchants, sessions):
    """Another merchant makes an order of the same name while the batch waits; one payment, one exception."""
    tenant = any_merchants
    holder, session, beside = sessions(), sessions(), sessions()
    holder.run(lock_orders(tenant))
    statement = batch(tenant, [event("e1", "S", "p1"), ping("ping")], ANY)
    waits = session.start_and_wait(statement)
    run(db, order_of_m2(tenant))
    holder.connection.commit()
    session.result(waits, statement)
    same_payment = single(tenant, event("e2", "S", "p1"), ANY)
    second = beside.start(same_payment)
    wait_until(lambda: second.done() or beside.is_waiting(), "the single call waits, or does not")
    session.connection.commit()
    beside.finish(second, same_payment)
    sql = "SELECT count(*) FROM payment_idem.exceptions WHERE tenant = $1"
    assert db.execute(sql, [tenant.id]).fetchone()["count"] == 1


@pytest.mark.parametrize("many", [False, True])
def test_one_exception_of_two_parked_events_whose_name_is_ambiguous_by_now(db, any_merchants, sessions, many):
    """Two merchants' orders of one name were restored; each of two sessions tries one of the parked events again."""
    tenant = any_merchants
    bodies = [event(f"e{n}", "R", "p1") for n in (1, 2)]
    run(db, batch(tenant, bodies, ANY))
    sql = """INSERT INTO payment_idem.orders
                 (tenant, order_id, merchant_id, client_txn_id, amount_minor, currency, created_at, updated_at)
             SELECT $1, gen_random_uuid(), merchant, 'R', 1000, 'USD', now(), now()
             FROM unnest(ARRAY['m1', 'm2']) AS merchant"""
    db.execute(sql, [tenant.id])
    again = [batch(tenant, [body, ping(f"ping {n}")], ANY) for n, body in enumerate(bodies)]
    first, second = again if many else [single(tenant, body, ANY) for body in bodies]
    session, beside = sessions(), sessions()
    assert told(session.run(first))[0] == ("exception", "reference_mismatch")
    waits = beside.start_and_wait(second)
    session.connection.commit()
    assert told(beside.finish(waits, second))[0] == ("recorded", "same_payment")


def test_no_deadlock_over_a_name_that_becomes_ambiguous(db, any_merchants, sessions):
    """A single call has the order and needs the name's key; a batch meets at the key and needs the order."""
    tenant = any_merchants
    holder, alone, session = sessions(), sessions(), sessions()
    holder.run(lock_orders(tenant))
    one = single(tenant, event("e1", "S", "p1"), ANY)
    alone_waits = alone.start_and_wait(one)
    run(db, order_of_m2(tenant))
    many = batch(tenant, [event("e2", "S", "p2", merchant_id="m3"), event("e3", "S", "p3", merchant_id="m1")], ANY)
    batch_waits = session.start_and_wait(many)
    holder.connection.commit()
    rows = finish_all((alone, alone_waits, one), (session, batch_waits, many))
    assert ("applied", None) in told(rows)  # e3 names its merchant


def test_no_deadlock_when_it_starts_anew(db, tenant, sessions):
    """A rival was first with one of its events, and meanwhile an order was made that another one means as well."""
    run(db, tenant.create_order("X", gateway_order_id="G1"))
    rival, session, other = sessions(), sessions(), sessions()
    rival.run(tenant.deliver(ping("m"), None))
    statement = batch(tenant, [ping("a"), ping("m"), event("z", "O1", "p1", gateway_order_id="G1")])
    waits = session.start_and_wait(statement)  # it has X, and ping a
    run(db, tenant.create_order("O1"))
    crossing = batch(tenant, [ping("a"), event("y", "O1", "p2")])
    crossing_waits = other.start_and_wait(crossing)  # it has O1, and waits for ping a
    rival.connection.commit()
    rows = finish_all((session, waits, statement), (other, crossing_waits, crossing))
    outcomes = {name: sorted(row["outcome"] for row in rows if row["event_id"] == name) for name in "amy"}
    assert outcomes == {"a": ["duplicate", "recorded"], "m": ["duplicate"], "y": ["applied"]}


# --- all or nothing ---------------------------------------------------------------------------------------------


def test_cancelled_while_it_waits_for_an_order(db, tenant):
    stuck = tenant.order("O1")
    tenant.order("O2")
    statement = batch(tenant, [event("e1", "O1", "p1"), event("e2", "O2", "p2")])
    state = leaves(db, tenant)
    with held(stuck), connect() as session:
        session.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            run(session, statement)
    assert leaves(db, tenant) == state
    assert told(run(db, statement)) == [("applied", None)] * 2


def test_cancelled_in_the_middle(db, tenant, sessions):
    """Its receipts are written and it waits for a reference: none of it remains."""
    tenant.order("O1"), tenant.order("O2"), tenant.order("O3")
    state = leaves(db, tenant)
    rival, session = sessions(), sessions()
    rival.run(tenant.deliver(event("e3", "O3", "p2"), None))
    statement = batch(tenant, [event("e1", "O1", "p1"), event("e2", "O2", "p2")])
    waits = session.start_and_wait(statement)
    session.connection.cancel()
    with pytest.raises(psycopg.errors.QueryCanceled):
        waits.result()
    session.connection.rollback()
    rival.connection.rollback()
    assert leaves(db, tenant) == state
    assert told(run(db, statement)) == [("applied", None)] * 2


def test_rolled_back_to_a_savepoint(db, tenant, sessions):
    tenant.order("O1")
    statement = batch(tenant, [event("e1", "O1", "p1"), event("e9", "O9", "p9"), event("e2", "O1", "p1", amount=999)])
    session = sessions()
    state = leaves(db, tenant)
    session.connection.execute("SAVEPOINT s")
    rows = session.run(statement)
    assert told(rows) == [("applied", None), ("parked", "order_not_found"), ("exception", "amount_mismatch")]
    session.connection.execute("ROLLBACK TO s")
    assert leaves(session.connection, tenant) == state
    assert told(session.run(statement)) == told(rows)
    session.connection.commit()
    assert tenant.receipts() == 3


def test_a_batch_of_the_size_limit(db, tenant):
    """Ten thousand payments of 500 orders: two payments of each, and each told ten times."""
    orders = 500
    with db.transaction():
        for n in range(orders):
            run(db, tenant.create_order(f"O{n}"))
    bodies = [event(f"e{n}", f"O{n % orders}", f"p{n % (2 * orders)}") for n in range(10_000)]
    rows = run(db, batch(tenant, bodies))
    assert [row["item"] for row in rows] == list(range(1, 10_001))
    assert Counter(told(rows)) == {
        ("applied", None): orders,
        ("exception", "second_payment"): orders,
        ("recorded", "same_payment"): 10_000 - 2 * orders,
    }
