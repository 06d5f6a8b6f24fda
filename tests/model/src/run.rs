//! Runs a history on a server: eight sessions at once, each with its own connection, and workers beside them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use postgres::error::SqlState;
use postgres::{Client, Error, NoTls, Row, Statement};
use uuid::Uuid;

use crate::history::{Call, Delivery, Form, History, Seal, Transaction, SESSIONS};
use crate::model::NewOrder;
use crate::reading::{sign, SECRET};

const ATTEMPTS: usize = 100; // a caller tries again after 40001 and 40P01; so often only in a crowd like this
const SETTINGS: &str =
    "SET deadlock_timeout = '5ms'; SET statement_timeout = '60s'; SET client_min_messages = warning";
const RESULT: &str =
    "outcome, reason, http_status, event_id, order_id, order_status, transaction_id, exception_id, \
                      payload_sha256, first_outcome, first_received_at";

/// One row of `ingest`, or of `create_order` with the columns that it has.
#[derive(Clone, Debug, Default)]
pub struct Told {
    pub outcome: String,
    pub reason: Option<String>,
    pub http_status: i32,
    pub event_id: Option<String>,
    pub order_id: Option<Uuid>,
    pub status: Option<String>,
    pub transaction_id: Option<i64>,
    pub exception_id: Option<i64>,
    pub payload_sha256: Option<String>,
    pub first_outcome: Option<String>,
    pub first_received_at: Option<SystemTime>,
}

impl Told {
    fn of_ingest(row: &Row) -> Told {
        Told {
            outcome: row.get("outcome"),
            reason: row.get("reason"),
            http_status: row.get("http_status"),
            event_id: row.get("event_id"),
            order_id: row.get("order_id"),
            status: row.get("order_status"),
            transaction_id: row.get("transaction_id"),
            exception_id: row.get("exception_id"),
            payload_sha256: row.get("payload_sha256"),
            first_outcome: row.get("first_outcome"),
            first_received_at: row.get("first_received_at"),
        }
    }

    fn of_create_order(row: &Row) -> Told {
        let (outcome, order_id, status) = (row.get("outcome"), row.get("order_id"), row.get("status"));
        Told { outcome, order_id, status, ..Told::default() }
    }
}

/// One call, as it went in the end: in the attempt that was not told to retry.
#[derive(Clone, Debug)]
pub struct Done {
    pub session: usize,
    pub transaction: usize,
    pub form: Form,
    pub level: &'static str,
    pub committed: bool,
    pub call: Call,
    pub told: Told,
    /// It took effect, if any, between these two: the call's start (or its snapshot's) and the end of its transaction.
    pub from: Instant,
    pub until: Instant,
    pub retries: usize,
}

/// Row by row what the workers got.
#[derive(Default)]
pub struct Work {
    /// Per message: how often it was acknowledged with success.
    pub acked: BTreeMap<Uuid, usize>,
    pub claimed: Vec<(Uuid, Uuid, i64, String)>, // message, order, amount, currency
    pub faults: Vec<String>,
}

pub struct Course {
    pub tenant: Uuid,
    pub done: Vec<Done>,
    pub work: Work,
    pub errors: Vec<String>,
}

struct Session {
    client: Client,
    ingest: Statement,
    create_order: Statement,
    batch: Statement,
    /// What no sender and no caller here may cause.
    errors: Vec<String>,
}

pub struct Server {
    pub admin: Client,
    sessions: Vec<Session>,
    worker: Client,
}

fn connect() -> Result<Client, Error> {
    let setting = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let mut client = postgres::Config::new()
        .host(&setting("PGHOST"))
        .port(setting("PGPORT").parse().expect("PGPORT is a number"))
        .user(&setting("PGUSER"))
        .dbname(&setting("PGDATABASE"))
        .connect(NoTls)?;
    client.batch_execute(SETTINGS)?;
    Ok(client)
}

impl Server {
    pub fn connect() -> Result<Server, Error> {
        let sessions = (0..SESSIONS).map(|_| Session::connect()).collect::<Result<_, _>>()?;
        Ok(Server { admin: connect()?, sessions, worker: connect()? })
    }

