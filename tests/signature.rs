//! Only what the gateway signed is authentic. Names such as `b24_…` are rows of the list of public
//! failure reports that this project tests against.

mod common;

use base64ct::{Base64, Encoding as _};
use common::{assert_not_quadratic, gateway, hmac_hex, read_body, vector_file};
use payment_idem::domain::gateway::Gateway;
use payment_idem::domain::place::Parameters;
use payment_idem::domain::signature::{
    AgeCheck, Delivery, Headers, MAX_HEADER_BYTES, MAX_SIGNATURE_BYTES, Malformed, Secret, SecretFault,
    Verdict, digest, verify,
};
use proptest::prelude::*;
use serde_json::Value;
use sha2::{Digest, Sha512};

const SECRET: &str = "a secret of some length";
const NOW: i64 = 1_764_590_400;
const BODY: &[u8] =
    br#"{"id":"evt_1","type":"paid","order":"O1","amount":1000,"currency":"usd","payment":"pi_1"}"#;
/// No source is configured with anything here.
static NONE: Parameters = Parameters::new();
const VALID: Verdict = Verdict::Valid { timestamp: None };

/// Judges one delivery with one secret, the signature given as an argument.
fn judge(gateway: &Gateway, body: &[u8], signature: &str) -> Verdict {
    let delivery = Delivery { body, signature: Some(signature), headers: None, parameters: &NONE };
    let secret = gateway.scheme().secret(SECRET).unwrap();
    verify(gateway.scheme(), &delivery, &[secret], NOW, AgeCheck::Definition)
}

/// Judges one delivery whose signature is in the headers.
fn judge_headers(gateway: &Gateway, body: &[u8], headers: &[(&str, &str)]) -> Verdict {
    let headers = Headers::new(headers.iter().copied());
    let delivery = Delivery { body, signature: None, headers: Some(&headers), parameters: &NONE };
    let secret = gateway.scheme().secret(SECRET).unwrap();
    verify(gateway.scheme(), &delivery, &[secret], NOW, AgeCheck::Definition)
}

fn sign(body: &[u8]) -> String {
    hmac_hex(SECRET.as_bytes(), &[body])
}

/// A signature header of the gateway that signs `timestamp.body`.
fn sign_pairs(timestamp: &str, body: &[u8]) -> String {
    let mac = hmac_hex(SECRET.as_bytes(), &[timestamp.as_bytes(), b".", body]);
    format!("t={timestamp},v1={mac}")
}

#[test]
fn b17_only_the_exact_bytes_are_signed() {
    let generic = gateway("generic");
    let body = b"{\"z\":1.0,  \"a\":\"\\u00e9\",\"amount\":1000 }\r\n\n";
    let signature = sign(body);
    assert_eq!(judge(&generic, body, &signature), VALID);

    let parsed: Value = serde_json::from_slice(body).unwrap();
    let rewritten = serde_json::to_vec(&parsed).unwrap();
    let chopped = &body[..body.len() - 1];
    for other in [rewritten.as_slice(), chopped] {
        assert_eq!(judge(&generic, other, &signature), Verdict::Mismatch);
        assert_ne!(digest(other), digest(body));
    }
}

#[test]
fn b18_no_byte_of_the_body_is_decoded_before_the_signature_holds() {
    let generic = gateway("generic");
    let with_note = |note: &[u8]| {
        let mut body = BODY[..BODY.len() - 1].to_vec();
        body.extend_from_slice(b",\"note\":\"");
        body.extend_from_slice(note);
        body.extend_from_slice(b"\"}");
        body
    };
    let readable = [with_note("💳".as_bytes()), with_note("\u{2028}".as_bytes())];
    let unreadable = [
        with_note(b"\xff\xfe"),
        [b"\xef\xbb\xbf", BODY].concat(),
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\x56\x00".to_vec(),
    ];
    for body in readable.iter().chain(&unreadable) {
        assert_eq!(judge(&generic, body, &sign(body)), VALID);
    }
    for body in &readable {
        assert!(read_body(&generic, body).is_ok());
    }
    for body in &unreadable {
        assert_eq!(read_body(&generic, body).unwrap_err().event_id, None);
    }
}

