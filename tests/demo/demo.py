"""The guided tour: a shop takes payments, and everything goes wrong that goes wrong with webhooks.

Needs a server where the extension is installed (PGHOST, PGPORT, PGUSER); makes the database payment_idem_demo anew.
Every line with a tick was asked of the database (how a process died: of the operating system). A claim that does not
hold shows what was found, and makes the exit status 1.
"""

import hashlib
import hmac
import json
import multiprocessing
import os
import signal
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import psycopg

from stage import GUARD, LossyLine, Stage, bold, connect, dim, wait_until

SECRET = "whsec_of_the_guided_tour"
COPIES = 20
LAPTOP, HEADSET, PHONE, CAMERA = "LAPTOP-1", "HEADSET-2", "PHONE-3", "CAMERA-4"
MINOR = {LAPTOP: 8_999_000, HEADSET: 499_000, PHONE: 2_599_900, CAMERA: 4_150_050}  # paise

# The shop's own tables: what it answered the gateway, who was seen waiting for whom, and who tried to ship what.
SHOP = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.answers AS
        SELECT NULL::text AS delivery, pg_backend_pid() AS backend, (NULL::payment_idem.ingest_result).* LIMIT 0;
    ALTER TABLE shop.answers ADD n int GENERATED ALWAYS AS IDENTITY;
    CREATE TABLE shop.lock_waits (pid int, blocked_by int[]);
    CREATE TABLE shop.attempts (message_id uuid, client_txn_id text, worker text, shipped boolean);

    CREATE FUNCTION shop.effects(id text, OUT receipts bigint, OUT ledger bigint, OUT outbox bigint,
                                 OUT exceptions bigint, OUT anomalies bigint) LANGUAGE sql AS $$
        SELECT (SELECT count(*) FROM payment_idem.event_receipts WHERE event_id = id),
               (SELECT count(*) FROM payment_idem.transactions WHERE event_id = id),
               (SELECT count(*) FROM payment_idem.outbox JOIN payment_idem.event_receipts USING (tenant, receipt)
                WHERE event_id = id),
               (SELECT count(*) FROM payment_idem.exceptions e JOIN payment_idem.event_receipts r
                ON (r.tenant, r.receipt) = (e.tenant, e.exception_id) WHERE event_id = id AND resolved_at IS NULL),
               (SELECT count(*) FROM payment_idem.anomalies WHERE id IN (identity, claimed_id))
    $$;
    CREATE FUNCTION shop.order_of(reference text) RETURNS SETOF payment_idem.orders LANGUAGE sql AS $$
        SELECT * FROM payment_idem.orders WHERE client_txn_id = reference
    $$;"""
EFFECTS = "SELECT * FROM shop.effects(%s)"
ORDER = "SELECT status::text, paid_minor FROM shop.order_of(%s)"


def event(event_id, order, payment, amount=None):
    """A webhook's body, to the byte."""
    return json.dumps({"id": event_id, "type": "paid", "order": order, "amount": amount or MINOR[order],
                       "currency": "inr", "payment": payment}).encode()


def sign(body, secret=SECRET):
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def deliver(conn, delivery, tenant, event_id, body, sig=None, while_open=None):
    """What a webhook handler does: hand over the bytes and note the answer, in one transaction of its own."""
    try:
        with conn.transaction():
            answer = conn.execute("""
                INSERT INTO shop.answers SELECT %s, pg_backend_pid(), r.*
                FROM payment_idem.ingest(%s, %s, %s, %s) AS r RETURNING *""",
                [delivery, tenant, event_id, body, sig or sign(body)]).fetchone()
            if while_open:
                while_open(answer)
    except psycopg.Error as error:
        conn.execute("INSERT INTO shop.answers (delivery, outcome, reason) VALUES (%s, 'ERROR', %s)",
                     [delivery, error.sqlstate])


def create_order(conn, tenant, order):
    """Prices are in major units here, as a shop thinks of them."""
    conn.execute("""
        INSERT INTO shop.answers (delivery, outcome, order_id, order_status)
        SELECT 'create_order ' || %s, r.* FROM payment_idem.create_order(%s, 'shop', %s, %s / 100.0, 'INR') AS r""",
        [order, tenant, order, MINOR[order]])


