//! Who calls, as PostgreSQL knows it.

use pgrx::pg_sys;

/// The role that called us from outside: our functions are SECURITY DEFINER, so the current user
/// is their owner.
pub fn role() -> pg_sys::Oid {
    // SAFETY: reads a variable of the session.
    unsafe { pg_sys::GetOuterUserId() }
}

/// Whether the calling role may do all that the owner of the extension may.
pub fn is_owner(caller: pg_sys::Oid) -> bool {
    // SAFETY: role look-ups in the system caches; the current user is the functions' owner.
    unsafe { pg_sys::superuser_arg(caller) || pg_sys::has_privs_of_role(caller, pg_sys::GetUserId()) }
}
