//! Judges, reads and inspects deliveries, by shipped definitions and by any others.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use payment_idem::domain::event;
use payment_idem::domain::gateway::Gateway;
use payment_idem::domain::inspection::{Candidate, OTHER_SOURCE, inspect};
use payment_idem::domain::place::{Parameters, Request};
use payment_idem::domain::signature::{AgeCheck, Delivery, Headers, Secret, Verdict, verify};
use payment_idem_fuzz_domain::input::{ANY_AGE, ARGUMENT, FIVE_MINUTES, Input, NOW, OTHER_SECRET, WRITTEN};
use payment_idem_fuzz_domain::sign::{Signed, sign};
use payment_idem_fuzz_domain::{
    check_event, exponents, index_of, payloads, shipped, signature_cases, write_seeds,
};
use serde_json::Value;

/// Longest definition: a long one makes more work of each delivery, and is written by the operator.
const MAX_DEFINITION_BYTES: usize = 8 * 1024;

/// Of a bundle so many items are judged and read, and only such a bundle is inspected.
const ITEMS_READ: usize = 50;

fuzz_target!(init: write_seeds(seeds), |data: &[u8]| -> Corpus { run(data) });

fn run(data: &[u8]) -> Corpus {
    let Some(input) = Input::of(data) else { return Corpus::Reject };
    let written;
    let (gateway, definition) = if input.choices & WRITTEN == 0 {
        let shipped = &shipped()[usize::from(input.index) % shipped().len()];
        (&shipped.gateway, Some(&shipped.json))
    } else {
        if input.definition.len() > MAX_DEFINITION_BYTES {
            return Corpus::Reject;
        }
        let gateway = Gateway::from_json(&input.definition);
        // Definitions that are none are worth keeping: the way to one that is leads through them.
        let Ok(gateway) = gateway else { return Corpus::Keep };
        written = (gateway, serde_json::from_str(&input.definition).ok());
        (&written.0, written.1.as_ref())
    };
    let _ = (gateway.description(), gateway.remarks());
    deliver(gateway, &input, &input.secret, None);
    // Once more with a valid signature, where one is simply made.
    if let Some(by) = definition.and_then(|definition| signed(definition, &input)) {
        let input = along(input.clone(), &by);
        let verdict = deliver(gateway, &input, &by.secret, Some(&by.signature));
        if input.choices & WRITTEN == 0 {
            assert!(matches!(verdict, Verdict::Valid { .. }), "signed, and yet {verdict:?}");
        }
    }
    Corpus::Keep
}

fn signed(definition: &Value, input: &Input<'_>) -> Option<Signed> {
    sign(definition, &input.secret, input.now.clamp(0, 1 << 40), input.body)
}

/// The input with what is signed along, and with nothing that contradicts it.
fn along<'a>(mut input: Input<'a>, by: &Signed) -> Input<'a> {
    input.now = input.now.clamp(0, 1 << 40);
    input.headers.retain(|(name, _)| !by.headers.iter().any(|(ours, _)| ours.eq_ignore_ascii_case(name)));
    input.headers.extend(by.headers.iter().cloned());
    input.parameters.retain(|(name, _)| !by.parameters.iter().any(|(ours, _)| ours == name));
    input.parameters.extend(by.parameters.iter().cloned());
    input
}

