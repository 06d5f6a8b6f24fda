//! Orders made ahead and signed events that pay them.

use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use postgres::Client;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

pub const SECRET: &str = "the bench signs with this secret";
pub const MERCHANT: &str = "m1";

/// What the ids of an event look like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Event ids and payment references in random order (UUIDv4), or rising with time (UUIDv7).
    pub random_ids: bool,
    /// Whether the event carries a bank's reference, and with it an idempotency hash.
    pub bank_reference: bool,
}

/// A signed delivery, and what a peer that is told all values is told.
pub struct Event {
    pub id: String,
    pub body: Vec<u8>,
    pub signature: String,
    pub sha256: [u8; 32],
    pub order_id: Uuid,
    pub order_reference: String,
    pub amount: i64,
    pub payment: String,
    pub utr: Option<String>,
    pub idempotency_hash: Option<String>,
    pub references: Value,
    pub ledger_hash: [u8; 32],
    pub event_time: SystemTime,
}

pub const PAYER: &str = "a.customer@bank";
const CREATED: u64 = 1_790_000_000;

/// Numbers of orders made here start beyond those of `fill.sql`.
const FIRST_NUMBER: i64 = 100_000_000_000;

/// Makes orders and events of one tenant, each order once.
pub struct Factory {
    pub tenant: Uuid,
    made: i64,
}

impl Factory {
    pub fn new(tenant: Uuid) -> Self {
        Factory { tenant, made: FIRST_NUMBER }
    }

    /// Makes so many orders through `create_order`, and an event that pays each.
    pub fn make(&mut self, control: &mut Client, count: usize, shape: Shape) -> Vec<Event> {
        let (first, last) = (self.made, self.made + count as i64 - 1);
        self.made = last + 1;
        let rows = control
            .query(
                "SELECT n, o.order_id, o.outcome FROM generate_series($2::bigint, $3) AS n, \
                 LATERAL payment_idem.create_order($1, $4, 'ORD-' || n, (1000 + n % 9000) / 100.0, 'USD') AS o",
                &[&self.tenant, &first, &last, &MERCHANT],
            )
            .expect("orders");
        rows.iter()
            .map(|row| {
                assert_eq!(row.get::<_, &str>(2), "created");
                event(row.get(0), row.get(1), shape)
            })
            .collect()
    }
}

fn event(n: i64, order_id: Uuid, shape: Shape) -> Event {
    let unique = || if shape.random_ids { Uuid::new_v4() } else { Uuid::now_v7() }.simple().to_string();
    let (id, payment) = (format!("evt_{}", unique()), format!("pay_{}", unique()));
    let utr = shape.bank_reference.then(|| match shape.random_ids {
        true => unique()[..16].to_uppercase(),
        false => format!("{n:016}"),
    });
    let (order_reference, amount) = (format!("ORD-{n}"), 1000 + n % 9000);
    let mut body = json!({
        "id": id, "type": "paid", "order": order_reference, "amount": amount, "currency": "usd", "payment": payment,
        "payer_vpa": PAYER, "created": CREATED, "livemode": true
    });
    let mut references = json!({"payment": payment});
    if let Some(utr) = &utr {
        body["utr"] = utr.as_str().into();
        references["bank"] = utr.as_str().into();
    }
    let body = serde_json::to_vec(&body).expect("JSON");
    Event {
        signature: sign(&body),
        sha256: Sha256::digest(&body).into(),
        idempotency_hash: utr.as_deref().map(|utr| idempotency_hash(&order_reference, utr, amount)),
        ledger_hash: Sha256::digest(id.as_bytes()).into(),
        event_time: SystemTime::UNIX_EPOCH + Duration::from_secs(CREATED),
        id,
        body,
        order_id,
        order_reference,
        amount,
        payment,
        utr,
        references,
    }
}

/// The `generic` gateway's signature.
pub fn sign(body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("any key length");
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}

/// Whether the signature is that of the body, compared in constant time.
pub fn verify(body: &[u8], signature: &str) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("any key length");
    mac.update(body);
    hex::decode(signature).is_ok_and(|signature| mac.verify_slice(&signature).is_ok())
}

/// SHA-256 over fields, each with its length in front.
pub fn chain(fields: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for field in fields {
        hash.update((field.len() as u32).to_be_bytes());
        hash.update(field);
    }
    hash.finalize().into()
}

pub fn idempotency_hash(order_reference: &str, utr: &str, amount: i64) -> String {
    hex::encode(chain(&[order_reference.as_bytes(), utr.as_bytes(), &amount.to_be_bytes()]))
}
