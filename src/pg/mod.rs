//! What is PostgreSQL's own: errors, kept plans, time, the caller, cache invalidation.

pub mod caller;
pub mod error;
pub mod invalidation;
pub mod jsonb;
pub mod moment;
pub mod planning;
pub mod statement;
