//! What the fuzz targets share: the shipped definitions, what must hold of an event, and seeds.

pub mod input;
pub mod sign;

use std::path::PathBuf;
use std::sync::LazyLock;

use include_dir::{Dir, include_dir};
use payment_idem::domain::event::{self, Event};
use payment_idem::domain::gateway::{BANK_REFERENCE_KIND, Gateway};
use payment_idem::domain::identifier;
use payment_idem::domain::kind::Kind;
use payment_idem::domain::money::{self, Exponents};
use payment_idem::domain::place::{Parameters, Request};
use serde_json::{Value, json};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../gateways");

/// A definition that is shipped.
pub struct Shipped {
    pub name: &'static str,
    pub text: &'static str,
    /// Read apart from the code under test.
    pub json: Value,
    pub gateway: Gateway,
}

/// All of them, sorted by name.
pub fn shipped() -> &'static [Shipped] {
    static SHIPPED: LazyLock<Vec<Shipped>> = LazyLock::new(|| {
        let of = |file: &'static include_dir::File<'_>| {
            let name = file.path().file_stem()?.to_str()?;
            let text = file.contents_utf8()?;
            let gateway = Gateway::from_json(text).ok()?;
            Some(Shipped { name, text, json: serde_json::from_str(text).ok()?, gateway })
        };
        let mut shipped: Vec<_> = FILES.files().map(|file| of(file).expect("a definition")).collect();
        shipped.sort_by_key(|shipped| shipped.name);
        shipped
    });
    &SHIPPED
}

/// Where the shipped definition `name` stands in [`shipped`].
pub fn index_of(name: &str) -> Option<u8> {
    shipped().iter().position(|shipped| shipped.name == name)?.try_into().ok()
}

/// The decimals of some currencies (ISO 4217); others are unknown.
pub fn exponents() -> &'static Exponents {
    static EXPONENTS: LazyLock<Exponents> = LazyLock::new(|| {
        let two =
            ["USD", "EUR", "GBP", "INR", "CAD", "NGN", "IDR", "BRL", "PHP", "SGD"].map(|code| (code, 2));
        let others = [("JPY", 0), ("KRW", 0), ("UGX", 0), ("ISK", 0), ("KWD", 3), ("BHD", 3), ("CLF", 4)];
        let all = two.into_iter().chain(others);
        all.map(|(code, exponent)| (code.parse().expect("a code"), exponent)).collect()
    });
    &EXPONENTS
}

/// Asserts what has to hold of every event that was read, whatever the bytes were.
pub fn check_event(event: &Event) {
    let ids = [
        &event.event_id,
        &event.order_reference,
        &event.gateway_order_id,
        &event.merchant_id,
        &event.bank_reference,
    ];
    for id in ids.into_iter().flatten().chain(event.references.iter().map(|reference| &reference.value)) {
        assert_eq!(identifier::check(id), Ok(()), "identifier {id:?}");
    }
    let is_text = |text: &str| text.len() <= 255 && !text.chars().any(char::is_control);
    assert!(is_text(&event.event_type), "event type {:?}", event.event_type);
    assert!(event.payer.as_deref().is_none_or(is_text), "payer {:?}", event.payer);
    assert!(
        event.references.windows(2).all(|pair| pair[0].kind < pair[1].kind),
        "references are sorted, one per kind: {:?}",
        event.references
    );
    let bank = event.references.iter().find(|reference| reference.kind == BANK_REFERENCE_KIND);
    assert_eq!(bank.map(|reference| &reference.value), event.bank_reference.as_ref());
    assert!(event.event_time_us.is_none_or(|us| (0..=253_402_300_799_999_999).contains(&us)));
    if event.kind == Some(Kind::PaymentSucceeded) && !event.is_thin {
        assert!(event.amount_minor.is_some(), "a payment has an amount");
        assert!(event.order_reference.is_some() || event.gateway_order_id.is_some(), "and an order");
    }
    check_money(event);
    check_again(event);
}