def open_shop(stage, conn, tenant):
    stage.chapter("The shop opens", """A tenant, a webhook source with its secret, and two orders that wait for
        money. Everything is said twice, and is there once.""")
    for _ in range(2):
        conn.execute("SELECT payment_idem.create_tenant('Shop', %s)", [tenant])
        conn.execute("SELECT payment_idem.create_source(%s, 'default', 'generic', %s)",
                     [tenant, json.dumps({"merchant_id": "shop"})])
        conn.execute("SELECT payment_idem.add_secret(%s, 'default', %s)", [tenant, SECRET])
        for order in LAPTOP, HEADSET:
            create_order(conn, tenant, order)
    stage.table()
    stage.claim("Said twice, there once", """
        SELECT (SELECT count(*) FROM payment_idem.tenants) AS tenants,
               (SELECT count(*) FROM payment_idem.sources) AS sources,
               (SELECT count(*) FROM payment_idem.signing_secrets) AS secrets,
               (SELECT count(*) FROM payment_idem.orders) AS orders""",
                tenants=1, sources=1, secrets=1, orders=2)
    stage.claim("The price is exact, in paise", """
        SELECT status::text, amount_minor, currency FROM shop.order_of(%s)""", [LAPTOP],
                status="PENDING", amount_minor=MINOR[LAPTOP], currency="INR")


def twenty_couriers(stage, conn, tenant):
    stage.chapter(f"One payment, {COPIES} couriers", f"""The gateway retries, and so does its load balancer:
        {COPIES} connections deliver the same signed bytes at the same moment. Whoever is first keeps its transaction
        open until all the others are seen waiting in pg_locks.""")
    body = event("evt_laptop", LAPTOP, "pay_laptop")
    start, all_wait = threading.Barrier(COPIES), threading.Event()

    def first_waits_for_the_others(answer):
        if answer["outcome"] == "applied":
            all_wait.wait(2 * GUARD)

    def courier(_):
        with connect(application_name="courier") as own:
            start.wait(GUARD)
            deliver(own, "evt_laptop", tenant, "evt_laptop", body, while_open=first_waits_for_the_others)

    waiting = "FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE application_name = 'courier' AND NOT granted"
    with ThreadPoolExecutor(COPIES) as pool:
        couriers = pool.map(courier, range(COPIES))
        wait_until(lambda: conn.execute(f"SELECT count(*) AS n {waiting}").fetchone()["n"] >= COPIES - 1)
        conn.execute(f"INSERT INTO shop.lock_waits SELECT pid, pg_blocking_pids(pid) {waiting}")
        all_wait.set()
        list(couriers)  # raises what a courier raised
    stage.table()
    stage.claim("The others waited for the first", """
        SELECT count(DISTINCT pid) AS waiting, bool_or(backend = ANY (blocked_by)) AS "behind the first",
               bool_or(backend = pid) AS "the first waits"
        FROM shop.lock_waits, shop.answers WHERE outcome = 'applied'""",
                waiting=COPIES - 1, **{"behind the first": True, "the first waits": False})
    stage.claim("Everybody is answered 200", """
        SELECT count(*) FILTER (WHERE outcome = 'applied') AS applied,
               count(*) FILTER (WHERE outcome = 'duplicate' AND first_outcome = 'applied') AS duplicates,
               count(*) FILTER (WHERE http_status = 200) AS ok, count(DISTINCT transaction_id) AS ledger_lines
        FROM shop.answers WHERE event_id = 'evt_laptop'""",
                applied=1, duplicates=COPIES - 1, ok=COPIES, ledger_lines=1)
    stage.claim("It happened once", EFFECTS, ["evt_laptop"], receipts=1, ledger=1, outbox=1)
    stage.claim("The laptop is paid, once", ORDER, [LAPTOP], status="COMPLETED", paid_minor=MINOR[LAPTOP])


