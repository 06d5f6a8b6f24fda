//! How ours and the floor keep their pace while the tables grow.

use std::time::Instant;

use crate::cells;
use crate::events::Shape;
use crate::measure::{Sample, round};
use crate::peers::{Peer, Session};
use crate::report::{Spread, table};
use crate::server::{Database, Server};

/// How far and how thoroughly.
pub struct Size {
    /// Receipts at which to measure; the first is what the others are compared with.
    pub receipts: Vec<i64>,
    pub rounds: usize,
    pub events: usize,
}

const PEERS: [Peer; 2] = [Peer::Ours, Peer::Floor];

/// One phase of one shape at one size: the samples of ours and of the floor.
struct Figures {
    what: &'static str,
    phase: &'static str,
    receipts: i64,
    samples: [Vec<Sample>; 2],
}

/// Grows a database with time-ordered and one with random ids, and prints what each size measured.
pub fn run(server: &Server, size: &Size) {
    for random_ids in [false, true] {
        let mut database = server.fresh("bench_growth");
        let figures = grow(server, &mut database, random_ids, size);
        let (ids, shapes) = if random_ids { ("random", 1) } else { ("time-ordered", 2) };
        println!(
            "{ids} event ids and payment references; 1 client, synchronous_commit = off, {} rounds of {} events\n",
            size.rounds, size.events
        );
        print(&figures, size.receipts[0]);
        assert_eq!(figures.len(), size.receipts.len() * shapes * 2);
        if random_ids {
            compression(server, &mut database, size);
        }
        server.drop(database);
    }
}

fn shapes(random_ids: bool) -> Vec<(&'static str, Shape)> {
    let mut shapes = vec![("with bank reference", Shape { random_ids, bank_reference: true })];
    if !random_ids {
        // The idempotency hash of a payment with a bank reference is random, whatever the ids are.
        shapes.push(("without", Shape { random_ids, bank_reference: false }));
    }
    shapes
}

fn grow(server: &Server, database: &mut Database, random_ids: bool, size: &Size) -> Vec<Figures> {
    let mut figures = Vec::new();
    for &receipts in &size.receipts {
        let began = Instant::now();
        // What has been touched since the checkpoint needs no full-page image again: so much is the warm-up.
        let warm_up = (receipts / 2).min(1_000_000);
        database.fill_to(receipts - warm_up, random_ids);
        database.run("CHECKPOINT");
        database.fill_to(receipts, random_ids);
        database.run("ANALYZE"); // before the sessions plan
        eprintln!("bench: {receipts} receipts, filled in {:.0} s", began.elapsed().as_secs_f64());
        for (phase, checkpoint) in [("between checkpoints", false), ("after a checkpoint", true)] {
            for (what, shape) in shapes(random_ids) {
                let samples = side_by_side(server, database, shape, checkpoint, size);
                figures.push(Figures { what, phase, receipts, samples });
            }
        }
    }
    figures
}

/// Alternating rounds of ours and the floor, each right after a checkpoint of its own if so asked.
fn side_by_side(
    server: &Server,
    database: &mut Database,
    shape: Shape,
    checkpoint: bool,
    size: &Size,
) -> [Vec<Sample>; 2] {
    let mut sessions = PEERS.map(|peer| open(server, database, peer, &[]));
    for session in &mut sessions {
        let events = database.factory.make(&mut database.control, 200, shape);
        round(database, std::slice::from_mut(session), &events); // plans are made
    }
    let mut samples = [Vec::new(), Vec::new()];
    for number in 0..size.rounds {
        for turn in 0..PEERS.len() {
            let who = (number + turn) % PEERS.len();
            let events = database.factory.make(&mut database.control, size.events, shape);
            if checkpoint {
                database.run("CHECKPOINT");
            }
            samples[who].push(round(database, std::slice::from_mut(&mut sessions[who]), &events));
        }
    }
    samples
}

fn open(server: &Server, database: &Database, peer: Peer, settings: &[(&str, &str)]) -> Session {
    let mut all = vec![("synchronous_commit", "off")];
    all.extend(settings);
    Session::open(server, database.name, database.tenant(), peer, false, &all)
}

fn print(figures: &[Figures], base: i64) {
    let median =
        |f: &Figures, who: usize, of: fn(&Sample) -> f64| Spread::of(f.samples[who].iter().map(of)).median;
    let pace = |f: &Figures, who: usize| median(f, who, |s| s.per_second);
    let mut rows = vec![cells![
        "",
        "receipts",
        "ours/s",
        "floor/s",
        "ours:floor",
        "ours: own start",
        "floor: own start",
        "WAL B/event ours",
        "floor"
    ]];
    let mut order: Vec<&Figures> = figures.iter().collect();
    order.sort_by_key(|f| (f.phase, f.what, f.receipts));
    for f in order {
        let start = figures
            .iter()
            .find(|other| (other.what, other.phase, other.receipts) == (f.what, f.phase, base))
            .expect("the first size");
        rows.push(cells![
            format!("{}, {}", f.phase, f.what),
            f.receipts,
            format!("{:.0}", pace(f, 0)),
            format!("{:.0}", pace(f, 1)),
            format!("{:.2}", pace(f, 0) / pace(f, 1)),
            format!("{:.2}", pace(f, 0) / pace(start, 0)),
            format!("{:.2}", pace(f, 1) / pace(start, 1)),
            format!("{:.0}", median(f, 0, |s| s.wal_bytes)),
            format!("{:.0}", median(f, 1, |s| s.wal_bytes)),
        ]);
    }
    table(&rows);
}

/// What `wal_compression` (an enum since PostgreSQL 15) does to the worst case: random ids right after a checkpoint, at the largest size.
fn compression(server: &Server, database: &mut Database, size: &Size) {
    let methods: Vec<String> =
        database.value("SELECT enumvals FROM pg_settings WHERE name = 'wal_compression'");
    let methods: Vec<String> = methods.into_iter().filter(|method| method != "on").collect();
    let shape = Shape { random_ids: true, bank_reference: true };
    let mut samples: Vec<Vec<Sample>> = methods.iter().map(|_| Vec::new()).collect();
    for _ in 0..size.rounds {
        for (method, samples) in methods.iter().zip(&mut samples) {
            let mut session = open(server, database, Peer::Ours, &[("wal_compression", method)]);
            let warm_up = database.factory.make(&mut database.control, 100, shape);
            session.deliver(&warm_up);
            let events = database.factory.make(&mut database.control, size.events, shape);
            database.run("CHECKPOINT");
            samples.push(round(database, std::slice::from_mut(&mut session), &events));
        }
    }
    println!(
        "wal_compression, ours, random ids, {} receipts, after a checkpoint\n",
        size.receipts.last().expect("a size")
    );
    let mut rows = vec![cells!["", "events/s, median (min-max)", "CPU us/event", "WAL bytes/event"]];
    for (method, samples) in methods.iter().zip(&samples) {
        let spread = |of: fn(&Sample) -> f64| Spread::of(samples.iter().map(of));
        rows.push(cells![
            method,
            spread(|s| s.per_second).text(0),
            spread(|s| s.cpu_us).text(1),
            spread(|s| s.wal_bytes).text(0)
        ]);
    }
    table(&rows);
}