#[test]
fn b19_text_that_is_no_signature_is_an_answer_not_a_failure() {
    let one_mib = "a".repeat(1024 * 1024);
    let texts = [
        "",
        "abc",
        &"a".repeat(63),
        &"a".repeat(65),
        &"z".repeat(64),
        &"é".repeat(64),
        &one_mib,
        "v1=",
        "v1=,v1=",
    ];
    for name in ["generic", "stripe"] {
        let gateway = gateway(name);
        for text in texts {
            let verdict = judge(&gateway, BODY, text);
            assert!(matches!(verdict, Verdict::Malformed(_)), "{name} {:.20}: {verdict:?}", text);
        }
        let missing = Delivery { body: BODY, signature: None, headers: None, parameters: &NONE };
        let secret = gateway.scheme().secret(SECRET).unwrap();
        let verdict = verify(gateway.scheme(), &missing, &[secret], NOW, AgeCheck::Definition);
        assert_eq!(verdict, Verdict::Malformed(Malformed::NoSignature));
    }
}

#[test]
fn b22_a_key_that_anybody_knows_is_not_a_secret() {
    let generic = gateway("generic");
    for blank in ["", " ", "                    ", "\n\t", "\u{2003}\u{2003}\u{2003}"] {
        assert_eq!(generic.scheme().secret(blank).unwrap_err(), SecretFault::Blank);
    }
    for short in ["x", "five5"] {
        assert_eq!(generic.scheme().secret(short).unwrap_err(), SecretFault::TooShort);
    }
    assert!(generic.scheme().secret("six by").is_ok());

    let signature = hmac_hex(b"", &[BODY]);
    let delivery = Delivery { body: BODY, signature: Some(&signature), headers: None, parameters: &NONE };
    assert_eq!(verify(generic.scheme(), &delivery, &[], NOW, AgeCheck::Definition), Verdict::Mismatch);
}

#[test]
fn b24_the_window_is_two_sided_and_its_edge_belongs_to_it() {
    let stripe = gateway("stripe");
    let age = |seconds: i64| judge(&stripe, BODY, &sign_pairs(&(NOW - seconds).to_string(), BODY));
    for seconds in [0, 299, 300, -299, -300] {
        let timestamp = Some(NOW - seconds);
        assert_eq!(age(seconds), Verdict::Valid { timestamp }, "{seconds}");
    }
    for seconds in [301, -301, NOW, 86_400] {
        assert_eq!(age(seconds), Verdict::Expired, "{seconds}");
    }
    for far in ["1764590400000", "9223372036854775807", "0"] {
        assert_eq!(judge(&stripe, BODY, &sign_pairs(far, BODY)), Verdict::Expired, "{far}");
    }
}

#[test]
fn b24_timestamps_are_plain_digits() {
    let stripe = gateway("stripe");
    for text in
        ["-1", "+1", "123abc", "1e3", "1764590400.0", " 1764590400", "9999999999999999999", "１７６４"]
    {
        let verdict = judge(&stripe, BODY, &sign_pairs(text, BODY));
        assert_eq!(verdict, Verdict::Malformed(Malformed::BadTimestamp), "{text:?}");
    }
    let v1 = format!("v1={}", sign(BODY));
    assert_eq!(judge(&stripe, BODY, &v1), Verdict::Malformed(Malformed::NoTimestamp));
    let empty = sign_pairs("", BODY);
    assert_eq!(judge(&stripe, BODY, &empty), Verdict::Malformed(Malformed::NoTimestamp));
    let twice = format!("t={NOW},{}", sign_pairs(&NOW.to_string(), BODY));
    assert_eq!(judge(&stripe, BODY, &twice), Verdict::Malformed(Malformed::SeveralTimestamps));
}

