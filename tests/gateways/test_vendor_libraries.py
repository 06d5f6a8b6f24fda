"""The vendors' own public libraries against `ingest`: what they sign is accepted, and what one side refuses the other does.

A known answer can be wrong in the same way as the code. These answers come from the code that merchants run today."""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import time
import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import pytest
import standardwebhooks
import stripe
import svix
from conftest import ROOT
from razorpay import Utility
from razorpay.errors import SignatureVerificationError

BODY = b'{"id":"evt_1","type":"ping","event":"ping","created":1,"data":{"amount":1999,"note":"a\\/b"}}'
BODIES = {
    "plain": BODY,
    "non-ASCII": '{"id":"evt_2","type":"ping","note":"Zahlung für ₹ 🎉 \u2028 e\u0301"}'.encode(),
    "escapes": rb'{"id":"evt_3","type":"ping","note":"\u00e9\ud83c\udf89 \/ \\ \" \b\f\n\r\t \u0000 \ud800"}',
    "numbers": b'{"id":"evt_4","type":"ping","amount":1.0E+2,"zero":-0.0,"large":123456789012345678901234567890}',
    "1 MB": b'{"id":"evt_5","type":"ping","note":"' + 524269 * "ä".encode() + b'"}',
    "empty object": b"{}",
    "CRLF": b'{\r\n  "id": "evt_6",\r\n  "type": "ping"\r\n}\r\n',
    "line feed at the end": b'{"id":"evt_7","type":"ping"}\n',
    "white space around": b' \t{"id":"evt_8","type":"ping"} \n\n',
    "key twice": b'{"id":"evt_9","id":"evt_9","type":"ping"}',
    "NUL byte": b'{"id":"evt_10","type":"ping","note":"\0"}',
    "no JSON": b"payment=1999&currency=EUR",
}
INGEST = "SELECT outcome, reason FROM payment_idem.ingest($1, NULL, $2::bytea, $3, $4, $5::jsonb)"
REFUSALS = {"signature_mismatch", "signature_malformed", "timestamp_out_of_tolerance"}


# --- the libraries ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Delivery:
    body: bytes
    headers: dict[str, str]

    def sent(self, header: str, value: str | None) -> "Delivery":
        """With another value in a header; `None` leaves it out."""
        headers = {name: sent for name, sent in self.headers.items() if name != header}
        return replace(self, headers=headers if value is None else headers | {header: value})


class Stripe:
    """Everything in one header; the secret's own text is the key."""

    gateway, header = "stripe", "Stripe-Signature"
    secrets = ["whsec_Zk3Qm7VtB1yN5dX8rP2sL6wC4hJ9uA0e", "whsec_other7VtB1yN5dX8rP2sL6wC4hJ9uA0e", "whsec_short", "no prefix ß"]

    def by_hand(self, secret: str, body: bytes, sent: str, signed: str) -> Delivery:
        mac = hmac.digest(secret.encode(), signed.encode() + b"." + body, "sha256").hex()
        return Delivery(body, {self.header: self.write(sent, mac)})

    def signature(self, delivery: Delivery) -> str:
        return delivery.headers[self.header].partition("v1=")[2]

    def write(self, timestamp: int | str, *signatures: str, label: str = "v1") -> str:
        return ",".join([f"t={timestamp}", *(f"{label}={signature}" for signature in signatures)])


class StripePython(Stripe):
    name = "stripe (Python)"

    def sign(self, secret: str, body: bytes, at: int) -> Delivery:
        return Delivery(body, {self.header: stripe.WebhookSignature.generate_signature_header(body.decode(), secret, at)})

    def verify(self, secret: str, delivery: Delivery):
        stripe.WebhookSignature.verify_header(
            delivery.body, delivery.headers.get(self.header), secret, stripe.Webhook.DEFAULT_TOLERANCE
        )


class StripeNode(Stripe):
    name = "stripe (Node)"
    process: subprocess.Popen

    def ask(self, op: str, body: bytes, **question) -> dict:
        question |= {"op": op, "body": base64.b64encode(body).decode()}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def sign(self, secret: str, body: bytes, at: int) -> Delivery:
        return Delivery(body, {self.header: self.ask("sign", body, secret=secret, timestamp=at)["header"]})

    def verify(self, secret: str, delivery: Delivery):
        refused = self.ask("verify", delivery.body, secret=secret, header=delivery.headers.get(self.header))["refused"]
        if refused is not None:
            raise ValueError(refused)


