//! Signature headers, right and wrong, and an oracle that tells them apart; written apart from the extension.

use hmac::{Hmac, KeyInit, Mac};
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use crate::endpoint::{Endpoint, Gateway};

/// The argument `sig`, and the argument `headers`.
#[derive(Clone)]
pub struct Signature {
    pub text: Option<String>,
    pub headers: Option<Map<String, Value>>,
}

/// What a delivery's signature is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Authentic,
    Forged,
    /// Authentic, but too long ago or ahead.
    Expired,
}

const TOLERANCE_S: u64 = 300;
/// A moment that a run cannot carry over the edge of the tolerance.
const RECENT_S: i64 = 200;
const LONGEST_TEXT: usize = 64 * 1024;
const LARGEST_HEADERS: usize = 128 * 1024;

fn mac(secret: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn header_names(gateway: Gateway) -> &'static [&'static str] {
    match gateway {
        Gateway::Generic => &["X-Signature", "X-Hub-Signature-256"],
        Gateway::Stripe => &["Stripe-Signature"],
    }
}

/// Judges as the gateway's documentation does.
pub fn judge(gateway: Gateway, secret: &str, body: &[u8], signature: &Signature, now: i64) -> Verdict {
    let in_headers = || signature.headers.as_ref().and_then(|headers| header(gateway, headers));
    let Some(text) = signature.text.clone().or_else(in_headers).filter(|text| text.len() <= LONGEST_TEXT)
    else {
        return Verdict::Forged;
    };
    match gateway {
        Gateway::Generic => {
            let digits = text.strip_prefix("sha256=").unwrap_or(&text);
            let right = hex::encode(mac(secret, &[body]));
            if digits.eq_ignore_ascii_case(&right) { Verdict::Authentic } else { Verdict::Forged }
        }
        Gateway::Stripe => {
            let values = |wanted| text.split(',').filter_map(move |pair| pair.strip_prefix(wanted));
            let times: Vec<_> = values("t=").collect();
            let [time] = times[..] else { return Verdict::Forged };
            let seconds = time.parse::<i64>().ok().filter(|_| time.bytes().all(|byte| byte.is_ascii_digit()));
            let Some(seconds) = seconds else { return Verdict::Forged };
            let right = hex::encode(mac(secret, &[time.as_bytes(), b".", body]));
            match values("v1=").any(|sent| sent == right) {
                false => Verdict::Forged,
                true if now.abs_diff(seconds) > TOLERANCE_S => Verdict::Expired,
                true => Verdict::Authentic,
            }
        }
    }
}

/// The signature in the headers; `None` where it is absent, given twice differently, or among too many bytes.
fn header(gateway: Gateway, headers: &Map<String, Value>) -> Option<String> {
    let fields: Vec<(&str, &str)> = headers
        .iter()
        .flat_map(|(name, value)| {
            let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            values.iter().filter_map(Value::as_str).map(move |value| (name.as_str(), value))
        })
        .collect();
    if fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > LARGEST_HEADERS {
        return None;
    }
    for wanted in header_names(gateway) {
        let mut values =
            fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value);
        if let Some(first) = values.next() {
            return values.all(|other| other == first).then(|| first.to_owned());
        }
    }
    None
}

/// The plain right signature.
pub fn sign(gateway: Gateway, secret: &str, body: &[u8], now: i64) -> Signature {
    let text = match gateway {
        Gateway::Generic => hex::encode(mac(secret, &[body])),
        Gateway::Stripe => format!("t={now},v1={}", v1(secret, &now.to_string(), body)),
    };
    Signature { text: Some(text), headers: None }
}

/// A signature: mostly right where `authentic`, and mostly wrong else; `judge` knows.
pub fn signature<R: Rng>(
    rng: &mut R,
    endpoint: &Endpoint,
    secret: &str,
    body: &[u8],
    now: i64,
    authentic: bool,
) -> Signature {
    let text = match (endpoint.gateway, authentic) {
        (Gateway::Generic, true) => Some(generic(rng, secret, body)),
        (Gateway::Stripe, true) => Some(stripe(rng, secret, body, now)),
        (Gateway::Generic, false) => generic_forged(rng, secret, body),
        (Gateway::Stripe, false) => stripe_forged(rng, secret, body, now),
    };
    let text = text.map(|text| text.replace('\0', "")); // what PostgreSQL's text cannot hold
    match rng.random_range(0..40) {
        0..4 => Signature { text: None, headers: Some(headers(rng, endpoint.gateway, text)) },
        4 => Signature { headers: Some(headers(rng, endpoint.gateway, text.clone())), text },
        _ => Signature { text, headers: None },
    }
}

