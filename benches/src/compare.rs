//! Interleaved rounds of all peers, in every configuration of clients and synchronous_commit.

use crate::cells;
use crate::events::{Event, Shape};
use crate::measure::{Sample, last_receipt, round, wal_position};
use crate::peers::{BATCH, Peer, Session};
use crate::report::{Spread, table};
use crate::server::{Database, Server};

const SHAPE: Shape = Shape { random_ids: false, bank_reference: true };

/// How long and how often.
#[derive(Clone, Copy)]
pub struct Size {
    pub rounds: usize,
    /// How long a round of the floor is to take.
    pub round_s: f64,
}

/// A peer by one transport.
struct Contestant {
    name: &'static str,
    peer: Peer,
    tcp: bool,
    /// Whose figures ours are compared with, and what is to be reached: on 1 and 8 clients, with
    /// synchronous_commit off and on.
    ratio: Option<Ratio>,
}

struct Ratio {
    of: &'static str,
    to: &'static str,
    goals: [[f64; 2]; 2],
}

const OURS: &str = "ours";
const OURS_TCP: &str = "ours, TCP";
const FLOOR: &str = "(a) floor";
const APPLICATION: &str = "(b) application, TCP";
const PLPGSQL: &str = "(c) plpgsql";
const DUPLICATE: &str = "ours, duplicates";
const BATCHES: &str = "ours, ingest_batch(100)";

fn contestants(clients: usize, batch: bool) -> Vec<Contestant> {
    let ratio = |of, to, goals| Some(Ratio { of, to, goals });
    let mut all = vec![
        Contestant { name: OURS, peer: Peer::Ours, tcp: false, ratio: None },
        Contestant {
            name: FLOOR,
            peer: Peer::Floor,
            tcp: false,
            ratio: ratio(OURS, FLOOR, [[0.9, 0.9], [0.9, 0.9]]),
        },
        Contestant {
            name: PLPGSQL,
            peer: Peer::Plpgsql,
            tcp: false,
            ratio: ratio(OURS, PLPGSQL, [[1.4, 1.25], [1.4, 1.25]]),
        },
        Contestant { name: OURS_TCP, peer: Peer::Ours, tcp: true, ratio: None },
        Contestant {
            name: APPLICATION,
            peer: Peer::Application,
            tcp: true,
            ratio: ratio(OURS_TCP, APPLICATION, [[2.8, 1.6], [3.5, 1.6]]),
        },
        Contestant {
            name: DUPLICATE,
            peer: Peer::Duplicate,
            tcp: false,
            ratio: ratio(DUPLICATE, OURS, [[2.0, 2.0], [2.0, 2.0]]),
        },
    ];
    if batch {
        let none = f64::NAN; // no goal was set
        let goals = if clients == 1 { [[1.6, none], [none, none]] } else { [[none, none], [none, 3.0]] };
        all.push(Contestant {
            name: BATCHES,
            peer: Peer::Batch,
            tcp: false,
            ratio: ratio(BATCHES, OURS, goals),
        });
    }
    all
}

