"""P11 and B82: whatever bytes come from outside, ingest answers with a row, and the server lives on.

The seed of a run is fixed where SCALE is short and new where it is full; PAYMENT_IDEM_SEED repeats a run.
"""

import hashlib
import json
import os
import random
import time

import psycopg
import pytest
from harness import SIGN, UNTOUCHED, connect, paid_once, scaled, sign, sign_stripe

CASES = scaled(short=2_000, full=100_000)
SEED = int(os.environ.get("PAYMENT_IDEM_SEED") or scaled(short=1, full=random.getrandbits(32)))

NOT_AUTHENTIC = {"signature_mismatch", "signature_malformed", "timestamp_out_of_tolerance"}
NOT_ACCEPTABLE = {"event_id_malformed", "event_id_mismatch", "too_large"}
REASONS = {
    "applied": {None},
    "recorded": set("informational unmapped_type same_payment already_in_state stale test_mode".split()),
    "parked": {"order_not_found"},
    "exception": set(
        "amount_mismatch currency_mismatch reference_mismatch second_payment reference_reused"
        " transition_not_allowed payload_unreadable".split()
    ),
    "digest_conflict": {None},
    "rejected": NOT_AUTHENTIC | NOT_ACCEPTABLE,
}
REASONS["duplicate"] = REASONS["applied"] | REASONS["recorded"] | REASONS["parked"] | REASONS["exception"]
BYTES = "SELECT * FROM payment_idem.ingest($1, $2, $3::bytea, $4, 'default', $5::jsonb)"
TEXT = "SELECT * FROM payment_idem.ingest($1, $2, $3::text, $4, 'default', $5::jsonb)"

# --- bodies -----------------------------------------------------------------------------------------------------


def event(rng: random.Random, gateway: str, orders: list[str]) -> dict:
    """A well-formed event of the gateway, about one of a few orders."""
    order, number = rng.choice([*orders, "unknown"]), rng.randrange(200)
    amount, currency = rng.choice([1000, 1000, 1000, 999]), rng.choice(["usd", "USD", "eur"])
    if gateway == "generic":
        type = rng.choice(["paid", "failed", "attempted", "expired", "refund", "nobody.knows"])
        facts = {"order": order, "amount": amount, "currency": currency, "payment": f"pi_{number}"}
    else:
        type = rng.choice(["payment_intent.succeeded", "payment_intent.payment_failed", "charge.refunded", "a.b"])
        thing = {"id": f"pi_{number}", "amount_received": amount, "currency": currency, "metadata": {"order_id": order}}
        facts = {"livemode": True, "data": {"object": thing}}
    return {"id": f"evt_{number}", "type": type, "created": 1_700_000_000} | facts


def mutated(rng: random.Random, body: bytes) -> bytes:
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data[at : at + 1] = rng.randbytes(1)
            case 1:
                data[at:at] = rng.choice(
                    [b"\\", b'"', b"\0", b"\xff", b"{", b"]", b",", b"\\u0000", b"\\ud83d", b"1e9", b"-"]
                )
            case 2:
                del data[at : at + rng.randint(1, 9)]
            case 3:
                data[at:at] = data[rng.randrange(len(data) + 1) :][: rng.randint(1, 40)]
            case 4:
                data = data[:at] or data
    return bytes(data)


SCALARS = r"""
    0 -0 1000 1000.0 1e3 1E+3 0.1 -1 9007199254740993 9223372036854775807 9223372036854775808 1e999999999 01 +1 .5
    NaN Infinity true false null undefined // 'single' "" "paid" "1000" "usd" "\u0000" "\ud83d" "\udc00\ud83d"
    "\\u0000" "\u202e" "\x" "\
""".split()
SCALARS += ["", '"a b"', f'"{"x" * 300}"', "1" + "0" * 400, '"\U0001f600"', '"cafe\u0301"', '"\u2028"', '"\u0131nr"']
KEYS = r"""
    id type order amount currency payment created livemode merchant_id gateway_order_id utr payer_vpa data object
    metadata order_id __proto__ \u0069d \ud83d
""".split()


