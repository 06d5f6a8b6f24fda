"""The documented call from five languages: does each driver reach the overload that was meant, with the very bytes?

Each client program reads one delivery per line (`form, event id, body in hex, signature`, tab-separated) and answers
with `outcome, reason, payload_sha256`, or with `error` and the SQLSTATE (`client` where the driver itself refuses).
The digest that ingest returned is compared with that of the bytes sent. The line `prepared` asks what the server knows
of the session's prepared statements.

Usage: run.py [CLIENT...]. Needs PGHOST, PGPORT, PGUSER, PGDATABASE and PAYMENT_IDEM_TCP_PORT.
"""

import hashlib
import hmac
import json
import os
import secrets
import subprocess
import sys
import uuid
from pathlib import Path

import psycopg

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build"
HANG_GUARD_S = 900  # a first build of the Rust client on a busy machine

PREPARED = """
    SELECT coalesce(string_agg(substring(statement FROM '::(bytea|text)') || ' ' || generic_plans + custom_plans, ', '),
                    '')
    FROM pg_prepared_statements WHERE statement LIKE '%payment_idem.ingest(%'
"""

os.environ.setdefault("NODE_PATH", str(BUILD / "node/node_modules"))
os.environ.setdefault("CLASSPATH", "/usr/share/java/postgresql.jar")
os.environ.setdefault("GOPATH", "/usr/share/gocode")
os.environ.setdefault("GOCACHE", str(BUILD / "go"))
os.environ |= {
    "GO111MODULE": "off",
    "GOFLAGS": "",
    "CARGO_TARGET_DIR": str(BUILD / "clients-rust"),
    "PREPARED": PREPARED,
}

# How each is built, and how it is run.
CLIENTS = {
    "psycopg": (None, [sys.executable, HERE / "python/client.py"]),
    "node-postgres": (None, ["node", HERE / "node/client.js"]),
    "jdbc": (None, ["java", "-cp", os.environ["CLASSPATH"], HERE / "java/Client.java"]),
    "pgx": (["go", "build", "-o", BUILD / "clients-go", HERE / "go/client.go"], [BUILD / "clients-go"]),
    "tokio-postgres": (
        ["cargo", "build", "--quiet", "--locked", "--manifest-path", HERE / "rust/Cargo.toml"],
        [BUILD / "clients-rust/debug/payment_idem_client"],
    ),
}

UTF8 = rb"caf\u00e9 C:\\temp \ud83d\ude00 " + "\N{GRINNING FACE}".encode()
NOT_UTF8 = b"\xff"
DOUBLED = rb"C:\\temp"  # a backslash that bytea's input syntax knows: it would swallow one of the two
EXECUTIONS = 8  # beyond the point where a driver or the server changes over to a prepared statement


def without_the_right_cast() -> dict[str, dict[str, str]]:
    """The table in README.md: for each client, what it is told in each form."""
    lines = (HERE / "README.md").read_text().splitlines()
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}


class Client:
    """A tenant of its own, the deliveries that its program is to make, and what each must be told."""

    def __init__(self, db: psycopg.Connection, name: str):
        self.db, self.name = db, name
        self.tenant, self.secret = str(uuid.uuid4()), secrets.token_hex(16)
        self.steps: list[tuple[str, str, list, str]] = []
        db.execute("SELECT payment_idem.create_tenant(%s, %s)", [name, self.tenant])
        db.execute("SELECT payment_idem.create_source(%s, 'default', 'generic')", [self.tenant])
        db.execute("SELECT payment_idem.add_secret(%s, 'default', %s)", [self.tenant, self.secret])

    def events(self, note: bytes, count: int = 1) -> list[tuple[str, bytes]]:
        """Events that each pay an order of their own; the note goes into the body as it is."""
        made = []
        for _ in range(count):
            name = secrets.token_hex(6)
            self.db.execute("SELECT payment_idem.create_order(%s, 'm1', %s, 10.00, 'USD')", [self.tenant, name])
            facts = {"id": name, "type": "paid", "order": name, "amount": 1000, "currency": "usd", "payment": name}
            made.append((name, json.dumps(facts)[:-1].encode() + b', "note": "' + note + b'"}'))
        return made

    def plan(self, told: dict[str, str]):
        def step(form, events, expected, name=""):
            self.steps.append((name or form, form, events, expected))

        first, second = self.events(UTF8, EXECUTIONS), self.events(UTF8, EXECUTIONS)
        step("bytes as bytea", first, "applied")
        step("bytes as bytea", self.events(NOT_UTF8), "exception payload_unreadable", "bytes as bytea, not UTF-8")
        step("string as text", first, "duplicate", "string as text, delivered before as bytes")
        step("string as text", second, "applied")
        step("bytes as bytea", second, "duplicate", "bytes as bytea, delivered before as string")
        step("bytes in a batch", self.events(UTF8), "applied")
        step("bytes in a batch", self.events(NOT_UTF8), "exception payload_unreadable", "bytes in a batch, not UTF-8")
        for (name, expected), note in zip(told.items(), [UTF8, NOT_UTF8, UTF8, UTF8, DOUBLED], strict=True):
            step(name.removesuffix(", not UTF-8").split(" with ")[0], self.events(note), expected, name)

    def answers(self) -> list[str]:
        """Builds the program, has it deliver everything, and returns its lines."""
        build, command = CLIENTS[self.name]
        if build:
            subprocess.run(build, check=True, timeout=HANG_GUARD_S)
        lines = []
        for _, form, events, _ in self.steps:
            for event_id, body in events:
                signature = hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()
                lines.append("\t".join([form, event_id, body.hex(), signature]))
        done = subprocess.run(
            command,
            input="\n".join([*lines, "prepared", ""]),
            check=True,
            timeout=HANG_GUARD_S,
            text=True,
            stdout=subprocess.PIPE,
            env=os.environ | {"TENANT": self.tenant},
        )
        answers = done.stdout.splitlines()
        if len(answers) != len(lines) + 1:
            raise ValueError(f"{len(answers)} answers to {len(lines) + 1} lines")
        return answers

    def checks(self):
        """Yields (what, what was expected, what came)."""
        *answers, prepared = self.answers()
        answers = iter(answers)
        for name, _, events, expected in self.steps:
            yield name, {expected}, {told(next(answers), body) for _, body in events}
        executions = dict.fromkeys(("bytea", "text"), 0)
        for cast, count in (entry.split() for entry in prepared.split(", ") if entry):
            executions[cast] = max(executions[cast], int(count))
        for cast, count in executions.items():
            yield f"prepared on the server with {cast}, executed 7 times and more", True, count >= 7


def told(answer: str, body: bytes) -> str:
    """An answer in the words of README.md."""
    outcome, reason, *digest = answer.split("\t")
    same = not digest or digest[0] == hashlib.sha256(body).hexdigest()
    return f"{outcome} {reason}".strip() + ("" if same else " of other bytes")


def main(names: list[str]) -> int:
    table = without_the_right_cast()
    assert table.keys() == CLIENTS.keys(), "the table of README.md and the clients differ"
    passed = failed = 0
    with psycopg.connect(autocommit=True) as db:
        for name in names or CLIENTS:
            client = Client(db, name)
            client.plan(table[name])
            try:
                results = list(client.checks())
            except (OSError, subprocess.SubprocessError, ValueError) as error:
                results = [("runs", "its answers", error)]  # a missing tool-chain as well
            for what, expected, came in results:
                if came == expected:
                    passed += 1
                    print(f"ok      {name}: {what}")
                else:
                    failed += 1
                    print(f"FAILED  {name}: {what}: expected {expected}, came {came}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
