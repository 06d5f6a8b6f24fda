//! The shape of a gateway definition as it is written in JSON. Unknown and repeated fields are
//! refused, so that a misspelt rule cannot pass for one that was left out.
//!
//! A place (`/json/pointer`, `form:`, `header:`, `query:`, `parameter:`, `text:`) is a string here.

mod event;
mod verify;

use serde::Deserialize;

pub(super) use event::*;
pub(super) use verify::*;

/// One gateway: how its deliveries are authenticated and where its events hold what.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Definition {
    /// One line for people.
    pub(super) description: String,
    /// Where a delivery that bundles events holds them: a JSON pointer with one `*`.
    pub(super) items: Option<String>,
    /// How a delivery is authenticated.
    pub(super) verify: Verify,
    /// Where an event's facts stand.
    pub(super) event: Event,
}
