//! The SQL functions: arguments in, `flow` or `store` in the middle, a row out.
//! Their declarations, defaults and comments stand in `sql/schema/functions.sql`.

mod access;
mod configuration;
mod gateways;
mod ingest;
mod inspection;
mod orders;
mod outbox;
