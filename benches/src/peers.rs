//! The four ways to take in an event, and their relatives; each on a connection of its own.

use std::time::SystemTime;

use postgres::{Client, NoTls, Statement};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::events::{Event, MERCHANT, PAYER, chain, idempotency_hash, verify};
use crate::server::Server;

pub const OURS: &str = "SELECT * FROM payment_idem.ingest($1, $2, $3::bytea, $4)";
pub const OURS_BATCH: &str =
    "SELECT * FROM payment_idem.ingest_batch($1, $2::text[], $3::bytea[], $4::text[])";
pub const PLPGSQL: &str = "SELECT * FROM bench.ingest($1, $2, $3, $4)";
pub const FLOOR: &str = include_str!("../sql/floor.sql");
pub const PLPGSQL_SOURCE: &str = include_str!("../sql/plpgsql.sql");
pub const BATCH: usize = 100;

macro_rules! steps {
    ($($name:ident),*) => {
        /// The statements of the application, one per step.
        struct Steps { $($name: Statement),* }
        impl Steps {
            fn prepare(client: &mut Client) -> Self {
                Steps { $($name: prepare(client, include_str!(concat!("../sql/application/", stringify!($name), ".sql")))),* }
            }
        }
    };
}
steps!(receipt, payload, order, references, line, paid, outbox);

/// How an event is taken in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// `payment_idem.ingest`, one call per event.
    Ours,
    /// The same for events that have been delivered before.
    Duplicate,
    /// `payment_idem.ingest_batch`, a hundred events per call.
    Batch,
    /// One statement that makes the same rows and verifies nothing.
    Floor,
    /// The articles' flow, one statement per step.
    Application,
    /// One PL/pgSQL function with pgcrypto.
    Plpgsql,
}

enum Prepared {
    One(Statement),
    Steps(Box<Steps>),
}

/// A connection of a peer, with what it has prepared.
pub struct Session {
    client: Client,
    pub pid: i32,
    peer: Peer,
    tenant: Uuid,
    prepared: Prepared,
}

fn prepare(client: &mut Client, sql: &str) -> Statement {
    client.prepare(sql).unwrap_or_else(|error| panic!("{error:?}\n{sql}"))
}

impl Session {
    /// Connects, by TCP or the Unix socket. The peers' plans are made generic at once, which is to their advantage.
    pub fn open(
        server: &Server,
        database: &str,
        tenant: Uuid,
        peer: Peer,
        tcp: bool,
        settings: &[(&str, &str)],
    ) -> Self {
        Self::open_with(server, database, tenant, peer, tcp, settings, |_| ())
    }

