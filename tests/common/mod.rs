//! Helpers shared by the plain Rust tests of the domain.
#![allow(dead_code)] // every test file uses its own part

use std::time::{Duration, Instant};

use base64ct::{Base64, Encoding as _};
use hmac::{Hmac, KeyInit, Mac};
use payment_idem::domain::event::{self, Event, Unreadable};
use payment_idem::domain::gateway::Gateway;
use payment_idem::domain::money::Exponents;
use payment_idem::domain::place::{Parameters, Request};
use serde_json::Value;
use sha2::Sha256;

/// One of the definitions that are shipped.
pub fn gateway(name: &str) -> Gateway {
    let path = format!("{}/gateways/{name}.json", env!("CARGO_MANIFEST_DIR"));
    Gateway::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Lower-case hex HMAC-SHA256, computed apart from the code under test.
pub fn hmac_hex(key: &[u8], parts: &[&[u8]]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    hex::encode(mac.finalize().into_bytes())
}

/// The known-answer cases in `text`, one JSON object a line.
pub fn vectors(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A file of `tests/vectors`.
pub fn vector_file(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The body of the stored case whose id is `id`.
pub fn stripe_body(id: &str) -> Vec<u8> {
    let cases = vectors(&String::from_utf8(vector_file("signatures.jsonl")).unwrap());
    let case = cases.iter().find(|case| case["id"] == id).unwrap();
    base64(case["body_base64"].as_str().unwrap())
}

/// Decodes the standard alphabet (RFC 4648).
pub fn base64(text: &str) -> Vec<u8> {
    Base64::decode_vec(text).unwrap()
}

/// The decimals of the currencies in the tests' data (ISO 4217).
pub fn exponents() -> Exponents {
    let two = ["USD", "EUR", "GBP", "INR", "CAD", "NGN", "IDR", "BRL"].map(|code| (code, 2));
    let others = [("JPY", 0), ("KRW", 0), ("UGX", 0), ("ISK", 0), ("KWD", 3), ("BHD", 3)];
    two.into_iter().chain(others).map(|(code, exponent)| (code.parse().unwrap(), exponent)).collect()
}

/// Reads a body that came without headers.
pub fn read_body(gateway: &Gateway, body: &[u8]) -> Result<Event, Unreadable> {
    event::read(gateway, Request { body, headers: None, parameters: &Parameters::new() }, &exponents())
}

/// Asserts that `work` on 16 times the input takes nearer to 16 than to 256 times as long.
///
/// The fastest of several runs is taken, and the bound lies a factor of 5 above linear growth and
/// 3 below quadratic, so that a busy machine does not decide the result.
pub fn assert_not_quadratic<T>(input: impl Fn(usize) -> T, work: impl Fn(&T)) {
    let fastest = |size: usize| {
        let input = input(size);
        let run = |_| {
            let start = Instant::now();
            work(&input);
            start.elapsed()
        };
        (0..5).map(run).min().unwrap()
    };
    let small = fastest(64 * 1024).max(Duration::from_micros(20));
    let large = fastest(1024 * 1024);
    assert!(large < small * 80, "16 times the input took {large:?} after {small:?}");
}
