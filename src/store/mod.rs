//! The tables: their statements, kept plans and typed rows. The only place that touches SPI.
//!
//! Every function here runs inside [`crate::pg::caller::as_owner`].

pub mod access;
pub mod anomalies;
pub mod currencies;
pub mod event_receipts;
pub mod exceptions;
pub mod gateways;
pub mod order_keys;
pub mod orders;
pub mod outbox;
pub mod payloads;
pub mod payment_references;
pub mod replays;
pub mod signing_secrets;
pub mod sources;
pub mod tenants;
pub mod transactions;
pub mod transition_rules;