def another_body(stage, conn, tenant):
    stage.chapter("The same id, another body", """Correctly signed, and the id is known, but the amount has become
        one rupee. That is no duplicate. It comes twice, and is put on file once.""")
    first, second = event("evt_laptop", LAPTOP, "pay_laptop"), event("evt_laptop", LAPTOP, "pay_laptop", 100)
    for _ in range(2):
        deliver(conn, "evt_laptop, one rupee", tenant, "evt_laptop", second)
    stage.table()
    stage.claim("It is a conflict, no duplicate", """
        SELECT count(*) AS conflicts, max(first_outcome) AS first_outcome, max(http_status) AS http_status
        FROM shop.answers WHERE outcome = 'digest_conflict'""", conflicts=2, first_outcome="applied", http_status=200)
    stage.claim("Both digests are on file", """
        SELECT (SELECT r.payload_sha256 = sha256(%s) FROM payment_idem.event_receipts r
                WHERE event_id = 'evt_laptop') AS receipt_has_first,
               bool_and(payload_sha256 = sha256(%s)) AS anomaly_has_second, count(*) AS anomalies
        FROM payment_idem.anomalies WHERE identity = 'evt_laptop' AND kind = 'digest_conflict'""", [first, second],
                receipt_has_first=True, anomaly_has_second=True, anomalies=1)
    stage.claim("No money moved", ORDER, [LAPTOP], status="COMPLETED", paid_minor=MINOR[LAPTOP])


def forgeries(stage, conn, tenant):
    stage.chapter("Forgeries", """Somebody guesses the secret. Somebody else alters one byte under a good signature.
        A third sends something that is no signature.""")
    body = event("evt_forged", HEADSET, "pay_forged")
    for delivery, sent, sig in (
        ("a guessed secret", body, sign(body, "whsec_of_somebody_else")),
        ("an altered byte", body.replace(b"inr", b"inR"), sign(body)),
        ("no signature", body, "let me in"),
    ):
        deliver(conn, delivery, tenant, "evt_forged", sent, sig)
    stage.table()
    stage.claim("All three are turned away", """
        SELECT count(*) FILTER (WHERE reason = 'signature_mismatch') AS mismatch,
               count(*) FILTER (WHERE reason = 'signature_malformed') AS malformed,
               count(*) FILTER (WHERE http_status = 401) AS unauthorized
        FROM shop.answers WHERE outcome = 'rejected'""", mismatch=2, malformed=1, unauthorized=3)
    stage.claim("They leave nothing behind", EFFECTS, ["evt_forged"],
                receipts=0, ledger=0, outbox=0, exceptions=0, anomalies=0)
    stage.claim("The headset is not paid", ORDER, [HEADSET], status="PENDING", paid_minor=0)


def money_that_does_not_fit(stage, conn, tenant):
    stage.chapter("Money that does not fit", """The headset is paid with a slipped digit, and the laptop is paid
        again by another payment. Both events are authentic, so neither is refused and neither is lost: somebody
        has to look at them.""")
    deliver(conn, "evt_slipped", tenant, "evt_slipped", event("evt_slipped", HEADSET, "pay_slipped", 49_900))
    deliver(conn, "evt_again", tenant, "evt_again", event("evt_again", LAPTOP, "pay_again"))
    stage.table()
    stage.claim("The headset is not paid", ORDER, [HEADSET], status="PENDING", paid_minor=0)
    stage.claim("A wrong amount ships nothing", EFFECTS, ["evt_slipped"], receipts=1, ledger=0, outbox=0, exceptions=1)
    stage.claim("It says what came, what was due", """
        SELECT kind, amount_minor AS came, expected_amount_minor AS due
        FROM payment_idem.exceptions JOIN shop.answers USING (exception_id) WHERE event_id = 'evt_slipped'""",
                kind="amount_mismatch", came=49_900, due=MINOR[HEADSET])
    stage.claim("A second payment ships nothing", EFFECTS, ["evt_again"], receipts=1, ledger=0, outbox=0, exceptions=1)
    stage.claim("The laptop is still paid once", ORDER, [LAPTOP], status="COMPLETED", paid_minor=MINOR[LAPTOP])


def money_before_the_order(stage, conn, tenant):
    stage.chapter("Money before the order", """The gateway is faster than the shop's own checkout: there is no such
        order yet. The payment is parked, and a moment later create_order itself applies it.""")
    body = event("evt_phone", PHONE, "pay_phone")
    deliver(conn, "evt_phone", tenant, "evt_phone", body)
    stage.table()
    stage.claim("Kept, and nothing else yet", """
        SELECT outcome, reason, ledger, outbox FROM payment_idem.event_receipts, shop.effects(event_id)
        WHERE event_id = 'evt_phone'""", outcome="parked", reason="order_not_found", ledger=0, outbox=0)
    create_order(conn, tenant, PHONE)
    deliver(conn, "evt_phone, redelivered", tenant, "evt_phone", body)
    stage.table()
    stage.remark("A duplicate repeats the first answer's reason.")
    stage.claim("The order is born paid", """
        SELECT outcome, order_status::text FROM shop.answers WHERE delivery = 'create_order ' || %s""", [PHONE],
                outcome="created", order_status="COMPLETED")
    stage.claim("It happened once", EFFECTS, ["evt_phone"], receipts=1, ledger=1, outbox=1)
    stage.claim("The phone is paid, once", ORDER, [PHONE], status="COMPLETED", paid_minor=MINOR[PHONE])