/// Runs one configuration and prints its tables.
pub fn run(server: &Server, database: &mut Database, clients: usize, synchronous: bool, size: Size) {
    let batch = database.has("ingest_batch");
    let contestants = contestants(clients, batch);
    let on_or_off = if synchronous { "on" } else { "off" };
    let mut sessions: Vec<Vec<Session>> = contestants
        .iter()
        .map(|c| {
            let open = |_| {
                let settings = [("synchronous_commit", on_or_off)];
                Session::open(server, database.name, database.tenant(), c.peer, c.tcp, &settings)
            };
            (0..clients).map(open).collect()
        })
        .collect();

    // Warm up, and find how many events make a round.
    let mut count = 200 * clients;
    let mut delivered: Vec<Event> = Vec::new();
    for (contestant, sessions) in contestants.iter().zip(&mut sessions) {
        if contestant.peer == Peer::Duplicate {
            round(database, sessions, &delivered);
            continue;
        }
        let events = database.factory.make(&mut database.control, 200 * clients, SHAPE);
        let sample = round(database, sessions, &events);
        if contestant.peer == Peer::Floor {
            count = (sample.per_second * size.round_s) as usize;
        }
        if contestant.peer == Peer::Ours {
            delivered = events;
        }
    }
    let unit = BATCH * clients; // every client gets whole batches
    let count = count.div_ceil(unit) * unit;

    let mut samples: Vec<Vec<Sample>> = contestants.iter().map(|_| Vec::new()).collect();
    for number in 0..size.rounds {
        // The order is rotated, so that nobody always runs first.
        for turn in 0..contestants.len() {
            let who = (number + turn) % contestants.len();
            let (contestant, sessions) = (&contestants[who], &mut sessions[who]);
            if contestant.peer == Peer::Duplicate {
                samples[who].push(round(database, sessions, &delivered));
                continue;
            }
            let events = database.factory.make(&mut database.control, count, SHAPE);
            samples[who].push(round(database, sessions, &events));
            if contestant.name == OURS {
                delivered = events;
            }
        }
    }

    println!(
        "{clients} client(s), synchronous_commit = {on_or_off}: {} rounds of {count} events each\n",
        size.rounds
    );
    let spread = |who: usize, of: fn(&Sample) -> f64| Spread::of(samples[who].iter().map(of));
    let mut rows = vec![cells!["", "events/s, median (min-max)", "CPU us/event", "WAL bytes/event"]];
    for (who, contestant) in contestants.iter().enumerate() {
        rows.push(cells![
            contestant.name,
            spread(who, |s| s.per_second).text(0),
            spread(who, |s| s.cpu_us).text(1),
            spread(who, |s| s.wal_bytes).text(0),
        ]);
    }
    table(&rows);

    let place = |name| contestants.iter().position(|c| c.name == name).expect("a contestant");
    let mut rows = vec![cells!["ratio of medians", "events/s", "single rounds", "CPU", "WAL", "goal"]];
    for ratio in contestants.iter().filter_map(|c| c.ratio.as_ref()) {
        let (one, other) = (place(ratio.of), place(ratio.to));
        let goal = ratio.goals[usize::from(clients > 1)][usize::from(synchronous)];
        let single =
            Spread::of(samples[one].iter().zip(&samples[other]).map(|(a, b)| a.per_second / b.per_second));
        let of = |what: fn(&Sample) -> f64| spread(one, what).median / spread(other, what).median;
        rows.push(cells![
            format!("{} : {}", ratio.of, ratio.to),
            format!("{:.2}", of(|s| s.per_second)),
            format!("{:.2}-{:.2}", single.min, single.max),
            format!("{:.2}", of(|s| s.cpu_us)),
            format!("{:.2}", of(|s| s.wal_bytes)),
            if goal.is_nan() { String::new() } else { format!("{goal}") },
        ]);
    }
    table(&rows);
}

/// All peers fill the same columns of the same tables; where one does not, it measures something else.
pub fn assert_alike(server: &Server, database: &mut Database) {
    let mut ours: Option<Vec<String>> = None;
    let tenant = database.tenant();
    for peer in [Peer::Ours, Peer::Floor, Peer::Application, Peer::Plpgsql] {
        let event = database.factory.make(&mut database.control, 1, SHAPE);
        let first = last_receipt(database);
        Session::open(server, database.name, tenant, peer, false, &[]).deliver(&event);
        let last = last_receipt(database);
        let columns: Vec<String> = database
            .control
            .query_one(include_str!("../sql/columns.sql"), &[&tenant, &first, &last])
            .expect("columns")
            .get(0);
        let expected = ours.get_or_insert_with(|| columns.clone());
        assert_eq!(*expected, columns);
    }
}

/// Proves that duplicates leave nothing behind: no WAL, no transaction id, no number.
pub fn prove_duplicates(server: &Server, database: &mut Database, count: usize) {
    let tenant = database.tenant();
    let events = database.factory.make(&mut database.control, count, SHAPE);
    Session::open(server, database.name, tenant, Peer::Ours, false, &[]).deliver(&events);
    let mut session = Session::open(server, database.name, tenant, Peer::Duplicate, false, &[]);
    session.deliver(&events); // whatever is to be set up or hinted, is
    let mut left = [0; 3];
    // The server itself logs its running transactions, up to 15 seconds after the last change: try again then.
    for _ in 0..5 {
        let before = traces(database);
        session.run("BEGIN");
        session.deliver(&events);
        let assigned: Option<String> = session.value("SELECT pg_current_xact_id_if_assigned()::text");
        session.run("COMMIT");
        assert_eq!(assigned, None, "a transaction id");
        let after = traces(database);
        left = [0, 1, 2].map(|trace| after[trace] - before[trace]);
        if left == [0; 3] {
            break;
        }
    }
    println!("{count} duplicates in a row left behind:\n");
    table(&[
        cells!["", "WAL bytes", "transaction ids", "receipt numbers"],
        cells!["all of them", left[0], left[1], left[2]],
    ]);
}

/// What a write would move: the end of the WAL, the next transaction id, the last receipt number.
fn traces(database: &mut Database) -> [i64; 3] {
    let next_xid = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    [wal_position(database), database.value(next_xid), last_receipt(database)]
}
