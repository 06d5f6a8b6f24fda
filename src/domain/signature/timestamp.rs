//! The moment that a gateway signs along, and how old it may be.

use serde::Deserialize;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Malformed;
use super::format::Repeated;
use crate::domain::place::Place;

/// Where the timestamp stands, and what it must be.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) from: From,
    pub(crate) unit: Unit,
    pub(crate) tolerance: Tolerance,
    /// What several timestamps among pairs mean; `Any`: nobody can tell, so malformed.
    pub(crate) repeated: Repeated,
}

/// Where the timestamp stands.
#[derive(Debug)]
pub(crate) enum From {
    /// A pair of the signature text.
    Pair,
    /// The first of these places that was sent.
    Places(Vec<Place>),
}

/// How the moment is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) enum Unit {
    /// Seconds since 1970.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds since 1970.
    #[serde(rename = "ms")]
    Milliseconds,
    /// RFC 3339, counted in milliseconds.
    #[serde(rename = "rfc3339")]
    Rfc3339,
}

/// Seconds by which it may differ from now; `None`: by any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tolerance {
    pub(crate) past_s: Option<u32>,
    pub(crate) future_s: Option<u32>,
}

/// A timestamp as it was sent, which is what was signed, and as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timestamp<'a> {
    pub(crate) text: &'a str,
    /// In the rule's unit.
    pub(crate) number: i64,
}

impl<'a> Timestamp<'a> {
    pub(crate) fn parse(text: &'a str, unit: Unit) -> Result<Self, Malformed> {
        if text.is_empty() {
            return Err(Malformed::NoTimestamp);
        }
        if unit == Unit::Rfc3339 {
            let moment = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| Malformed::BadTimestamp)?;
            let milliseconds = moment.unix_timestamp_nanos().div_euclid(1_000_000);
            let number = milliseconds.try_into().map_err(|_| Malformed::BadTimestamp)?;
            return Ok(Self { text, number });
        }
        // i64::from_str alone would also take a sign.
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Malformed::BadTimestamp);
        }
        let number = text.parse().map_err(|_| Malformed::BadTimestamp)?;
        Ok(Self { text, number })
    }

    /// The one of several that counts.
    pub(crate) fn choose(sent: &[&'a str], repeated: Repeated, unit: Unit) -> Result<Self, Malformed> {
        match (sent, repeated) {
            ([], _) => Err(Malformed::NoTimestamp),
            ([one], _) | ([one, ..], Repeated::First) | ([.., one], Repeated::Last) => Self::parse(one, unit),
            _ => Err(Malformed::SeveralTimestamps), // even equal ones: nobody sends that
        }
    }
}

impl Unit {
    fn per_second(self) -> i64 {
        match self {
            Self::Seconds => 1,
            Self::Milliseconds | Self::Rfc3339 => 1_000,
        }
    }

    /// A number of this unit in whole seconds.
    pub(crate) fn seconds(self, number: i64) -> i64 {
        number.div_euclid(self.per_second())
    }
}

impl Tolerance {
    /// The same to either side.
    pub(crate) fn both(seconds: u32) -> Self {
        Self { past_s: Some(seconds), future_s: Some(seconds) }
    }

    /// Whether a timestamp is near enough to now; exactly as far away as allowed is.
    pub(crate) fn allows(self, signed: i64, unit: Unit, now_unix_s: i64) -> bool {
        // In the finer unit, so that no fraction of a second is given away, and wide enough for any number.
        let age = i128::from(now_unix_s) * i128::from(unit.per_second()) - i128::from(signed);
        let within = |limit: Option<u32>, distance: i128| {
            limit.is_none_or(|s| distance <= i128::from(s) * i128::from(unit.per_second()))
        };
        within(self.past_s, age) && within(self.future_s, -age)
    }
}
