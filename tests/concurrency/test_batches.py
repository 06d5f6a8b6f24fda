"""`ingest_batch` from eight sessions at once: one effect per event (P1, P4), and no deadlock whatever the batches share."""

import json
import random
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from harness import Tenant, connect, given, held, scaled, sign, wait_until, waiting

SESSIONS = 8
KNOWN, LATE = 24, 8  # orders: there from the start, made meanwhile
BATCH = "SELECT * FROM payment_idem.ingest_batch($1, NULL, $2::bytea[], $3)"


class Deliveries:
    """The deliveries of a small shop whose orders borrow each other's payment references."""

    def __init__(self, tenant: Tenant):
        self.tenant = tenant
        self.bodies = []
        for n in range(KNOWN + LATE):
            neighbour = n ^ 1  # crossed: each names the other's payment, too
            self.event(n, "start", type="attempted", payment=None)
            self.event(n, "paid", payment=f"pay_{n}", utr=f"utr_{n}")
            self.event(n, "again", payment=f"pay_{n}")
            self.event(n, "crossed", payment=f"pay_{neighbour}", utr=f"utr_{n}x")
            self.event(n, "wrong", payment=f"wrong_{n}", amount=999)
            if n % 4 == 0:
                self.event(n, "paid", payment=f"pay_{n}", amount=1001)  # other bytes under a used id
        self.bodies.append(b'{"id":"broken"')

    def event(self, order: int, name: str, **more):
        body = {"id": f"{name}_{order}", "type": "paid", "order": f"O{order}", "amount": 1000, "currency": "usd"} | more
        self.bodies.append(json.dumps({key: value for key, value in body.items() if value is not None}).encode())

    def batch(self, bodies: list[bytes]):
        return (BATCH, [self.tenant.id, bodies, [sign(self.tenant.secret, body) for body in bodies]])


def run(session: psycopg.Connection, statement) -> list[dict]:
    sql, parameters = statement
    return session.execute(sql, given(parameters)).fetchall()


def in_transaction(session: psycopg.Connection, level: str, statement) -> list[dict]:
    """Runs it in a transaction of its own until it is through; only 40001 is a reason to try again."""
    while True:
        try:
            with session.transaction():
                session.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
                return run(session, statement)
        except psycopg.errors.SerializationFailure:
            continue


def leaves(db, tenant: Tenant) -> list:
    """Everything that the tenant's deliveries have left, but for the version of an order."""
    sql = """
        SELECT to_jsonb(r)::text FROM payment_idem.event_receipts r WHERE tenant = $1
        UNION ALL SELECT to_jsonb(l)::text FROM payment_idem.transactions l WHERE tenant = $1
        UNION ALL SELECT to_jsonb(p)::text FROM payment_idem.payment_references p WHERE tenant = $1
        UNION ALL SELECT to_jsonb(x)::text FROM payment_idem.exceptions x WHERE tenant = $1
        UNION ALL SELECT to_jsonb(a)::text FROM payment_idem.anomalies a WHERE tenant = $1
        UNION ALL SELECT to_jsonb(o)::text FROM payment_idem.outbox o WHERE tenant = $1
        UNION ALL SELECT to_jsonb(o)::text FROM payment_idem.orders o WHERE tenant = $1
        ORDER BY 1"""
    return [row["to_jsonb"] for row in db.execute(sql, [tenant.id]).fetchall()]


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_shuffled_batches(db, new_tenant, level):
    """Known and late orders, crossing references, conflicts; single calls and `create_order` beside the batches."""
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    db.execute("SELECT pg_stat_force_next_flush()")
    before = db.execute(deadlocks).fetchone()
    sessions = [connect() for _ in range(SESSIONS)]
    for round in range(scaled(short=4, full=60)):
        tenant = new_tenant()
        for n in range(KNOWN):
            tenant.order(f"O{n}")
        deliveries = Deliveries(tenant)

        def work(number: int) -> list[dict]:
            dice = random.Random(f"{round} {number}")
            session, answers = sessions[number], []
            late = [KNOWN + n for n in range(LATE) if n % SESSIONS == number]
            for _ in range(3):
                bodies = dice.sample(deliveries.bodies, 50) + dice.sample(deliveries.bodies, 5)  # some of them twice
                dice.shuffle(bodies)
                answers += in_transaction(session, level, deliveries.batch(bodies))
                for body in dice.sample(deliveries.bodies, 3):
                    answers += in_transaction(session, level, tenant.deliver(body, None))
                for order in late:
                    in_transaction(session, level, tenant.create_order(f"O{order}"))
            return answers

        with ThreadPoolExecutor(SESSIONS) as pool:
            answers = [answer for some in pool.map(work, range(SESSIONS)) for answer in some]
        db_answers = run(db, deliveries.batch(deliveries.bodies))
        first = [a for a in answers + db_answers if a["outcome"] not in ("duplicate", "digest_conflict")]
        # A parked event is told twice: when it parks, and where a redelivery finds its order.
        identities = [(a["event_id"], a["payload_sha256"]) for a in first if a["first_outcome"] != "parked"]
        assert len(identities) == len(set(identities))

        state = leaves(db, tenant)
        again = run(db, deliveries.batch(random.sample(deliveries.bodies, len(deliveries.bodies))))
        assert {a["outcome"] for a in again} <= {"duplicate", "digest_conflict"}
        assert leaves(db, tenant) == state
        paid = db.execute("SELECT count(*) FROM payment_idem.orders WHERE tenant = $1 AND paid_minor = 1000", [tenant.id])
        assert paid.fetchone()["count"] > 0
    for session in sessions:
        session.execute("SELECT pg_stat_force_next_flush()")
        session.close()
    db.execute("SELECT pg_stat_clear_snapshot()")
    assert db.execute(deadlocks).fetchone() == before