    /// A tenant of its own for the history, the orders that were there before, then everything at once, then every
    /// accepted body once more.
    pub fn run(&mut self, history: &History) -> Result<Course, Error> {
        let tenant = self.prepare(history)?;
        let (barrier, going, transactions) =
            (Barrier::new(SESSIONS), AtomicBool::new(true), AtomicUsize::new(0));
        let (worker, sessions) = (&mut self.worker, &mut self.sessions);
        let (mut done, mut work) = thread::scope(|scope| {
            let worker = history.workers.then(|| scope.spawn(|| toil(worker, tenant, &going)));
            let threads: Vec<_> = sessions
                .iter_mut()
                .zip(&history.sessions)
                .enumerate()
                .map(|(number, (session, script))| {
                    let (barrier, transactions) = (&barrier, &transactions);
                    scope.spawn(move || {
                        barrier.wait();
                        let number_of = |_| transactions.fetch_add(1, SeqCst);
                        let run = |t| session.run(number, number_of(t), tenant, t);
                        script.iter().map(run).collect::<Result<Vec<_>, _>>().map(|done| done.concat())
                    })
                })
                .collect();
            let done: Result<Vec<_>, _> =
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            going.store(false, SeqCst);
            let work = worker.map(|worker| worker.join().expect("no panic")).transpose();
            Ok::<_, Error>((done?.concat(), work?.unwrap_or_default()))
        })?;
        let mut again: Vec<&Delivery> = Vec::new();
        for done in done.iter().filter(|done| done.committed) {
            match &done.call {
                Call::Deliver(d) if d.rejection().is_none() && !again.iter().any(|a| a.body == d.body) => {
                    again.push(d)
                }
                _ => {}
            }
        }
        let again: Vec<Transaction> = again.into_iter().map(|d| alone(Call::Deliver(d.clone()))).collect();
        for transaction in &again {
            let number = transactions.fetch_add(1, SeqCst);
            done.extend(self.sessions[0].run(0, number, tenant, transaction)?);
        }
        if history.workers {
            drain(&mut self.worker, tenant, &mut work)?;
        }
        let errors =
            self.sessions.iter_mut().flat_map(|session| std::mem::take(&mut session.errors)).collect();
        Ok(Course { tenant, done, work, errors })
    }

    fn prepare(&mut self, history: &History) -> Result<Uuid, Error> {
        let name = format!("history {}", history.seed);
        let tenant: Uuid = self.admin.query_one("SELECT payment_idem.create_tenant($1)", &[&name])?.get(0);
        self.admin.execute(
            "SELECT payment_idem.create_source($1, 'default', 'generic', \
             jsonb_strip_nulls(jsonb_build_object('merchant_id', $2::text)))",
            &[&tenant, &history.source_merchant],
        )?;
        self.admin.execute("SELECT payment_idem.add_secret($1, 'default', $2)", &[&tenant, &SECRET])?;
        for (kind, from, to) in history.own_rules.iter().flatten() {
            self.admin.execute(
                "INSERT INTO payment_idem.transition_rules VALUES \
                 ($1, $2, $3::text::payment_idem.order_status, $4::text::payment_idem.order_status)",
                &[&tenant, &kind.as_str(), &from.to_string(), &to.to_string()],
            )?;
        }
        for order in &history.before {
            self.sessions[0].run(0, usize::MAX, tenant, &alone(Call::CreateOrder(order.clone())))?;
        }
        Ok(tenant)
    }
}

fn alone(call: Call) -> Transaction {
    let steps = vec![crate::history::Step { call, pause_us: 0 }];
    Transaction { form: Form::Autocommit, level: "READ COMMITTED", rollback: false, steps, pause_us: 0 }
}

fn signature(delivery: &Delivery) -> String {
    match delivery.seal {
        Seal::True => sign(&delivery.body),
        Seal::Forged => sign(b"other bytes"),
        Seal::Malformed => "no signature".into(),
    }
}

/// The amount in major units, as `create_order` takes it.
fn major(order: &NewOrder) -> String {
    let decimals = match order.currency {
        "JPY" => return order.amount_minor.to_string(),
        "KWD" => 3,
        _ => 2,
    };
    let unit = 10_i64.pow(decimals);
    format!("{}.{:0width$}", order.amount_minor / unit, order.amount_minor % unit, width = decimals as usize)
}

impl Session {
    fn connect() -> Result<Session, Error> {
        let mut client = connect()?;
        let call = format!("SELECT {RESULT} FROM payment_idem.ingest($1, $2, $3::bytea, $4)");
        let batch = format!("SELECT item, {RESULT} FROM payment_idem.ingest_batch($1, $2, $3::bytea[], $4)");
        Ok(Session {
            ingest: client.prepare(&call)?,
            create_order: client.prepare(
                "SELECT * FROM payment_idem.create_order($1, $2, $3, $4::text::numeric, $5, gateway_order_id => $6)",
            )?,
            batch: client.prepare(&batch)?,
            errors: Vec::new(),
            client,
        })
    }

    /// The whole transaction again after 40001 and 40P01, as the documentation tells callers to do.
    fn run(
        &mut self,
        session: usize,
        number: usize,
        tenant: Uuid,
        transaction: &Transaction,
    ) -> Result<Vec<Done>, Error> {
        for retries in 0.. {
            match self.attempt(tenant, transaction) {
                Ok((told, until)) => {
                    return Ok(told
                        .into_iter()
                        .zip(&transaction.steps)
                        .map(|((told, from), step)| Done {
                            session,
                            transaction: number,
                            form: transaction.form,
                            level: transaction.level,
                            committed: !transaction.rollback,
                            call: step.call.clone(),
                            told,
                            from,
                            until,
                            retries,
                        })
                        .collect())
                }
                Err(error) => {
                    let again = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
                    self.client.batch_execute("ROLLBACK")?;
                    if retries == ATTEMPTS || !error.code().is_some_and(|code| again.contains(&code)) {
                        let calls: Vec<String> =
                            transaction.steps.iter().map(|step| step.call.to_string()).collect();
                        let what = error
                            .as_db_error()
                            .map_or(error.to_string(), |e| format!("{} {}", e.code().code(), e.message()));
                        let (form, level) = (transaction.form, transaction.level);
                        let calls = calls.join("; ");
                        self.errors.push(format!(
                            "{what} in session {session}, transaction {number} ({form:?} {level}): {calls}"
                        ));
                        return Ok(Vec::new());
                    }
                    pause(retries as u64 * 200);
                }
            }
        }
        unreachable!()
    }