#[test]
fn the_window_of_a_source_replaces_the_definition_s() {
    let stripe = gateway("stripe");
    let secret = [stripe.scheme().secret(SECRET).unwrap()];
    let signature = sign_pairs(&(NOW - 10).to_string(), BODY);
    let delivery = Delivery { body: BODY, signature: Some(&signature), headers: None, parameters: &NONE };
    let timestamp = Some(NOW - 10);
    let judge = |now, tolerance: Option<u32>| {
        let age = tolerance.map_or(AgeCheck::Definition, AgeCheck::Seconds);
        verify(stripe.scheme(), &delivery, &secret, now, age)
    };
    assert_eq!(judge(NOW, Some(10)), Verdict::Valid { timestamp });
    assert_eq!(judge(NOW, Some(9)), Verdict::Expired);
    assert_eq!(judge(NOW, Some(0)), Verdict::Expired);
    assert_eq!(judge(NOW - 10, Some(0)), Verdict::Valid { timestamp });
    for extreme in [i64::MIN, i64::MAX] {
        assert_eq!(judge(extreme, Some(u32::MAX)), Verdict::Expired);
    }
    // A wrong signature is wrong however old it is.
    let wrong = signature.replace("v1=", "v1=0");
    let delivery = Delivery { signature: Some(&wrong), ..delivery };
    assert_eq!(verify(stripe.scheme(), &delivery, &secret, 0, AgeCheck::Definition), Verdict::Mismatch);
}

#[test]
fn a_bare_signature_may_carry_its_prefix_and_either_case() {
    let generic = gateway("generic");
    let signature = sign(BODY);
    let upper = signature.to_ascii_uppercase();
    for text in [signature.clone(), format!("sha256={signature}"), upper.clone(), format!("sha256={upper}")] {
        assert_eq!(judge(&generic, BODY, &text), VALID, "{text}");
    }
    for text in [
        format!("sha256=sha256={signature}"),
        format!("SHA256={signature}"),
        format!("sha1={signature}"),
        format!(" {signature}"),
        format!("{signature}\n"),
        format!("{signature},{signature}"),
    ] {
        let verdict = judge(&generic, BODY, &text);
        assert_eq!(verdict, Verdict::Malformed(Malformed::Undecodable), "{text}");
    }
}

#[test]
fn any_active_secret_and_any_candidate_may_match() {
    let stripe = gateway("stripe");
    let secrets: Vec<_> = ["the first secret", SECRET, "the third secret"]
        .iter()
        .map(|text| stripe.scheme().secret(text).unwrap())
        .collect();
    let good = sign_pairs(&NOW.to_string(), BODY);
    let text = format!("{good},v1={},v1=,v0=x,extra", "0".repeat(64));
    let delivery = Delivery { body: BODY, signature: Some(&text), headers: None, parameters: &NONE };
    let judge = |secrets: &[Secret]| verify(stripe.scheme(), &delivery, secrets, NOW, AgeCheck::Definition);
    assert_eq!(judge(&secrets), Verdict::Valid { timestamp: Some(NOW) });
    assert_eq!(judge(&secrets[..1]), Verdict::Mismatch);
}

#[test]
fn headers_are_found_in_any_case_and_never_guessed() {
    let generic = gateway("generic");
    let signature = sign(BODY);
    let (good, wrong) = (signature.as_str(), &*"0".repeat(64));
    let judge = |headers: &[(&str, &str)]| judge_headers(&generic, BODY, headers);
    assert_eq!(judge(&[("x-signature", good)]), VALID);
    assert_eq!(judge(&[("X-HUB-SIGNATURE-256", good), ("other", "x")]), VALID);
    assert_eq!(judge(&[("X-Signature", good), ("x-signature", good)]), VALID);
    assert_eq!(judge(&[("X-Signature", wrong), ("X-Hub-Signature-256", good)]), Verdict::Mismatch);
    let ambiguous = Verdict::Malformed(Malformed::AmbiguousHeader);
    assert_eq!(judge(&[("X-Signature", good), ("x-signature", wrong)]), ambiguous);
    assert_eq!(judge(&[("x-signature", wrong), ("X-Signature", good)]), ambiguous);
    assert_eq!(judge(&[("other", "a"), ("Other", "b"), ("X-Signature", good)]), VALID);
    assert_eq!(judge(&[]), Verdict::Malformed(Malformed::NoSignature));
    let flood = "x".repeat(MAX_HEADER_BYTES);
    let verdict = judge(&[("X-Signature", good), ("other", &flood)]);
    assert_eq!(verdict, Verdict::Malformed(Malformed::HeadersTooLarge));
    let mut many = vec![("", ""); 999];
    many.push(("X-Signature", good));
    assert_eq!(judge(&many), VALID);
    many.push(("", ""));
    assert_eq!(judge(&many), Verdict::Malformed(Malformed::HeadersTooLarge));
}

