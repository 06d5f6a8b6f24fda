//! Well-formed events of the two gateways by a small grammar, with odd values among the usual ones.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::endpoint::{Endpoint, Gateway};

/// An event, and the id under which it has to be read. `None`: it holds a value that may make it unreadable.
pub struct Event {
    pub text: String,
    pub id: Option<String>,
}

/// Shares of values that are usual, odd but readable, and perhaps unreadable.
const USUAL: f64 = 0.95;
const READABLE: f64 = 0.99;

/// Draws JSON values, and remembers whether every one of them is sure to be readable.
struct Drawer<'r, R: Rng> {
    rng: &'r mut R,
    readable: bool,
}

impl<R: Rng> Drawer<'_, R> {
    fn one(&mut self, usual: &str, odd: &[&str], unsure: &[&str]) -> String {
        let draw = self.rng.random::<f64>();
        let from = match () {
            () if draw < USUAL || (odd.is_empty() && draw < READABLE) => return usual.to_owned(),
            () if draw < READABLE || unsure.is_empty() => odd,
            () => {
                self.readable = false;
                unsure
            }
        };
        (*from.choose(self.rng).unwrap_or(&usual)).to_owned()
    }

    fn pick(&mut self, from: &[&str]) -> String {
        (*from.choose(self.rng).expect("something to pick from")).to_owned()
    }

    fn reference(&mut self, usual: &str) -> String {
        let usual = quoted(usual);
        self.one(&usual, ODD_REFERENCES, BAD_REFERENCES)
    }

    fn amount(&mut self) -> String {
        let usual = self.pick(&["1000", "1000", "1000", "999"]);
        self.one(&usual, ODD_AMOUNTS, BAD_AMOUNTS)
    }

    fn currency(&mut self) -> String {
        let usual = self.pick(&["\"usd\"", "\"USD\"", "\"UsD\""]);
        self.one(&usual, ODD_CURRENCIES, &[])
    }

    /// An object of these members, in any order and with any white space, without those that are absent.
    fn object(&mut self, members: &[(&str, String)]) -> String {
        let mut left: Vec<_> = members.iter().filter(|(_, value)| !value.is_empty()).collect();
        let gap = ["", "", " ", "\n\t"].choose(self.rng).unwrap_or(&"");
        let mut text = String::from("{");
        while !left.is_empty() {
            let (key, value) = left.swap_remove(self.rng.random_range(0..left.len()));
            let comma = if text.len() > 1 { "," } else { "" };
            text += &format!("{comma}{gap}\"{key}\":{gap}{value}");
        }
        text + gap + "}"
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

const LONGEST: &str = concat!(
    "\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789012345678901234\""
);
/// Readable in every place of a reference, an empty one and a number included where it is absent.
const ODD_REFERENCES: &[&str] = &[
    LONGEST,
    "\"\u{e9}\"",
    "\"e\u{301}\"",
    "\"\\u00e9\"",
    "\"\\ud83d\\ude00\"",
    "\"\u{1f600}\"",
    "\"\u{202e}x\"",
    "\"\u{feff}x\"",
    "\"\u{200b}\"",
    "\"\\\\u0000\"",
    "\"\\\"\"",
    "\"');DROP/**/TABLE/**/x;--\"",
    "\"%s%n\"",
    "\"null\"",
    "\"\u{430}dmin\"",
    "\"O\u{212a}\"",
    "\"sha256:00\"",
    "1234567890123456789012345678901234567890",
    "0",
];
const BAD_REFERENCES: &[&str] = &[
    "\"\"",
    "\" \"",
    "\"a b\"",
    "\"a\\tb\"",
    "\"\\u0000\"",
    "\"a\\u0000b\"",
    "\"\\ud83d\"",
    "\"\\udc00\\ud83d\"",
    "\"\\u2028\"",
    "\"\u{a0}\"",
    "\"\u{85}\"",
    "\"\\u001b[2J\"",
    "\"\u{7f}\"",
    "true",
    "false",
    "[]",
    "{}",
    "[\"a\"]",
    "-1",
    "1.5",
    "007",
    "1e3",
    "null",
    "",
];
/// Evidence only: what is no text that can be kept is left out.
const ODD_PAYERS: &[&str] = &[
    LONGEST,
    "\"\"",
    "\"a b\"",
    "\"\\u0000\"",
    "\"\\ud83d\"",
    "\"\u{1f600}\"",
    "7",
    "true",
    "null",
    "[]",
    "{}",
];
const ODD_AMOUNTS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "-1000",
    "1001",
    "100000",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
];
const BAD_AMOUNTS: &[&str] = &[
    "9223372036854775808",
    "-9223372036854775809",
    "99999999999999999999999999999999999999999",
    "1000.0",
    "1000.5",
    "1e3",
    "1E+3",
    "10e2",
    "100000e-2",
    "1e-400",
    "1e999999999",
    "-0.0",
    "0.1",
    "\"1000\"",
    "\"\"",
    "[1000]",
    "{\"value\":1000}",
    "true",
    "null",
    "",
];
const ODD_CURRENCIES: &[&str] = &[
    "\"eur\"",
    "\"jpy\"",
    "\"xxx\"",
    "\"us\"",
    "\"usdt\"",
    "\"\"",
    "\" usd\"",
    "\"u\\u0073d\"",
    "\"\u{ff35}\u{ff33}\u{ff24}\"",
    "\"\u{131}nr\"",
    "\"u\u{17f}d\"",
    "\"\\u0000\"",
    "\"\\ud83d\"",
    "840",
    "null",
    "[]",
    "{}",
    "[\"usd\"]",
    "true",
    "",
];
const TIMES: &[&str] = &[
    "1700000000",
    "0",
    "-1",
    "253402300799",
    "253402300800",
    "1.7e9",
    "99999999999999999999",
    "\"1700000000\"",
    "null",
    "[]",
    "",
];