def in_background(pool: ThreadPoolExecutor, statement):
    """Starts the statement in a session of its own; returns session and future."""
    session = connect()
    return session, pool.submit(run, session, statement)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_rival_has_one_of_its_events(db, tenant, end):
    """The batch waits for the rival's receipt; then that event is a duplicate, or its own, and the others go on."""
    tenant.order("O1"), tenant.order("O2")
    one, two = (
        json.dumps({"id": f"e{n}", "type": "paid", "order": f"O{n}", "amount": 1000, "currency": "usd", "payment": f"p{n}"})
        for n in (1, 2)
    )
    ping = b'{"id":"ping","type":"ping"}'
    deliveries = Deliveries(tenant)
    with connect(autocommit=False) as rival, ThreadPoolExecutor(1) as pool:
        run(rival, tenant.deliver(ping, None))  # no order's lock keeps the two apart
        session, batch = in_background(pool, deliveries.batch([one.encode(), ping, two.encode()]))
        wait_until(lambda: waiting(db, [session]) == 1, "the batch waits for the receipt")
        rival.execute(end)
        told = [row["outcome"] for row in batch.result()]
    assert told == ["applied", "duplicate" if end == "COMMIT" else "recorded", "applied"]


def test_a_rival_takes_one_of_its_references(db, tenant):
    """What the batch had written is taken back and decided again: only the event in question ends otherwise."""
    tenant.order("O1"), tenant.order("O2"), tenant.order("O3")

    def paid(n: int, payment: str) -> bytes:
        body = {"id": f"e{n}", "type": "paid", "order": f"O{n}", "amount": 1000, "currency": "usd", "payment": payment}
        return json.dumps(body).encode()

    deliveries = Deliveries(tenant)
    with connect(autocommit=False) as rival, ThreadPoolExecutor(1) as pool:
        run(rival, tenant.deliver(paid(3, "p2"), None))
        session, batch = in_background(pool, deliveries.batch([paid(1, "p1"), paid(2, "p2"), paid(2, "p2")]))
        wait_until(lambda: waiting(db, [session]) == 1, "the batch waits for the reference")
        rival.commit()
        told = [(row["outcome"], row["reason"], row["order_status"]) for row in batch.result()]
    assert told == [
        ("applied", None, "COMPLETED"),
        ("exception", "reference_reused", "PENDING"),
        ("duplicate", "reference_reused", "PENDING"),
    ]


def test_cancelled_and_rolled_back(db, tenant):
    """Nothing of a batch remains that was cancelled, or rolled back to a savepoint; then it is applied."""
    stuck = tenant.order("O1")
    tenant.order("O2")
    deliveries = Deliveries(tenant)
    bodies = [body for body in deliveries.bodies if b'"O1"' in body or b'"O2"' in body]
    state = leaves(db, tenant)
    with held(stuck), connect() as session:
        session.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            run(session, deliveries.batch(bodies))
        assert leaves(db, tenant) == state
    with connect(autocommit=False) as session:
        session.execute("SAVEPOINT s")
        run(session, deliveries.batch(bodies))
        session.execute("ROLLBACK TO s")
        assert leaves(session, tenant) == state
        outcomes = [row["outcome"] for row in run(session, deliveries.batch(bodies))]
        session.commit()
    assert "applied" in outcomes and tenant.receipts() == len({json.loads(body)["id"] for body in bodies})


def test_a_batch_of_the_size_limit(db, tenant):
    bodies = [json.dumps({"id": f"e{n}", "type": "ping"}).encode() for n in range(10_000)]
    deliveries = Deliveries(tenant)
    rows = run(db, deliveries.batch(bodies))
    assert [row["item"] for row in rows] == list(range(1, 10_001))
    assert {row["outcome"] for row in rows} == {"recorded"}