def doomed_client(port, report, *delivery):
    """A process of its own; it would report its answer, if it ever learnt that its COMMIT went through."""
    with connect(host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable",
                 application_name="doomed") as own:
        deliver(own, *delivery)
        report.send("HTTP 200")


def death_after_commit(stage, conn, tenant):
    stage.chapter("Dead after commit, before the answer", """A webhook handler says COMMIT, and the line loses
        what the database answers. When the payment is seen from another connection, the handler is killed with
        SIGKILL. The gateway hears nothing, so it delivers again.""")
    create_order(conn, tenant, CAMERA)
    body = event("evt_camera", CAMERA, "pay_camera")
    line = LossyLine()
    processes = multiprocessing.get_context("spawn")
    hears, report = processes.Pipe(duplex=False)
    client = processes.Process(target=doomed_client, daemon=True, args=(
        line.port, report, "evt_camera, by the one that dies", tenant, "evt_camera", body))
    client.start()
    report.close()  # ours; the child's copy is the only one left
    wait_until(lambda: conn.execute(EFFECTS, ["evt_camera"]).fetchone()["receipts"])
    wait_until(lambda: b"COMMIT\0" in line.withheld)
    stage.table()
    stage.claim("Committed, as others see it", """
        SELECT state, query AS last_query, receipts FROM pg_stat_activity, shop.effects('evt_camera')
        WHERE datname = current_database() AND application_name = 'doomed'""",
                state="idle", last_query="COMMIT", receipts=1)
    alive = client.is_alive()
    client.kill()
    client.join(GUARD)
    try:
        reported = hears.recv()
    except EOFError:
        reported = None
    stage.judge("Killed, the answer never read", {  # what no database knows
        "was alive": alive, "exit code": client.exitcode, "reported": reported,
        "answer lost": b"COMMIT\0" in line.withheld,
    }, reported=None, **{"was alive": True, "exit code": -signal.SIGKILL, "answer lost": True})
    deliver(conn, "evt_camera, redelivered", tenant, "evt_camera", body)
    stage.table()
    stage.claim("The redelivery finds it done", """
        SELECT again.outcome, again.http_status AS "HTTP", again.first_outcome AS first,
               again.transaction_id = dead.transaction_id AS "same entry"
        FROM shop.answers dead JOIN shop.answers again USING (event_id)
        WHERE event_id = 'evt_camera' AND dead.n < again.n""",
                outcome="duplicate", HTTP=200, first="applied", **{"same entry": True})
    stage.claim("It happened once", EFFECTS, ["evt_camera"], receipts=1, ledger=1, outbox=1)


