//! payment_idem: payment webhooks made idempotent inside PostgreSQL.
//!
//! The map: [`domain`] holds the rules and needs no PostgreSQL; `store` the statements, one module
//! per table; `flow` the order of statements and locks of a call; `api` the SQL functions; `pg`
//! what is PostgreSQL's own. `api -> flow -> store -> pg`, and all of them know `domain`.

pub mod domain;

#[cfg(feature = "extension")]
mod api;
#[cfg(feature = "extension")]
mod flow;
#[cfg(feature = "extension")]
mod pg;
#[cfg(feature = "extension")]
mod schema;
#[cfg(feature = "extension")]
mod store;

#[cfg(feature = "pg_test")]
mod tests;

#[cfg(feature = "extension")]
pgrx::pg_module_magic!(name, version);

#[cfg(all(test, feature = "pg_test"))]
/// What `cargo pgrx test` asks of the crate's root.
pub mod pg_test {
    /// Nothing to prepare.
    pub fn setup(_options: Vec<&str>) {}

    /// Nothing to set.
    #[must_use]
    pub fn postgresql_conf_options() -> Vec<&'static str> {
        vec![]
    }
}