    fn attempt(
        &mut self,
        tenant: Uuid,
        transaction: &Transaction,
    ) -> Result<(Vec<(Told, Instant)>, Instant), Error> {
        let snapshot = Instant::now();
        let start = || if transaction.level == "READ COMMITTED" { Instant::now() } else { snapshot };
        if transaction.form != Form::Autocommit {
            self.client.batch_execute(&format!("BEGIN ISOLATION LEVEL {}", transaction.level))?;
        }
        let mut told = Vec::new();
        if transaction.form == Form::Batch {
            told = self.batch(tenant, transaction, start())?;
        } else {
            for step in &transaction.steps {
                pause(step.pause_us);
                let from = start();
                told.push((self.call(tenant, &step.call)?, from));
            }
        }
        pause(transaction.pause_us);
        if transaction.form != Form::Autocommit {
            self.client.batch_execute(if transaction.rollback { "ROLLBACK" } else { "COMMIT" })?;
        }
        Ok((told, Instant::now()))
    }

    fn call(&mut self, tenant: Uuid, call: &Call) -> Result<Told, Error> {
        match call {
            Call::Deliver(d) => {
                let row = self
                    .client
                    .query_one(&self.ingest, &[&tenant, &d.claimed_id, &*d.body, &signature(d)])?;
                Ok(Told::of_ingest(&row))
            }
            Call::CreateOrder(o) => {
                let (merchant, reference) = &o.key;
                let row = self.client.query_one(
                    &self.create_order,
                    &[&tenant, merchant, reference, &major(o), &o.currency, &o.gateway_order],
                )?;
                Ok(Told::of_create_order(&row))
            }
        }
    }

    fn batch(
        &mut self,
        tenant: Uuid,
        transaction: &Transaction,
        from: Instant,
    ) -> Result<Vec<(Told, Instant)>, Error> {
        let deliveries: Vec<&Delivery> = transaction
            .steps
            .iter()
            .map(|step| match &step.call {
                Call::Deliver(delivery) => delivery,
                Call::CreateOrder(_) => unreachable!("a batch holds deliveries only"),
            })
            .collect();
        let ids: Vec<_> = deliveries.iter().map(|d| d.claimed_id.clone()).collect();
        let bodies: Vec<_> = deliveries.iter().map(|d| d.body.to_vec()).collect();
        let signatures: Vec<_> = deliveries.iter().map(|d| signature(d)).collect();
        let rows = self.client.query(&self.batch, &[&tenant, &ids, &bodies, &signatures])?;
        let items: Vec<i32> = rows.iter().map(|row| row.get("item")).collect();
        assert_eq!(
            items,
            (1..=deliveries.len() as i32).collect::<Vec<_>>(),
            "one row per item, in input order"
        );
        Ok(rows.iter().map(|row| (Told::of_ingest(row), from)).collect())
    }
}

fn pause(us: u64) {
    if us > 0 {
        thread::sleep(Duration::from_micros(us));
    }
}

// --- workers ----------------------------------------------------------------------------------------------------

/// Claims while the history runs; gives back every other row, so that it is claimed again.
fn toil(client: &mut Client, tenant: Uuid, going: &AtomicBool) -> Result<Work, Error> {
    let mut work = Work::default();
    while going.load(SeqCst) {
        claim(client, tenant, &mut work, true)?;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(work)
}

fn drain(client: &mut Client, tenant: Uuid, work: &mut Work) -> Result<(), Error> {
    while claim(client, tenant, work, false)? > 0 {}
    Ok(())
}

fn claim(client: &mut Client, tenant: Uuid, work: &mut Work, may_fail: bool) -> Result<usize, Error> {
    let rows =
        client.query("SELECT * FROM payment_idem.claim('model', max_rows => 2, tenant => $1)", &[&tenant])?;
    for row in &rows {
        let (lease, message): (Uuid, Uuid) = (row.get("lease_token"), row.get("message_id"));
        work.claimed.push((message, row.get("order_id"), row.get("amount_minor"), row.get("currency")));
        let fails = may_fail && row.get::<_, i32>("attempts") < 3;
        let call = if fails { "nack($1, 'not yet', '0 seconds')" } else { "ack($1)" };
        let held: bool = client.query_one(&format!("SELECT payment_idem.{call}"), &[&lease])?.get(0);
        if !held {
            work.faults
                .push(format!("{call}: the lease of message {message} was lost though nobody else claims"));
        }
        *work.acked.entry(message).or_default() += usize::from(!fails);
    }
    Ok(rows.len())
}