fn headers<R: Rng>(rng: &mut R, gateway: Gateway, text: Option<String>) -> Map<String, Value> {
    let name = *header_names(gateway).choose(rng).expect("a name");
    let name = match rng.random_range(0..3) {
        0 => name.to_owned(),
        1 => name.to_lowercase(),
        _ => name.to_uppercase(),
    };
    let value = match (text, rng.random_range(0..12)) {
        (Some(text), 0) => json!([text]),
        (Some(text), 1) => json!([text, text]),
        (Some(text), 2) => json!([7, text, null]),
        (Some(text), 3) => json!([text, "other"]),
        (Some(text), 4) => json!([[text]]),
        (Some(text), 5) => json!({ "value": text }),
        (Some(text), _) => json!(text),
        (None, _) => [Value::Null, json!(7), json!([]), json!(true), json!({}), json!([null])]
            .choose(rng)
            .expect("a value")
            .clone(),
    };
    let mut headers = Map::from_iter([(name, value)]);
    for _ in 0..rng.random_range(0..4) {
        let value = match rng.random_range(0..6) {
            0 => json!([any_text(rng, 40), any_text(rng, 40)]),
            1 => json!(1.5e300),
            _ => json!(any_text(rng, 80)),
        };
        headers.insert(any_text(rng, 20), value);
    }
    if rng.random_range(0..200) == 0 {
        headers.insert("X-Flood".to_owned(), json!("x".repeat(LARGEST_HEADERS)));
    }
    headers
}

const CHARACTERS: &[char] = &[
    'a',
    'f',
    '0',
    '9',
    '=',
    ',',
    't',
    'v',
    '1',
    ';',
    ' ',
    '\t',
    '\n',
    '\r',
    '"',
    '\\',
    '\'',
    '%',
    '{',
    '\u{1}',
    '\u{7f}',
    '\u{80}',
    '\u{e9}',
    '\u{131}',
    '\u{660}',
    '\u{202e}',
    '\u{feff}',
    '\u{fffd}',
    '\u{ff10}',
    '\u{1f600}',
    '\u{10ffff}',
];

pub fn any_text<R: Rng>(rng: &mut R, longest: usize) -> String {
    (0..rng.random_range(0..longest)).map(|_| CHARACTERS.choose(rng).expect("a character")).collect()
}

/// One or two characters put in, taken out or replaced.
fn edited<R: Rng>(rng: &mut R, text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..rng.random_range(1..3) {
        let at = rng.random_range(0..=characters.len());
        let new = *CHARACTERS.choose(rng).expect("a character");
        match rng.random_range(0..3) {
            0 => characters.insert(at, new),
            1 if at < characters.len() => characters[at] = new,
            _ if at < characters.len() => drop(characters.remove(at)),
            _ => {}
        }
    }
    characters.into_iter().collect()
}

fn generic<R: Rng>(rng: &mut R, secret: &str, body: &[u8]) -> String {
    let digits = hex::encode(mac(secret, &[body]));
    match rng.random_range(0..8) {
        0 => digits.to_uppercase(),
        1 => format!("sha256={}", digits.to_uppercase()),
        2 => digits.chars().map(|c| if rng.random_bool(0.5) { c.to_ascii_uppercase() } else { c }).collect(),
        3 => format!("sha256={digits}"),
        _ => digits,
    }
}

