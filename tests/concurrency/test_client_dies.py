"""The client process dies (SIGKILL) at the worst moments; the gateway, unanswered, delivers again."""

import pytest
from harness import BEGIN, COMMIT, UNTOUCHED, Sender, held, paid_once, wait_until, waiting
from proxy import READY_IDLE, Proxy

languages = pytest.mark.parametrize("language", Sender.COMMANDS)


@pytest.fixture
def client():
    """Starts a client that is going to die; its backend's end is waited for."""
    started = []

    def start(language, **environment):
        started.append(Sender(language, **environment))
        return started[-1]

    yield start
    for sender in started:
        sender.close()


def gone(db, backend: int) -> bool:
    return not db.execute("SELECT FROM pg_stat_activity WHERE pid = $1", [backend]).fetchall()


def redeliver(fleet, call):
    """The gateway tries again, at an instance in Python and then at one in Node."""
    return [sender.run(call).result for sender in fleet(2)]


def assert_found(results):
    for result in results:
        assert (result["outcome"], result["http_status"], result["first_outcome"]) == ("duplicate", 200, "applied")
        assert result["order_status"] == "COMPLETED"
        assert result["transaction_id"] is not None


@languages
@pytest.mark.parametrize("wrapping", ["autocommit", "transaction"])
def test_killed_after_commit_before_the_answer(db, fleet, tenant, client, language, wrapping):
    """The failure that idempotency is designed to survive."""
    order = tenant.order()
    call = order.paid()
    proxy = Proxy()
    victim = client(language, PGHOST="127.0.0.1", PGPORT=str(proxy.port))
    backend = victim.pid
    if wrapping == "transaction":
        assert victim.run(BEGIN, call).told == ("applied", None)
        assert order.state() == UNTOUCHED
    proxy.withhold()
    victim.start([COMMIT] if wrapping == "transaction" else [call])

    # The server has committed and said so; the client has not heard it.
    wait_until(lambda: proxy.withheld.endswith(READY_IDLE), "the server's answer")
    assert (b"COMMIT\0" if wrapping == "transaction" else b"SELECT 1\0") in proxy.withheld
    assert order.state() == paid_once()
    victim.kill()
    assert victim.process.stdout.read() == ""
    wait_until(lambda: gone(db, backend), "end of the victim's backend")
    proxy.close()

    assert_found(redeliver(fleet, call))
    assert order.state() == paid_once()


@languages
def test_killed_before_commit(db, fleet, tenant, client, language):
    order = tenant.order()
    call = order.paid()
    victim = client(language)
    assert victim.run(BEGIN, call).told == ("applied", None)
    victim.kill()

    # The redelivery may come before the server has noticed: then it waits for the victim's rollback.
    first, again = redeliver(fleet, call)
    assert (first["outcome"], first["http_status"]) == ("applied", 200)
    assert_found([again])
    assert order.state() == paid_once()


@languages
def test_killed_while_its_call_waits(db, fleet, tenant, client, language):
    """The server notices only after the call: what it then did is what the redelivery finds."""
    order = tenant.order()
    call = order.paid()
    victim = client(language)
    backend = victim.pid
    with held(order):
        victim.start([call])
        wait_until(lambda: waiting(db, [victim]), "the victim's call waits")
        victim.kill()
    wait_until(lambda: gone(db, backend), "end of the victim's backend")

    assert order.state() in (UNTOUCHED, paid_once())
    committed = order.state() == paid_once()
    first, again = redeliver(fleet, call)
    assert first["outcome"] == ("duplicate" if committed else "applied")
    assert_found([again])
    assert order.state() == paid_once()


@languages
def test_killed_amid_rivals(db, fleet, tenant, client, language):
    """The first of many deliveries dies uncommitted while the others wait for it."""
    order = tenant.order()
    call = order.paid()
    victim = client(language)
    rivals = fleet(6)
    assert victim.run(BEGIN, call).told == ("applied", None)
    for rival in rivals:
        rival.start([call])
    wait_until(lambda: waiting(db, rivals) == len(rivals), "rivals wait for the victim")
    victim.kill()

    outcomes = sorted(rival.finish().result["outcome"] for rival in rivals)
    assert outcomes == ["applied"] + ["duplicate"] * 5
    assert order.state() == paid_once()
