//! Helpers shared by the plain Rust tests of the domain.
#![allow(dead_code)] // every test file uses its own part

use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use payment_idem::domain::gateway::Gateway;
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

/// The cases kept in this repository.
pub const STRIPE_VECTORS: &str = include_str!("../vectors/stripe.jsonl");

/// The body of the stored case whose id is `id`.
pub fn stripe_body(id: &str) -> Vec<u8> {
    let cases = vectors(STRIPE_VECTORS);
    let case = cases.iter().find(|case| case["id"] == id).unwrap();
    base64(case["body_base64"].as_str().unwrap())
}

/// Decodes the standard alphabet (RFC 4648), for test data that is known to be well-formed.
pub fn base64(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter(|byte| *byte != b'=').map(|byte| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("not base64"),
    });
    let digits: Vec<u8> = digits.collect();
    digits
        .chunks(4)
        .flat_map(|chunk| {
            let bits = chunk.iter().fold(0_u32, |sum, digit| sum << 6 | u32::from(*digit));
            let bits = bits << (6 * (4 - chunk.len()));
            bits.to_be_bytes()[1..chunk.len()].to_vec()
        })
        .collect()
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
