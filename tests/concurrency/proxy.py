"""A TCP proxy for one connection to the server that can keep the server's answers to itself."""

import os
import socket
import threading

# The end of an answer after which the server has committed: ReadyForQuery, outside a transaction.
READY_IDLE = b"Z\x00\x00\x00\x05I"


class Proxy:
    def __init__(self):
        self.withheld = b""
        self._withholding = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def withhold(self):
        """From now on nothing that the server says reaches the client."""
        self._withholding.set()

    def close(self):
        self._listener.close()

    def _serve(self):
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # closed before anybody came
        server = socket.create_connection(("127.0.0.1", int(os.environ["PAYMENT_IDEM_TCP_PORT"])))
        threading.Thread(target=self._answers, args=(server, client), daemon=True).start()
        with client, server:
            for data in received(client):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)  # the client is gone, and the server is to know

    def _answers(self, server, client):
        for data in received(server):
            if self._withholding.is_set():
                self.withheld += data
            else:
                client.sendall(data)


def received(connection):
    """The bytes that arrive, until the other side is gone."""
    try:
        while data := connection.recv(65536):
            yield data
    except OSError:
        return