#[test]
fn a_signature_text_has_a_longest_length() {
    let stripe = gateway("stripe");
    let good = sign_pairs(&NOW.to_string(), BODY);
    let padded = |length| format!("{good},{}", "x".repeat(length - good.len() - 1));
    let verdict = judge(&stripe, BODY, &padded(MAX_SIGNATURE_BYTES));
    assert_eq!(verdict, Verdict::Valid { timestamp: Some(NOW) });
    let verdict = judge(&stripe, BODY, &padded(MAX_SIGNATURE_BYTES + 1));
    assert_eq!(verdict, Verdict::Malformed(Malformed::SignatureTooLong));
}

#[test]
fn nothing_printable_holds_a_secret_a_signature_or_a_body() {
    let stripe = gateway("stripe");
    let headers = Headers::new([("X-Signature", "5ecr37")]);
    let delivery =
        Delivery { body: b"pan 4111", signature: Some("5ecr37"), headers: Some(&headers), parameters: &NONE };
    let printed = format!("{:?} {delivery:?} {headers:?}", stripe.scheme().secret(SECRET).unwrap());
    for private in [SECRET, "4111", "5ecr37"] {
        assert!(!printed.contains(private), "{printed}");
    }
}

/// The shipped definition of signed timestamps with one text replaced.
fn altered(from: &str, to: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/gateways/stripe.json");
    let json = std::fs::read_to_string(path).unwrap();
    assert!(json.contains(from), "{from}");
    let altered = json.replacen(from, to, 1);
    match Gateway::from_json(&altered) {
        Ok(_) => "accepted".to_owned(),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn definitions_that_trust_what_is_not_signed_are_refused() {
    for (template, why) in [
        ("", "an unsigned timestamp proves nothing"),
        ("{body}", "an unsigned timestamp proves nothing"),
        ("{timestamp}.{secret}.{body}", "only where the method is a plain hash"),
        ("{timestamp}.{id}.{body}", "an \"id\" section"),
        ("{timestamp}.{body|rot13}", "no filter \"rot13\""),
        ("{timestamp}.{cookie:x}", "is not a place"),
        ("{time}.{body}", "no placeholder {time}"),
        ("{timestamp}.{body", "brace without its partner"),
        ("{timestamp}}.{body}", "brace without its partner"),
    ] {
        let answer = altered("{timestamp}.{body}", template);
        assert!(answer.contains(why), "{template}: {answer}");
    }
    for accepted in ["{timestamp}{body}", "{{{timestamp}}}{body}", "{timestamp}.{body|sha256|hex}"] {
        assert_eq!(altered("{timestamp}.{body}", accepted), "accepted");
    }
}

/// What a signature leaves out is said, and what is not signed identifies nothing.
#[test]
fn definitions_that_leave_the_body_out_are_flagged() {
    let with = |signed: &str| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/gateways/stripe.json");
        let json = std::fs::read_to_string(path).unwrap().replacen("{timestamp}.{body}", signed, 1);
        Gateway::from_json(&json).unwrap()
    };
    for whole in ["{timestamp}.{body}", "{timestamp}.{body|sha256|base64}"] {
        let gateway = with(whole);
        assert!(gateway.covers_body() && gateway.id_is_signed() && gateway.remarks().is_empty(), "{whole}");
    }
    for (partly, id_is_signed, said) in [
        ("{timestamp}.", false, "vouches for the caller"),
        ("{timestamp}{/id}", true, "without a border"),
        ("{timestamp}.{/id}", true, "type"),
        ("{timestamp}.{body|crc32}", false, "checksum"),
        ("{timestamp}.{body|lower}", false, "checksum"),
    ] {
        let gateway = with(partly);
        assert!(!gateway.covers_body(), "{partly}");
        assert_eq!(gateway.id_is_signed(), id_is_signed, "{partly}");
        assert!(gateway.remarks().join(" ").contains(said), "{partly}: {:?}", gateway.remarks());
    }
}

/// Fields that are joined as they are may hold what stands between them.
#[test]
fn joined_fields_have_borders_that_can_be_written_into_them() {
    let remarks = |each: &str| {
        let gateway = Gateway::from_json(&format!(
            r#"{{"description": "", "verify": {{"method": "hmac-sha256",
                "signed_text": [{{"fields": {{"of": "form", "each": "{each}", "join": "&"}}}}],
                "signature": {{"from": ["header:S"], "encoding": "hex"}}}},
                "event": {{"id": ["form:id"], "type": ["form:type"]}}}}"#
        ));
        gateway.unwrap().remarks().join(" ")
    };
    assert!(remarks("{key}={value}").contains("could have been several"));
    assert!(remarks("{value}").contains("not their names"));
}

