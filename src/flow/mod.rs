//! How one call runs: the order of its statements and locks. The rules are the domain's, the
//! statements the store's; what is here is only the sequence that keeps concurrent calls honest.
//!
//! Lock order, everywhere: order key, order, receipt, payment references.

pub mod book;
pub mod create_order;
pub mod ingest;
pub mod locate;
pub mod open;
pub mod settle;
