//! The sources that deliveries go to.

/// Which gateway's form a source reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gateway {
    Generic,
    Stripe,
}

/// A source of the tenant.
pub struct Endpoint {
    pub name: &'static str,
    pub gateway: Gateway,
    /// For `create_source`.
    pub options: &'static str,
    pub max_payload_bytes: usize,
    /// The id in the body identifies the event; else its digest does.
    pub id_signed: bool,
}

/// Two of each gateway: one as most are, and one with the options turned over.
pub const ENDPOINTS: [Endpoint; 4] = [
    Endpoint {
        name: "generic",
        gateway: Gateway::Generic,
        options: r#"{"merchant_id": "m1"}"#,
        max_payload_bytes: 1 << 20,
        id_signed: true,
    },
    Endpoint {
        name: "stripe",
        gateway: Gateway::Stripe,
        options: r#"{"merchant_id": "m1"}"#,
        max_payload_bytes: 1 << 20,
        id_signed: true,
    },
    Endpoint {
        name: "generic-lean",
        gateway: Gateway::Generic,
        options: r#"{"keep_payload": false, "id_signed": false, "max_payload_bytes": 2000}"#,
        max_payload_bytes: 2000,
        id_signed: false,
    },
    Endpoint {
        name: "stripe-lean",
        gateway: Gateway::Stripe,
        options: r#"{"keep_payload": false, "max_payload_bytes": 2000}"#,
        max_payload_bytes: 2000,
        id_signed: true,
    },
];

impl Gateway {
    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Gateway::Generic => "generic",
            Gateway::Stripe => "stripe",
        }
    }
}