/// Known answers of the methods that no shipped gateway uses.
#[test]
fn methods_give_the_known_answers() {
    let cases: Vec<Value> = serde_json::from_slice(&vector_file("methods.json")).unwrap();
    assert_eq!(cases.len(), 4);
    for case in &cases {
        let text = |name: &str| case[name].as_str().unwrap();
        let gateway = Gateway::from_json(&format!(
            r#"{{"description": "", "verify": {{"method": "{}", "key": "{}", "signed_text": "{{body}}",
                "signature": {{"from": ["header:S"], "encoding": "{}"}}}}, "event": {{"type": ["/type"]}}}}"#,
            text("method"),
            text("key"),
            text("encoding"),
        ));
        let gateway = gateway.unwrap();
        let secret = [gateway.scheme().secret(text("secret")).unwrap()];
        let judge = |body: &str| {
            let signature = Some(text("signature"));
            let delivery = Delivery { body: body.as_bytes(), signature, headers: None, parameters: &NONE };
            verify(gateway.scheme(), &delivery, &secret, NOW, AgeCheck::Definition)
        };
        assert_eq!(judge(text("body")), VALID, "{}", text("method"));
        assert_eq!(judge(&format!("{} ", text("body"))), Verdict::Mismatch, "{}", text("method"));
    }
}

/// A signed moment may be written as RFC 3339; what is signed is the text, what is judged the moment.
#[test]
fn a_signed_moment_may_be_written_out() {
    let gateway = Gateway::from_json(
        r#"{"description": "", "verify": {"method": "hmac-sha256", "signed_text": "{timestamp}{body}",
            "timestamp": {"from": ["header:T"], "unit": "rfc3339", "tolerance_s": {"past": 600, "future": 60}},
            "signature": {"from": ["header:S"], "encoding": "hex"}}, "event": {"type": ["/type"]}}"#,
    );
    let gateway = gateway.unwrap();
    for (moment, verdict) in [
        ("2025-12-01T12:00:00Z", Verdict::Valid { timestamp: Some(NOW) }),
        ("2025-12-01T17:30:00.5+05:30", Verdict::Valid { timestamp: Some(NOW) }),
        ("2025-12-01T11:50:00Z", Verdict::Valid { timestamp: Some(NOW - 600) }),
        ("2025-12-01T11:49:59.999999999Z", Verdict::Expired),
        ("2025-12-01T12:01:00.001Z", Verdict::Expired),
        ("2025-12-01T12:00:00", Verdict::Malformed(Malformed::BadTimestamp)),
        ("1764590400", Verdict::Malformed(Malformed::BadTimestamp)),
    ] {
        let signature = hmac_hex(SECRET.as_bytes(), &[moment.as_bytes(), BODY]);
        let judged = judge_headers(&gateway, BODY, &[("T", moment), ("S", &signature)]);
        assert_eq!(judged, verdict, "{moment}");
    }
}

/// A header's name has no case, also where it is asked whether it is signed.
#[test]
fn a_signed_header_is_signed_in_any_case() {
    let with = |signed: &str, read: &str| {
        let gateway = Gateway::from_json(&format!(
            r#"{{"description": "", "verify": {{"method": "hmac-sha256", "signed_text": "{signed}", "id": ["header:Webhook-Id"],
                "signature": {{"from": ["header:S"], "encoding": "hex"}}}},
                "event": {{"id": ["{read}"], "type": ["/type"]}}}}"#
        ));
        gateway.unwrap().id_is_signed()
    };
    assert!(with("{id}.{body}", "header:webhook-id"));
    assert!(with("{id}.{header:X-Other}.{body}", "header:x-other"));
    assert!(!with("{id}.{body}", "header:x-other"));
}