def parcels(stage, conn, _):
    stage.chapter("Two workers, one parcel for each order", """One worker claims all that is to be shipped and falls
        asleep over it. When its lease has ended, another claims the same messages and ships them: parcel and
        acknowledgement in one transaction. Then the first one wakes up and tries the same.""")
    claim = "SELECT lease_token, message_id, client_txn_id FROM payment_idem.claim(%s, 10, %s)"
    orders = conn.execute("SELECT count(*) AS n FROM payment_idem.orders WHERE status = 'COMPLETED'").fetchone()["n"]

    def ship(worker, messages):
        for message in messages:
            with conn.transaction():
                accepted = conn.execute("SELECT payment_idem.ack(%s) AS ok", [message["lease_token"]]).fetchone()["ok"]
                conn.execute("INSERT INTO shop.attempts VALUES (%s, %s, %s, %s)",
                             [message["message_id"], message["client_txn_id"], worker, accepted])

    first = conn.execute(claim, ["first", "1 second"]).fetchall()
    second = []
    wait_until(lambda: second.extend(conn.execute(claim, ["second", "1 minute"])) or len(second) >= orders)
    ship("second", second)
    ship("first", first)
    print()
    for attempt in conn.execute("SELECT * FROM shop.attempts ORDER BY shipped DESC, client_txn_id"):
        ack = "accepted, shipped" if attempt["shipped"] else "refused, not shipped"
        print(f"   {attempt['worker']:6}   {attempt['client_txn_id']:10}   {ack:20}   {dim(attempt['message_id'])}")
    print()
    stage.claim("Both held the same messages", """
        SELECT count(*) FILTER (WHERE worker = 'first') AS by_first,
               count(*) FILTER (WHERE worker = 'second') AS by_second, count(DISTINCT message_id) AS messages
        FROM shop.attempts""", by_first=orders, by_second=orders, messages=orders)
    stage.claim("Each paid order is shipped once", """
        SELECT count(*) AS parcels, count(DISTINCT client_txn_id) AS orders, count(DISTINCT message_id) AS messages,
               count(*) FILTER (WHERE worker = 'second') AS by_second
        FROM shop.attempts WHERE shipped""", parcels=orders, orders=orders, messages=orders, by_second=orders)
    stage.claim("Nothing is left to ship", """
        SELECT (SELECT count(*) FROM payment_idem.outbox WHERE delivered_at IS NULL) AS undelivered,
               (SELECT count(*) FROM payment_idem.claim('third')) AS claimable""", undelivered=0, claimable=0)


def books(stage, _, __):
    stage.chapter("The books", "The ledger is append-only and chained by hashes, and the extension audits itself.")
    print()
    due = MINOR[LAPTOP] + MINOR[PHONE] + MINOR[CAMERA]
    stage.claim("Orders and ledger agree", """
        SELECT sum(paid_minor)::bigint AS paid, sum(booked)::bigint AS booked,
               count(*) FILTER (WHERE paid_minor <> booked) AS differing_orders
        FROM payment_idem.orders o, LATERAL (
            SELECT coalesce(sum(amount_minor), 0) AS booked FROM payment_idem.transactions t
            WHERE t.order_id = o.order_id) AS ledger""",
                paid=due, booked=due, differing_orders=0)
    stage.claim("Each hash follows from its line", """
        SELECT count(*) AS lines, count(*) FILTER (WHERE hash = payment_idem.ledger_line_hash(t)) AS intact
        FROM payment_idem.transactions t""", lines=3, intact=3)
    stage.claim("No UPDATE gets past it", "UPDATE payment_idem.transactions SET amount_minor = 1", sqlstate="23001")
    stage.claim("No deadlock, and no error", """
        SELECT deadlocks, (SELECT count(*) FROM shop.answers WHERE outcome = 'ERROR') AS errors
        FROM pg_stat_database WHERE datname = current_database()""", deadlocks=0, errors=0)
    stage.claim("check_invariants() is empty", """
        SELECT count(*) AS violations, string_agg(concat_ws(' ', invariant, subject, detail), '; ') AS which
        FROM payment_idem.check_invariants()""", violations=0)


def look_around():
    """What to ask; scripts/demo.sh goes on with how to connect."""
    print(f"""
{bold('Worth a look:')}
  SELECT delivery, outcome, reason, http_status, order_status FROM shop.answers ORDER BY n;
  SELECT kind, amount_minor, expected_amount_minor, detail FROM payment_idem.exceptions;
  SELECT event_id, seq, from_status, to_status, amount_minor, hash FROM payment_idem.transactions;""")


ACTS = (open_shop, twenty_couriers, another_body, forgeries, money_that_does_not_fit, money_before_the_order,
        death_after_commit, parcels, books)


def main():
    with connect(dbname="postgres") as server:
        server.execute("DROP DATABASE IF EXISTS payment_idem_demo WITH (FORCE)")
        server.execute("CREATE DATABASE payment_idem_demo")
    with connect() as conn:
        conn.execute("CREATE EXTENSION payment_idem")
        conn.execute(SHOP)
        print(bold(conn.execute("""
            SELECT concat_ws(' ', extname, extversion, 'on PostgreSQL', current_setting('server_version')) AS title
            FROM pg_extension WHERE extname = 'payment_idem'""").fetchone()["title"]))
        stage, tenant = Stage(conn), uuid.uuid4()
        for act in ACTS:
            act(stage, conn, tenant)
        status = stage.finish()
    if os.environ.get("KEEP") == "1":
        look_around()
    return status


if __name__ == "__main__":
    sys.exit(main())
