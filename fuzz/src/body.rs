//! Bodies: random bytes, mutations of real ones, JSON nearly by its grammar, and well-formed events.

use std::ops::Range;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::endpoint::Endpoint;
use crate::event::{Event, event};

/// A body, and the event id under which it has to be readable, where that is sure.
pub struct Body {
    pub bytes: Vec<u8>,
    pub id: Option<String>,
}

/// Draws a body that is no repetition.
pub fn body<R: Rng>(
    rng: &mut R,
    endpoint: &Endpoint,
    orders: &[String],
    seeds: &[Vec<u8>],
    number: u64,
) -> Body {
    let unsure = |bytes| Body { bytes, id: None };
    match rng.random_range(0..10_000) {
        0..4 => unsure(hostile(rng, endpoint.max_payload_bytes)),
        4..1_000 => unsure(random(rng)),
        1_000..5_000 => {
            let seed = match seeds.choose(rng) {
                Some(seed) if rng.random_bool(0.3) => seed.clone(),
                _ => event(rng, endpoint, orders, number).text.into_bytes(),
            };
            let other = seeds.choose(rng).map_or(&b"{}"[..], Vec::as_slice);
            unsure(mutated(rng, seed, other))
        }
        5_000..6_500 => unsure(nearly_json(rng, 0).into_bytes()),
        _ => {
            let Event { text, id } = event(rng, endpoint, orders, number);
            Body { bytes: text.into_bytes(), id }
        }
    }
}

fn random<R: Rng>(rng: &mut R) -> Vec<u8> {
    let longest = *[1, 4, 32, 32, 300, 3_000].choose(rng).expect("a length");
    let mut bytes = vec![0; rng.random_range(0..longest)];
    rng.fill(&mut bytes[..]);
    bytes
}

/// Long ones: rare, for each costs as much as a thousand others.
fn hostile<R: Rng>(rng: &mut R, limit: usize) -> Vec<u8> {
    let extra = match rng.random_range(0..10) {
        0 => return vec![b'['; rng.random_range(1..limit)],
        1 => {
            let deep = rng.random_range(60..10_000);
            "[".repeat(deep) + "1" + &"]".repeat(deep)
        }
        2 => {
            let deep = rng.random_range(60..5_000);
            r#"{"a":"#.repeat(deep) + "1" + &"}".repeat(deep)
        }
        3 => "1".repeat(rng.random_range(1..200_000)),
        4 => format!("1e{}", "9".repeat(rng.random_range(1..100_000))),
        5 => format!("\"{}\"", "\\u0000".repeat(rng.random_range(1..30_000))),
        6 => format!("\"{}\"", "\\\\".repeat(rng.random_range(1..100_000))),
        7 => format!(
            "{{{}}}",
            (0..rng.random_range(1..112_000)).map(|n| format!("\"{n}\":0")).collect::<Vec<_>>().join(",")
        ),
        8 => " ".repeat(rng.random_range(1..200_000)) + "0",
        _ => {
            let length = limit - 100 + rng.random_range(0..200); // on both sides of the limit
            return format!("{{\"id\":\"x\",\"type\":\"ping\",\"extra\":\"{}\"}}", "x".repeat(length - 37))
                .into_bytes();
        }
    };
    let number = rng.random::<u64>();
    format!("{{\"id\":\"evt_{number}\",\"type\":\"nobody.knows\",\"extra\":{extra}}}").into_bytes()
}

const FRAGMENTS: &[&[u8]] = &[
    b"\0",
    b"\xff",
    b"\xfe\xff",
    b"\xef\xbb\xbf",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x80",
    b"\\",
    b"\"",
    b"\\\"",
    b"\\u0000",
    b"\\u000",
    b"\\ud83d",
    b"\\udc00",
    b"\\x00",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"-",
    b"+",
    b".",
    b"e",
    b"0",
    b"\x7f",
    b"\r\n",
    b"//",
    b"/*",
    b"#",
    b"'",
    b"\xc2\xa0",
    b"\xe2\x80\xa8",
    b"NaN",
    b"null",
    b"\x1b[0m",
    b"true",
    b"9999999999999999999999999",
];

fn mutated<R: Rng>(rng: &mut R, mut body: Vec<u8>, other: &[u8]) -> Vec<u8> {
    for _ in 0..*[1, 1, 2, 3, 8].choose(rng).expect("a number") {
        if rng.random_bool(0.5) {
            mutate_token(rng, &mut body);
        } else {
            mutate_bytes(rng, &mut body, other);
        }
    }
    body
}

fn span<R: Rng>(rng: &mut R, bytes: &[u8], longest: usize) -> Range<usize> {
    let from = rng.random_range(0..=bytes.len());
    from..(from + rng.random_range(0..=longest)).min(bytes.len())
}

/// Knows nothing of JSON.
fn mutate_bytes<R: Rng>(rng: &mut R, body: &mut Vec<u8>, other: &[u8]) {
    let at = rng.random_range(0..=body.len());
    match rng.random_range(0..8) {
        0 if at < body.len() => body[at] ^= 1 << rng.random_range(0..8),
        1 if at < body.len() => body[at] = rng.random(),
        2 => {
            let part = span(rng, body, 12);
            body.drain(part);
        }
        3 => {
            let part = span(rng, body, 60);
            let copy = body[part].to_vec();
            body.splice(at..at, copy);
        }
        4 => {
            let part = span(rng, other, 100);
            body.splice(at..at, other[part].iter().copied());
        }
        5 => body.truncate(at),
        6 => {
            let part = span(rng, body, 8);
            let copy = body[part].repeat(rng.random_range(2..60));
            body.splice(at..at, copy);
        }
        _ => {
            let fragment = *FRAGMENTS.choose(rng).expect("a fragment");
            let at = if rng.random_bool(0.2) { 0 } else { at };
            body.splice(at..at, fragment.iter().copied());
        }
    }
}