/// With a public key each candidate costs a pass over the body, so only the first few are looked at.
#[test]
fn costly_candidates_are_few() {
    use ed25519_dalek::{Signer, SigningKey};
    let gateway = gateway("standard_webhooks_v1a");
    let key = SigningKey::from_bytes(&[7; 32]);
    let secret = format!("whpk_{}", Base64::encode_string(key.verifying_key().as_bytes()));
    let secret = [gateway.scheme().secret(&secret).unwrap()];
    let good = Base64::encode_string(&key.sign(&[b"m.1764590400.", BODY].concat()).to_bytes());
    let wrong = Base64::encode_string(&[1; 64]);
    for (before, verdict) in [
        (0, Verdict::Valid { timestamp: Some(NOW) }),
        (7, Verdict::Valid { timestamp: Some(NOW) }),
        (8, Verdict::Mismatch),
    ] {
        let text = format!("{}v1a,{good}", format!("v1a,{wrong} ").repeat(before));
        let headers =
            [("webhook-id", "m"), ("webhook-timestamp", "1764590400"), ("webhook-signature", &text)];
        let headers = Headers::new(headers);
        let delivery = Delivery { body: BODY, signature: None, headers: Some(&headers), parameters: &NONE };
        assert_eq!(
            verify(gateway.scheme(), &delivery, &secret, NOW, AgeCheck::Definition),
            verdict,
            "{before}"
        );
    }
}

/// A payer who writes the border between fields into their name must not move one field into the next.
#[test]
fn fields_of_a_hash_keep_their_borders() {
    let gateway = gateway("payu_india");
    let secret = [gateway.scheme().secret(SECRET).unwrap()];
    let judge = |form: &str| {
        let delivery = Delivery { body: form.as_bytes(), signature: None, headers: None, parameters: &NONE };
        verify(gateway.scheme(), &delivery, &secret, NOW, AgeCheck::Definition)
    };
    let signed = format!("{SECRET}|success|||||||||||a@b|Bob|Shoes|500.00|ORD-2|Pen|1.00|ORD-1|K");
    let hash = hex::encode(Sha512::digest(signed));
    let paid = "status=success&email=a%40b&firstname=Bob%7CShoes%7C500.00%7CORD-2&productinfo=Pen&amount=1.00&txnid=ORD-1&key=K";
    let forged = "status=success&email=a%40b&firstname=Bob&productinfo=Shoes&amount=500.00&txnid=ORD-2&key=%7CPen%7C1.00%7CORD-1%7CK";
    assert_eq!(judge(&format!("{paid}&hash={hash}")), VALID);
    let forged_too = "status=success&email=a%40b&firstname=Bob&productinfo=Shoes&amount=500.00&txnid=ORD-2&key=Pen%7C1.00%7CORD-1%7CK";
    for forged in [forged, forged_too] {
        let verdict = judge(&format!("{forged}&hash={hash}"));
        assert_eq!(verdict, Verdict::Malformed(Malformed::ForbiddenCharacter));
    }
}