fn deliver(gateway: &Gateway, input: &Input<'_>, secret_text: &str, signature: Option<&str>) -> Verdict {
    let headers = Headers::new(input.headers.iter().cloned());
    let parameters: Parameters = input.parameters.iter().cloned().collect();
    let secrets: Vec<Secret> = gateway.scheme().secret(secret_text).into_iter().collect();
    let argument = signature.or(input.headers.first().map(|(_, value)| value.as_str()));
    let delivery = Delivery {
        body: input.body,
        signature: argument.filter(|_| input.choices & ARGUMENT != 0),
        headers: Some(&headers),
        parameters: &parameters,
    };
    let age = match input.choices {
        choices if choices & ANY_AGE != 0 => AgeCheck::Skip,
        choices if choices & FIVE_MINUTES != 0 => AgeCheck::Seconds(300),
        _ => AgeCheck::Definition,
    };
    let judge =
        |body: &[u8]| verify(gateway.scheme(), &Delivery { body, ..delivery }, &secrets, input.now, age);
    let read = |body: &[u8]| {
        let request = Request { body, headers: delivery.headers, parameters: &parameters };
        let read = event::read(gateway, request, exponents());
        assert_eq!(read, event::read(gateway, request, exponents()), "the second reading differs");
        if let Ok(event) = &read {
            check_event(event);
        }
        read
    };
    let judge_and_try = |body: &[u8]| {
        let verdict = judge(body);
        assert_eq!(verdict, judge(body), "the second verdict differs");
        if is_authentic(verdict) && gateway.covers_body() && !body.is_empty() {
            let other = judge(&input.flipped(body));
            assert!(!is_authentic(other), "another body is authentic as well: {other:?}");
        }
        if is_authentic(verdict) && gateway.id_is_signed() && !body.is_empty() {
            let other = input.flipped(body);
            if let (true, Ok(one), Ok(two)) = (is_authentic(judge(&other)), read(body), read(&other)) {
                assert_eq!(one.event_id, two.event_id, "an id that is said to be signed can be changed");
            }
        }
        verdict
    };
    let items = gateway.items(input.body);
    let whole = judge_and_try(input.body);
    if let Some(Ok(items)) = &items {
        for item in items.iter().take(ITEMS_READ) {
            judge_and_try(item);
            let _ = read(item);
        }
    }
    let _ = read(input.body);
    if items.as_ref().is_some_and(|items| items.as_ref().is_ok_and(|items| items.len() > ITEMS_READ)) {
        return whole;
    }

    let mut candidates = vec![Candidate { text: secret_text, mistake: None }];
    if input.choices & OTHER_SECRET != 0 {
        candidates.push(Candidate { text: &input.secret, mistake: Some(OTHER_SOURCE) });
    }
    let report = inspect(gateway, &delivery, &candidates, input.now, age, exponents(), &|| {});
    let said = |verdict| match verdict {
        Verdict::Mismatch if secrets.is_empty() => "malformed",
        verdict => word(verdict),
    };
    match &items {
        None => assert_eq!(report["verdict"], said(whole)),
        Some(Err(why)) if gateway.signs_items() => {
            assert_eq!(report["verdict"], said(Verdict::Malformed(*why)));
        }
        Some(Err(_)) => assert_eq!(report["verdict"], said(whole)),
        Some(Ok(items)) => {
            let of = |item: &[u8]| if gateway.signs_items() { judge(item) } else { whole };
            let said: Vec<&str> = items.iter().map(|item| word(of(item))).collect();
            let events = report["bundled_events"].as_array().expect("a list of events");
            let reported: Vec<&str> = events.iter().filter_map(|event| event["verdict"].as_str()).collect();
            assert_eq!(reported, said);
        }
    }
    whole
}

fn is_authentic(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Valid { .. } | Verdict::Expired)
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Valid { .. } => "valid",
        Verdict::Mismatch => "invalid",
        Verdict::Expired => "expired",
        Verdict::Malformed(_) => "malformed",
    }
}

// --- seeds --------------------------------------------------------------------------------------

