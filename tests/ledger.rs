//! P9: the hash of a ledger line, against answers made elsewhere.
//!
//! The known answers come from Python's `hashlib` and `struct`, written from the column comments:
//! ```python
//! import hashlib, struct
//! i2, i8 = lambda n: struct.pack(">h", n), lambda n: struct.pack(">q", n)
//! field = lambda b: b"\xff\xff\xff\xff" if b is None else struct.pack(">I", len(b)) + b
//! sha = lambda fields: hashlib.sha256(b"".join(map(field, fields))).hexdigest()
//! tenant, order = bytes(range(16)), bytes(range(16, 32))
//! first = sha([i2(1), None, tenant, i8(7), b"payment_succeeded", order, i8(1), b"WEBHOOK_RECEIVED", i8(199900),
//!              b"INR", b"PENDING", b"COMPLETED", b"default", b"evt_1", None, None, i8(845000000000000)])
//! second = sha([i2(1), bytes.fromhex(first), tenant, i8(8), b"refund_settled", order, i8(2), b"REFUND_SETTLED",
//!               i8(-199900), b"INR", b"COMPLETED", b"REFUNDED", b"default", b"evt_2", "order_Ł".encode(), b"",
//!               i8(845000000000001)])
//! idempotency = lambda txn, utr, amount: sha([txn.encode(), utr.encode(), i8(amount)])
//! ```

use payment_idem::domain::ledger::{Line, idempotency_hash};
use payment_idem::domain::order::Status;
use proptest::prelude::*;

const FIRST: &str = "b67b53145b353a763522b504a4ea4a33236d29da4d51ac4d033b71e3e167c71b";
const SECOND: &str = "e41b9412d35e7b62a91c6c0e3f5f1bc1606e00951a0cb7457188c50af9fcda37";

fn id(first_byte: u8) -> [u8; 16] {
    std::array::from_fn(|i| first_byte + i as u8)
}

fn first() -> Line<'static> {
    Line {
        prev_hash: None,
        tenant: id(0),
        receipt: 7,
        kind: "payment_succeeded",
        order_id: id(16),
        seq: 1,
        event_type: "WEBHOOK_RECEIVED",
        amount_minor: 199_900,
        currency: "INR",
        from_status: Status::Pending,
        to_status: Status::Completed,
        source: "default",
        event_id: Some("evt_1"),
        gateway_order_id: None,
        bank_utr: None,
        created_at_us: 845_000_000_000_000,
    }
}

fn second() -> Line<'static> {
    Line {
        prev_hash: Some(first().hash()),
        receipt: 8,
        kind: "refund_settled",
        seq: 2,
        event_type: "REFUND_SETTLED",
        amount_minor: -199_900,
        from_status: Status::Completed,
        to_status: Status::Refunded,
        event_id: Some("evt_2"),
        gateway_order_id: Some("order_Ł"),
        bank_utr: Some(""),
        created_at_us: 845_000_000_000_001,
        ..first()
    }
}

#[test]
fn hashes_are_the_known_answers() {
    assert_eq!(hex::encode(first().hash()), FIRST);
    assert_eq!(hex::encode(second().hash()), SECOND);
}

#[test]
fn every_field_is_under_the_hash() {
    // Taken apart without "..": a new field does not compile until it has its line below.
    let Line {
        prev_hash: _,
        tenant: _,
        receipt: _,
        kind: _,
        order_id: _,
        seq: _,
        event_type: _,
        amount_minor: _,
        currency: _,
        from_status: _,
        to_status: _,
        source: _,
        event_id: _,
        gateway_order_id: _,
        bank_utr: _,
        created_at_us: _,
    } = second();
    let altered = [
        Line { prev_hash: None, ..second() },
        Line { prev_hash: Some([0; 32]), ..second() },
        Line { tenant: id(1), ..second() },
        Line { receipt: 9, ..second() },
        Line { kind: "refund_failed", ..second() },
        Line { order_id: id(17), ..second() },
        Line { seq: 3, ..second() },
        Line { event_type: "STATUS_VERIFIED", ..second() },
        Line { amount_minor: 199_900, ..second() },
        Line { currency: "INr", ..second() },
        Line { from_status: Status::Pending, ..second() },
        Line { to_status: Status::Completed, ..second() },
        Line { source: "defaul", ..second() },
        Line { event_id: Some("evt_2 "), ..second() },
        Line { event_id: None, ..second() },
        Line { gateway_order_id: Some("order_L"), ..second() },
        Line { gateway_order_id: None, ..second() },
        Line { bank_utr: None, ..second() }, // NULL is not the empty text
        Line { created_at_us: 845_000_000_000_002, ..second() },
    ];
    let mut hashes: Vec<_> = altered.iter().map(Line::hash).chain([second().hash()]).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), altered.len() + 1, "two different lines have one hash");
}

#[test]
fn neighbouring_fields_cannot_lend_each_other_bytes() {
    let lines = [
        Line { source: "ab", event_id: Some("c"), ..first() },
        Line { source: "a", event_id: Some("bc"), ..first() },
        Line { source: "", event_id: Some("abc"), ..first() },
        Line { source: "abc", event_id: Some(""), ..first() },
        Line { source: "abc", event_id: None, ..first() },
        Line { event_id: Some("a"), gateway_order_id: None, bank_utr: None, ..first() },
        Line { event_id: None, gateway_order_id: Some("a"), bank_utr: None, ..first() },
        Line { event_id: None, gateway_order_id: None, bank_utr: Some("a"), ..first() },
        // One field that spells out, length and all, what two fields would be.
        Line { event_id: Some("x"), gateway_order_id: Some("y"), ..first() },
        Line { event_id: Some("x\0\0\0\u{1}y"), gateway_order_id: None, ..first() },
    ];
    let mut hashes: Vec<_> = lines.iter().map(Line::hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), lines.len());
}

#[test]
fn idempotency_hashes_are_the_known_answers() {
    for (client_txn_id, utr, amount_minor, answer) in [
        ("O1", "123456789012", 199_900, "bd6b3c92c23dcc51266f76bb2e4fd392960cecf38c4482756ec55c9057dcfd79"),
        ("", "", 0, "fa9ba74615422909e1e80df74bbac150edaafab9aaf1c5da566c8193d4a0ad65"),
        ("Ł", "", -1, "44f03c5f1494ca9164266f2ee92aeedf0e08e66a37347405ae49552b109ffb21"),
    ] {
        assert_eq!(idempotency_hash(client_txn_id, utr, amount_minor), answer);
    }
}

#[test]
fn idempotency_hash_does_not_run_its_parts_together() {
    // Joined with "_", as is often done, the first two would be one.
    let hashes = [
        idempotency_hash("A_1", "2", 3),
        idempotency_hash("A", "1_2", 3),
        idempotency_hash("A1", "2", 3),
        idempotency_hash("A", "12", 3),
        idempotency_hash("A", "1", 23),
    ];
    for (i, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..i].contains(hash), "{i}");
    }
}

proptest! {
    #[test]
    fn idempotency_hash_tells_all_triples_apart(
        a in ("[A-Z_0-9]{0,4}", "[A-Z_0-9]{0,4}", -2i64..3),
        b in ("[A-Z_0-9]{0,4}", "[A-Z_0-9]{0,4}", -2i64..3),
    ) {
        let same = idempotency_hash(&a.0, &a.1, a.2) == idempotency_hash(&b.0, &b.1, b.2);
        prop_assert_eq!(same, a == b);
    }
}
