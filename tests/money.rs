//! Money is exact or refused. Names such as `b40_…` are rows of the list of public failure
//! reports that this project tests against.

use payment_idem::domain::money::{Currency, MoneyFault, parse_major, parse_minor_token};
use proptest::prelude::*;

#[test]
fn b40_major_amounts_are_converted_without_binary_floats() {
    for (text, minor) in [("599.80", 59980), ("8.20", 820), ("1.15", 115), ("0.29", 29)] {
        assert_eq!(parse_major(text, 2), Ok(minor), "{text}");
    }
    for text in ["1.005", "0.001", "-1.005", "1.0000000000000000000001"] {
        assert_eq!(parse_major(text, 2), Err(MoneyFault::TooPrecise { exponent: 2 }), "{text}");
    }
}

#[test]
fn every_exponent_is_its_own() {
    assert_eq!(parse_major("500", 0), Ok(500));
    assert_eq!(parse_major("500.0", 0), Ok(500));
    assert_eq!(parse_major("500.5", 0), Err(MoneyFault::TooPrecise { exponent: 0 }));
    assert_eq!(parse_major("1.005", 3), Ok(1005));
    assert_eq!(parse_major("1.000", 2), Ok(100));
    assert_eq!(parse_major("1.0001", 4), Ok(10_001));
    assert_eq!(parse_major("0", 255), Ok(0));
    assert_eq!(parse_major("1", 255), Err(MoneyFault::OutOfRange));
}

#[test]
fn zero_and_negative_are_numbers_that_the_caller_judges() {
    assert_eq!(parse_major("0.00", 2), Ok(0));
    assert_eq!(parse_major("-0.00", 2), Ok(0));
    assert_eq!(parse_major("-5", 2), Ok(-500));
    assert_eq!(parse_minor_token("-30000"), Ok(-30000));
    assert_eq!(parse_minor_token("-0"), Ok(0));
}

#[test]
fn what_is_not_a_plain_decimal_is_refused() {
    for text in
        ["", "-", ".", "1.", ".5", "+1", "1e3", "1,000", " 1", "1 ", "--1", "1.-5", "1.2.3", "１", "0x10"]
    {
        assert_eq!(parse_major(text, 2), Err(MoneyFault::NotANumber), "{text:?}");
    }
    for text in ["NaN", "Infinity", "-Infinity"] {
        assert_eq!(parse_major(text, 2), Err(MoneyFault::NotFinite), "{text}");
    }
}

#[test]
fn b31_amounts_are_exact_to_the_end_of_bigint_and_refused_beyond() {
    let exact = [
        ("2147483647", 2_147_483_647),
        ("2147483648", 2_147_483_648),
        ("2415550000", 2_415_550_000),
        ("9007199254740993", 9_007_199_254_740_993),
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
    ];
    for (token, minor) in exact {
        assert_eq!(parse_minor_token(token), Ok(minor), "{token}");
        assert_eq!(parse_major(token, 0), Ok(minor), "{token}");
    }
    for token in ["9223372036854775808", "-9223372036854775809", "123456789012345678901234567890"] {
        assert_eq!(parse_minor_token(token), Err(MoneyFault::OutOfRange), "{token}");
        assert_eq!(parse_major(token, 0), Err(MoneyFault::OutOfRange), "{token}");
    }
    assert_eq!(parse_major("92233720368547758.07", 2), Ok(i64::MAX));
    assert_eq!(parse_major("92233720368547758.08", 2), Err(MoneyFault::OutOfRange));
}

#[test]
fn minor_units_are_plain_integers() {
    for token in ["1000.0", "1e3", "1E3", "+1000", "01", "-01", "", "-", "1_000", " 1", "١", "1000 "] {
        assert_eq!(parse_minor_token(token), Err(MoneyFault::NotAnInteger), "{token:?}");
    }
}

#[test]
fn b39_currencies_fold_in_ascii_only_and_are_never_trimmed() {
    for text in ["inr", "Inr", "INR", "iNr"] {
        assert_eq!(text.parse::<Currency>().unwrap().as_str(), "INR");
    }
    for text in [" inr", "inr ", "in-r", "\u{131}nr", "\u{130}NR", "in", "inrr", "", "1nr", "in\0", "ｉｎｒ"]
    {
        assert_eq!(text.parse::<Currency>(), Err(MoneyFault::NotACurrency), "{text:?}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".*", exponent: u8) {
        let _ = parse_major(&text, exponent);
        let _ = parse_minor_token(&text);
        let _ = text.parse::<Currency>();
    }

    #[test]
    fn every_minor_amount_survives_being_written_in_major_units(minor: i64, exponent in 0_u8..=4) {
        let scale = 10_i128.pow(exponent.into());
        let (whole, rest) = (i128::from(minor).abs() / scale, i128::from(minor).abs() % scale);
        let sign = if minor < 0 { "-" } else { "" };
        let text = match exponent {
            0 => format!("{sign}{whole}"),
            _ => format!("{sign}{whole}.{rest:0width$}", width = usize::from(exponent)),
        };
        prop_assert_eq!(parse_major(&text, exponent), Ok(minor));
        prop_assert_eq!(parse_minor_token(&minor.to_string()), Ok(minor));
    }
}