const GENERIC_TYPES: &[&str] = &[
    "paid",
    "paid",
    "paid",
    "paid",
    "payment.succeeded",
    "captured",
    "failed",
    "expired",
    "attempted",
    "authorized",
    "refunded",
    "refund_failed",
    "dispute_opened",
    "ping",
    "nobody.knows",
    "Paid",
];
const STRIPE_TYPES: &[(&str, &str)] = &[
    ("payment_intent.succeeded", "pi_"),
    ("payment_intent.succeeded", "pi_"),
    ("charge.succeeded", "ch_"),
    ("charge.captured", "ch_"),
    ("checkout.session.completed", "cs_"),
    ("checkout.session.expired", "cs_"),
    ("payment_intent.payment_failed", "pi_"),
    ("payment_intent.processing", "pi_"),
    ("payment_intent.amount_capturable_updated", "pi_"),
    ("charge.refunded", "ch_"),
    ("refund.updated", "re_"),
    ("charge.dispute.created", "dp_"),
    ("charge.dispute.closed", "dp_"),
    ("payment_intent.created", "pi_"),
    ("customer.created", "cus_"),
    ("nobody.knows", "pi_"),
];

/// An event about one of the orders; `number` is a number of its own.
pub fn event<R: Rng>(rng: &mut R, endpoint: &Endpoint, orders: &[String], number: u64) -> Event {
    let order = orders.choose(rng).expect("an order").clone();
    // Shared between events: now the same payment, now one reference for two orders.
    let owner = if rng.random_bool(0.9) { &order } else { orders.choose(rng).expect("an order") };
    let payment = format!("{owner}_{}", rng.random_range(0..4));
    let id = match rng.random_range(0..40) {
        0 => format!("evt_{}", number / 50), // another event's id
        1 => format!("sha256:{number:064x}"),
        2 => format!("\u{e9}vt\u{202e}{number}"),
        _ => format!("evt_{number}"),
    };
    let mut draw = Drawer { rng, readable: true };
    let shown_id = match draw.rng.random_range(0..60) {
        0 => {
            draw.readable = false;
            draw.pick(BAD_REFERENCES)
        }
        1 => quoted(
            &id.chars()
                .map(|c| if c.is_ascii() { format!("\\u{:04x}", c as u32) } else { c.into() })
                .collect::<String>(),
        ),
        _ => quoted(&id),
    };
    let text = match endpoint.gateway {
        Gateway::Generic => generic(&mut draw, &shown_id, &order, &payment),
        Gateway::Stripe => stripe(&mut draw, &shown_id, &order, &payment),
    };
    Event { id: draw.readable.then_some(id), text }
}

