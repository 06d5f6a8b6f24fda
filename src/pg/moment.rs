//! A moment, as PostgreSQL stores it.

use pgrx::datum::TimestampWithTimeZone;
use pgrx::{FromDatum, IntoDatum, pg_sys};

/// Microseconds from the Unix epoch (1970) to PostgreSQL's (2000), both UTC.
const UNIX_TO_POSTGRES_US: i64 = 946_684_800_000_000;

/// A `timestamptz`: microseconds since 2000-01-01 UTC. The infinities are `i64::MIN` and `i64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// The wall clock now, as `clock_timestamp()` tells it.
    pub fn now() -> Self {
        // SAFETY: reads the clock, nothing else.
        Moment(unsafe { pg_sys::GetCurrentTimestamp() })
    }

    /// A moment given in microseconds since 1970; `None` where PostgreSQL could not hold it.
    pub fn from_unix_us(us: i64) -> Option<Self> {
        us.checked_sub(UNIX_TO_POSTGRES_US).map(Moment)
    }

    /// Whole seconds since 1970, rounded down.
    pub fn unix_s(self) -> i64 {
        self.0.saturating_add(UNIX_TO_POSTGRES_US).div_euclid(1_000_000)
    }
}

impl IntoDatum for Moment {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        Some(pg_sys::Datum::from(self.0))
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::TIMESTAMPTZOID
    }
}

impl FromDatum for Moment {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        (!is_null).then(|| Moment(datum.value() as i64))
    }
}

impl From<Moment> for TimestampWithTimeZone {
    fn from(moment: Moment) -> Self {
        // SAFETY: the datum is a timestamptz by construction, the infinities included.
        unsafe { Self::from_datum(pg_sys::Datum::from(moment.0), false) }.expect("the datum is not null")
    }
}

impl From<TimestampWithTimeZone> for Moment {
    fn from(timestamp: TimestampWithTimeZone) -> Self {
        Moment(pg_sys::TimestampTz::from(timestamp))
    }
}
