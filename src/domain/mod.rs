//! The rules. No pgrx, no clock, no I/O: everything is an argument.

pub mod decision;
pub mod event;
pub mod form;
pub mod gateway;
pub mod identifier;
pub mod inspection;
pub mod json;
pub mod kind;
pub mod ledger;
pub mod money;
pub mod order;
pub mod outcome;
pub mod place;
pub mod signature;
