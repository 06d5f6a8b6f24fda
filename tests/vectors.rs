//! Known answers: what vendors' own libraries sign, and what their gateways send, as data.
//!
//! `tests/vectors` holds the cases whose bodies are not large; the file that PAYMENT_IDEM_VECTORS
//! names may hold more, and its rows are judged as well.

mod common;

use std::collections::BTreeMap;

use common::{exponents, gateway, vector_file, vectors};
use payment_idem::domain::event::{self, Event};
use payment_idem::domain::gateway::Gateway;
use payment_idem::domain::place::{Parameters, Request};
use payment_idem::domain::signature::{AgeCheck, Delivery, Headers, Secret, Verdict, verify};
use serde_json::Value;

/// Where we decide otherwise than an edge case says, and why (docs/GATEWAYS.md has the list).
fn otherwise() -> BTreeMap<String, (String, String)> {
    let rows: Vec<[String; 3]> = serde_json::from_slice(&vector_file("otherwise.json")).unwrap();
    rows.into_iter().map(|[id, ours, why]| (id, (ours, why))).collect()
}

fn headers(case: &Value) -> Headers {
    let fields = case["headers"].as_object().unwrap();
    let fields = fields.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned()));
    let query = case["params"]["query"].as_object().into_iter().flatten();
    let query: Vec<String> = query.map(|(k, v)| format!("{k}={}", v.as_str().unwrap())).collect();
    Headers::new(fields.chain([(":path".to_owned(), format!("/hook?{}", query.join("&")))]))
}

fn parameters(case: &Value) -> Parameters {
    let params = case["params"].as_object().into_iter().flatten();
    params.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
}

/// The verdict on a case, by a definition.
fn judge(gateway: &Gateway, case: &Value) -> &'static str {
    let old = case["previous_secrets"].as_array().into_iter().flatten();
    let texts = std::iter::once(&case["secret"]).chain(old).map(|secret| secret.as_str().unwrap());
    let secrets: Vec<Secret> = texts.filter_map(|text| gateway.scheme().secret(text).ok()).collect();
    if secrets.is_empty() {
        return "malformed"; // nothing to compare with: such a secret is refused when it is added
    }
    let body = common::base64(case["body_base64"].as_str().unwrap());
    let (headers, parameters) = (headers(case), parameters(case));
    let now = case["now_unix"].as_i64().unwrap();
    let age = case["tolerance_s"].as_u64().map_or(AgeCheck::Definition, |s| AgeCheck::Seconds(s as u32));
    let judge = |body: &[u8]| {
        let delivery = Delivery { body, signature: None, headers: Some(&headers), parameters: &parameters };
        match verify(gateway.scheme(), &delivery, &secrets, now, age) {
            Verdict::Malformed(_) => "malformed",
            Verdict::Mismatch => "invalid",
            Verdict::Expired => "expired",
            Verdict::Valid { .. } => "valid",
        }
    };
    if !gateway.signs_items() {
        return judge(&body);
    }
    match gateway.items(&body).unwrap() {
        Err(_) => "malformed",
        Ok(items) => {
            let worst = ["malformed", "invalid", "expired", "valid"];
            let verdicts = items.into_iter().map(judge);
            verdicts.min_by_key(|verdict| worst.iter().position(|word| word == verdict)).unwrap()
        }
    }
}

fn run(text: &str, gateway_of: impl Fn(&str) -> Gateway) -> usize {
    let cases = vectors(text);
    let otherwise = otherwise();
    let mut table: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in &cases {
        let (id, scheme) = (case["id"].as_str().unwrap(), case["scheme"].as_str().unwrap());
        let verdict = judge(&gateway_of(scheme), case);
        let ours = otherwise.get(id);
        assert!(ours.is_none() || case["class"] == "edge", "{id} is core");
        let expected = ours.map_or(case["expect"].as_str().unwrap(), |(ours, _)| ours);
        let row = table.entry(scheme).or_default();
        if verdict == expected {
            row.0 += 1;
        } else {
            row.1 += 1;
            let class = case["class"].as_str().unwrap();
            wrong.push(format!("{id} ({class}): {verdict}, not {expected}: {}", case["why"]));
        }
    }
    println!("{:<20} {:>6} {:>6}", "scheme", "passed", "failed");
    for (scheme, (passed, failed)) in table {
        println!("{scheme:<20} {passed:>6} {failed:>6}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    cases.len()
}

#[test]
fn known_answers_hold() {
    let kept = String::from_utf8(vector_file("signatures.jsonl")).unwrap();
    assert_eq!(run(&kept, gateway), 511);
    if let Ok(path) = std::env::var("PAYMENT_IDEM_VECTORS") {
        assert!(run(&std::fs::read_to_string(path).unwrap(), gateway) >= 513);
    }
}

#[test]
fn payloads_map_to_what_they_say() {
    let expected: Value = serde_json::from_slice(&vector_file("payloads/expected_fields.json")).unwrap();
    let mut wrong = Vec::new();
    for (file, case) in expected["payloads"].as_object().unwrap() {
        let gateway = gateway(case["scheme"].as_str().unwrap());
        let body = vector_file(&format!("payloads/{file}"));
        let items = gateway.items(&body).map(Result::unwrap);
        let item = items.map_or(body.as_slice(), |items| items[0]);
        let headers = headers(case);
        let request = Request { body: item, headers: Some(&headers), parameters: &Parameters::new() };
        match event::read(&gateway, request, &exponents()) {
            Err(why) => wrong.push(format!("{file}: {why}")),
            Ok(event) => {
                wrong.extend(differences(&event, &case["expected"]).map(|what| format!("{file}: {what}")))
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn differences(event: &Event, expected: &Value) -> impl Iterator<Item = String> {
    let text = |value: &Option<String>| value.clone().map_or(Value::Null, Value::from);
    let payment = expected["payment_id"].as_str();
    let references: Vec<&str> = event.references.iter().map(|reference| reference.value.as_str()).collect();
    let currency = event.currency.as_ref().map(|currency| currency.as_str().to_owned());
    let facts = [
        ("event_id", text(&event.event_id)),
        ("event_type", event.event_type.clone().into()),
        ("order_ref", text(&event.order_reference)),
        ("gateway_order_id", text(&event.gateway_order_id)),
        ("amount_minor", event.amount_minor.map_or(Value::Null, Value::from)),
        ("currency", text(&currency)),
        ("bank_ref", text(&event.bank_reference)),
        ("created_ms", event.event_time_us.map_or(Value::Null, |us| (us / 1000).into())),
    ];
    let named = payment.is_none_or(|payment| references.contains(&payment));
    let unnamed = (!named).then(|| format!("payment_id {payment:?} is not in {references:?}"));
    facts
        .into_iter()
        .filter(|(name, found)| expected[*name] != *found)
        .map(|(name, found)| format!("{name} is {found}, not {}", expected[name]))
        .chain(unnamed)
        .collect::<Vec<_>>()
        .into_iter()
}
