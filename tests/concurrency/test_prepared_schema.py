"""P10: a schema that somebody else prepared is no home for the extension: its functions could stand in for ours."""

import uuid

import psycopg
import pytest
from psycopg import sql


def test_schema_of_another_role_is_refused():
    name = f"prepared_{uuid.uuid4().hex[:12]}"
    role = sql.Identifier(f"eve_{name}")
    with psycopg.connect(dbname="postgres", autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {}").format(role))
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            with psycopg.connect(dbname=name, autocommit=True) as database:
                database.execute(sql.SQL("CREATE SCHEMA payment_idem AUTHORIZATION {}").format(role))
                with pytest.raises(psycopg.errors.DuplicateSchema) as refused:
                    database.execute("CREATE EXTENSION payment_idem")
                assert refused.value.diag.message_hint
                # An empty one of a superuser's is what a restored dump makes.
                database.execute("ALTER SCHEMA payment_idem OWNER TO CURRENT_USER")
                database.execute("CREATE FUNCTION payment_idem.format(text, text) RETURNS text LANGUAGE sql AS 'SELECT $1'")
                with pytest.raises(psycopg.errors.DuplicateSchema):
                    database.execute("CREATE EXTENSION payment_idem")
                database.execute("DROP FUNCTION payment_idem.format(text, text)")
                database.execute("CREATE EXTENSION payment_idem")
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
            admin.execute(sql.SQL("DROP ROLE {}").format(role))
