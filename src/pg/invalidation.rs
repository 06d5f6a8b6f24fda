//! Tells a backend that configuration changed, in the moment in which the change commits.
//!
//! A trigger on each configuration table sends a relation-cache invalidation for its table.
//! PostgreSQL delivers it to every backend when, and only when, the change commits (and to our own
//! at once, and again at rollback). Here it raises a generation, which dates what a cache holds.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::Once;

use pgrx::{pg_guard, pg_sys};

thread_local! {
    static GENERATION: Cell<u64> = const { Cell::new(0) };
    static WATCHED: RefCell<HashSet<pg_sys::Oid>> = RefCell::new(HashSet::new());
}

/// The generation now, after what other sessions have committed until this call is known.
pub fn generation() -> u64 {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        // SAFETY: the callbacks are functions of this library, which is never unloaded.
        unsafe {
            let nothing = pg_sys::Datum::from(0);
            pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), nothing);
            for roles in [pg_sys::SysCacheIdentifier::AUTHOID, pg_sys::SysCacheIdentifier::AUTHMEMROLEMEM] {
                pg_sys::CacheRegisterSyscacheCallback(roles as i32, Some(role_changed), nothing);
            }
        }
    });
    // SAFETY: this is what PostgreSQL itself does before it trusts a cache; cheap when there is no news.
    unsafe { pg_sys::AcceptInvalidationMessages() };
    GENERATION.get()
}

/// From now on, a change of these relations raises the generation.
pub fn watch(relations: impl IntoIterator<Item = pg_sys::Oid>) {
    let relations: Vec<pg_sys::Oid> = relations.into_iter().collect(); // reading them may bring news itself
    WATCHED.with_borrow_mut(|watched| watched.extend(relations));
}

/// Announces, with the commit of this transaction, that a relation's rows changed.
pub fn announce(relation: pg_sys::Oid) {
    // SAFETY: registers a message; the relation is the one whose trigger is running, so it exists.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(relation) }
}

fn next_generation() {
    GENERATION.set(GENERATION.get() + 1);
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_changed(_nothing: pg_sys::Datum, relation: pg_sys::Oid) {
    // The invalid oid means "everything".
    if relation == pg_sys::InvalidOid || WATCHED.with_borrow(|watched| watched.contains(&relation)) {
        next_generation();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn role_changed(_nothing: pg_sys::Datum, _cache: i32, _hash: u32) {
    next_generation();
}