class StandardWebhooks:
    """Three headers; the key is base64 in the secret."""

    name, gateway, brand = "standardwebhooks", "standard_webhooks", "webhook"
    library = standardwebhooks.Webhook
    keys = [hashlib.sha256(b"key %d" % number).digest() for number in range(3)]
    secrets = [
        f"whsec_{base64.b64encode(keys[0][:24]).decode()}",
        f"whsec_{base64.b64encode(keys[1][:24]).decode()}",
        base64.b64encode(keys[0][:24]).decode(),
        f"whsec_{base64.b64encode(keys[2]).decode()}",
        f"whsec_{base64.b64encode(keys[2]).decode().rstrip('=')}",
    ]

    @property
    def header(self) -> str:
        return f"{self.brand}-signature"

    def delivery(self, body: bytes, timestamp: int | str, signature: str, message: str) -> Delivery:
        values = {"id": message, "timestamp": str(timestamp), "signature": signature}
        return Delivery(body, {f"{self.brand}-{part}": value for part, value in values.items()})

    def sign(self, secret: str, body: bytes, at: int, message: str | None = None) -> Delivery:
        message = message or f"msg_{uuid.uuid4().hex}"
        moment = datetime.fromtimestamp(at, timezone.utc)
        return self.delivery(body, at, self.library(secret).sign(message, moment, body.decode()), message)

    def by_hand(self, secret: str, body: bytes, sent: str, signed: str) -> Delivery:
        message = f"msg_{uuid.uuid4().hex}"
        key = base64.b64decode(secret.removeprefix("whsec_"))
        mac = hmac.digest(key, f"{message}.{signed}.".encode() + body, "sha256")
        return self.delivery(body, sent, self.write(sent, base64.b64encode(mac).decode()), message)

    def verify(self, secret: str, delivery: Delivery):
        self.library(secret).verify(delivery.body, delivery.headers, json_parse=False)

    def signature(self, delivery: Delivery) -> str:
        return delivery.headers[self.header].partition(",")[2]

    def write(self, _timestamp: int | str, *signatures: str, label: str = "v1") -> str:
        return " ".join(f"{label},{signature}" for signature in signatures)


class Svix(StandardWebhooks):
    name, gateway, brand = "svix", "svix", "svix"
    library = svix.Webhook

    def verify(self, secret: str, delivery: Delivery):
        self.library(secret).verify(delivery.body, delivery.headers)


class Razorpay:
    """The library verifies only: deliveries are signed by hand, and nothing but the body is."""

    name, gateway, header = "razorpay", "razorpay", "X-Razorpay-Signature"
    secrets = ["a secret of one's own choice", "another secret", "geheim-ß", '"quotes" \\ and \\n']

    def by_hand(self, secret: str, body: bytes, *_timestamps: str) -> Delivery:
        return Delivery(body, {self.header: hmac.digest(secret.encode(), body, "sha256").hex()})

    def sign(self, secret: str, body: bytes, _at: int) -> Delivery:
        return self.by_hand(secret, body)

    def verify(self, secret: str, delivery: Delivery):
        Utility().verify_webhook_signature(delivery.body.decode(), delivery.headers.get(self.header), secret)

    def signature(self, delivery: Delivery) -> str:
        return delivery.headers[self.header]

    def write(self, _timestamp: int | str, *signatures: str, label: str = "") -> str:
        return ",".join(label + signature for signature in signatures)


STRIPES, WEBHOOKS, RAZORPAY = [StripePython(), StripeNode()], [StandardWebhooks(), Svix()], [Razorpay()]
LIBRARIES = [*STRIPES, *WEBHOOKS, *RAZORPAY]
# TypeError: how compare_digest refuses a signature that is missing or not ASCII; ValueError: what cannot be decoded.
REFUSED_BY_LIBRARY = (
    stripe.SignatureVerificationError,
    standardwebhooks.WebhookVerificationError,
    SignatureVerificationError,
    ValueError,
    TypeError,
)


