//! A body is read one way or not at all. Names such as `b29_…` are rows of the list of public
//! failure reports that this project tests against.

mod common;

use common::{assert_not_quadratic, gateway, read_body, stripe_body};
use payment_idem::domain::event::{Event, Fault, Field, Reference};
use payment_idem::domain::gateway::Gateway;
use payment_idem::domain::identifier::{self, IdentifierFault};
use payment_idem::domain::json::{self, JsonFault, MAX_DEPTH, MAX_KEYS, PointerFault, Pointers, Token};
use payment_idem::domain::kind::Kind;
use payment_idem::domain::money::MoneyFault;
use proptest::prelude::*;
use serde_json::json;

/// Reads a body of the plain shape.
fn read(body: impl AsRef<[u8]>) -> Result<Event, Fault> {
    read_body(&gateway("generic"), body.as_ref()).map_err(|unreadable| unreadable.fault)
}

/// A payment with `more` members behind the usual ones.
fn paid_with(more: &str) -> String {
    let usual = r#""id":"evt_1","type":"paid","order":"O1","amount":1000,"currency":"usd","payment":"pi_1""#;
    format!("{{{usual}{more}}}")
}

/// A payment in which the raw JSON of one member is replaced, or left out where it is empty.
fn paid_but(member: &str, raw: &str) -> String {
    let usual = [
        ("id", r#""evt_1""#),
        ("type", r#""paid""#),
        ("order", r#""O1""#),
        ("amount", "1000"),
        ("currency", r#""usd""#),
        ("payment", r#""pi_1""#),
    ];
    let mut members: Vec<_> = usual.into_iter().filter(|(name, _)| *name != member).collect();
    members.push((member, raw));
    members.retain(|(_, raw)| !raw.is_empty());
    let members: Vec<_> = members.iter().map(|(name, raw)| format!("{name:?}:{raw}")).collect();
    format!("{{{}}}", members.join(","))
}

fn references(event: &Event) -> Vec<(&str, &str)> {
    let pairs = event.references.iter();
    pairs.map(|Reference { kind, value }| (kind.as_str(), value.as_str())).collect()
}

#[test]
fn every_fact_of_a_plain_event_is_read() {
    let body = r#"{"id":"evt_1","type":"payment.succeeded","order":"O1","gateway_order_id":"go_1",
        "merchant_id":"M1","amount":1000,"currency":"inr","payment":"pi_1","utr":"123456789012",
        "payer_vpa":"a b@bank","created":1764590400,"livemode":true}"#;
    let event = read(body).unwrap();
    assert_eq!(event.event_id.as_deref(), Some("evt_1"));
    assert_eq!(event.event_type, "payment.succeeded");
    assert_eq!(event.kind, Some(Kind::PaymentSucceeded));
    assert_eq!(event.order_reference.as_deref(), Some("O1"));
    assert_eq!(event.gateway_order_id.as_deref(), Some("go_1"));
    assert_eq!(event.merchant_id.as_deref(), Some("M1"));
    assert_eq!(event.amount_minor, Some(1000));
    assert_eq!(event.currency.unwrap().as_str(), "INR");
    assert_eq!(references(&event), [("bank", "123456789012"), ("payment", "pi_1")]);
    assert_eq!(event.bank_reference.as_deref(), Some("123456789012"));
    assert_eq!(event.payer.as_deref(), Some("a b@bank"));
    assert_eq!(event.event_time_us, Some(1_764_590_400_000_000));
    assert_eq!(event.live_mode, Some(true));
    assert!(!format!("{event:?}").contains("a b@bank"));
}

#[test]
fn types_of_the_plain_shape_have_their_kinds() {
    for (event_type, kind) in [
        ("paid", Some(Kind::PaymentSucceeded)),
        ("charge_succeeded", Some(Kind::PaymentSucceeded)),
        ("failed", Some(Kind::PaymentFailed)),
        ("payment_expired", Some(Kind::PaymentExpired)),
        ("attempted", Some(Kind::PaymentAttempted)),
        ("authorised", Some(Kind::PaymentAuthorized)),
        ("refund", Some(Kind::RefundSettled)),
        ("dispute_lost", Some(Kind::DisputeLost)),
        ("ping", Some(Kind::Informational)),
        ("Paid", None),
        ("paid ", None),
        ("a type of the future", None),
    ] {
        let event = read(paid_but("type", &format!("{event_type:?}"))).unwrap();
        assert_eq!(event.kind, kind, "{event_type}");
    }
    for kind in Kind::ALL {
        assert_eq!(kind.as_str().parse(), Ok(kind));
        assert_eq!(serde_json::from_value::<Kind>(json!(kind.as_str())).unwrap(), kind);
    }
    assert!("paid".parse::<Kind>().is_err());
}

#[test]
fn known_payloads_give_their_known_fields() {
    let stripe = gateway("stripe");
    let paid = read_body(&stripe, &stripe_body("stripe-001-ok")).unwrap();
    assert_eq!(paid.event_id.as_deref(), Some("evt_3Qx7LmA1b2C3d4E50kTz9YpW"));
    assert_eq!(paid.event_type, "payment_intent.succeeded");
    assert_eq!(paid.kind, Some(Kind::PaymentSucceeded));
    assert_eq!(paid.order_reference.as_deref(), Some("ORD-2025-000871"));
    assert_eq!(paid.gateway_order_id.as_deref(), Some("pi_3Qx7LmA1b2C3d4E50aBcDeFg"));
    assert_eq!(paid.amount_minor, Some(249_900));
    assert_eq!(paid.currency.unwrap().as_str(), "INR");
    assert_eq!(paid.bank_reference, None);
    assert_eq!(paid.event_time_us, Some(1_764_590_412_000_000));
    assert_eq!(paid.live_mode, Some(false));
    assert_eq!(
        references(&paid),
        [("charge", "ch_3Qx7LmA1b2C3d4E50hIjKlMn"), ("payment_intent", "pi_3Qx7LmA1b2C3d4E50aBcDeFg")]
    );

    let yen = read_body(&stripe, &stripe_body("stripe-070-jpy")).unwrap();
    assert_eq!(yen.event_id.as_deref(), Some("evt_1Qx8JpYzero0000000000001"));
    assert_eq!(yen.event_type, "checkout.session.completed");
    assert_eq!(yen.kind, Some(Kind::PaymentSucceeded));
    assert_eq!(yen.order_reference.as_deref(), Some("ORD-JP-77"));
    assert_eq!(yen.gateway_order_id.as_deref(), Some("cs_test_a1JpYq0w9e8r7t6y5u4i3o2p1"));
    assert_eq!(yen.amount_minor, Some(12_800));
    assert_eq!(yen.currency.unwrap().as_str(), "JPY");
    assert_eq!(yen.event_time_us, Some(1_764_590_500_000_000));

    let refund = read_body(&stripe, &stripe_body("stripe-071-refund")).unwrap();
    assert_eq!(refund.kind, Some(Kind::RefundSettled));
    assert_eq!(refund.amount_minor, Some(50_000));
    assert_eq!(refund.order_reference.as_deref(), Some("ORD-2025-000871"));
    // The charge that is refunded; the payment intent, which the order knows, is among the references.
    assert_eq!(refund.gateway_order_id.as_deref(), Some("ch_3Qx7LmA1b2C3d4E50hIjKlMn"));
    assert!(references(&refund).contains(&("payment_intent", "pi_3Qx7LmA1b2C3d4E50aBcDeFg")));
}

#[test]
fn a_condition_decides_between_the_kinds_of_one_type() {
    let stripe = gateway("stripe");
    let kind = |event_type: &str, member: &str, value: serde_json::Value| {
        let body = json!({
            "id": "evt_1", "type": event_type,
            "data": {"object": {
                "id": "cs_1", "client_reference_id": "O1", "amount": 5, "currency": "usd", member: value
            }}
        });
        read_body(&stripe, body.to_string().as_bytes()).unwrap().kind.unwrap()
    };
    let completed = "checkout.session.completed";
    assert_eq!(kind(completed, "payment_status", json!("paid")), Kind::PaymentSucceeded);
    assert_eq!(kind(completed, "payment_status", json!("unpaid")), Kind::Informational);
    assert_eq!(kind(completed, "payment_status", json!(null)), Kind::Informational);
    assert_eq!(kind(completed, "mode", json!("setup")), Kind::Informational);
    assert_eq!(kind("charge.succeeded", "captured", json!(true)), Kind::PaymentSucceeded);
    assert_eq!(kind("charge.succeeded", "captured", json!(false)), Kind::PaymentAuthorized);
    assert_eq!(kind("charge.dispute.closed", "status", json!("lost")), Kind::DisputeLost);
    assert_eq!(kind("refund.updated", "status", json!("pending")), Kind::RefundInitiated);
}

#[test]
fn b28_text_that_nobody_asked_for_may_hold_anything_that_json_allows() {
    for raw in [r"a\u0000b", r"\ud83d", r"\udc00\ud83d", r"a\\u0000b"] {
        let event = read(paid_with(&format!(r#","customer":"{raw}","{raw}":1"#))).unwrap();
        assert_eq!(event.amount_minor, Some(1000), "{raw}");
    }
    // Where it is asked for, it has to be text that can be stored and compared.
    let control = Fault::Identifier(Field::OrderReference, IdentifierFault::Control);
    assert_eq!(read(paid_but("order", r#""a\u0000b""#)), Err(control));
    assert_eq!(read(paid_but("order", r#""\ud83d""#)), Err(Fault::NotText(Field::OrderReference)));
    assert_eq!(read(paid_but("type", r#""\udc00""#)), Err(Fault::NotText(Field::EventType)));
    assert_eq!(read(paid_with(r#","payer_vpa":"a\u0000b""#)).unwrap().payer, None);
    let escaped = read(paid_but("order", r#""\u004f\u0031""#)).unwrap();
    assert_eq!(escaped.order_reference.as_deref(), Some("O1"));
}

#[test]
fn b29_duplicate_keys_are_ambiguous() {
    let duplicate = Err(Fault::Json(JsonFault::DuplicateKey));
    for more in [
        r#","amount":1"#,
        r#","amount":1000"#,
        r#","order":"O2""#,
        r#","id":"evt_2""#,
        r#","currency":"eur""#,
        r#","\u0061mount":1"#,
        r#","x":{"a":1,"b":2,"a":3}"#,
        r#","x":[[{"":1,"":2}]]"#,
        r#","x":{"\ud83d\udcb3":1,"💳":2}"#,
        r#","x":{"\ud83d":1,"\uD83D":2}"#,
    ] {
        assert_eq!(read(paid_with(more)), duplicate, "{more}");
    }
    let many: Vec<_> = (0..500).chain([250]).map(|n| format!(r#""key{n}":{n}"#)).collect();
    assert_eq!(read(paid_with(&format!(r#","x":{{{}}}"#, many.join(",")))), duplicate);
    for more in [
        r#","x":{"id":1,"amount":2}"#,
        r#","Amount":1"#,
        r#","amount ":1"#,
        r#","x":[{"a":1},{"a":2}]"#,
        r#","x":{"\ud83d":1,"\udcb3":2,"\ufffd":3}"#,
    ] {
        assert_eq!(read(paid_with(more)).unwrap().amount_minor, Some(1000), "{more}");
    }
}

#[test]
fn b30_depth_has_one_limit() {
    let nested = |open: &str, close: &str, levels: usize| {
        paid_with(&format!(r#","x":{}1{}"#, open.repeat(levels), close.repeat(levels)))
    };
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        assert!(read(nested(open, close, MAX_DEPTH - 1)).is_ok()); // and one for the body itself
        for levels in [MAX_DEPTH, 126, 127, 128, 129, 200, 6000, 100_000] {
            let fault = Err(Fault::Json(JsonFault::TooDeep));
            assert_eq!(read(nested(open, close, levels)), fault, "{levels}");
        }
        assert!(matches!(read(open.repeat(100_000)), Err(Fault::Json(JsonFault::Syntax { .. }))));
    }
}

#[test]
fn keys_have_one_limit() {
    let object = |keys: usize| {
        let keys: Vec<String> = (0..keys).map(|n| format!(r#""key{n}":0"#)).collect();
        format!("{{{}}}", keys.join(","))
    };
    let body = |x: &str| paid_with(&format!(r#","x":{x}"#));
    let around = 8; // the keys of the body itself: less than this
    assert!(read(body(&object(MAX_KEYS - around))).is_ok());
    let many = object(MAX_KEYS + 1);
    assert_eq!(read(body(&many)), Err(Fault::Json(JsonFault::TooManyKeys)));
    // All objects count together: side by side they take as long.
    let side_by_side = |objects: usize| body(&format!("[{}]", vec![object(1000); objects].join(",")));
    assert!(read(side_by_side(MAX_KEYS / 1000 - 1)).is_ok());
    assert_eq!(read(side_by_side(MAX_KEYS / 1000)), Err(Fault::Json(JsonFault::TooManyKeys)));
}

#[test]
fn b31_amounts_are_exact_or_refused() {
    for (token, minor) in [
        ("2147483647", 2_147_483_647),
        ("2147483648", 2_147_483_648),
        ("9007199254740993", 9_007_199_254_740_993),
        ("9223372036854775807", i64::MAX),
        ("0", 0),
        ("-30000", -30_000),
    ] {
        assert_eq!(read(paid_but("amount", token)).unwrap().amount_minor, Some(minor), "{token}");
    }
    for token in ["9223372036854775808", "123456789012345678901234567890"] {
        let fault = Err(Fault::Amount(MoneyFault::OutOfRange));
        assert_eq!(read(paid_but("amount", token)), fault, "{token}");
    }
    assert_eq!(read(paid_but("amount", r#""1000""#)).unwrap().amount_minor, Some(1000));
    for token in ["1000.0", "1e3", "1E400", "10.00", r#""1000.0""#, r#""1e3""#, r#"" 1000""#, r#""1,000""#] {
        let fault = Err(Fault::Amount(MoneyFault::NotAnInteger));
        assert_eq!(read(paid_but("amount", token)), fault, "{token}");
    }
    for token in ["true", "[1000]", r#"{"value":1000}"#] {
        assert_eq!(read(paid_but("amount", token)), Err(Fault::WrongType(Field::Amount)), "{token}");
    }
    for token in ["null", "", r#""""#] {
        assert_eq!(read(paid_but("amount", token)), Err(Fault::Missing(Field::Amount)), "{token}");
    }
}

#[test]
fn b39_a_currency_that_is_not_one_matches_nothing() {
    for raw in [r#""inr""#, r#""Inr""#, r#""INR""#] {
        assert_eq!(read(paid_but("currency", raw)).unwrap().currency.unwrap().as_str(), "INR");
    }
    for raw in [
        r#"" inr""#,
        r#""inr ""#,
        r#""in-r""#,
        "\"\u{131}nr\"",
        r#""""#,
        r#""\ud83d""#,
        "null",
        "356",
        "",
        "[]",
    ] {
        assert_eq!(read(paid_but("currency", raw)).unwrap().currency, None, "{raw}");
    }
}

#[test]
fn b34_a_far_time_is_no_time() {
    for (raw, time) in [
        ("1764590400", Some(1_764_590_400_000_000)),
        ("0", Some(0)),
        ("253402300799", Some(253_402_300_799_000_000)),
        ("253402300800", None),
        ("-62135596801", None),
        ("-1", None),
        ("1e18", None),
        ("1764590400.5", None),
        ("9999999999999999999999", None),
        (r#""1764590400""#, Some(1_764_590_400_000_000)),
        (r#""2025-12-01T12:00:00Z""#, None),
        ("null", None),
    ] {
        assert_eq!(read(paid_but("created", raw)).unwrap().event_time_us, time, "{raw}");
    }
}

#[test]
fn identifiers_are_exact_or_refused() {
    for (member, field) in [
        ("id", Field::EventId),
        ("order", Field::OrderReference),
        ("gateway_order_id", Field::GatewayOrderId),
        ("merchant_id", Field::MerchantId),
        ("payment", Field::Reference),
        ("utr", Field::BankReference),
    ] {
        for (raw, why) in [
            (r#"" O1""#.to_owned(), IdentifierFault::Whitespace),
            (r#""O1\n""#.to_owned(), IdentifierFault::Whitespace),
            ("\"O\u{a0}1\"".to_owned(), IdentifierFault::Whitespace),
            (r#""O\u00011""#.to_owned(), IdentifierFault::Control),
            (format!("{:?}", "x".repeat(256)), IdentifierFault::TooLong),
        ] {
            assert_eq!(read(paid_but(member, &raw)), Err(Fault::Identifier(field, why)), "{member} {raw}");
        }
        for raw in ["true", "[]", "{}", "1.0", "-1", "1e3"] {
            assert_eq!(read(paid_but(member, raw)), Err(Fault::WrongType(field)), "{member} {raw}");
        }
        assert!(read(paid_but(member, &format!("{:?}", "x".repeat(255)))).is_ok());
        assert!(read(paid_but(member, "9007199254740993")).is_ok());
    }
    let number = read(paid_but("id", "9007199254740993")).unwrap();
    assert_eq!(number.event_id.as_deref(), Some("9007199254740993"));
    // An empty text is none.
    assert_eq!(read(paid_but("order", r#""""#)), Err(Fault::NoOrder));
    assert_eq!(read(paid_but("id", r#""""#)), Err(Fault::Missing(Field::EventId)));
    assert_eq!(read(paid_but("utr", r#""""#)).unwrap().bank_reference, None);
    assert_eq!(identifier::check("Ünïcode-💳"), Ok(()));
}

#[test]
fn a_payment_needs_an_order_and_an_event_needs_id_and_type() {
    assert_eq!(read(paid_but("order", "")), Err(Fault::NoOrder));
    assert_eq!(read(paid_but("order", "null")), Err(Fault::NoOrder));
    let by_gateway = paid_with(r#","gateway_order_id":"go_1""#).replace(r#""order":"O1","#, "");
    assert!(read(by_gateway).is_ok());
    assert_eq!(read(paid_but("id", "")), Err(Fault::Missing(Field::EventId)));
    assert_eq!(read(paid_but("type", "")), Err(Fault::Missing(Field::EventType)));
    assert_eq!(read(paid_but("type", "7")), Err(Fault::WrongType(Field::EventType)));
    assert_eq!(read("[]"), Err(Fault::Missing(Field::EventId)));
    // What would change nothing needs no id: nobody is called for it.
    for without_effect in [r#"{"type":"subscription.create"}"#, r#"{"type":"ping"}"#] {
        let event = read(without_effect).unwrap();
        assert!(event.event_id.is_none() && !event.has_effect(), "{without_effect}");
    }
    assert_eq!(read(r#"{"type":"failed"}"#), Err(Fault::Missing(Field::EventId)));
    let long = format!("{:?}", "x".repeat(256));
    let too_long = Err(Fault::Identifier(Field::EventType, IdentifierFault::TooLong));
    assert_eq!(read(paid_but("type", &long)), too_long);
    // Other kinds move no money and may come without an amount.
    assert!(read(r#"{"id":"e","type":"failed","order":"O1"}"#).is_ok());
}

#[test]
fn live_mode_is_true_false_or_absent() {
    for (raw, mode) in [
        ("true", Some(true)),
        ("false", Some(false)),
        (r#""true""#, Some(true)),
        (r#""false""#, Some(false)),
        ("null", None),
        ("", None),
    ] {
        assert_eq!(read(paid_but("livemode", raw)).unwrap().live_mode, mode, "{raw}");
    }
    for raw in [r#""True""#, r#""yes""#, "1", "0", "[]"] {
        assert_eq!(read(paid_but("livemode", raw)), Err(Fault::WrongType(Field::LiveMode)), "{raw}");
    }
}

#[test]
fn events_without_effect_are_read_leniently() {
    for event_type in ["ping", "unheard_of"] {
        let body =
            format!(r#"{{"id":"e","type":"{event_type}","order":"my order","amount":"x","payment":[]}}"#);
        let event = read(body).unwrap();
        assert_eq!((event.order_reference, event.amount_minor), (None, None));
        assert!(event.references.is_empty());
        let mode = format!(r#"{{"id":"e","type":"{event_type}","livemode":1}}"#);
        assert_eq!(read(mode), Err(Fault::WrongType(Field::LiveMode)));
    }
}

#[test]
fn the_event_id_is_told_when_the_rest_cannot_be_read() {
    let generic = gateway("generic");
    let id = |body: &str| read_body(&generic, body.as_bytes()).unwrap_err().event_id;
    assert_eq!(id(&paid_but("amount", "1.5")).as_deref(), Some("evt_1"));
    assert_eq!(id(&paid_but("livemode", "1")).as_deref(), Some("evt_1"));
    assert_eq!(id(&paid_with(r#","amount":1"#)), None);
    assert_eq!(id(&paid_but("id", r#""evt 1""#)), None);
    assert_eq!(id(&format!("{}x", paid_with(""))), None);
}

#[test]
fn messages_never_repeat_the_body() {
    let body = paid_but("order", r#""4111 1111""#).replace("evt_1", "4111");
    let unreadable = read_body(&gateway("generic"), body.as_bytes()).unwrap_err();
    assert!(!unreadable.to_string().contains("4111"), "{unreadable}");
    let broken = read_body(&gateway("generic"), b"{\"4111\" 4111}").unwrap_err();
    assert_eq!(broken.to_string(), "the body is not one JSON value (line 1, column 9)");
}

#[test]
fn only_json_is_json() {
    let syntax = |body: &[u8]| matches!(read(body), Err(Fault::Json(JsonFault::Syntax { .. })));
    for body in [
        "",
        " ",
        "{",
        "{}{}",
        "{} x",
        "{,}",
        "{\"a\":1,}",
        "[1,]",
        "{a:1}",
        "'a'",
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "NaN",
        "nul",
        "\"\t\"",
        "\"\\x\"",
        "\"\\u12\"",
        "//\n{}",
        "{\"a\":1]",
        "\u{c}{}",
        "{\"a\" \"b\"}",
        "\"\0\"",
    ] {
        assert!(syntax(body.as_bytes()), "{body:?}");
    }
    assert_eq!(read(b"\xef\xbb\xbf{}"), Err(Fault::Json(JsonFault::ByteOrderMark)));
    assert_eq!(read(b"\xff\xfe{\x00}\x00"), Err(Fault::Json(JsonFault::NotUtf8)));
    assert_eq!(read(b"\"\xed\xa0\x80\""), Err(Fault::Json(JsonFault::NotUtf8)));
}

#[test]
fn pointers_follow_rfc_6901() {
    let document = r#"{"foo":["bar","baz"],"":0,"a/b":1,"m~n":8," ":7,"01":5,"0":6,"n":null,"o":{"p":[[true]]},"e\u0073c":9}"#;
    let get = |pointer: &str| {
        let mut pointers = Pointers::default();
        let slot = pointers.add(pointer).unwrap();
        assert_eq!(pointers.add(pointer).unwrap(), slot);
        json::read(document.as_bytes(), &pointers).unwrap().get(slot)
    };
    assert_eq!(get("/foo"), Some(Token::Container));
    assert_eq!(get("/foo/0"), Some(Token::String("\"bar\"")));
    assert_eq!(get("/foo/1"), Some(Token::String("\"baz\"")));
    assert_eq!(get("/"), Some(Token::Number("0")));
    assert_eq!(get("/a~1b"), Some(Token::Number("1")));
    assert_eq!(get("/m~0n"), Some(Token::Number("8")));
    assert_eq!(get("/ "), Some(Token::Number("7")));
    assert_eq!(get("/01"), Some(Token::Number("5")));
    assert_eq!(get("/0"), Some(Token::Number("6")));
    assert_eq!(get("/o/p/0/0"), Some(Token::Bool(true)));
    assert_eq!(get("/esc"), Some(Token::Number("9")));
    for absent in [
        "/n", "/foo/2", "/foo/01", "/foo/-", "/foo/+1", "/foo/bar", "/o/p/0", "/missing", "/01/x", "/foo/0/x",
    ] {
        let expected = (absent == "/o/p/0").then_some(Token::Container);
        assert_eq!(get(absent), expected, "{absent}");
    }
    let add = |pointer: &str| Pointers::default().add(pointer).unwrap_err();
    assert_eq!(add(""), PointerFault::NoSlash);
    assert_eq!(add("foo"), PointerFault::NoSlash);
    for bad in ["/~", "/a~2", "/~~0", "/a~"] {
        assert_eq!(add(bad), PointerFault::BadEscape, "{bad}");
    }
}

#[test]
fn hostile_bodies_cost_no_more_than_their_length() {
    let list = |size: usize, item: &dyn Fn(usize) -> String| {
        let mut text = String::new();
        for n in 0.. {
            text.push_str(&item(n));
            if text.len() >= size {
                return text;
            }
            text.push(',');
        }
        text
    };
    let shapes: [(&str, &dyn Fn(usize) -> String); 6] = [
        ("distinct keys", &|size| format!("{{{}}}", list(size, &|n| format!("\"{n}\":{n}")))),
        ("keys with one prefix", &|size| {
            format!("{{{}}}", list(size, &|n| format!("\"{}{n:08}\":1", "k".repeat(200))))
        }),
        ("escaped keys", &|size| format!("{{{}}}", list(size, &|n| format!("\"\\u0061{n}\":1")))),
        ("deep side by side", &|size| {
            format!("[{}]", list(size, &|_| format!("{}{}", "[".repeat(60), "]".repeat(60))))
        }),
        ("one deep string", &|size| {
            format!("{}\"{}\"{}", "[".repeat(60), "\\\\".repeat(size / 2), "]".repeat(60))
        }),
        ("never closed", &|size| "[".repeat(size)),
    ];
    let generic = gateway("generic");
    for (name, shape) in shapes {
        println!("{name}");
        assert_not_quadratic(shape, |body| assert!(read_body(&generic, body.as_bytes()).is_err()));
    }
}

/// JSON text of every kind, with spaces and escapes where they may be.
fn any_json() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?",
        any_string(),
    ];
    scalar.prop_recursive(6, 64, 6, |inner| {
        let space = "[ \t\r\n]{0,2}";
        prop_oneof![
            (space, prop::collection::vec(inner.clone(), 0..6))
                .prop_map(|(space, items)| format!("[{space}{}{space}]", items.join(&format!("{space},")))),
            (space, prop::collection::vec((any_string(), inner), 0..6)).prop_map(|(space, members)| {
                let members: Vec<_> = members.iter().map(|(k, v)| format!("{k}{space}:{space}{v}")).collect();
                format!("{{{}{space}}}", members.join(&format!("{space},{space}")))
            }),
        ]
    })
}

fn any_string() -> impl Strategy<Value = String> {
    prop_oneof!["\"[a-c]{0,2}\"", "\"([ -!#-\\[\\]-~]|é|💳|\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4}){0,12}\""]
}

/// The members that another reader kept: fewer than were sent where keys repeat.
fn members(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Object(map) => map.len() + map.values().map(members).sum::<usize>(),
        serde_json::Value::Array(list) => list.iter().map(members).sum(),
        _ => 0,
    }
}

proptest! {
    #[test]
    fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..400), name in prop_oneof![Just("generic"), Just("stripe")]) {
        let _ = read_body(&gateway(name), &body);
    }

    #[test]
    fn no_bytes_inside_an_event_panic(noise in "[\\[\\]{}\",:\\\\ua0-9. ]{0,60}", at in any::<prop::sample::Index>()) {
        let mut body = paid_with("");
        let at = at.index(body.len());
        body.insert_str(at, &noise);
        let _ = read(&body);
    }

    /// What we accept is what an independent reader of the same text sees.
    #[test]
    fn the_walk_agrees_with_another_reader(text in any_json()) {
        let mut pointers = Pointers::default();
        let paths = ["/a", "/b", "/a/b", "/a/0", "/0", "/1", "/0/a", "/b/c", "/", "/ab/c"];
        let slots = paths.map(|path| pointers.add(path).unwrap());
        let ours = json::read(text.as_bytes(), &pointers);
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
            for (path, slot) in paths.iter().zip(slots) {
                let seen = match ours.get(slot) {
                    None => theirs.pointer(path).is_none_or(serde_json::Value::is_null),
                    Some(Token::Null) => false,
                    Some(Token::Bool(value)) => theirs.pointer(path) == Some(&value.into()),
                    Some(Token::Container) => theirs.pointer(path).is_some_and(|v| v.is_array() || v.is_object()),
                    Some(Token::String(raw)) => theirs.pointer(path).and_then(|v| v.as_str()) == json::decode(raw).as_deref(),
                    Some(Token::Number(raw)) => theirs.pointer(path) == serde_json::from_str(raw).ok().as_ref(),
                };
                prop_assert!(seen, "{} in {}", path, text);
            }
        }
        match ours {
            Err(JsonFault::Syntax { .. }) => prop_assert!(theirs.is_err()),
            Err(JsonFault::DuplicateKey) => {
                // Where the other reader can follow (no lone surrogates), it lost a member.
                let kept = theirs.map(|value| members(&value));
                let sent = count_members(&text);
                prop_assert!(kept.is_err() || kept.unwrap() < sent, "{}", text);
            }
            Err(other) => prop_assert!(false, "{:?} for {}", other, text),
            Ok(_) => if let Ok(value) = theirs {
                prop_assert_eq!(members(&value), count_members(&text), "{}", text);
            },
        }
    }

    #[test]
    fn an_identifier_is_kept_byte_for_byte(id in "[^\\s\\p{Cc}]{1,60}") {
        let event = read(paid_but("order", &serde_json::to_string(&id).unwrap()));
        prop_assert_eq!(event.unwrap().order_reference, Some(id));
    }

    #[test]
    fn every_definition_reads_or_refuses_every_json(text in any_json()) {
        let _ = Gateway::from_json(&text);
        for name in ["generic", "stripe"] {
            let _ = read_body(&gateway(name), text.as_bytes());
        }
    }
}

/// Colons outside strings: the members that a text sends, whatever their keys.
fn count_members(text: &str) -> usize {
    let (mut inside, mut escaped, mut colons) = (false, false, 0);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => inside = !inside,
            b':' if !inside => colons += 1,
            _ => {}
        }
    }
    colons
}