/// `minor` in major units, all decimals written.
fn major(minor: i64, exponent: u8) -> String {
    let digits = format!("{:0>width$}", minor.unsigned_abs(), width = usize::from(exponent) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(exponent));
    let sign = if minor < 0 { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// The amount, printed and read again, is the amount: as minor and as major units.
fn check_money(event: &Event) {
    let Some(amount) = event.amount_minor else { return };
    assert_eq!(money::parse_minor_token(&amount.to_string()), Ok(amount));
    let known = event.currency.and_then(|currency| Some((currency, exponents().of(currency)?)));
    let Some((currency, exponent)) = known else { return };
    let printed = major(amount, exponent);
    assert_eq!(money::parse_major(&printed, exponent), Ok(amount), "{printed}");
    let read = |amount: &str| {
        let body = format!(r#"{{"type": "x", "amount": {amount}, "currency": "{currency}"}}"#);
        read(&MAJOR, body.as_bytes())
    };
    for written in [printed.clone(), format!("\"{printed}\"")] {
        let again = read(&written);
        assert_eq!((again.amount_minor, again.currency), (Some(amount), event.currency), "{written}");
    }
}

/// The event, written in the words of the generic gateway and read by it, has the same facts.
fn check_again(event: &Event) {
    static GENERIC: LazyLock<usize> = LazyLock::new(|| index_of("generic").expect("it is shipped").into());
    let body = json!({
        "id": event.event_id.as_deref().unwrap_or("none"),
        "type": "payment_failed",
        "order": event.order_reference,
        "gateway_order_id": event.gateway_order_id,
        "merchant_id": event.merchant_id,
        "amount": event.amount_minor,
        "currency": event.currency.as_ref().map(|currency| currency.as_str()),
        "utr": event.bank_reference,
    });
    let again = read(&shipped()[*GENERIC].gateway, body.to_string().as_bytes());
    assert_eq!(again.event_id.as_deref(), event.event_id.as_deref().or(Some("none")));
    assert_eq!(again.order_reference, event.order_reference);
    assert_eq!(again.gateway_order_id, event.gateway_order_id);
    assert_eq!(again.merchant_id, event.merchant_id);
    assert_eq!((again.amount_minor, again.currency), (event.amount_minor, event.currency));
    assert_eq!(again.bank_reference, event.bank_reference);
}

static MAJOR: LazyLock<Gateway> = LazyLock::new(|| {
    let definition = json!({
        "description": "amounts in major units",
        "verify": {"method": "token", "signature": {"from": ["header:x"]}},
        "event": {
            "type": ["/type"],
            "amount": {"from": ["/amount"], "unit": "major"},
            "currency": ["/currency"],
            "kinds": [{"kind": "payment_failed", "types": ["x"]}],
        },
    });
    Gateway::from_json(&definition.to_string()).expect("a definition")
});

fn read(gateway: &Gateway, body: &[u8]) -> Event {
    let request = Request { body, headers: None, parameters: &Parameters::new() };
    event::read(gateway, request, exponents())
        .unwrap_or_else(|why| panic!("a plain event is unreadable: {why}"))
}

// --- seeds --------------------------------------------------------------------------------------

fn vectors() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors"))
}

/// The known answers of signatures, one JSON object each.
pub fn signature_cases() -> Vec<Value> {
    let text = std::fs::read_to_string(vectors().join("signatures.jsonl")).expect("known answers");
    text.lines().map(|line| serde_json::from_str(line).expect("a case")).collect()
}

/// The bodies that gateways send, each with the index of its definition.
pub fn payloads() -> Vec<(u8, Vec<u8>)> {
    let folder = std::fs::read_dir(vectors().join("payloads")).expect("bodies");
    let of = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let gateway = name.split('.').next()?;
        let index = index_of(gateway).or_else(|| index_of(&format!("{gateway}_v2")))?;
        Some((index, std::fs::read(&path).ok()?))
    };
    let mut payloads: Vec<_> = folder.filter_map(|entry| of(entry.ok()?.path())).collect();
    payloads.sort();
    payloads
}

/// Where SEEDS_TO names a folder: writes the seeds into it and ends, without fuzzing.
pub fn write_seeds(seeds: impl FnOnce() -> Vec<Vec<u8>>) {
    let Some(folder) = std::env::var_os("SEEDS_TO").map(PathBuf::from) else { return };
    std::fs::create_dir_all(&folder).expect("a folder for the seeds");
    for (number, seed) in seeds().into_iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number:04}")), seed).expect("a seed is written");
    }
    std::process::exit(0);
}
