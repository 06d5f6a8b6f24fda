//! One round: so many events through so many connections, timed, metered and counted afterwards.

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crate::events::Event;
use crate::peers::{Peer, Session};
use crate::server::Database;

/// What a round measured, per event.
#[derive(Clone, Copy)]
pub struct Sample {
    pub per_second: f64,
    /// Processor time of the backends in microseconds; NaN where the system does not tell.
    pub cpu_us: f64,
    pub wal_bytes: f64,
}

/// Delivers the events through the sessions, each its share, all starting together; then counts the rows.
pub fn round(database: &mut Database, sessions: &mut [Session], events: &[Event]) -> Sample {
    let peer = sessions[0].peer();
    let first = last_receipt(database);
    let wal = wal_position(database);
    let cpu: f64 = sessions.iter().map(|session| cpu_us(session.pid)).sum();

    let barrier = Barrier::new(sessions.len());
    let share = events.len().div_ceil(sessions.len());
    let spans: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let workers: Vec<_> = sessions
            .iter_mut()
            .zip(events.chunks(share))
            .map(|(session, events)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let began = Instant::now();
                    session.deliver(events);
                    (began, Instant::now())
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a client")).collect()
    });
    let began = spans.iter().map(|span| span.0).min().expect("a client");
    let ended = spans.iter().map(|span| span.1).max().expect("a client");

    let count = events.len() as f64;
    let sample = Sample {
        per_second: count / (ended - began).as_secs_f64(),
        cpu_us: (sessions.iter().map(|session| cpu_us(session.pid)).sum::<f64>() - cpu) / count,
        wal_bytes: (wal_position(database) - wal) as f64 / count,
    };
    let expected = if peer == Peer::Duplicate { &[] } else { events };
    assert_rows(database, first, expected);
    sample
}

pub fn last_receipt(database: &mut Database) -> i64 {
    database.value("SELECT last_value FROM payment_idem.receipt_number")
}

pub fn wal_position(database: &mut Database) -> i64 {
    database.value("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
}

/// The events since a receipt number have made exactly their rows in each table.
fn assert_rows(database: &mut Database, first: i64, events: &[Event]) {
    let last = last_receipt(database);
    assert_eq!(last - first, events.len() as i64, "numbers taken");
    let mut references: [Vec<&str>; 3] = Default::default();
    for event in events {
        let mut add = |gateway, kind, value| {
            for (list, item) in references.iter_mut().zip([gateway, kind, value]) {
                list.push(item);
            }
        };
        add("generic", "payment", &event.payment);
        if let (Some(utr), Some(hash)) = (&event.utr, &event.idempotency_hash) {
            add("", "bank", utr);
            add("", "idempotency_hash", hash);
        }
    }
    let tenant = database.tenant();
    let [gateways, kinds, values] = references;
    let row = database
        .control
        .query_one(include_str!("../sql/rows.sql"), &[&tenant, &first, &last, &gateways, &kinds, &values])
        .expect("a count");
    let expected = events.len() as i64;
    for (column, table) in
        ["event_receipts", "payloads", "", "transactions", "orders", "outbox"].iter().enumerate()
    {
        if column != 2 {
            assert_eq!(row.get::<_, i64>(column), expected, "rows in {table}");
        }
    }
    assert_eq!(row.get::<_, i64>(2), values.len() as i64, "rows in payment_references");
}

/// Processor time of a backend so far, in microseconds.
fn cpu_us(pid: i32) -> f64 {
    fs::read_to_string(format!("/proc/{pid}/schedstat"))
        .ok()
        .and_then(|text| text.split(' ').next()?.parse::<f64>().ok())
        .map_or(f64::NAN, |ns| ns / 1000.0)
}
