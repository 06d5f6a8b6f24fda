//! The words in which `ingest` answers, and the HTTP status that goes with each.

use std::collections::HashMap;
use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every word, in the order of the outcome table.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The word as SQL shows it.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// The value of a word as SQL shows it.
            pub fn from_word(word: &str) -> Option<Self> {
                $name::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// What became of a delivery.
    Outcome {
        /// Authentic, first time; the order moved or money was booked.
        Applied = "applied",
        /// Authentic, first time, nothing to do.
        Recorded = "recorded",
        /// The same event again.
        Duplicate = "duplicate",
        /// Authentic, cannot be applied yet.
        Parked = "parked",
        /// Authentic, not acceptable as business.
        Exception = "exception",
        /// The same signed identity with other bytes.
        DigestConflict = "digest_conflict",
        /// Not authentic, or not acceptable as a request.
        Rejected = "rejected",
    }
}

words! {
    /// Why.
    Reason {
        /// The kind of event moves no order.
        Informational = "informational",
        /// The gateway's definition does not map this type.
        UnmappedType = "unmapped_type",
        /// The payment is booked, or waits in an exception, already.
        SamePayment = "same_payment",
        /// The order stands there already.
        AlreadyInState = "already_in_state",
        /// The order is further on.
        Stale = "stale",
        /// The event speaks of test money at a live source, or the other way round.
        TestMode = "test_mode",
        /// No order bears the reference, yet.
        OrderNotFound = "order_not_found",
        /// The event carries an id only; its facts have to be asked for.
        AwaitingDetails = "awaiting_details",
        /// The amount is not the order's.
        AmountMismatch = "amount_mismatch",
        /// The currency is not the order's, or missing.
        CurrencyMismatch = "currency_mismatch",
        /// Merchant, order reference and gateway order id do not name one order.
        ReferenceMismatch = "reference_mismatch",
        /// Another payment for an order that is paid.
        SecondPayment = "second_payment",
        /// The payment belongs to another order.
        ReferenceReused = "reference_reused",
        /// The tenant's rules have no such move.
        TransitionNotAllowed = "transition_not_allowed",
        /// Authentic bytes that say nothing we can rely on.
        PayloadUnreadable = "payload_unreadable",
        /// No candidate signature matches.
        SignatureMismatch = "signature_mismatch",
        /// No signature, or none in the gateway's form.
        SignatureMalformed = "signature_malformed",
        /// Authentic, but the signed moment is too far from now.
        TimestampOutOfTolerance = "timestamp_out_of_tolerance",
        /// The source has no secret that is valid now.
        NoActiveSecret = "no_active_secret",
        /// The event id breaks the rule for identifiers.
        EventIdMalformed = "event_id_malformed",
        /// The body is longer than allowed.
        TooLarge = "too_large",
        /// The event id given is not the one in the signed body.
        EventIdMismatch = "event_id_mismatch",
    }
}

/// The HTTP status to answer by default.
///
/// 200 for whatever went wrong in business: gateways retry every other status for days, and no
/// retry can mend it. 401 and 400 are the sender's fault, 503 is ours and asks for a retry.
pub fn default_http_status(outcome: Outcome, reason: Option<Reason>) -> u16 {
    match (outcome, reason) {
        (Outcome::Rejected, Some(Reason::NoActiveSecret)) => 503,
        (Outcome::Rejected, Some(Reason::TooLarge)) => 413,
        (Outcome::Rejected, Some(Reason::EventIdMalformed | Reason::EventIdMismatch)) => 400,
        (Outcome::Rejected, _) => 401,
        _ => 200,
    }
}

/// A source's own statuses: keyed by `outcome` or `outcome/reason`, the longer key first.
#[derive(Clone, Debug, Default)]
pub struct HttpStatuses {
    overrides: HashMap<(Outcome, Option<Reason>), u16>,
}

impl HttpStatuses {
    /// Adds an override; says in words what is wrong with the key or the status.
    pub fn set(&mut self, key: &str, status: i64) -> Result<(), String> {
        let (outcome, reason) = match key.split_once('/') {
            Some((outcome, reason)) => (outcome, Some(reason)),
            None => (key, None),
        };
        let outcome =
            Outcome::from_word(outcome).ok_or_else(|| format!("\"{outcome}\" is not an outcome"))?;
        let reason = reason
            .map(|word| Reason::from_word(word).ok_or_else(|| format!("\"{word}\" is not a reason")))
            .transpose()?;
        match u16::try_from(status) {
            Ok(status @ 100..=599) => {
                self.overrides.insert((outcome, reason), status);
                Ok(())
            }
            _ => Err(format!("{status} is not an HTTP status")),
        }
    }

    /// The status to answer.
    pub fn get(&self, outcome: Outcome, reason: Option<Reason>) -> u16 {
        self.overrides
            .get(&(outcome, reason))
            .or_else(|| self.overrides.get(&(outcome, None)))
            .copied()
            .unwrap_or_else(|| default_http_status(outcome, reason))
    }
}
