//! Whether the calling role may act, and for whom.

use pgrx::{PgSqlErrorCode, Uuid};

use crate::pg::caller::Caller;
use crate::pg::error::raise;
use crate::store::{access, tenants};

/// What a role may be granted to do: a value of `role_grants.profile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Make orders and deliver their events.
    Ingest,
    /// Work the outbox.
    Worker,
    /// Look into deliveries, and replay them after an outage.
    Operator,
    /// Make tenants, sources, secrets, gateways and orders.
    Admin,
}

impl Profile {
    const fn as_str(self) -> &'static str {
        match self {
            Profile::Ingest => "ingest",
            Profile::Worker => "worker",
            Profile::Operator => "operator",
            Profile::Admin => "admin",
        }
    }
}

/// Raises 42501 unless the caller may act for the tenant, and the tenant exists: one error for
/// both, so that nobody learns of a tenant that is not theirs.
pub fn require_tenant(caller: Caller, profile: Profile, tenant: Uuid) {
    if !may_act_for(caller, profile, Some(tenant)) || tenants::name(tenant).is_none() {
        refuse(
            profile,
            format!("no access to tenant {tenant}"),
            "The tenant does not exist, or this role is not granted",
            "Check the tenant's key, and the role's rows in payment_idem.role_grants.",
        )
    }
}

/// Raises 42501 unless the caller may act for every tenant.
pub fn require_all_tenants(caller: Caller, profile: Profile) {
    if !may_act_for(caller, profile, None) {
        refuse(
            profile,
            "this needs a grant for the whole database".to_owned(),
            "The role is not granted, for every tenant,",
            "Ask the owner of the extension for a row in payment_idem.role_grants with tenant NULL.",
        )
    }
}

/// Raises 42501 unless the caller may act for the owner of a signing secret. Of a secret that does
/// not exist only those learn who may act for every tenant.
pub fn require_secret(caller: Caller, profile: Profile, secret_id: i64, owner: Option<Uuid>) {
    if !may_act_for(caller, profile, owner) {
        refuse(
            profile,
            format!("no access to signing secret {secret_id}"),
            "The secret does not exist, or this role is not granted, for its tenant,",
            "Check the number that add_secret returned, and the role's rows in payment_idem.role_grants.",
        )
    }
}

/// The tenants that the caller may act for; `None`: every tenant. Raises 42501 where there is none.
pub fn tenants_of(caller: Caller, profile: Profile) -> Option<Vec<Uuid>> {
    let tenants =
        if caller.is_owner() { None } else { access::granted_tenants(caller.oid(), profile.as_str()) };
    if tenants.as_ref().is_some_and(Vec::is_empty) {
        refuse(
            profile,
            "no access to any tenant".to_owned(),
            "This role is not granted",
            "Ask for a row in payment_idem.role_grants.",
        )
    }
    tenants
}

/// Whether the caller may act for the tenant (for every tenant where `None`) in this profile.
pub fn may_act_for(caller: Caller, profile: Profile, tenant: Option<Uuid>) -> bool {
    caller.is_owner() || access::is_granted(caller.oid(), profile.as_str(), tenant)
}

fn refuse(profile: Profile, message: String, why: &str, hint: &str) -> ! {
    let detail = format!("{why} the profile \"{}\".", profile.as_str());
    raise(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, message, detail, hint)
}
