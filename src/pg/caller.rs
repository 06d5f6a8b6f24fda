//! Who calls, and on whose behalf the tables are touched.
//!
//! The functions are SECURITY INVOKER in the catalogue and change to the extension's owner
//! themselves: only so is the *immediate* caller known, the role that PostgreSQL has checked for
//! EXECUTE. Within SECURITY DEFINER, all that is left to ask for is the session's role, which
//! would lend a superuser's rights to every function, index expression or materialised view that
//! PostgreSQL runs for somebody else.

use pgrx::{PgSqlErrorCode, Spi, pg_sys};

use crate::pg::error::raise;
use crate::pg::planning::LargeTables;

/// The role that called one of our functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller(pg_sys::Oid);

impl Caller {
    /// Its oid.
    pub fn oid(self) -> pg_sys::Oid {
        self.0
    }

    /// Whether it may do all that the extension's owner may.
    pub fn is_owner(self) -> bool {
        // SAFETY: role look-ups in the system caches.
        unsafe { pg_sys::superuser_arg(self.0) || pg_sys::has_privs_of_role(self.0, owner()) }
    }
}

/// Does `work` as the extension's owner, connected to SPI. What it returns must own its data:
/// SPI's memory ends with it.
pub fn as_owner<R>(work: impl FnOnce(Caller) -> R) -> R {
    let identity = OwnerIdentity::assume();
    let _planning = LargeTables::assumed();
    Spi::connect(|_| work(identity.caller))
}

struct OwnerIdentity {
    caller: Caller,
    security_context: i32,
}

impl OwnerIdentity {
    fn assume() -> Self {
        let (mut role, mut security_context) = (pg_sys::InvalidOid, 0);
        // SAFETY: what fmgr does for SECURITY DEFINER. Restrictions that are in force stay so.
        unsafe {
            pg_sys::GetUserIdAndSecContext(&mut role, &mut security_context);
            pg_sys::SetUserIdAndSecContext(
                owner(),
                security_context | pg_sys::SECURITY_LOCAL_USERID_CHANGE as i32,
            );
        }
        OwnerIdentity { caller: Caller(role), security_context }
    }
}

impl Drop for OwnerIdentity {
    fn drop(&mut self) {
        // SAFETY: puts back what was there; after an ERROR, PostgreSQL's abort does the same again.
        unsafe { pg_sys::SetUserIdAndSecContext(self.caller.0, self.security_context) }
    }
}

/// The owner of the extension's tables.
fn owner() -> pg_sys::Oid {
    // SAFETY: look-ups in the system caches; the tuple is released before its copy is used.
    let owner = unsafe {
        let schema = pg_sys::get_namespace_oid(c"payment_idem".as_ptr(), true);
        let table = pg_sys::get_relname_relid(c"tenants".as_ptr(), schema);
        let tuple =
            pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::RELOID as i32, pg_sys::Datum::from(table));
        (!tuple.is_null()).then(|| {
            let owner = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>()).relowner;
            pg_sys::ReleaseSysCache(tuple);
            owner
        })
    };
    owner.unwrap_or_else(|| {
        raise(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            "the tables of payment_idem are missing",
            "The schema payment_idem has no table \"tenants\".",
            "Make the extension anew, or restore its schema.",
        )
    })
}
