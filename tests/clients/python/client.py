"""psycopg 3. It prepares a statement by itself when it has run it five times."""

import os
import sys

import psycopg

SQL = {
    "bytes as bytea": "SELECT * FROM payment_idem.ingest(%s, %s, %s::bytea, %s)",
    "string as text": "SELECT * FROM payment_idem.ingest(%s, %s, %s::text, %s)",
    "bytes, no cast": "SELECT * FROM payment_idem.ingest(%s, %s, %s, %s)",
    "string, no cast": "SELECT * FROM payment_idem.ingest(%s, %s, %s, %s)",
    "string as bytea": "SELECT * FROM payment_idem.ingest(%s, %s, %s::bytea, %s)",
    "bytes in a batch": "SELECT * FROM payment_idem.ingest_batch(%s, %s::text[], %s::bytea[], %s::text[])",
}

connection = psycopg.connect(autocommit=True)
tenant = os.environ["TENANT"]
for line in sys.stdin:
    form, *fields = line.rstrip("\n").split("\t")
    if form == "prepared":
        print(connection.execute(os.environ["PREPARED"]).fetchone()[0], flush=True)
        continue
    event_id, body, signature = fields
    payload = bytes.fromhex(body)
    try:
        given = payload if form.startswith("bytes") else payload.decode()
        values = [event_id, given, signature]
        if form.endswith("batch"):
            values = [[value] for value in values]
        cursor = connection.execute(SQL[form], [tenant, *values])
        column = {description.name: value for description, value in zip(cursor.description, cursor.fetchone())}
        print(column["outcome"], column["reason"] or "", column["payload_sha256"], sep="\t", flush=True)
    except psycopg.Error as error:
        print("error", error.sqlstate or "client", sep="\t", flush=True)