/// Where the strings, numbers and literals of a body are, as far as it is JSON.
fn tokens(body: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < body.len() {
        let from = at;
        if body[at] == b'"' {
            at += 1;
            while at < body.len() && body[at] != b'"' {
                at += if body[at] == b'\\' { 2 } else { 1 };
            }
            at = (at + 1).min(body.len());
            found.push(from..at);
        } else if body[at].is_ascii_alphanumeric() || b"+-.".contains(&body[at]) {
            while at < body.len() && (body[at].is_ascii_alphanumeric() || b"+-.".contains(&body[at])) {
                at += 1;
            }
            found.push(from..at);
        } else {
            at += 1;
        }
    }
    found
}

/// Changes one string, number or literal, key or value.
fn mutate_token<R: Rng>(rng: &mut R, body: &mut Vec<u8>) {
    let tokens = tokens(body);
    let Some(token) = tokens.choose(rng).cloned() else { return };
    let text = String::from_utf8_lossy(&body[token.clone()]).into_owned();
    let is_key = body[token.end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
    let new = match rng.random_range(0..10) {
        0..3 if !is_key => (*SCALARS.choose(rng).expect("a scalar")).to_owned(),
        3 => format!("[{text}]"),
        4 => format!("\"{}\"", text.trim_matches('"')), // a number as a string
        5 => text.trim_matches('"').to_owned(),         // and the other way round
        6 if rng.random_bool(0.5) => text.to_uppercase(),
        6 => text
            .replace('a', "\u{430}")
            .replace('o', "\u{3bf}")
            .replace('i', "\u{131}")
            .replace('1', "\u{ff11}"),
        7 => {
            let deep = *[1, 2, 30, 63, 64, 65, 200].choose(rng).expect("a depth");
            "[".repeat(deep) + &text + &"]".repeat(deep)
        }
        8 => {
            [" ", "\n", "\t", "\r"].choose(rng).expect("white space").repeat(rng.random_range(1..500)) + &text
        }
        9 => format!("\"{}\"", "x".repeat(*[254, 255, 256, 3_000].choose(rng).expect("a length"))),
        // The key twice: with its own value, or another one.
        _ => format!("{}:{},{text}", text, ["1", "\"paid\"", "null"].choose(rng).expect("a value")),
    };
    body.splice(token, new.into_bytes());
}

const SCALARS: &[&str] = &[
    "0",
    "-0",
    "1000",
    "1000.0",
    "1e3",
    "1E+3",
    "0.1",
    "-1",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "1e999999999",
    "-1e-999999999",
    "01",
    "+1",
    ".5",
    "1.",
    "0x10",
    "NaN",
    "Infinity",
    "true",
    "false",
    "null",
    "undefined",
    "{}",
    "[]",
    "\"\"",
    "\"paid\"",
    "\"1000\"",
    "\"usd\"",
    "\"\\u0000\"",
    "\"\\ud83d\"",
    "\"\\udc00\\ud83d\"",
    "\"\\\\u0000\"",
    "\"\\u202e\"",
    "\"\\x\"",
    "\"\\",
    "'single'",
    "\"a b\"",
    "\"\u{1f600}\"",
    "\"cafe\u{301}\"",
    "\"\u{2028}\"",
    "\"\u{131}nr\"",
    "\"\u{feff}\"",
    "\"\n\"",
    "\"\u{1}\"",
    "",
];
const KEYS: &[&str] = &[
    "id",
    "id",
    "type",
    "type",
    "order",
    "amount",
    "currency",
    "payment",
    "created",
    "livemode",
    "merchant_id",
    "gateway_order_id",
    "utr",
    "payer_vpa",
    "data",
    "object",
    "metadata",
    "order_id",
    "__proto__",
    "\\u0069d",
    "\\ud83d",
    "ID",
    "i\u{430}d",
    "",
    "0",
    "~1",
    "a/b",
];

/// JSON, nearly, by its grammar, with the gateways' own keys, some of them twice.
fn nearly_json<R: Rng>(rng: &mut R, depth: usize) -> String {
    let kind = rng.random::<f64>();
    if depth > 5 || (depth > 0 && kind < 0.6) {
        return (*SCALARS.choose(rng).expect("a scalar")).to_owned();
    }
    let length = rng.random_range(0..if kind < 0.7 { 4 } else { 9 });
    if kind < 0.7 {
        let items: Vec<_> = (0..length).map(|_| nearly_json(rng, depth + 1)).collect();
        return format!("[{}]", items.join(","));
    }
    let members: Vec<_> = (0..length)
        .map(|_| format!("\"{}\":{}", KEYS.choose(rng).expect("a key"), nearly_json(rng, depth + 1)))
        .collect();
    format!("{{{}}}", members.join([",", ", ", ",\n"].choose(rng).expect("a comma")))
}