/// A text that may drop out of the signed text vouches for nothing, nor one that is signed only now and then.
#[test]
fn what_may_be_left_out_is_not_vouched_for() {
    let covers = |signed: &str, more: &str, id: &str| {
        let gateway = Gateway::from_json(&format!(
            r#"{{"description": "", "verify": {{"method": "hmac-sha256", "signed_text": {signed}{more},
                "signature": {{"from": ["header:S"], "encoding": "hex"}}}},
                "event": {{"id": ["{id}"], "type": ["/type"]}}}}"#
        ));
        let gateway = gateway.unwrap();
        (gateway.covers_body(), gateway.id_is_signed())
    };
    let fields = |except: &str, each: &str| {
        format!(r#"[{{"fields": {{"of": "json", "except": [{except}], "each": "{each}", "join": "&"}}}}]"#)
    };
    let both = "{key}={value}";
    for (signed, more, id, expected) in [
        (r#"["{body}"]"#.to_owned(), String::new(), "/id", (true, true)),
        (r#"[{"if_present": "{body}{/x}"}, "k"]"#.to_owned(), String::new(), "/id", (false, false)),
        (r#"[{"if_present": "{/id}{/x}"}, "k"]"#.to_owned(), String::new(), "/id", (false, false)),
        (r#"[{"if_present": "{/id}."}, "k"]"#.to_owned(), String::new(), "/id", (false, true)),
        (r#""{body}""#.to_owned(), r#", "or_signed_text": ["{/id}"]"#.to_owned(), "/id", (false, false)),
        (fields("", both), String::new(), "/id", (false, true)),
        (
            fields("", both),
            format!(r#", "or_signed_text": [{}]"#, fields(r#""id""#, both)),
            "/id",
            (false, false),
        ),
        (fields(r#""a/b""#, both), String::new(), "/a~1b", (false, false)),
        (fields(r#""other""#, both), String::new(), "/a~1b", (false, true)),
        (fields("", "{value}"), String::new(), "/id", (false, false)),
        (fields("", both), String::new(), "/deep/id", (false, false)),
    ] {
        assert_eq!(covers(&signed, &more, id), expected, "{signed}{more} {id}");
    }
}

#[test]
fn definitions_are_read_strictly() {
    for (from, to, why) in [
        ("\"method\"", "\"methud\"", "unknown field `methud`"),
        ("\"unit\": \"s\"", "\"unit\": \"s\", \"unit\": \"s\"", "duplicate field `unit`"),
        ("hmac-sha256", "hmac-md4", "unknown variant `hmac-md4`"),
        ("hmac-sha256", "rsa-sha256", "\"pem\""),
        ("hmac-sha256", "token", "sign nothing"),
        ("[\"header:Stripe-Signature\"]", "[]", "at least one place"),
        ("\"header:Stripe-Signature\"", "\"Stripe-Signature\"", "begins with"),
        ("\"v1\"", "\"t\"", "the same key"),
        ("\"v1\"", "\"v=1\"", "neither"),
        ("{\"pairs\": {\"key\": \"v1\"}}", "{\"bare\": {}}", "format \"pairs\""),
        ("{\"pairs\": {\"key\": \"v1\"}}", "\"bar\"", "a format is"),
        ("[\"/id\"]", "[\"id\"]", "begins with"),
        ("[\"/id\"]", "[\"/i~2d\"]", "\"~\""),
        ("[\"/id\"]", "[7]", "a place is"),
        ("\"type\": [\"/type\"]", "\"type\": []", "at least one place"),
        ("[\"cs_\"]", "[]", "at least one prefix"),
        ("\"kind\": \"charge\"", "\"kind\": \"bank\"", "bank_reference"),
        ("\"kind\": \"charge\"", "\"kind\": \"refund\"", "appears twice"),
        ("\"kind\": \"charge\"", "\"kind\": \"a charge\"", "white space"),
        ("\"charge.captured\"", "\"payment_intent.succeeded\"", "already decides"),
        ("\"payment_succeeded\"", "\"payment_succeded\"", "unknown variant"),
        ("300", "-1", "a tolerance is"),
        (", \"tolerance_s\": 300", "", "missing field `tolerance_s`"),
    ] {
        let answer = altered(from, to);
        assert!(answer.contains(why), "{from} -> {to}: {answer}");
    }
}

#[test]
fn a_long_signature_header_costs_no_more_than_its_length() {
    let stripe = gateway("stripe");
    let secret = [stripe.scheme().secret(SECRET).unwrap()];
    let header = |size: usize| {
        let size = size / 16; // 64 KiB is the longest that is read at all
        let mut text = format!("t={NOW}");
        while text.len() + 70 <= size {
            text.push_str(",v1=");
            text.push_str(&"a".repeat(64));
        }
        text
    };
    assert_not_quadratic(header, |text| {
        let delivery = Delivery { body: BODY, signature: Some(text), headers: None, parameters: &NONE };
        assert_eq!(verify(stripe.scheme(), &delivery, &secret, NOW, AgeCheck::Definition), Verdict::Mismatch);
    });
}

proptest! {
    #[test]
    fn what_is_signed_is_valid_and_one_bit_more_or_less_is_not(
        body in prop::collection::vec(any::<u8>(), 1..300),
        secret in "[!-~]{8,80}",
        bit in any::<prop::sample::Index>(),
    ) {
        let stripe = gateway("stripe");
        let key = [stripe.scheme().secret(&secret).unwrap()];
        let mac = hmac_hex(secret.as_bytes(), &[NOW.to_string().as_bytes(), b".", &body]);
        let text = format!("t={NOW},v1={mac}");
        let judge = |body: &[u8], text: &str, key: &[Secret]| {
            let delivery = Delivery { body, signature: Some(text), headers: None, parameters: &NONE };
            verify(stripe.scheme(), &delivery, key, NOW, AgeCheck::Definition)
        };
        prop_assert_eq!(judge(&body, &text, &key), Verdict::Valid { timestamp: Some(NOW) });

        let flip = |bytes: &[u8]| {
            let bit = bit.index(bytes.len() * 8);
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            flipped
        };
        prop_assert_eq!(judge(&flip(&body), &text, &key), Verdict::Mismatch);
        let wrong = format!("t={NOW},v1={}", hex::encode(flip(&hex::decode(&mac).unwrap())));
        prop_assert_eq!(judge(&body, &wrong, &key), Verdict::Mismatch);
        let later = format!("t={},v1={mac}", NOW + 1);
        prop_assert_eq!(judge(&body, &later, &key), Verdict::Mismatch);
        let other = [stripe.scheme().secret(&format!("{secret}.")).unwrap()];
        prop_assert_eq!(judge(&body, &text, &other), Verdict::Mismatch);
    }

    #[test]
    fn no_header_is_valid_by_chance_and_none_panics(
        text in prop_oneof![".*", "(t=[0-9]{0,20},|v1=[0-9a-f]{0,65},|[tv]=,|=|,){0,9}"],
        now: i64,
        tolerance: Option<u32>,
    ) {
        for name in ["generic", "stripe"] {
            let gateway = gateway(name);
            let secret = [gateway.scheme().secret(SECRET).unwrap()];
            let headers = Headers::new([("X-Signature", text.clone()), ("Stripe-Signature", text.clone())]);
            let as_argument = Delivery { body: BODY, signature: Some(&text), headers: None, parameters: &NONE };
            let as_header = Delivery { body: BODY, signature: None, headers: Some(&headers), parameters: &NONE };
            let age = tolerance.map_or(AgeCheck::Definition, AgeCheck::Seconds);
            let verdict = verify(gateway.scheme(), &as_argument, &secret, now, age);
            let is_valid = matches!(verdict, Verdict::Valid { .. });
            prop_assert!(!is_valid);
            prop_assert_eq!(verdict, verify(gateway.scheme(), &as_header, &secret, now, age));
        }
    }

    #[test]
    fn no_definition_panics(json in prop_oneof![".*", "[\\[{\"a-z:,}\\]]{0,40}"], pointer in "(/|~|[a-z0-9]){0,12}") {
        let _ = Gateway::from_json(&json);
        let _ = altered("\"/id\"", &serde_json::to_string(&pointer).unwrap());
        let _ = altered("\"{timestamp}.{body}\"", &serde_json::to_string(&json).unwrap());
    }
}

/// B23, P5: the place of the first wrong byte makes no difference. Signatures are compared by a
/// constant-time crate alone; and 20,000 calls each with the first and
/// with the last byte wrong, interleaved, take the same time (the bound is wide: it would catch a
/// compare of text or a branch per candidate, not a nanosecond).
#[test]
fn b23_comparison_is_constant_time() {
    let source = include_str!("../src/domain/signature/secret.rs");
    assert_eq!(source.matches("ct_eq(").count(), 3, "MACs, credentials and sealed hashes");
    assert!(!source.contains("=="), "what is compared there is compared in constant time");

    let generic = gateway("generic");
    let right = sign(BODY);
    let flip = |digit: &str| if digit == "0" { "1" } else { "0" };
    let first_wrong = format!("{}{}", flip(&right[..1]), &right[1..]);
    let last_wrong = format!("{}{}", &right[..63], flip(&right[63..]));
    let secret = [generic.scheme().secret(SECRET).unwrap()];
    let timed = |signature: &str| {
        let delivery = Delivery { body: BODY, signature: Some(signature), headers: None, parameters: &NONE };
        let start = std::time::Instant::now();
        assert_eq!(
            verify(generic.scheme(), &delivery, &secret, NOW, AgeCheck::Definition),
            Verdict::Mismatch
        );
        start.elapsed().as_nanos()
    };
    let (mut first, mut last): (Vec<_>, Vec<_>) =
        (0..20_000).map(|_| (timed(&first_wrong), timed(&last_wrong))).unzip();
    first.sort_unstable();
    last.sort_unstable();
    let (first, last) = (first[10_000] as f64, last[10_000] as f64);
    assert!(
        (0.5..2.0).contains(&(first / last)),
        "median ns: first byte wrong {first}, last byte wrong {last}"
    );
}
