//! What hostile deliveries cost, as multiples of what SHA-256 takes for the same bytes. Both are
//! measured in turn and the fastest run of each counts, so that neither the machine nor its load
//! decides the result.

mod common;

use std::hint::black_box;
use std::time::{Duration, Instant};

use aes::Aes128;
use base64ct::{Base64, Encoding as _};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeEncrypt as _, KeyIvInit as _};
use common::{gateway, hmac_hex, read_body};
use payment_idem::domain::event::{Fault, Field};
use payment_idem::domain::form::MAX_FIELDS;
use payment_idem::domain::identifier::IdentifierFault;
use payment_idem::domain::json::{JsonFault, MAX_DEPTH, MAX_KEYS};
use payment_idem::domain::place::Parameters;
use payment_idem::domain::signature::{AgeCheck, Delivery, Headers, Malformed, Verdict, digest, verify};

const SECRET: &str = "sixteen bytes ok";
const NOW: i64 = 1_764_590_400;
const MIB: usize = 1024 * 1024;
const BODY_BYTES: usize = 10 * MIB;
const RUNS: usize = 3;
const VALID: Verdict = Verdict::Valid { timestamp: None };

/// Bounds with room for an unoptimised build: what is not linear would take thousands.
const HMAC_AT_MOST: f64 = 4.0;
const READING_AT_MOST: f64 = 40.0;

/// How often as long as the SHA-256 of `bytes` the `work` takes.
fn ratio(bytes: &[u8], work: impl Fn()) -> f64 {
    let time = |work: &dyn Fn()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let (mut sha256, mut own) = (Duration::MAX, Duration::MAX);
    for _ in 0..RUNS {
        sha256 = sha256.min(time(&|| _ = black_box(digest(bytes))));
        own = own.min(time(&work));
    }
    own.as_secs_f64() / sha256.as_secs_f64()
}

fn assert_cheap(what: &str, ratio: f64, at_most: f64) {
    println!("{what:<40} {ratio:6.2} times SHA-256, at most {at_most}");
    assert!(ratio <= at_most, "{what}: {ratio:.2} times SHA-256, more than {at_most}");
}

fn judge(
    name: &str,
    body: &[u8],
    signature: Option<&str>,
    headers: Option<&Headers>,
) -> impl Fn() -> Verdict {
    let gateway = gateway(name);
    let secret = gateway.scheme().secret(SECRET).unwrap();
    move || {
        let delivery = Delivery { body, signature, headers, parameters: &Parameters::new() };
        verify(gateway.scheme(), &delivery, [&secret], NOW, AgeCheck::Definition)
    }
}

#[test]
fn a_signature_header_of_a_mebibyte_is_refused_for_less_than_its_digest() {
    let long = [format!("sha256={}", "a".repeat(MIB)), "v1=,".repeat(MIB / 4), ", ".repeat(MIB / 2)];
    for (name, header) in
        [("generic", "X-Signature"), ("stripe", "Stripe-Signature"), ("mollie", "X-Mollie-Signature")]
    {
        for text in &long {
            let headers = Headers::new([(header, text.as_str())]);
            let in_headers = judge(name, b"{}", None, Some(&headers));
            assert_eq!(in_headers(), Verdict::Malformed(Malformed::HeadersTooLarge));
            let argument = judge(name, b"{}", Some(text), None);
            assert_eq!(argument(), Verdict::Malformed(Malformed::SignatureTooLong));
            let ratio = ratio(text.as_bytes(), || {
                black_box(Headers::new([(header, text.as_str())]));
                black_box((in_headers(), argument()));
            });
            assert_cheap(&format!("{name}: header of {} kB", text.len() / 1024), ratio, 1.0);
        }
    }
}

