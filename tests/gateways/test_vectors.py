"""Known answers through SQL: `inspect` at the case's own moment, and `ingest` where no age is checked.

Every definition goes by another name here, so that nothing can depend on the name of a gateway."""

import base64
import json
import os
from collections import Counter, defaultdict
from pathlib import Path
from urllib.parse import urlencode

import pytest
from conftest import ROOT, VECTORS, definition

CASES = [json.loads(line) for line in (VECTORS / "signatures.jsonl").read_text(encoding="utf-8").splitlines()]
if more := os.environ.get("PAYMENT_IDEM_VECTORS"):
    known = {case["id"] for case in CASES}
    lines = Path(more).read_text(encoding="utf-8").splitlines()
    CASES += [case for case in map(json.loads, lines) if case["id"] not in known]
OTHERWISE = {case: ours for case, ours, _ in json.loads((VECTORS / "otherwise.json").read_text(encoding="utf-8"))}
EXPECTED_FIELDS = json.loads((VECTORS / "payloads" / "expected_fields.json").read_text(encoding="utf-8"))["payloads"]

BY_REASON = {"signature_malformed": "malformed", "no_active_secret": "malformed", "signature_mismatch": "invalid"}


@pytest.fixture(scope="session")
def renamed(db) -> dict[str, str]:
    """Every shipped definition under a name of its own."""
    names = {}
    for number, path in enumerate(sorted((ROOT / "gateways").glob("*.json"))):
        names[path.stem] = f"gateway {number}".replace(" ", "_")
        db.execute("SELECT payment_idem.define_gateway($1, $2::jsonb)", [names[path.stem], json.dumps(definition(path.stem))])
    return names


def headers(case: dict) -> str:
    query = case.get("params", {}).get("query", {})
    return json.dumps(case["headers"] | {":path": f"/hook?{urlencode(query)}"})


def delivery(sources, case: dict, gateway: str) -> tuple:
    parameters = {key: value for key, value in case.get("params", {}).items() if isinstance(value, str)}
    secrets = [case["secret"], *case.get("previous_secrets", [])]
    options = {"tolerance_s": case["tolerance_s"]} if case.get("tolerance_s") else {}
    source = sources.source(gateway, secrets, parameters, **options)
    return source, base64.b64decode(case["body_base64"])


def test_known_answers(db, sources, renamed):
    """Prints scheme, passed, failed."""
    table, wrong = defaultdict(Counter), []
    for case in CASES:
        source, body = delivery(sources, case, renamed[case["scheme"]])
        sql = "SELECT payment_idem.inspect($1, $2, $3::bytea, NULL, $4::jsonb, to_timestamp($5)) AS report"
        row = db.execute(sql, [sources.tenant, source, body, headers(case), case["now_unix"]]).fetchone()
        verdicts = {"inspect": row["report"]["verdict"]}
        if not definition(case["scheme"])["verify"].get("timestamp", {}).get("tolerance_s"):
            sql = "SELECT * FROM payment_idem.ingest($1, NULL, $3::bytea, NULL, $2, $4::jsonb)"
            answers = db.execute(sql, [sources.tenant, source, body, headers(case)]).fetchall()
            verdicts["ingest"] = worst(answers)
        assert case["id"] not in OTHERWISE or case["class"] == "edge"
        expected = OTHERWISE.get(case["id"], case["expect"])
        right = set(verdicts.values()) == {expected}
        table[case["scheme"]]["passed" if right else "failed"] += 1
        if not right:
            wrong.append(f"{case['id']} ({case['class']}): {verdicts}, not {expected}: {case['why']}")
    print(f"\n{'scheme':<20} {'passed':>6} {'failed':>6}")
    for scheme, row in sorted(table.items()):
        print(f"{scheme:<20} {row['passed']:>6} {row['failed']:>6}")
    assert not wrong, "\n".join(wrong)


def worst(answers: list[dict]) -> str:
    verdicts = [BY_REASON.get(answer["reason"], answer["reason"]) if answer["outcome"] == "rejected" else "valid" for answer in answers]
    return min(verdicts, key=["malformed", "invalid", "valid"].index)


@pytest.mark.parametrize("file", EXPECTED_FIELDS)
def test_payloads(db, sources, renamed, file):
    """What a mapper must read from each gateway's event."""
    case = EXPECTED_FIELDS[file]
    source = sources.source(renamed[case["scheme"]], [])
    body = (VECTORS / "payloads" / file).read_bytes()
    sql = "SELECT payment_idem.inspect($1, $2, $3::bytea, NULL, $4::jsonb) AS report"
    fields = db.execute(sql, [sources.tenant, source, body, json.dumps(case["headers"])]).fetchone()["report"]["fields"]
    expected, time = case["expected"], fields["event_time_unix_us"]
    assert {
        "event_id": fields["event_id"],
        "event_type": fields["event_type"],
        "order_ref": fields["order_reference"],
        "gateway_order_id": fields["gateway_order_id"],
        "amount_minor": fields["amount_minor"],
        "currency": fields["currency"],
        "bank_ref": fields["bank_reference"],
        "created_ms": time and time // 1000,
    } == {key: value for key, value in expected.items() if key not in ("payment_id", "amount_raw", "amount_unit")}
    assert expected["payment_id"] is None or expected["payment_id"] in fields["references"].values()