def grown(rng: random.Random, depth: int = 0) -> str:
    """JSON, nearly, by its grammar, with the gateways' own keys, some of them twice."""
    kind = rng.random()
    if depth > 6 or (depth and kind < 0.5):
        return rng.choice(SCALARS)
    if kind < 0.6:
        return "[" + ",".join(grown(rng, depth + 1) for _ in range(rng.randrange(4))) + "]"
    members = [f'"{rng.choice(KEYS)}":{grown(rng, depth + 1)}' for _ in range(rng.randrange(9))]
    return "{" + rng.choice([",", ", ", ",\n"]).join(members) + "}"


def replaced(rng: random.Random, facts: dict) -> str:
    """A well-formed event with one or two of its values replaced by something else."""
    text = json.dumps(facts)
    for _ in range(rng.randint(1, 2)):
        value = json.dumps(rng.choice([*facts.values()]))
        text = text.replace(value, grown(rng, 5), 1)
    return text


def body(rng: random.Random, gateway: str, orders: list[str]) -> bytes:
    facts = event(rng, gateway, orders)
    text = json.dumps(facts, indent=rng.choice([None, None, 1]))
    match rng.randrange(5):
        case 0:
            return rng.randbytes(rng.choice([0, 1, 2, 16, 300]))
        case 1:
            return mutated(rng, text.encode())
        case 2:
            return replaced(rng, facts).encode()
        case 3:
            return grown(rng).encode()
        case _:
            return text.encode()


# --- signatures -------------------------------------------------------------------------------------------------

ANY_TEXT = [chr(point) for point in (*range(1, 0x100), 0x131, 0x202E, 0xFEFF, 0xFFFD, 0x1F600)]


def any_text(rng: random.Random, longest: int = 80) -> str:
    return "".join(rng.choices(ANY_TEXT, k=rng.randrange(longest)))


def valid(rng: random.Random, gateway: str, secret: str, payload: bytes) -> tuple[str | None, dict | None]:
    """A valid signature: as the argument, or in the headers."""
    if gateway == "stripe":
        signature = sign_stripe(secret, payload)
        if rng.random() < 0.3:
            signature += ",v1=" + "0" * 64 + ",v0=old"
        name = "Stripe-Signature"
    else:
        signature = rng.choice(["", "sha256="]) + sign(secret, payload)
        name = rng.choice(["X-Signature", "X-Hub-Signature-256"])
    if rng.random() < 0.7:
        return signature, None
    return None, {rng.choice([str, str.lower, str.upper])(name): signature, any_text(rng): any_text(rng)}


MALFORMED = ["", "v1=", "v1=,v1=", "t=1", "t=,v1=", "sha256=", "0" * 63, "0" * 65, "z" * 64, "\u00e9" * 64]


def invalid(rng: random.Random, gateway: str, secret: str, payload: bytes) -> tuple[str | None, dict | None]:
    match rng.randrange(7 if gateway == "stripe" else 6):
        case 0:
            return valid(rng, gateway, secret + "x", payload)
        case 1:
            return valid(rng, gateway, secret, payload + b" ")
        case 2:  # the argument goes before the headers
            return any_text(rng), valid(rng, gateway, secret, payload)[1]
        case 3:
            odd = {"x-signature": 7, "stripe-signature": ["t=1", "v1=00"], "": None, any_text(rng): any_text(rng)}
            return None, rng.choice([None, {}, odd])
        case 4:
            return rng.choice(MALFORMED), None
        case 5:  # the right digits, but for one
            right = SIGN[gateway](secret, payload)
            at = rng.randrange(len(right) - 64, len(right))
            wrong = rng.choice([digit for digit in "0123456789abcdef" if digit != right[at]])
            return right[:at] + wrong + right[at + 1 :], None
        case _:
            return sign_stripe(secret, payload, int(time.time()) + rng.choice([-1000, 1000, -(10**9), 10**18])), None


# --- the tests --------------------------------------------------------------------------------------------------


@pytest.fixture
def session(db):
    """A session that has to survive, on a server that has to survive."""
    started = "SELECT pg_postmaster_start_time() AS moment"
    before = db.execute(started).fetchone()
    with connect() as connection:
        backend = connection.info.backend_pid
        yield connection
        assert connection.execute("SELECT pg_backend_pid() AS pid").fetchone() == {"pid": backend}
    assert db.execute(started).fetchone() == before