/// A member that most events do not have.
fn rarely<R: Rng>(
    draw: &mut Drawer<'_, R>,
    share: f64,
    value: impl FnOnce(&mut Drawer<'_, R>) -> String,
) -> String {
    if draw.rng.random_bool(share) { value(draw) } else { String::new() }
}

fn generic<R: Rng>(draw: &mut Drawer<'_, R>, id: &str, order: &str, payment: &str) -> String {
    let kind = quoted(&draw.pick(GENERIC_TYPES));
    let members = [
        ("id", id.to_owned()),
        ("type", kind),
        ("order", draw.reference(order)),
        ("amount", draw.amount()),
        ("currency", draw.currency()),
        ("payment", draw.reference(payment)),
        ("gateway_order_id", rarely(draw, 0.2, |draw| draw.reference(&format!("pi_{order}")))),
        ("merchant_id", rarely(draw, 0.2, |draw| draw.one("\"m1\"", &["\"m2\""], BAD_REFERENCES))),
        ("utr", rarely(draw, 0.2, |draw| draw.reference(&format!("utr_{payment}")))),
        ("payer_vpa", rarely(draw, 0.2, |draw| draw.one("\"a@b\"", ODD_PAYERS, &["007"]))),
        ("created", draw.pick(TIMES)),
        (
            "livemode",
            rarely(draw, 0.2, |draw| draw.one("true", &["false", "null"], &["1", "\"true\"", "[]"])),
        ),
    ];
    draw.object(&members)
}

fn stripe<R: Rng>(draw: &mut Drawer<'_, R>, id: &str, order: &str, payment: &str) -> String {
    let (kind, prefix) = *STRIPE_TYPES.choose(draw.rng).expect("a type");
    let by_metadata = draw.rng.random_bool(0.7);
    let metadata = [("order_id", if by_metadata { draw.reference(order) } else { String::new() })];
    let metadata = draw.object(&metadata);
    let paid = draw.pick(&["\"paid\"", "\"paid\"", "\"unpaid\"", "\"no_payment_required\"", "null", "7"]);
    let (amount, currency) = (draw.amount(), draw.currency());
    let object = [
        // The order's own gateway order id, now and then.
        ("id", quoted(&format!("{prefix}{}", if draw.rng.random_bool(0.1) { order } else { payment }))),
        ("amount", amount.clone()),
        ("amount_received", if prefix == "pi_" { amount.clone() } else { String::new() }),
        ("amount_total", if prefix == "cs_" { amount.clone() } else { String::new() }),
        ("amount_captured", if prefix == "ch_" { amount.clone() } else { String::new() }),
        ("amount_capturable", amount),
        ("currency", currency),
        ("payment_intent", rarely(draw, 0.3, |draw| draw.reference(&format!("pi_{payment}")))),
        ("latest_charge", rarely(draw, 0.3, |draw| draw.reference(&format!("ch_{payment}")))),
        ("captured", draw.pick(&["true", "true", "false", "null", ""])),
        ("status", draw.pick(&["\"succeeded\"", "\"failed\"", "\"won\"", "\"lost\"", "\"\\ud83d\"", ""])),
        ("payment_status", paid),
        ("mode", rarely(draw, 0.2, |draw| draw.pick(&["\"setup\"", "\"payment\"", "[]"]))),
        ("metadata", metadata),
        ("client_reference_id", if by_metadata { String::new() } else { draw.reference(order) }),
    ];
    let object = draw.object(&object);
    let data = draw.object(&[("object", object)]);
    let members = [
        ("id", id.to_owned()),
        ("type", quoted(kind)),
        ("created", draw.pick(TIMES)),
        ("livemode", draw.one("true", &["false", "null", ""], &["1", "\"true\"", "[]"])),
        ("data", data),
    ];
    draw.object(&members)
}
