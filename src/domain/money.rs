//! Exact money: integer minor units, and no arithmetic that could round.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Why a text is not an exact amount or a currency. The text itself is never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoneyFault {
    /// Not a plain decimal number.
    NotANumber,
    /// `NaN`, `Infinity` or `-Infinity`, which PostgreSQL's `numeric` can hold.
    NotFinite,
    /// More decimals than the currency has; rounding would change the amount.
    TooPrecise {
        /// Decimals that the currency has.
        exponent: u8,
    },
    /// Not a plain integer token: a fraction, an exponent, a sign other than one `-`.
    NotAnInteger,
    /// Beyond the range of a signed 64-bit integer of minor units.
    OutOfRange,
    /// Not three ASCII letters.
    NotACurrency,
    /// An amount in major units of a currency whose decimals are not known.
    UnknownCurrency,
    /// Counted with more decimals than the currency has, and not a whole number without them.
    Indivisible,
}

impl fmt::Display for MoneyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber => f.write_str("the amount is not a plain decimal number"),
            Self::NotFinite => f.write_str("the amount is not a finite number"),
            Self::TooPrecise { exponent } => {
                write!(f, "the amount has more than the {exponent} decimals of its currency")
            }
            Self::NotAnInteger => f.write_str("the amount is not a plain integer of minor units"),
            Self::OutOfRange => f.write_str("the amount does not fit a signed 64-bit integer of minor units"),
            Self::NotACurrency => f.write_str("the currency is not three ASCII letters"),
            Self::UnknownCurrency => {
                f.write_str("the amount is in major units, and the currency's decimals are not known")
            }
            Self::Indivisible => f.write_str("the amount has more decimals than its currency"),
        }
    }
}

impl std::error::Error for MoneyFault {}

/// Minor units of an amount given in major units, as PostgreSQL prints a `numeric`
/// (`599.80` with `exponent` 2 is 59980).
///
/// Zeros beyond the exponent are harmless (`1.000`); any other digit there is a fault. Zero and
/// negative amounts are numbers like any other: the caller judges them.
///
/// # Errors
/// [`MoneyFault::NotANumber`], [`MoneyFault::NotFinite`], [`MoneyFault::TooPrecise`] or
/// [`MoneyFault::OutOfRange`].
pub fn parse_major(text: &str, exponent: u8) -> Result<i64, MoneyFault> {
    if matches!(text, "NaN" | "Infinity" | "-Infinity") {
        return Err(MoneyFault::NotFinite);
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = match digits.split_once('.') {
        Some((_, "")) => return Err(MoneyFault::NotANumber),
        Some(parts) => parts,
        None => (digits, ""),
    };
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return Err(MoneyFault::NotANumber);
    }
    let fraction = fraction.trim_end_matches('0');
    let padding =
        usize::from(exponent).checked_sub(fraction.len()).ok_or(MoneyFault::TooPrecise { exponent })?;
    let mut minor = whole.bytes().chain(fraction.bytes()).chain(std::iter::repeat_n(b'0', padding));
    // Counted on the negative side, which reaches one further, so that i64::MIN is exact too.
    let negated = minor
        .try_fold(0_i64, |sum, digit| sum.checked_mul(10)?.checked_sub(i64::from(digit - b'0')))
        .ok_or(MoneyFault::OutOfRange)?;
    if negative { Ok(negated) } else { negated.checked_neg().ok_or(MoneyFault::OutOfRange) }
}

/// Minor units of a raw JSON number token (RFC 8259, section 6) that must be a plain integer.
///
/// # Errors
/// [`MoneyFault::NotAnInteger`] for `1.0`, `1e3`, `+1`, `007` and anything else that is not
/// `-?(0|[1-9][0-9]*)`; [`MoneyFault::OutOfRange`] beyond `i64`.
pub fn parse_minor_token(token: &str) -> Result<i64, MoneyFault> {
    let digits = token.strip_prefix('-').unwrap_or(token);
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    if digits.is_empty() || !all_digits(digits) || leading_zero {
        return Err(MoneyFault::NotAnInteger);
    }
    token.parse().map_err(|_| MoneyFault::OutOfRange)
}

/// Minor units counted with `from` decimals, as minor units of a currency that has `to`.
///
/// # Errors
/// [`MoneyFault::Indivisible`] where something would be lost, [`MoneyFault::OutOfRange`].
pub fn rescale(minor: i64, from: u8, to: u8) -> Result<i64, MoneyFault> {
    let factor = 10_i64.checked_pow(u32::from(from.abs_diff(to))).ok_or(MoneyFault::OutOfRange)?;
    match from > to {
        true if minor % factor != 0 => Err(MoneyFault::Indivisible),
        true => Ok(minor / factor),
        false => minor.checked_mul(factor).ok_or(MoneyFault::OutOfRange),
    }
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A currency code: three ASCII letters, kept in upper case (the form of ISO 4217).
///
/// Folding is ASCII only and knows no locale. Whether the code exists, and with which exponent,
/// is the caller's table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The code in upper case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default() // ASCII letters by construction
    }
}

impl FromStr for Currency {
    type Err = MoneyFault;

    /// # Errors
    /// [`MoneyFault::NotACurrency`] unless `text` is exactly three ASCII letters; nothing is
    /// trimmed.
    fn from_str(text: &str) -> Result<Self, MoneyFault> {
        let mut code: [u8; 3] = text.as_bytes().try_into().map_err(|_| MoneyFault::NotACurrency)?;
        if !code.iter().all(u8::is_ascii_alphabetic) {
            return Err(MoneyFault::NotACurrency);
        }
        code.make_ascii_uppercase();
        Ok(Self(code))
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Currency({})", self.as_str())
    }
}

/// How many decimals each known currency has.
#[derive(Debug, Default, Clone)]
pub struct Exponents(BTreeMap<Currency, u8>);

impl Exponents {
    /// The decimals of `currency`; `None` where it is not known.
    #[must_use]
    pub fn of(&self, currency: Currency) -> Option<u8> {
        self.0.get(&currency).copied()
    }
}

impl FromIterator<(Currency, u8)> for Exponents {
    fn from_iter<I: IntoIterator<Item = (Currency, u8)>>(currencies: I) -> Self {
        Self(currencies.into_iter().collect())
    }
}
