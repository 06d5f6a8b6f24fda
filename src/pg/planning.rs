//! Plans our statements for tables that will be large, whatever the statistics say today.
//!
//! A kept plan outlives the day it was made on. While the tables are empty, every index costs the
//! planner the same, and a plan that reads all rows of a tenant would stay for the whole session.

use std::cell::Cell;
use std::sync::Once;

use pgrx::{pg_guard, pg_sys};

/// What a table of ours counts as at least while our statements are planned: rows, and pages of
/// the table and of each index. Large enough that a look-up by a whole key is always the cheapest.
const ROWS: f64 = 1_000_000.0;
const TABLE_PAGES: u32 = 10_000;
const INDEX_PAGES: u32 = 4_000;

thread_local! {
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
    static HOOK_BEFORE: Cell<pg_sys::get_relation_info_hook_type> = const { Cell::new(None) };
}

/// While it lives, statements are planned for large tables. Statements that a user's trigger
/// runs meanwhile are, too, as far as they read our tables.
pub struct LargeTables {
    was_active: bool,
    jit_was_enabled: bool,
}

impl LargeTables {
    /// Begins.
    pub fn assumed() -> Self {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| {
            // SAFETY: hooks are chained by replacing the pointer; a backend has one thread.
            unsafe {
                HOOK_BEFORE.set(pg_sys::get_relation_info_hook);
                pg_sys::get_relation_info_hook = Some(raise_sizes);
            }
        });
        // Costs of large tables would ask for machine code, which is compiled anew at each execution.
        // SAFETY: a variable of this process, read by the planner only, and put back on drop.
        let jit_was_enabled = unsafe {
            let was_enabled = pg_sys::jit_enabled;
            pg_sys::jit_enabled = false;
            was_enabled
        };
        LargeTables { was_active: ACTIVE.replace(true), jit_was_enabled }
    }
}

impl Drop for LargeTables {
    fn drop(&mut self) {
        // Also while an error unwinds.
        ACTIVE.set(self.was_active);
        // SAFETY: as above.
        unsafe { pg_sys::jit_enabled = self.jit_was_enabled }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn raise_sizes(
    root: *mut pg_sys::PlannerInfo,
    relation: pg_sys::Oid,
    is_parent: bool,
    info: *mut pg_sys::RelOptInfo,
) {
    // SAFETY: the planner passes its own structures, whole and writable, to this hook.
    unsafe {
        if let Some(before) = HOOK_BEFORE.get() {
            before(root, relation, is_parent, info);
        }
        if !ACTIVE.get()
            || pg_sys::get_rel_namespace(relation)
                != pg_sys::get_namespace_oid(c"payment_idem".as_ptr(), true)
        {
            return;
        }
        (*info).pages = (*info).pages.max(TABLE_PAGES);
        (*info).tuples = (*info).tuples.max(ROWS);
        let indexes = (*info).indexlist;
        let count = if indexes.is_null() { 0 } else { (*indexes).length };
        for position in 0..count {
            let index = pg_sys::list_nth(indexes, position).cast::<pg_sys::IndexOptInfo>();
            (*index).pages = (*index).pages.max(INDEX_PAGES);
            (*index).tuples = (*index).tuples.max(ROWS);
        }
    }
}