@pytest.fixture(scope="module", autouse=True)
def node():
    command = ["node", ROOT / "tests" / "gateways" / "stripe_node.js"]
    environment = os.environ | {"NODE_PATH": str(ROOT / "build" / "node" / "node_modules")}
    with subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        StripeNode.process = process
        yield


def accepted_by_library(library, secret: str, delivery: Delivery) -> bool:
    try:
        library.verify(secret, delivery)
    except REFUSED_BY_LIBRARY:
        return False
    return True


def accepted(db, sources, library, secret: str, delivery: Delivery) -> bool:
    """`ingest`'s verdict on authenticity, whatever it makes of the event; the argument `sig` must say the same."""
    source = sources.source(library.gateway, [secret])
    ways = [(None, json.dumps(delivery.headers))]
    if library not in WEBHOOKS:
        ways.append((delivery.headers.get(library.header), None))
    verdicts = set()
    for sig, headers in ways:
        answer = db.execute(INGEST, [sources.tenant, delivery.body, sig, source, headers]).fetchone()
        assert answer["outcome"] != "rejected" or answer["reason"] in REFUSALS, answer
        verdicts.add(answer["outcome"] != "rejected")
    assert len(verdicts) == 1
    return verdicts.pop()


# --- deliveries of which both must say the same -------------------------------------------------------------------


class Case:
    """Makes one delivery: signed by the library now, or by hand over texts that it would not write."""

    def __init__(self, library):
        self.library, self.now, self.secret = library, int(time.time()), library.secrets[0]

    def sign(self, body: bytes = BODY, late: int = 0, secret: str | None = None) -> Delivery:
        return self.library.sign(secret or self.secret, body, self.now - late)

    def by_hand(self, sent: str = "{}", signed: str = "{}", body: bytes = BODY) -> Delivery:
        return self.library.by_hand(self.secret, body, sent.format(self.now), signed.format(self.now))

    def text(self, text) -> Delivery:
        """Rightly signed, and then the header's text is replaced by what `text` makes of the right signature."""
        delivery = self.sign()
        return delivery.sent(self.library.header, text(self.library.signature(delivery)))

    def signatures(self, change, **options) -> Delivery:
        return self.text(lambda right: self.library.write(self.now, *change(right), **options))

    def extended(self, change) -> Delivery:
        """The header's own text changed."""
        delivery = self.sign()
        return delivery.sent(self.library.header, change(delivery.headers[self.library.header]))


def other(signature: str) -> str:
    """Another signature that is as well-formed."""
    return ("A" if signature[0] != "A" else "B") + signature[1:] if signature.endswith("=") else signature[::-1]


