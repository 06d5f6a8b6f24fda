//! One session: its tenant, its chunks, what it remembers, and what it does when a statement fails.

use std::collections::{BTreeMap, HashMap};
use std::sync::RwLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, iter, thread};

use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, Statement};
use uuid::Uuid;

use crate::delivery::{ANSWERS, Answer, CHUNK, Delivery, ORDERS, Plan, endpoint, is_batch, is_text, orders};
use crate::endpoint::{ENDPOINTS, Endpoint};
use crate::signature::{Signature, Verdict, sign};

pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// No statement takes a tenth of it; it only turns a hang into a failure.
const HANG_GUARD: &str = "-c statement_timeout=300s";
/// After so many failures a session gives up.
const ENOUGH: usize = 5;

pub fn connect() -> Result<Client, Error> {
    let mut config = Config::new();
    config.host(&env::var("PGHOST")?).port(env::var("PGPORT")?.parse()?);
    config.user(&env::var("PGUSER")?).dbname(&env::var("PGDATABASE")?).options(HANG_GUARD);
    Ok(config.connect(NoTls)?)
}

/// A connection that works, also where the server is recovering from a crash just now.
fn connect_patiently() -> Result<Client, Error> {
    for _ in 0..200 {
        thread::sleep(Duration::from_millis(100)); // first of all until the postmaster has noticed
        if let Ok(mut client) = connect()
            && client.simple_query("").is_ok()
        {
            return Ok(client);
        }
    }
    connect()
}

/// Who looks for what killed a server has it alone: a crash ends everybody's session.
static SERVER: RwLock<()> = RwLock::new(());

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// What one session has seen.
#[derive(Default)]
pub struct Seen {
    /// How often each outcome and reason was answered.
    pub answers: BTreeMap<(String, String), u64>,
    pub authentic: u64,
    /// Repetitions of events that are sure to be readable.
    pub repeated: u64,
    /// Events that were taken in: each is one receipt.
    pub taken: u64,
    pub failures: Vec<String>,
}

pub struct Session<'p> {
    plan: &'p Plan,
    client: Client,
    statements: Statements,
    pub tenant: Uuid,
    pub seen: Seen,
    /// By endpoint and digest: the first outcome, as its place in `ANSWERS`.
    first: HashMap<(&'static str, u64), u8>,
}

/// The statements of a session: by whether it is for text, and whether for a batch.
type Statements = [[Statement; 2]; 2];

fn prepare(client: &mut Client) -> Result<Statements, postgres::Error> {
    let mut statements = |payload| {
        let single = client.prepare(&format!(
            "SELECT d.item::int, r.* FROM unnest($3::text[], $4::{payload}[], $5::text[], $6::text[]) WITH ORDINALITY \
                 AS d (event_id, payload, sig, headers, item) \
             CROSS JOIN LATERAL payment_idem.ingest($1, d.event_id, d.payload, d.sig, $2, d.headers::jsonb) AS r"
        ))?;
        let batch = client.prepare(&format!(
            "SELECT * FROM payment_idem.ingest_batch($1, $3, $4::{payload}[], $5, $2, $6::text[]::jsonb[])"
        ))?;
        Ok([single, batch])
    };
    Ok([statements("bytea")?, statements("text")?])
}

impl<'p> Session<'p> {
    pub fn new(plan: &'p Plan) -> Result<Self, Error> {
        let mut client = connect()?;
        let tenant = Uuid::new_v4();
        client.execute("SELECT payment_idem.create_tenant('fuzz', $1)", &[&tenant])?;
        for Endpoint { name, gateway, options, .. } in &ENDPOINTS {
            let sql = "SELECT payment_idem.create_source($1, $2, $3, $4::text::jsonb)";
            client.execute(sql, &[&tenant, name, &gateway.name(), options])?;
            client.execute("SELECT payment_idem.add_secret($1, $2, $3)", &[&tenant, name, &plan.secret])?;
        }
        let statements = prepare(&mut client)?;
        Ok(Session { plan, client, statements, tenant, seen: Seen::default(), first: HashMap::new() })
    }