def ingest(session, tenant, payload, signature, headers=None, event_id=None, as_text=False) -> dict:
    """The one row of the answer; its digest is that of the bytes given, and its words are in the table of outcomes."""
    (row,) = session.execute(
        TEXT if as_text else BYTES,
        [
            tenant.id,
            event_id,
            payload.decode() if as_text else payload,
            signature,
            None if headers is None else json.dumps(headers),
        ],
    ).fetchall()
    # Too many bytes are not looked at, not even for a digest.
    expected = None if row["reason"] == "too_large" else hashlib.sha256(payload).hexdigest()
    assert row["payload_sha256"] == expected
    assert row["reason"] in REASONS[row["outcome"]]
    return row


def is_text(payload: bytes) -> bool:
    try:
        return "\0" not in payload.decode()
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("gateway", ["generic", "stripe"])
def test_random_deliveries(session, new_tenant, gateway):
    rng = random.Random(f"{SEED} {gateway}")
    tenant = new_tenant(gateway)
    orders = [tenant.order(f"O{number}").reference for number in range(20)]
    authentic, outcomes = set(), set()
    for case in range(CASES // 2):
        payload = body(rng, gateway, orders)
        signed = rng.random() < 0.5
        signature, headers = (valid if signed else invalid)(rng, gateway, tenant.secret, payload)
        event_id = rng.choice([None, None, None, any_text(rng, 300), f"evt_{rng.randrange(200)}"])
        as_text = is_text(payload) and rng.random() < 0.5
        try:
            row = ingest(session, tenant, payload, signature, headers, event_id, as_text)
            if signed:
                assert row["reason"] not in NOT_AUTHENTIC
                authentic.add(hashlib.sha256(payload).digest())
            elif row["reason"] != "event_id_malformed":  # looked at before the signature
                assert (row["outcome"], row["http_status"]) == ("rejected", 401)
                assert row["reason"] in NOT_AUTHENTIC
        except (AssertionError, psycopg.Error) as error:
            error.add_note(
                f"PAYMENT_IDEM_SEED={SEED}, {gateway}, case {case}: {signed=} {as_text=}\n"
                f"{payload=}\n{event_id=}\n{signature=}\n{headers=}"
            )
            raise
        outcomes.add(row["outcome"])

    assert outcomes == set(REASONS), "the cases miss an outcome"
    stored = session.execute(
        "SELECT payload_sha256 AS digest FROM payment_idem.event_receipts WHERE tenant = $1", [tenant.id]
    )
    assert {row["digest"] for row in stored} <= authentic
    amounts = session.execute("SELECT DISTINCT paid_minor FROM payment_idem.orders WHERE tenant = $1", [tenant.id])
    assert {row["paid_minor"] for row in amounts} == {0, 1000}


ENDLESS = ["a" * 2**20, "," * 10**5, "t=" + "9" * 10**5, "v1=" * 10**5]


@pytest.mark.parametrize("gateway", ["generic", "stripe"])
def test_hostile_signatures(session, new_tenant, gateway):
    """B19; each twice, for a session may survive the first panic and not the second."""
    tenant = new_tenant(gateway)
    for signature in [None, *MALFORMED, *ENDLESS] * 2:
        row = ingest(session, tenant, b"{}", signature)
        assert (row["outcome"], row["http_status"]) == ("rejected", 401)
        assert row["reason"] in NOT_AUTHENTIC
    assert tenant.receipts() == 0


MAX_DEPTH = 64  # of the whole body; what is below it is level two and on
BRACKETS = [("[", "]"), ('{"a":', "}")]
READABLE = {
    **{
        f"{MAX_DEPTH - 1} levels of {open}": open * (MAX_DEPTH - 1) + "1" + close * (MAX_DEPTH - 1)
        for open, close in BRACKETS
    },
    "escaped NUL": r'"a\u0000b"',
    "lone high surrogate": r'"\ud83d"',
    "surrogates the wrong way round": r'"\udc00\ud83d"',
    "escaped escape": r'"\\u0000"',
    "a million digits": "1" * 10**6,
    "a huge exponent": "1e" + "9" * 1000,
    "many keys": "{" + ",".join(f'"{number}":0' for number in range(50_000)) + "}",
}
UNREADABLE = {
    **{
        f"{depth} levels of {open}": open * depth + "1" + close * depth
        for depth in (MAX_DEPTH, 126, 127, 128, 129, 200, 6_000, 100_000)
        for open, close in BRACKETS
    },
    **{f"{depth} levels never closed": "[" * depth for depth in (MAX_DEPTH - 1, 100_000)},
    "one key many times": "{" + ",".join(['"a":0'] * 50_000) + "}",
}


@pytest.mark.parametrize("hostile", READABLE | UNREADABLE)
def test_hostile_bodies(session, new_tenant, hostile):
    """B28 and B30, validly signed: a field that no rule reads. Either the payment counts or nothing does."""
    tenant = new_tenant()
    for _ in range(2):
        order = tenant.order()
        name = order.reference
        payload = (
            f'{{"id":"{name}","type":"paid","order":"{name}","amount":1000,"currency":"usd","payment":"{name}",'
            f'"extra":{(READABLE | UNREADABLE)[hostile]}}}'
        ).encode()
        first = ingest(session, tenant, payload, sign(tenant.secret, payload))
        if hostile in READABLE:
            assert (first["outcome"], first["reason"]) == ("applied", None)
            assert order.state() == paid_once()
        else:
            assert (first["outcome"], first["reason"]) == ("exception", "payload_unreadable")
            assert order.state() == UNTOUCHED
        again = ingest(session, tenant, payload, sign(tenant.secret, payload), as_text=True)
        assert (again["outcome"], again["first_outcome"]) == ("duplicate", first["outcome"])


def test_body_beyond_the_limit(session, new_tenant):
    tenant = new_tenant()
    for size, reason in [(2**20, "payload_unreadable"), (2**20 + 1, "too_large"), (2**26, "too_large")]:
        payload = b"\xff" * size
        assert ingest(session, tenant, payload, sign(tenant.secret, payload))["reason"] == reason


@pytest.mark.parametrize("headers", ["null", "[]", '"X-Signature"', "1"])
def test_headers_that_are_no_object(session, new_tenant, headers):
    """The caller's fault, not the sender's."""
    tenant = new_tenant()
    for _ in range(2):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            session.execute(BYTES, [tenant.id, None, b"{}", None, headers])


@pytest.mark.parametrize("payload_type", ["bytea", "text"])
@pytest.mark.parametrize("missing", ["tenant", "event_id", "payload", "sig", "source", "headers"])
def test_null_in_each_argument(session, new_tenant, missing, payload_type):
    """A NULL never comes back as a NULL, which reads as success: the caller's raises, the sender's is a row."""
    tenant = new_tenant()
    order = tenant.order()
    body = f'{{"id":"evt_1","type":"paid","order":"{order.reference}","amount":1000,"currency":"usd","payment":"pi_1"}}'
    arguments = {
        "tenant": tenant.id,
        "event_id": "evt_1",
        "payload": body if payload_type == "text" else body.encode(),
        "sig": sign(tenant.secret, body.encode()),
        "source": "default",
        "headers": "{}",
    } | {missing: None}
    sql = f"SELECT * FROM payment_idem.ingest($1, $2, $3::{payload_type}, $4, $5, $6::jsonb)"
    for attempt in range(2):
        if missing in ("tenant", "payload", "source"):
            with pytest.raises(psycopg.Error) as raised:
                session.execute(sql, list(arguments.values()))
            assert raised.value.sqlstate == "22004"
            assert raised.value.diag.message_detail and raised.value.diag.message_hint
        else:
            (row,) = session.execute(sql, list(arguments.values())).fetchall()
            told = (row["outcome"], row["reason"])
            if missing == "sig":
                assert told == ("rejected", "signature_malformed")
            else:
                assert told == (("applied" if attempt == 0 else "duplicate"), None)
    assert tenant.receipts() == (1 if missing in ("event_id", "headers") else 0)