fn generic_forged<R: Rng>(rng: &mut R, secret: &str, body: &[u8]) -> Option<String> {
    let right = hex::encode(mac(secret, &[body]));
    Some(match rng.random_range(0..20) {
        0 => return None,
        1 => String::new(),
        2 => any_text(rng, 100),
        3 => right[..rng.random_range(0..64)].to_owned(),
        4 => right + "0",
        5 => hex::encode(mac(&format!("{secret}x"), &[body])),
        6 => hex::encode(mac(secret, &[body, b" "])),
        7 => format!(" {right}"),
        8 => right + ["\n", " ", "\r\n", ",", ";"].choose(rng).expect("junk"),
        9 => format!("sha256=sha256={right}"),
        10 => format!(
            "{}{right}",
            ["SHA256=", "sha512=", "sha256:", "sha256= ", "v1="].choose(rng).expect("a prefix")
        ),
        11 => right.chars().map(|c| char::from_u32(c as u32 + 0xfee0).expect("full width")).collect(),
        12 => right.repeat(2),
        13 => vec![right; rng.random_range(2..300)].join(","),
        14 => stripe(rng, secret, body, 1_700_000_000),
        15 if rng.random_bool(0.02) => right.repeat(2_000),
        16 => "0".repeat(64),
        _ => edited(rng, &right),
    })
}

fn v1(secret: &str, time: &str, body: &[u8]) -> String {
    hex::encode(mac(secret, &[time.as_bytes(), b".", body]))
}

fn stripe<R: Rng>(rng: &mut R, secret: &str, body: &[u8], now: i64) -> String {
    let time = (now + rng.random_range(-RECENT_S..=RECENT_S)).to_string();
    let time = if rng.random_range(0..50) == 0 { format!("000{time}") } else { time };
    let mut pairs = vec![format!("t={time}"), format!("v1={}", v1(secret, &time, body))];
    if rng.random_bool(0.4) {
        for _ in 0..rng.random_range(1..5) {
            pairs.push(match rng.random_range(0..8) {
                0 => "v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39".to_owned(),
                1 => format!("v1={}", "0".repeat(64)),
                2 => "v1=".to_owned(),
                3 => "v1".to_owned(),
                4 => String::new(),
                5 => "=".to_owned(),
                6 => " t=1".to_owned(),
                _ => any_text(rng, 30).replace(',', "").replace("t=", ""),
            });
        }
        if rng.random_range(0..30) == 0 {
            pairs.extend((0..rng.random_range(1..500)).map(|n| format!("v1={n:064x}")));
        }
        pairs.shuffle(rng);
    }
    pairs.join(",")
}

fn stripe_forged<R: Rng>(rng: &mut R, secret: &str, body: &[u8], now: i64) -> Option<String> {
    let time = now.to_string();
    let right = v1(secret, &time, body);
    let signed_at = |time: &str| format!("t={time},v1={}", v1(secret, time, body));
    Some(match rng.random_range(0..24) {
        0 => return None,
        1 => String::new(),
        2 => any_text(rng, 100),
        3 => format!("v1={right}"),
        4 => format!("t={time}"),
        5 => format!("t={time},t={time},v1={right}"),
        6 => format!("t={},v1={right}", now + 1),
        7 => format!("t={time},v1={}", right.to_uppercase()),
        8 => format!("t={time},v0={right}"),
        9 => format!("t={time}, v1={right}"),
        10 => format!("t={time};v1={right}"),
        11 => format!("t={time},v1={}", v1(&format!("{secret}x"), &time, body)),
        12 => format!("t={time},v1={}", v1(secret, &time, b"{}")),
        13 => format!("t={time},v1={}", hex::encode(mac(secret, &[body]))),
        14 => signed_at(
            ["+1700000000", "-1", "", "1e9", " 1", "0x10", "\u{661}\u{662}", "18446744073709551616"]
                .choose(rng)
                .expect("a time"),
        ),
        15..18 => {
            let far =
                *[-1_000_000_000, -86_400, -1_000, -400, 400, 1_000, 86_400].choose(rng).expect("a distance");
            signed_at(&(now + far).to_string())
        }
        18 => {
            signed_at(["0", "1", "9223372036854775807", "9223372036854775808"].choose(rng).expect("a time"))
        }
        19 => right,
        20 if rng.random_bool(0.02) => format!("t={time},v1={right}{}", ",v1=".repeat(20_000)),
        _ => edited(rng, &format!("t={time},v1={right}")),
    })
}