    /// The process id of its backend.
    pub fn backend(&mut self) -> Result<i32, Error> {
        Ok(self.client.query_one("SELECT pg_backend_pid()", &[])?.get(0))
    }

    /// Delivers a chunk in one transaction; `false` when there were failures enough.
    pub fn run(&mut self, chunk: u64) -> Result<bool, Error> {
        let now = now();
        let deliveries: Vec<Delivery> =
            (chunk * CHUNK..(chunk + 1) * CHUNK).map(|n| self.plan.delivery(n, now)).collect();
        match self.deliver(chunk, &deliveries) {
            Ok(answers) => {
                for (delivery, answer) in iter::zip(&deliveries, &answers) {
                    self.note(endpoint(chunk), delivery, answer);
                }
                let missing = deliveries.len() - answers.len();
                if missing > 0 {
                    self.seen.failures.push(format!("chunk {chunk}: {missing} deliveries have no row"));
                }
            }
            Err(error) => {
                let found = self.find_culprit(chunk, &deliveries)?;
                let report = found.unwrap_or_else(|| {
                    "none of its deliveries fails alone; PAYMENT_IDEM_CHUNK repeats it".to_owned()
                });
                self.seen.failures.push(format!("chunk {chunk}: {}\n{report}", describe(&error)));
            }
        }
        Ok(self.seen.failures.len() < ENOUGH)
    }

    /// The answers to a chunk, in its order: exactly one each.
    fn deliver(&mut self, chunk: u64, deliveries: &[Delivery]) -> Result<Vec<Answer>, postgres::Error> {
        let _side_by_side = SERVER.read();
        let statement = self.statements[usize::from(is_text(chunk))][usize::from(is_batch(chunk))].clone();
        let mut transaction = self.client.transaction()?;
        let create = "SELECT o.outcome FROM unnest($2::text[]) AS n CROSS JOIN LATERAL \
                      payment_idem.create_order($1, 'm1', n, 10.00, 'USD', \
                      gateway_order_id => CASE WHEN n ~ '[02468]$' THEN 'pi_' || n END) AS o";
        let orders = orders(chunk);
        transaction.query(create, &[&self.tenant, &&orders[..ORDERS / 2]])?;
        let event_ids: Vec<_> = deliveries.iter().map(|delivery| delivery.event_id.as_deref()).collect();
        let texts: Vec<_> = deliveries.iter().map(|delivery| delivery.signature.text.as_deref()).collect();
        let headers: Vec<_> = deliveries.iter().map(|delivery| headers(&delivery.signature)).collect();
        let name = endpoint(chunk).name;
        let bytes = deliveries.iter().map(|delivery| delivery.payload.as_slice());
        let payloads: Box<dyn ToSql + Sync> = if is_text(chunk) {
            Box::new(
                bytes.map(|bytes| str::from_utf8(bytes).expect("text, by its making")).collect::<Vec<_>>(),
            )
        } else {
            Box::new(bytes.collect::<Vec<_>>())
        };
        let rows = transaction
            .query(&statement, &[&self.tenant, &name, &event_ids, &*payloads, &texts, &headers])?;
        transaction.query(create, &[&self.tenant, &&orders[ORDERS / 2..]])?;
        transaction.commit()?;
        let in_order = rows.iter().zip(1..).take_while(|(row, item)| row.get::<_, i32>("item") == *item);
        Ok(in_order.map(|(row, _)| Answer::from(row)).collect())
    }