def loose_bits(signature: str) -> str:
    """The same bytes in base64 whose unused bits are set."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return f"{signature[:-2]}{alphabet[alphabet.index(signature[-2]) | 1]}="


# name: (whether we accept it, how it is made)
OF_EVERY_LIBRARY = {
    "as signed": (True, lambda case: case.sign()),
    "one byte of the body": (False, lambda case: replace(case.sign(), body=BODY.replace(b"1999", b"1998"))),
    "last byte of the body": (False, lambda case: replace(case.sign(), body=BODY[:-1] + b"]")),
    "body shortened": (False, lambda case: replace(case.sign(), body=BODY[:-1])),
    "body emptied": (False, lambda case: replace(case.sign(), body=b"")),
    "line feed added": (False, lambda case: replace(case.sign(), body=BODY + b"\n")),
    "line feed lost": (False, lambda case: replace(case.sign(BODY + b"\n"), body=BODY)),
    "line ends changed": (False, lambda case: replace(case.sign(BODIES["CRLF"]), body=BODIES["CRLF"].replace(b"\r", b""))),
    "body written anew": (False, lambda case: replace(case.sign(), body=json.dumps(json.loads(BODY)).encode())),
    "escape instead of letter": (False, lambda case: replace(case.sign('{"é":1}'.encode()), body=rb'{"\u00e9":1}')),
    "another normal form": (False, lambda case: replace(case.sign('{"é":1}'.encode()), body='{"e\u0301":1}'.encode())),
    "another secret": (False, lambda case: case.sign(secret=case.library.secrets[1])),
    "no signature": (False, lambda case: case.sign().sent(case.library.header, None)),
    "empty signature": (False, lambda case: case.text(lambda right: "")),
    "blank signature": (False, lambda case: case.text(lambda right: " ")),
    "garbled signature": (False, lambda case: case.text(lambda right: "gar=bled,;")),
    "signature that is not ASCII": (False, lambda case: case.signatures(lambda right: ["é" + right[1:]])),
    "digest left empty": (False, lambda case: case.signatures(lambda right: [""])),
    "half a digest": (False, lambda case: case.signatures(lambda right: [right[: len(right) // 2]])),
    "digest and more digits": (False, lambda case: case.signatures(lambda right: [right + "00"])),
    "another digest": (False, lambda case: case.signatures(lambda right: [other(right)])),
    "upper case": (False, lambda case: case.signatures(lambda right: [right.upper()])),
    "wrong version": (False, lambda case: case.signatures(lambda right: [right], label="v2")),
    "none of two is right": (False, lambda case: case.signatures(lambda right: [other(right), other(right)])),
    "white space in front": (False, lambda case: case.extended(lambda text: f"\t{text}")),
    "body is not UTF-8": (True, lambda case: case.by_hand(body=b'{"id":"evt_11","type":"ping","note":"\xff"}')),
    "byte order mark": (True, lambda case: case.by_hand(body=b"\xef\xbb\xbf" + BODY)),
    "empty body": (True, lambda case: case.by_hand(body=b"")),
}
OF_TIMED = {
    "no version": (False, lambda case: case.text(lambda right: right)),
    "second of two is right": (True, lambda case: case.signatures(lambda right: [other(right), right])),
    "first of two is right": (True, lambda case: case.signatures(lambda right: [right, other(right)])),
    "280 s late": (True, lambda case: case.sign(late=280)),
    "320 s late": (False, lambda case: case.sign(late=320)),
    "a day late": (False, lambda case: case.sign(late=86400)),
    "280 s early": (True, lambda case: case.sign(late=-280)),
    "320 s early": (False, lambda case: case.sign(late=-320)),
    "a day early": (False, lambda case: case.sign(late=-86400)),
    "another timestamp": (False, lambda case: case.by_hand(signed=str(case.now - 1))),
    "timestamp made fresh": (False, lambda case: case.by_hand(signed=str(case.now - 320))),
    "empty timestamp": (False, lambda case: case.by_hand("", "")),
    "garbled timestamp": (False, lambda case: case.by_hand("now", "now")),
    "timestamp as a date": (False, lambda case: case.by_hand("2025-12-01T12:00:00Z", "2025-12-01T12:00:00Z")),
    "negative timestamp": (False, lambda case: case.by_hand("-{}", "-{}")),
    "milliseconds": (False, lambda case: case.by_hand("{}000", "{}000")),
    "plus sign": (False, lambda case: case.by_hand("+{}")),
    "space before the timestamp": (False, lambda case: case.by_hand(" {}")),
    "fraction of a second": (False, lambda case: case.by_hand("{}.5")),
    "fraction of a second, signed": (False, lambda case: case.by_hand("{}.5", "{}.5")),
    "letters behind the timestamp": (False, lambda case: case.by_hand("{}s")),
    "full-width digits": (False, lambda case: case.by_hand(f"{case.now}".translate({48 + n: 0xFF10 + n for n in range(10)}))),
    "leading zero": (False, lambda case: case.by_hand("0{}")),
    "leading zero, signed": (True, lambda case: case.by_hand("0{}", "0{}")),
    "hundred signatures, the last right": (True, lambda case: case.signatures(lambda right: [other(right)] * 99 + [right])),
    "more than 64 KiB of signatures": (False, lambda case: case.signatures(lambda right: [other(right)] * 1500 + [right])),
    "empty digest before the right": (True, lambda case: case.signatures(lambda right: ["", right])),
}
OF_STRIPE = {
    "unknown pairs": (True, lambda case: case.extended(lambda text: f"v0=1,{text},v2=2,v0=3")),
    "signature before the timestamp": (True, lambda case: case.text(lambda right: f"v1={right},t={case.now}")),
    "no timestamp": (False, lambda case: case.text(lambda right: f"v1={right}")),
    "two timestamps, the first signed": (False, lambda case: case.extended(lambda text: f"{text},t=1")),
    "two timestamps, the last signed": (False, lambda case: case.extended(lambda text: f"t=1,{text}")),
    "label in upper case": (False, lambda case: case.signatures(lambda right: [right], label="V1")),
    "space behind the comma": (False, lambda case: case.extended(lambda text: text.replace(",", ", "))),
    "spaces around equals": (False, lambda case: case.extended(lambda text: text.replace("=", " = "))),
    "semicolon instead of comma": (False, lambda case: case.extended(lambda text: text.replace(",", ";"))),
    "equals behind the digest": (False, lambda case: case.extended(lambda text: f"{text}=more")),
    "comma at the end": (True, lambda case: case.extended(lambda text: f"{text},")),
    "word without equals": (True, lambda case: case.extended(lambda text: f"word,{text}")),
}
OF_WEBHOOKS = {
    "no id": (False, lambda case: case.sign().sent(f"{case.library.brand}-id", None)),
    "empty id": (False, lambda case: case.sign().sent(f"{case.library.brand}-id", "")),
    "another id": (False, lambda case: case.sign().sent(f"{case.library.brand}-id", "msg_other")),
    "no timestamp": (False, lambda case: case.sign().sent(f"{case.library.brand}-timestamp", None)),
    "names in upper case": (
        True,
        lambda case: replace(sent := case.sign(), headers={name.upper(): value for name, value in sent.headers.items()}),
    ),
    "names of another sender": (
        False,
        lambda case: replace(sent := case.sign(), headers={f"x-{name}": value for name, value in sent.headers.items()}),
    ),
    "asymmetric label": (False, lambda case: case.signatures(lambda right: [right], label="v1a")),
    "label in upper case": (False, lambda case: case.signatures(lambda right: [right], label="V1")),
    "other version first": (True, lambda case: case.text(lambda right: f"v1a,AAAA v2,AAAA v1,{right}")),
    "other version behind": (True, lambda case: case.text(lambda right: f"v1,{right} v1a,AAAA")),
    "comma between signatures": (False, lambda case: case.text(lambda right: f"v1,{other(right)},v1,{right}")),
    "two spaces between signatures": (True, lambda case: case.text(lambda right: f"v1,{other(right)}  v1,{right}")),
    "space at the end": (True, lambda case: case.extended(lambda text: f"{text} ")),
    "word before the signature": (True, lambda case: case.extended(lambda text: f"word {text}")),
    "no base64 before the right": (True, lambda case: case.text(lambda right: f"v1,AAAAA v1,{right}")),
    "without padding": (False, lambda case: case.signatures(lambda right: [right.rstrip("=")])),
    "padding twice": (False, lambda case: case.signatures(lambda right: [f"{right}="])),
    "unused bits set": (False, lambda case: case.signatures(lambda right: [loose_bits(right)])),
    "letters that are no base64": (False, lambda case: case.signatures(lambda right: [f"{right[:9]}!{right[9:]}"])),
    "hexadecimal": (False, lambda case: case.signatures(lambda right: [base64.b64decode(right).hex()])),
    "infinite timestamp": (False, lambda case: case.by_hand("inf", "inf")),
    "timestamp with exponent": (False, lambda case: case.by_hand("{}e0")),
    "underscore in the timestamp": (False, lambda case: case.by_hand(f"{case.now:_}")),
}


def unbranded(delivery: Delivery) -> dict[str, str]:
    return {name.replace("svix", "webhook"): value for name, value in delivery.headers.items()}


OF_SVIX = {
    "unbranded names": (True, lambda case: replace(sent := case.sign(), headers=unbranded(sent))),
    "both names, branded right": (
        True,
        lambda case: replace(sent := case.sign(), headers=unbranded(case.sign(late=9)) | sent.headers),
    ),
    "both names, unbranded right": (
        False,
        lambda case: replace(sent := case.sign(), headers=unbranded(sent) | case.sign(b"{}").headers),
    ),
    "some names unbranded": (
        True,
        lambda case: replace(sent := case.sign(), headers=unbranded(sent) | {"svix-id": sent.headers["svix-id"]}),
    ),
    "branded names empty": (
        True,
        lambda case: replace(sent := case.sign(), headers=unbranded(sent) | dict.fromkeys(sent.headers, "")),
    ),
}
OF_RAZORPAY = {
    "one of two is right": (False, lambda case: case.signatures(lambda right: [right, other(right)])),
    "unsigned id": (True, lambda case: case.sign().sent("x-razorpay-event-id", "evt_unsigned")),
}
CASES = {library: OF_EVERY_LIBRARY | OF_TIMED | OF_STRIPE for library in STRIPES}
CASES |= {library: OF_EVERY_LIBRARY | OF_TIMED | OF_WEBHOOKS for library in WEBHOOKS}
CASES[WEBHOOKS[1]] |= OF_SVIX
CASES |= {library: OF_EVERY_LIBRARY | OF_RAZORPAY for library in RAZORPAY}
PYTHON, NODE, STANDARD, SVIX, RAZOR = ([library.name] for library in LIBRARIES)
ALL_TIMED = PYTHON + NODE + STANDARD + SVIX
# Where a library decides otherwise than we do, and why we stay with ours. What we alone accept is signed all the same.
DIFFERENCES = {
    "no upper bound there; a far future is not now": {
        "320 s early": PYTHON + NODE,
        "a day early": PYTHON + NODE,
        "milliseconds": PYTHON + NODE,
    },
    "they sign the number that they read; we take plain digits, and sign them as sent": {
        "plus sign": ALL_TIMED,
        "space before the timestamp": ALL_TIMED,
        "leading zero": ALL_TIMED,
        "leading zero, signed": ALL_TIMED,
        "full-width digits": PYTHON + STANDARD + SVIX,
        "fraction of a second": NODE + STANDARD + SVIX,
        "letters behind the timestamp": NODE,
        "timestamp with exponent": STANDARD + SVIX,
        "underscore in the timestamp": STANDARD + SVIX,
    },
    "nobody sends two; Python takes the first, Node the last, we none": {
        "two timestamps, the first signed": PYTHON,
        "two timestamps, the last signed": NODE,
    },
    "they drop what follows a second equals sign; a signature is all of its text": {"equals behind the digest": PYTHON + NODE},
    "their base64 is lenient; a signature has one way of being written": {
        "digest and more digits": STANDARD + SVIX,
        "padding twice": STANDARD + SVIX,
        "unused bits set": STANDARD + SVIX,
        "letters that are no base64": STANDARD + SVIX,
    },
    "they fail on a stray item; it does not spoil the right one beside it": {
        "empty digest before the right": NODE,
        "two spaces between signatures": STANDARD + SVIX,
        "word before the signature": STANDARD + SVIX,
        "no base64 before the right": STANDARD + SVIX,
    },
    "they decode the body first, and fail or drop the mark; a MAC is over bytes": {
        "body is not UTF-8": ALL_TIMED + RAZOR,
        "byte order mark": NODE,
    },
    "a limit, so that a header can cost no more": {"more than 64 KiB of signatures": ALL_TIMED},
    "an empty header counts as none, and the other name is looked at": {"branded names empty": SVIX},
}
PAIRS = [pytest.param(library, name, id=f"{library.name}: {name}") for library, cases in CASES.items() for name in cases]


@pytest.mark.parametrize("library, name", PAIRS)
def test_one_verdict(db, sources, library, name):
    expected, make = CASES[library][name]
    delivery = make(Case(library))
    verdict = accepted(db, sources, library, library.secrets[0], delivery)
    theirs = accepted_by_library(library, library.secrets[0], delivery)
    otherwise = any(library.name in cases.get(name, []) for cases in DIFFERENCES.values())
    assert (verdict, theirs) == (expected, expected != otherwise)


def test_differences_are_of_cases():
    """A difference that no case shows any more is no difference."""
    named = {(library, case) for cases in DIFFERENCES.values() for case, libraries in cases.items() for library in libraries}
    assert named <= {(library.name, case) for library, cases in CASES.items() for case in cases}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_what_they_sign_is_accepted(db, sources, library, body):
    for secret in library.secrets:
        delivery = library.sign(secret, body, int(time.time()))
        assert accepted_by_library(library, secret, delivery)
        assert accepted(db, sources, library, secret, delivery)
        changed = replace(delivery, body=body[:-1] + bytes([body[-1] ^ 1]))
        assert not accepted(db, sources, library, secret, changed)
        assert not accepted_by_library(library, secret, changed)
