//! Whether the calling role may act, and for whom.

use pgrx::{PgSqlErrorCode, Uuid};

use crate::pg::caller;
use crate::pg::error::raise;
use crate::store::{access, tenants};

/// What a role may be granted to do: a value of `role_grants.profile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Deliver events.
    Ingest,
    /// Work the outbox.
    Worker,
    /// Make tenants, sources, secrets, gateways and orders.
    Admin,
}

impl Profile {
    const fn as_str(self) -> &'static str {
        match self {
            Profile::Ingest => "ingest",
            Profile::Worker => "worker",
            Profile::Admin => "admin",
        }
    }
}

/// Raises 42501 unless the caller may act for the tenant, and the tenant exists: one error for
/// both, so that nobody learns of a tenant that is not theirs.
pub fn require_tenant(profile: Profile, tenant: Uuid) {
    let role = caller::role();
    let granted = caller::is_owner(role) || access::is_granted(role, profile.as_str(), Some(tenant));
    if !granted || tenants::name(tenant).is_none() {
        raise(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("no access to tenant {tenant}"),
            format!("The tenant does not exist, or this role is not granted the profile \"{}\" for it.", profile.as_str()),
            "Check the tenant's key, and the role's rows in payment_idem.role_grants.",
        )
    }
}

/// Raises 42501 unless the caller may act for every tenant.
pub fn require_all_tenants(profile: Profile) {
    let role = caller::role();
    if !caller::is_owner(role) && !access::is_granted(role, profile.as_str(), None) {
        raise(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            "this needs a grant for the whole database",
            format!("The role is not granted the profile \"{}\" for every tenant.", profile.as_str()),
            "Ask the owner of the extension for a row in payment_idem.role_grants with tenant NULL.",
        )
    }
}

/// The tenants that the caller may act for; `None`: every tenant.
pub fn tenants_of(profile: Profile) -> Option<Vec<Uuid>> {
    let role = caller::role();
    if caller::is_owner(role) { None } else { access::granted_tenants(role, profile.as_str()) }
}
