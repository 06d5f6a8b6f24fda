"""One client, a process of its own: reads scripts, one per line, and answers each with one line.

A script is a JSON list of [SQL, parameters]; {"hex": ...} stands for bytes. Every statement is sent once: nothing is
tried again, and the first error ends the script.
"""

import json
import sys

import psycopg
from psycopg.rows import dict_row


def say(value):
    print(json.dumps(value, default=str), flush=True)


connection = psycopg.connect(autocommit=True, cursor_factory=psycopg.RawCursor, row_factory=dict_row)
say(connection.info.backend_pid)
for line in sys.stdin:
    rows = []
    try:
        for sql, parameters in json.loads(line):
            given = [bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in parameters]
            cursor = connection.execute(sql, given)
            rows.append(cursor.fetchall() if cursor.description else [])
        say({"rows": rows, "sqlstate": None, "message": None})
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise  # not the server's answer
        if not connection.closed:
            connection.execute("ROLLBACK")
        say({"rows": rows, "sqlstate": error.sqlstate, "message": str(error)})
