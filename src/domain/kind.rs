//! What an event can mean: the normalised kinds that gateways' own types are mapped to.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// What an event means, whatever its gateway calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A payer has begun to pay.
    PaymentAttempted,
    /// Money is reserved, not yet taken.
    PaymentAuthorized,
    /// Money was taken for the order.
    PaymentSucceeded,
    /// An attempt failed; another may follow.
    PaymentFailed,
    /// The gateway takes no more attempts.
    PaymentExpired,
    /// A refund was asked for.
    RefundInitiated,
    /// A refund reached the payer.
    RefundSettled,
    /// A refund did not reach the payer.
    RefundFailed,
    /// The payer disputes the payment.
    DisputeOpened,
    /// The dispute ended for the merchant.
    DisputeWon,
    /// The dispute ended for the payer.
    DisputeLost,
    /// Known, and of no effect on an order.
    Informational,
}

impl Kind {
    /// Every kind, in the order of a payment's life.
    pub const ALL: [Self; 12] = [
        Self::PaymentAttempted,
        Self::PaymentAuthorized,
        Self::PaymentSucceeded,
        Self::PaymentFailed,
        Self::PaymentExpired,
        Self::RefundInitiated,
        Self::RefundSettled,
        Self::RefundFailed,
        Self::DisputeOpened,
        Self::DisputeWon,
        Self::DisputeLost,
        Self::Informational,
    ];

    /// The name used in SQL and in gateway definitions.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PaymentAttempted => "payment_attempted",
            Self::PaymentAuthorized => "payment_authorized",
            Self::PaymentSucceeded => "payment_succeeded",
            Self::PaymentFailed => "payment_failed",
            Self::PaymentExpired => "payment_expired",
            Self::RefundInitiated => "refund_initiated",
            Self::RefundSettled => "refund_settled",
            Self::RefundFailed => "refund_failed",
            Self::DisputeOpened => "dispute_opened",
            Self::DisputeWon => "dispute_won",
            Self::DisputeLost => "dispute_lost",
            Self::Informational => "informational",
        }
    }
}

/// No [`Kind`] has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownKind;

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no event kind has this name")
    }
}

impl std::error::Error for UnknownKind {}

impl FromStr for Kind {
    type Err = UnknownKind;

    /// # Errors
    /// [`UnknownKind`].
    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let kind = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        kind.ok_or(UnknownKind)
    }
}
