"""What the tour is told with: chapters, tables and claims on the terminal, and a line that loses one answer."""

import os
import socket
import sys
import textwrap
import threading
import time

import psycopg
from psycopg.rows import dict_row

GUARD = 30  # seconds until something that hangs is called a failure
WIDTH = 100
COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
sys.stdout.reconfigure(errors="replace", line_buffering=True)


def connect(**options):
    return psycopg.connect(**{"dbname": "payment_idem_demo", "autocommit": True, "row_factory": dict_row, **options})


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


def bold(text):
    return paint(1, text)


def dim(text):
    return paint(2, text)


def wrapped(text, column):
    """The text as it may follow on a line that has come to this column."""
    return textwrap.fill(text, WIDTH, initial_indent=" " * column, subsequent_indent=" " * column)[column:]


def wait_until(condition):
    """The first true value of condition(), else its last one when the guard runs out."""
    end = time.monotonic() + GUARD
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return value


class Stage:
    """Tells the story and keeps count of what it claims."""

    def __init__(self, conn):
        self.conn = conn
        self.act = self.shown = self.claims = self.failed = 0

    def chapter(self, title, story):
        self.act += 1
        print(f"\n{bold(f'{self.act}  {title}')}")
        print("   " + wrapped(" ".join(story.split()), 3))

    def table(self):
        """What was answered since the last table; equal answers share a line."""
        rows = self.conn.execute("""
            SELECT delivery || CASE WHEN count(*) > 1 THEN ' ×' || count(*) ELSE '' END AS what, outcome,
                   reason, http_status AS "HTTP", order_status AS "order", max(n) AS n
            FROM shop.answers WHERE n > %s
            GROUP BY delivery, outcome, reason, http_status, order_status ORDER BY min(n)""", [self.shown]).fetchall()
        self.shown = max(row.pop("n") for row in rows)
        lines = [["", *list(rows[0])[1:]], *([show(value) for value in row.values()] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines)]
        print()
        for number, line in enumerate(lines):
            text = "   ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
            print("   " + (text if number else dim(text)))
        print()

    def remark(self, words):
        """A word on the table above."""
        print(f"   {words}\n")

    def claim(self, words, sql, params=(), **expected):
        """Asks the database: the one row of the query must have the expected values. An error is a value, too."""
        try:
            cursor = self.conn.execute(sql, params)
            found = cursor.fetchone() if cursor.description else {"rows_changed": cursor.rowcount}
        except psycopg.Error as error:
            found = {"sqlstate": error.sqlstate, "message": error.diag.message_primary}
        self.judge(words, found or {"rows": 0}, **expected)

    def judge(self, words, found, **expected):
        assert expected, "a claim that expects nothing cannot fail"
        self.claims += 1
        if all(name in found and found[name] == value for name, value in expected.items()):
            print(f"   {paint(32, '✓')} {words:32} {dim(wrapped(facts(found), 38))}")
        else:
            self.failed += 1
            print(f"   {paint('1;31', '✗')} {bold(words)}")
            for name, values in (("expected", expected), ("found", found)):
                print(f"     {name:8} {wrapped(facts(values), 14)}")

    def finish(self):
        print(f"\n{paint('1;31' if self.failed else '1;32', f'{self.claims} claims checked, {self.failed} failed')}")
        return 1 if self.failed else 0


def show(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else " ".join(str(value).split())


def facts(row):
    return " · ".join(f"{name} {show(value)}" for name, value in row.items())


class LossyLine(threading.Thread):
    """A line between one client and the server that is cut in one direction when the client says COMMIT:
    the server hears it, but what the server answers from then on reaches nobody."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.cut = threading.Event()
        self.withheld = b""
        self.start()

    def run(self):
        client = self.listener.accept()[0]
        host, port = os.environ.get("PGHOST", "127.0.0.1"), os.environ.get("PGPORT", "5432")
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{port}")
        else:
            server = socket.create_connection((host, int(port)))
        threading.Thread(target=self.requests, args=(client, server), daemon=True).start()
        while answer := server.recv(65536):
            if self.cut.is_set():
                self.withheld += answer
            else:
                client.sendall(answer)

    def requests(self, client, server):
        try:
            while request := client.recv(65536):
                if b"COMMIT" in request:
                    self.cut.set()
                server.sendall(request)
        except ConnectionResetError:
            pass  # the client was killed with an answer unread
        server.shutdown(socket.SHUT_WR)