/// Definitions with what the shipped ones hardly use.
const DEFINITIONS: [&str; 5] = [
    r#"{"description": "e", "verify": {"method": "hmac-sha512", "signed_text": ["{timestamp}{/id}.", {"if_present": "{/a}."},
        {"if_present": "{header:h}:"}, "{parameter:p}{/amount}"], "or_signed_text": ["{body}{timestamp}"],
        "timestamp": {"from": ["header:T"], "unit": "s", "tolerance_s": 9}, "signature": {"from": ["header:S"], "encoding": "hex"}},
        "event": {"id": ["/id"], "type": ["/type", "text:x"], "order_reference": ["/a"]}}"#,
    r#"{"description": "a", "items": "/events/*", "verify": {"method": "sha256", "per_item": true,
        "signed_text": ["{secret|hex}", {"if_present": "{/a|lower}-"}, {"fields": {"of": "json", "except": ["sig"],
        "each": "{key}={value}", "join": "&", "skip_empty": true, "empty": ["null"]}}],
        "or_signed_text": ["{secret}{body|sha256|base64}"], "characters": {"/sig": "A-Za-z0-9+/=_-"},
        "signature": {"from": ["/sig"], "encoding": "base64url", "undecodable": "malformed"}},
        "event": {"id": ["/id"], "type": ["/type"], "order_reference": [{"join": ["/a", "/b"], "with": "-"}],
        "amount": {"from": ["/amount"], "unit": "major", "exponents": {"KWD": 2}}, "currency": ["/currency"],
        "kinds": [{"kind": "payment_succeeded", "types": ["paid"], "when": [{"at": "/ok", "is": [true, "1"]}]}]}}"#,
    r#"{"description": "b", "verify": {"method": "hmac-sha384", "key": {"encoding": "hex", "prefix": "k_"},
        "signed_text": "{id}{{}}{timestamp}{body}", "id": ["header:Id"],
        "timestamp": {"from": ["header:Time"], "unit": "ms", "tolerance_s": {"past": 300, "future": 5}},
        "signature": {"from": ["header:Sig", "query:sig"], "format": {"list": {"separator": " ", "prefix": "v1,",
        "prefix_optional": true, "trim": true}}, "encoding": "base64"}},
        "event": {"document": {"from": "/doc", "encoding": "base64"}, "id": ["header:Id"], "type": ["/type", "text:x"],
        "amount": {"from": ["/amount"], "unit": "minor", "exponents": {"ISK": 2, "UGX": 2}}, "currency": ["/currency"],
        "event_time": {"from": ["/t"], "unit": "datetime", "offset": "+05:30"},
        "live_mode": {"from": ["/mode"], "live": ["live"]},
        "kinds": [{"kind": "refund_settled", "types": ["x"], "amount": ["/refund"], "details": "fetch"}]}}"#,
    r#"{"description": "c", "verify": {"method": "md5", "signed_text": [{"fields": {"of": "query", "except": ["sig"],
        "each": "{value}", "join": ""}}, "{secret|upper}{form:a|trim}"],
        "signature": {"from": ["query:sig"], "format": {"pairs": {"separator": ";", "assign": ":", "key":
        "parameter:key", "trim": true, "ignore_case": true, "repeated": "last"}}, "encoding": "hex"}},
        "event": {"document": {"from": "form:doc", "encoding": "text"}, "type": ["/type"],
        "references": [{"kind": "payment", "from": [{"at": ["/p"], "prefixes": ["pay_"]}]}],
        "event_time": {"from": ["/t"], "unit": "rfc3339"}, "bank_reference": ["/utr"], "payer": ["/vpa"]}}"#,
    r#"{"description": "d", "items": "/*", "verify": {"method": "ed25519", "key": "hex", "signed_text":
        "{timestamp}{body}", "timestamp": {"from": ["pair:t"], "unit": "s", "tolerance_s": null, "repeated": "last"},
        "signature": {"from": ["header:S"], "format": {"pairs": {"key": "v"}}, "encoding": "hex-lower"}},
        "event": {"id": ["/0", "/a~1b"], "type": ["/1/type"], "live_mode": ["/live"]}}"#,
];

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut add = |input: Input<'_>| seeds.push(input.to_bytes());
    for case in signature_cases() {
        let text = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
        let pairs = |json: &Value| -> Vec<(String, String)> {
            let members = json.as_object().into_iter().flatten();
            members.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
        };
        let Some(index) = index_of(&text("scheme")) else { continue };
        let query: Vec<String> = pairs(&case["params"]["query"])
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut headers = pairs(&case["headers"]);
        headers.push((":path".to_owned(), format!("/hook?{}", query.join("&"))));
        use base64ct::Encoding as _;
        let body = base64ct::Base64::decode_vec(&text("body_base64")).expect("a body");
        let as_shipped = Input {
            choices: if case["tolerance_s"].is_number() { FIVE_MINUTES } else { 0 },
            index,
            flip: [1, 0, 9],
            secret: text("secret").into(),
            headers,
            parameters: pairs(&case["params"]),
            now: case["now_unix"].as_i64().unwrap_or(NOW),
            body: &body,
            ..Input::default()
        };
        let definition = shipped()[usize::from(index)].text.into();
        add(Input { choices: as_shipped.choices | WRITTEN, definition, ..as_shipped.clone() });
        add(as_shipped);
    }
    for (index, body) in payloads() {
        let signed =
            Input { choices: index, secret: "a secret".into(), now: NOW, body: &body, ..Input::default() };
        add(signed.clone());
        let definition = shipped()[usize::from(index)].text.into();
        add(Input { choices: WRITTEN | ARGUMENT | OTHER_SECRET, definition, ..signed });
    }
    for definition in DEFINITIONS {
        assert!(Gateway::from_json(definition).is_ok(), "{definition}: {:?}", Gateway::from_json(definition));
        let bodies: [&[u8]; 2] = [
            br#"{"events": [{"id": "e1", "type": "paid", "a": "O", "b": 1, "ok": true, "amount": "1.50", "currency": "KWD", "sig": ""}]}"#,
            b"a=+x&doc=%7B%22type%22%3A%22x%22%2C%22p%22%3A%22pay_1%22%2C%22t%22%3A%222025-12-01T12:00:00Z%22%7D",
        ];
        let names = ["S=t=1,v=00", "Sig=v1,AAAA", "Id=1", "Time=1764590430000", ":path=/x?sig=k:00&a=b"];
        let headers: Vec<(String, String)> = names
            .iter()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        for (choices, body) in [(WRITTEN, bodies[0]), (WRITTEN, bodies[1]), (WRITTEN | ARGUMENT, bodies[0])] {
            add(Input {
                choices,
                definition: definition.into(),
                secret: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f".into(),
                headers: headers.clone(),
                parameters: vec![("key".to_owned(), "k".to_owned())],
                now: NOW,
                body,
                ..Input::default()
            });
        }
    }
    seeds
}