/// An event that nobody acts on, with `extra` in it.
fn event(extra: &str) -> String {
    format!(r#"{{"id":"evt_1","type":"ping","extra":{extra}}}"#)
}

/// `text` so often that it fills a body.
fn filled(text: &str) -> String {
    text.repeat(BODY_BYTES / text.len())
}

/// An object of `keys` keys that fills a body; all begin alike, and the last come first.
fn keys(keys: usize) -> String {
    let padding = "k".repeat((BODY_BYTES / keys).saturating_sub(11));
    let members: Vec<String> = (0..keys).rev().map(|number| format!("\"{padding}{number:06}\":0")).collect();
    format!("{{{}}}", members.join(","))
}

#[test]
fn a_body_of_ten_mebibytes_costs_a_multiple_of_its_digest() {
    let generic = gateway("generic");
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let list = |item: &str| format!("[{}0]", filled(&format!("{item},")));
    let bodies = [
        ("one string", event(&format!("\"{}\"", filled("x"))), None),
        ("one string of escapes", event(&format!("\"{}\"", filled("\\u00e9"))), None),
        (
            "an id of escapes",
            format!(r#"{{"id":"{}","type":"ping"}}"#, filled("\\u00e9")),
            Some(Fault::Identifier(Field::EventId, IdentifierFault::TooLong)),
        ),
        ("one number", event(&filled("1")), None),
        ("white space", event(&format!("{}0", filled(" \n"))), None),
        ("numbers", event(&list("0")), None),
        ("arrays at the depth allowed", event(&list(&nested(MAX_DEPTH - 2))), None),
        ("arrays too deep", nested(BODY_BYTES / 2), Some(Fault::Json(JsonFault::TooDeep))),
        ("keys as many as allowed", event(&keys(MAX_KEYS - 3)), None),
        ("a key too many", event(&keys(MAX_KEYS - 2)), Some(Fault::Json(JsonFault::TooManyKeys))),
        ("short keys", event(&keys(900_000)), Some(Fault::Json(JsonFault::TooManyKeys))),
        ("objects", event(&list("{}")), None),
    ];
    for (what, body, fault) in &bodies {
        let body = body.as_bytes();
        assert_eq!(read_body(&generic, body).err().map(|why| why.fault), *fault, "{what}");
        let ratio = ratio(body, || _ = black_box(read_body(&generic, body)));
        assert_cheap(&format!("read: {what}"), ratio, READING_AT_MOST);
    }
}

#[test]
fn an_hmac_of_ten_mebibytes_costs_about_its_digest() {
    let body = filled("{\"a\":[0,\"é\"]}\n").into_bytes();
    let right = hmac_hex(SECRET.as_bytes(), &[&body]);
    let wrong = hmac_hex(SECRET.as_bytes(), &[b"another body"]);
    for (what, signature, verdict) in [
        ("right", right, VALID),
        ("wrong", wrong.clone(), Verdict::Mismatch),
        ("a list", format!("{wrong},").repeat(990), Verdict::Mismatch),
    ] {
        let name = if what == "a list" { "mollie" } else { "generic" };
        let verify = judge(name, &body, Some(&signature), None);
        assert_eq!(verify(), verdict, "{what}");
        let ratio = ratio(&body, || _ = black_box(verify()));
        assert_cheap(&format!("verify, signature: {what}"), ratio, HMAC_AT_MOST);
    }
}

/// A form body of the gateway that signs all its fields with AES, and its signature.
fn form(fields: impl Iterator<Item = (String, String)>) -> (Vec<u8>, String) {
    let mut fields: Vec<(String, String)> = fields.collect();
    fields.extend([("TXNID", "t1"), ("STATUS", "PENDING")].map(|(k, v)| (k.to_owned(), v.to_owned())));
    fields.sort();
    let encoded = form_urlencoded::Serializer::new(String::new()).extend_pairs(&fields).finish();
    let values: Vec<&str> = fields.iter().map(|(_, value)| value.as_str()).collect();
    let hash = hex::encode(digest(format!("{}|salt", values.join("|")).as_bytes()));
    let sealer =
        cbc::Encryptor::<Aes128>::new(SECRET.as_bytes().try_into().unwrap(), b"@@@@&&&&####$$$$".into());
    let signature =
        Base64::encode_string(&sealer.encrypt_padded_vec::<Pkcs7>(format!("{hash}salt").as_bytes()));
    (encoded.into_bytes(), signature)
}

#[test]
fn a_form_of_ten_mebibytes_costs_a_multiple_of_its_digest() {
    let paytm = gateway("paytm");
    let field = |value: &str| {
        let value = value.repeat(
            BODY_BYTES / 999 / form_urlencoded::byte_serialize(value.as_bytes()).map(str::len).sum::<usize>(),
        );
        move |number: usize| (format!("F{number:06}"), value.clone())
    };
    // TXNID and STATUS are fields as well.
    let many = MAX_FIELDS - 2;
    let forms = [
        ("plain fields", form((0..many).map(field("x"))), VALID, None),
        ("escaped fields", form((0..many).map(field("é"))), VALID, None),
        (
            "a field too many",
            form((0..=many).map(field("x"))),
            Verdict::Malformed(Malformed::RepeatedField),
            Some(Fault::RepeatedField),
        ),
        (
            "short fields",
            form((0..BODY_BYTES / 10).map(|number| (format!("{number:07}"), "x".to_owned()))),
            Verdict::Malformed(Malformed::RepeatedField),
            Some(Fault::RepeatedField),
        ),
    ];
    for (what, (body, signature), verdict, fault) in &forms {
        let verify = judge("paytm", body, Some(signature), None);
        assert_eq!(verify(), *verdict, "{what}");
        assert_eq!(read_body(&paytm, body).err().map(|why| why.fault), *fault, "{what}");
        let both = ratio(body, || _ = black_box((verify(), read_body(&paytm, body))));
        assert_cheap(&format!("verify and read, form: {what}"), both, READING_AT_MOST);
    }
}
