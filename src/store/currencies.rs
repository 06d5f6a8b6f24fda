//! `payment_idem.currencies`: how many decimals a currency has.

use crate::pg::statement::{run, statement};

statement!(EXPONENT, "SELECT exponent FROM payment_idem.currencies WHERE currency = $1", [TEXTOID]);

/// The number of decimals; `None` for a currency that is not accepted.
pub fn exponent(currency: &str) -> Option<u8> {
    run!(EXPONENT, currency).first().map(|row| row.value::<i16>(1) as u8)
}
