//! What a definition costs: verifying and reading one delivery of each gateway, beside the bare HMAC of the same bytes.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use base64ct::{Base64, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use payment_idem::domain::event;
use payment_idem::domain::gateway::Gateway;
use payment_idem::domain::money::Exponents;
use payment_idem::domain::place::{Parameters, Request};
use payment_idem::domain::signature::{AgeCheck, Delivery, Headers, Verdict, verify};
use serde_json::Value;
use sha2::Sha256;

use crate::cells;
use crate::report::table;

const ROUNDS: usize = 11;
const CALLS: u32 = 500;

/// Prints microseconds per delivery, medians of interleaved rounds, for the first valid case of each gateway.
pub fn run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("tests/vectors/signatures.jsonl"))
        .expect("the known answers are there");
    let mut firsts: BTreeMap<String, Value> = BTreeMap::new();
    for case in text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a case is JSON")) {
        if case["expect"] == "valid" && case["class"] == "core" {
            firsts.entry(case["scheme"].as_str().expect("a scheme").to_owned()).or_insert(case);
        }
    }
    let mut rows = vec![cells!["gateway", "bytes", "verify us", "HMAC-SHA256 us", "read us"]];
    for (scheme, case) in &firsts {
        let json =
            std::fs::read_to_string(root.join(format!("gateways/{scheme}.json"))).expect("a definition");
        let gateway = Gateway::from_json(&json).expect("it compiles");
        rows.push(measure(scheme, &gateway, case));
    }
    table(&rows);
}

fn measure(scheme: &str, gateway: &Gateway, case: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let body = Base64::decode_vec(&text(&case["body_base64"])).expect("base64");
    let query = case["params"]["query"].as_object().into_iter().flatten();
    let query: Vec<String> = query.map(|(key, value)| format!("{key}={}", text(value))).collect();
    let fields = case["headers"].as_object().expect("headers").iter();
    let fields = fields.map(|(key, value)| (key.clone(), text(value)));
    let headers = Headers::new(fields.chain([(":path".to_owned(), format!("/?{}", query.join("&")))]));
    let parameters: Parameters = case["params"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    let secret = [gateway.scheme().secret(case["secret"].as_str().expect("a secret")).expect("it is one")];
    let now = case["now_unix"].as_i64().expect("a moment");
    let items = gateway.items(&body).map(|items| items.expect("a bundle"));
    let item = items.map_or(body.as_slice(), |items| items[0]);
    let signed = if gateway.signs_items() { item } else { &body };
    let delivery =
        Delivery { body: signed, signature: None, headers: Some(&headers), parameters: &parameters };
    let keyed = Hmac::<Sha256>::new_from_slice(b"a key of some length").expect("any length");
    let exponents: Exponents = ["USD", "EUR", "INR", "GBP", "NGN", "IDR", "CAD"]
        .iter()
        .map(|code| (code.parse().expect("a code"), 2))
        .collect();

    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        let [verifying, bare, reading] = &mut times;
        verifying.push(each(|| {
            let verdict = verify(gateway.scheme(), &delivery, &secret, now, AgeCheck::Definition);
            assert!(matches!(verdict, Verdict::Valid { .. }), "{scheme}");
        }));
        bare.push(each(|| {
            let mut mac = keyed.clone();
            mac.update(signed);
            black_box(mac.finalize());
        }));
        reading.push(each(|| {
            let request = Request { body: item, headers: Some(&headers), parameters: &parameters };
            let _ = black_box(event::read(gateway, request, &exponents));
        }));
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let [verifying, bare, reading] = times.each_mut().map(median);
    cells![scheme, body.len(), format!("{verifying:.2}"), format!("{bare:.2}"), format!("{reading:.2}")]
}

/// Microseconds of one call.
fn each(call: impl Fn()) -> f64 {
    let began = Instant::now();
    (0..CALLS).for_each(|_| call());
    began.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
}
