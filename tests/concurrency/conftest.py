import pytest
from harness import Fleet, Tenant, connect


@pytest.fixture(scope="session")
def db():
    with connect() as connection:
        yield connection


@pytest.fixture
def new_tenant(db):
    """Makes tenants; when the test is over, every one of them has to be in order."""
    tenants = []

    def make(gateway: str = "generic") -> Tenant:
        tenants.append(Tenant(db, gateway))
        return tenants[-1]

    yield make
    assert [fault for tenant in tenants for fault in tenant.faults()] == []


@pytest.fixture(scope="module")
def tenants_of_module(db):
    """For modules of many tests: their tenants have to be in order when all tests are over, which is one look."""
    tenants = []
    yield tenants
    sql = "SELECT * FROM payment_idem.check_invariants() WHERE tenant = ANY ($1::uuid[])"
    assert db.execute(sql, [[tenant.id for tenant in tenants]]).fetchall() == []


@pytest.fixture
def tenant(new_tenant):
    return new_tenant()


@pytest.fixture(scope="module")
def fleet_of_module():
    fleet = Fleet()
    yield fleet
    fleet.close()


@pytest.fixture
def fleet(fleet_of_module):
    yield fleet_of_module
    fleet_of_module.reset()
