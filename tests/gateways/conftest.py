"""The database of the gateway tests, and sources that are made as a case needs them."""

import json
import os
import uuid
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import dict_row

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "tests" / "vectors"
HANG_GUARD_S = 60


def definition(gateway: str) -> dict:
    return json.loads((ROOT / "gateways" / f"{gateway}.json").read_text(encoding="utf-8"))


class Sources:
    """Makes a source per gateway, secrets and parameters, once."""

    def __init__(self, db: psycopg.Connection):
        self.db = db
        self.tenant = uuid.uuid4()
        self.made: dict[tuple, str | None] = {}
        db.execute("SELECT payment_idem.create_tenant($1, $2)", [f"gateways {self.tenant}", self.tenant])

    def source(self, gateway: str, secrets: list[str], parameters: dict | None = None, **options) -> str:
        """The name of the source; of unusable secrets none is active, as none can be added."""
        options |= {"parameters": parameters or {}}
        key = (gateway, *secrets, json.dumps(options, sort_keys=True))
        if key not in self.made:
            name = f"{gateway}_{len(self.made)}"
            self.db.execute("SELECT payment_idem.create_source($1, $2, $3, $4::jsonb)", [self.tenant, name, gateway, json.dumps(options)])
            for secret in secrets:
                try:
                    self.db.execute("SELECT payment_idem.add_secret($1, $2, $3)", [self.tenant, name, secret])
                except psycopg.errors.InvalidParameterValue:
                    pass
            self.made[key] = name
        return self.made[key]


@pytest.fixture(scope="session")
def db():
    os.environ["PGOPTIONS"] = f"-c statement_timeout={HANG_GUARD_S}s -c client_min_messages=warning"
    with psycopg.connect(autocommit=True, row_factory=dict_row, cursor_factory=psycopg.RawCursor) as connection:
        yield connection


@pytest.fixture(scope="session")
def sources(db):
    return Sources(db)
