//! `payment_idem.currencies`: how many decimals a currency has.

use crate::domain::money::Exponents;
use crate::pg::statement::{run, run_latest, statement};

statement!(EXPONENT, "SELECT exponent FROM payment_idem.currencies WHERE currency = $1", [TEXTOID]);

statement!(ALL, "SELECT currency, exponent FROM payment_idem.currencies", []);

/// The number of decimals of every currency that is accepted.
pub fn all() -> Exponents {
    run_latest!(ALL)
        .iter()
        .filter_map(|row| Some((row.value::<String>(1).parse().ok()?, row.value::<i16>(2) as u8)))
        .collect()
}

/// The number of decimals; `None` for a currency that is not accepted.
pub fn exponent(currency: &str) -> Option<u8> {
    run!(EXPONENT, currency).first().map(|row| row.value::<i16>(1) as u8)
}