    fn note(&mut self, endpoint: &Endpoint, delivery: &Delivery, answer: &Answer) {
        let digest = u64::from_le_bytes(delivery.sha256()[..8].try_into().expect("eight bytes"));
        let key = (endpoint.name, digest);
        let before = self.first.get(&key).map(|place| ANSWERS[usize::from(*place)].0);
        if let Err(fault) = delivery.check(endpoint, answer, before) {
            self.seen.failures.push(format!("{fault}: {answer:?}, first {before:?}\n{}", delivery.show()));
        }
        if answer.outcome == "duplicate" {
            self.seen.repeated += u64::from(delivery.id.is_some());
        } else if !["rejected", "digest_conflict"].contains(&answer.outcome.as_str()) {
            let place = ANSWERS.iter().position(|(word, _)| *word == answer.outcome).unwrap_or_default();
            self.first.insert(key, place as u8);
            self.seen.taken += 1;
        }
        self.seen.authentic += u64::from(delivery.verdict == Verdict::Authentic);
        let reason = answer.reason.clone().unwrap_or_default();
        *self.seen.answers.entry((answer.outcome.clone(), reason)).or_default() += 1;
    }

    /// The first delivery of a failed chunk that fails by itself, and the smallest body that still does.
    fn find_culprit(&mut self, chunk: u64, deliveries: &[Delivery]) -> Result<Option<String>, Error> {
        let _alone = SERVER.write();
        self.client = connect_patiently()?;
        for delivery in deliveries {
            let Some(state) = self.failure(chunk, delivery, &delivery.payload)? else { continue };
            let mut smallest = delivery.payload.clone();
            let mut step = smallest.len().div_ceil(2);
            while step > 0 {
                let mut at = 0;
                while at < smallest.len() {
                    let mut shorter = smallest.clone();
                    shorter.drain(at..(at + step).min(smallest.len()));
                    if self.failure(chunk, delivery, &shorter)?.as_ref() == Some(&state) {
                        smallest = shorter;
                    } else {
                        at += step;
                    }
                }
                step /= 2;
            }
            let smallest = format!(
                "smallest body: {}\n  {}",
                String::from_utf8_lossy(&smallest),
                hex::encode(&smallest)
            );
            self.statements = prepare(&mut self.client)?;
            return Ok(Some(format!("{state} at\n{}{smallest}", delivery.show())));
        }
        self.statements = prepare(&mut self.client)?;
        Ok(None)
    }

    /// The error of one delivery alone, with this body; signed anew, where it was authentic, and rolled back.
    fn failure(&mut self, chunk: u64, delivery: &Delivery, payload: &[u8]) -> Result<Option<String>, Error> {
        let endpoint = endpoint(chunk);
        let authentic = delivery.verdict == Verdict::Authentic;
        let signature = match authentic {
            true => sign(endpoint.gateway, &self.plan.secret, payload, now()),
            false => delivery.signature.clone(),
        };
        let mut transaction = self.client.transaction()?;
        let (text, headers) = (signature.text.as_deref(), headers(&signature));
        let sql = "SELECT * FROM payment_idem.ingest($1, $2, $3::bytea, $4, $5, $6::text::jsonb)";
        let result = transaction
            .query(sql, &[&self.tenant, &delivery.event_id, &payload, &text, &endpoint.name, &headers]);
        let fault = result.err().map(|error| describe(&error));
        drop(transaction);
        if fault.as_deref() == Some(LOST) {
            self.client = connect_patiently()?;
        }
        Ok(fault)
    }
}

fn headers(signature: &Signature) -> Option<String> {
    signature.headers.as_ref().map(|headers| serde_json::Value::from(headers.clone()).to_string())
}

/// What a crash looks like from here.
const LOST: &str = "the session is lost";

fn describe(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("SQLSTATE {}: {}", error.code().code(), error.message()),
        None if error.is_closed() || error.to_string().contains("communicating") => LOST.to_owned(),
        None => error.to_string(),
    }
}

impl Delivery {
    /// All that is needed to send it again.
    pub fn show(&self) -> String {
        format!(
            "delivery {}, chunk {}, {}, {:?}\n  event id {:?}\n  sig {:?}\n  headers {:?}\n  body in hex {}\n  body {}\n",
            self.number,
            self.number / CHUNK,
            endpoint(self.number / CHUNK).name,
            self.verdict,
            self.event_id,
            self.signature.text,
            headers(&self.signature),
            hex::encode(&self.payload),
            String::from_utf8_lossy(&self.payload),
        )
    }
}