    /// The same, handing on the server's notices.
    pub fn open_with(
        server: &Server,
        database: &str,
        tenant: Uuid,
        peer: Peer,
        tcp: bool,
        settings: &[(&str, &str)],
        notice: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let mut config = server.config(database, tcp);
        config.notice_callback(move |message| notice(message.message()));
        let mut options: String =
            settings.iter().map(|(name, value)| format!("-c {name}={value} ")).collect();
        if matches!(peer, Peer::Floor | Peer::Application | Peer::Plpgsql) {
            options += "-c plan_cache_mode=force_generic_plan";
        }
        let mut client = config.options(&options).connect(NoTls).expect("a connection");
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).expect("its pid").get(0);
        let prepared = match peer {
            Peer::Application => Prepared::Steps(Box::new(Steps::prepare(&mut client))),
            Peer::Ours | Peer::Duplicate => Prepared::One(prepare(&mut client, OURS)),
            Peer::Batch => Prepared::One(prepare(&mut client, OURS_BATCH)),
            Peer::Floor => Prepared::One(prepare(&mut client, FLOOR)),
            Peer::Plpgsql => Prepared::One(prepare(&mut client, PLPGSQL)),
        };
        Session { client, pid, peer, tenant, prepared }
    }

    /// Delivers the events, one after the other; each must be answered as it should be.
    pub fn deliver(&mut self, events: &[Event]) {
        match self.peer {
            Peer::Batch => events.chunks(BATCH).for_each(|batch| self.call_batch(batch)),
            Peer::Duplicate => events.iter().for_each(|event| self.call(event, "duplicate")),
            Peer::Ours | Peer::Plpgsql => events.iter().for_each(|event| self.call(event, "applied")),
            Peer::Floor => events.iter().for_each(|event| self.floor(event)),
            Peer::Application => events.iter().for_each(|event| self.application(event)),
        }
    }

    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Runs statements without parameters.
    pub fn run(&mut self, sql: &str) {
        self.client.batch_execute(sql).expect(sql);
    }

    /// One value of a query without parameters.
    pub fn value<T: for<'a> postgres::types::FromSql<'a>>(&mut self, sql: &str) -> T {
        self.client.query_one(sql, &[]).expect(sql).get(0)
    }

    fn call(&mut self, event: &Event, expected: &str) {
        let Prepared::One(statement) = &self.prepared else { unreachable!() };
        let row = self
            .client
            .query_one(statement, &[&self.tenant, &event.id, &event.body, &event.signature])
            .expect("an answer");
        assert_eq!(row.get::<_, &str>(0), expected, "{:?}", row.get::<_, Option<&str>>(1));
    }

    fn call_batch(&mut self, events: &[Event]) {
        let Prepared::One(statement) = &self.prepared else { unreachable!() };
        let ids: Vec<&str> = events.iter().map(|event| event.id.as_str()).collect();
        let bodies: Vec<&[u8]> = events.iter().map(|event| event.body.as_slice()).collect();
        let signatures: Vec<&str> = events.iter().map(|event| event.signature.as_str()).collect();
        let rows =
            self.client.query(statement, &[&self.tenant, &ids, &bodies, &signatures]).expect("answers");
        assert_eq!(rows.len(), events.len());
        assert!(rows.iter().all(|row| row.get::<_, &str>("outcome") == "applied"));
    }

    fn floor(&mut self, event: &Event) {
        let Prepared::One(statement) = &self.prepared else { unreachable!() };
        let outbox_rows = self.client.execute(
            statement,
            &[
                &self.tenant,
                &event.id,
                &event.sha256.as_slice(),
                &event.order_id,
                &event.order_reference,
                &event.amount,
                &"USD",
                &event.utr,
                &event.references,
                &event.event_time,
                &SystemTime::now(),
                &event.body,
                &PAYER,
                &event.payment,
                &event.idempotency_hash,
                &event.ledger_hash.as_slice(),
            ],
        );
        assert_eq!(outbox_rows.expect("the floor's statement"), 1);
    }

    /// What an application does with a delivery: verify, read, then step by step in a transaction.
    fn application(&mut self, event: &Event) {
        let Prepared::Steps(steps) = &self.prepared else { unreachable!() };
        assert!(verify(&event.body, &event.signature), "not authentic");
        let sha256: [u8; 32] = Sha256::digest(&event.body).into();
        let body: Value = serde_json::from_slice(&event.body).expect("JSON");
        let text = |field: &str| body[field].as_str().expect("a text");
        let (id, reference, utr, payment) = (text("id"), text("order"), text("utr"), text("payment"));
        let (amount, currency) =
            (body["amount"].as_i64().expect("an amount"), text("currency").to_uppercase());
        assert_eq!((id, text("type")), (event.id.as_str(), "paid"));
        let references = serde_json::json!({"bank": utr, "payment": payment});
        let now = SystemTime::now();

        let mut transaction = self.client.transaction().expect("BEGIN");
        let receipt = transaction.query_opt(
            &steps.receipt,
            &[
                &self.tenant,
                &id,
                &sha256.as_slice(),
                &amount,
                &currency,
                &utr,
                &references,
                &event.event_time,
                &now,
                &reference,
                &MERCHANT,
            ],
        );
        let receipt = receipt.expect("the receipt").expect("a first delivery of a known order");
        let (receipt, order_id): (i64, Uuid) = (receipt.get(0), receipt.get(1));
        transaction
            .execute(
                &steps.payload,
                &[&self.tenant, &receipt, &order_id, &now, &event.body, &body["payer_vpa"].as_str()],
            )
            .expect("the payload");
        let order = transaction.query_one(&steps.order, &[&self.tenant, &order_id]).expect("the order");
        let (expected, expected_currency, status): (i64, &str, &str) =
            (order.get(0), order.get(1), order.get(2));
        assert_eq!((amount, currency.as_str()), (expected, expected_currency), "an exception");
        assert!(["PENDING", "PROCESSING", "FAILED", "EXPIRED"].contains(&status), "a second payment");
        let (seq, outbox_seq) = (order.get::<_, i64>(3) + 1, order.get::<_, i64>(5) + 1);
        let head: Option<&[u8]> = order.get(4);
        let hash = idempotency_hash(reference, utr, amount);
        let fresh = transaction
            .execute(&steps.references, &[&self.tenant, &utr, &hash, &payment, &order_id, &receipt]);
        assert_eq!(fresh.expect("the references"), 3, "a reference of another order");
        let line = chain(&[
            head.unwrap_or_default(),
            self.tenant.as_bytes(),
            &receipt.to_be_bytes(),
            order_id.as_bytes(),
            &seq.to_be_bytes(),
            &amount.to_be_bytes(),
            currency.as_bytes(),
            id.as_bytes(),
            utr.as_bytes(),
        ]);
        let line = line.as_slice();
        transaction
            .execute(
                &steps.line,
                &[&self.tenant, &receipt, &order_id, &seq, &amount, &currency, &id, &utr, &now, &head, &line],
            )
            .expect("the ledger line");
        let moved = transaction
            .execute(&steps.paid, &[&self.tenant, &order_id, &amount, &seq, &line, &outbox_seq, &now])
            .expect("the order's move");
        assert_eq!(moved, 1);
        transaction
            .execute(&steps.outbox, &[&self.tenant, &receipt, &order_id, &outbox_seq, &now])
            .expect("the outbox row");
        transaction.commit().expect("COMMIT");
    }
}
