//! `make bench`: see docs/PERFORMANCE.md. The report goes to stdout, the progress to stderr.
//!
//!   payment_idem_bench short|full|quick    the report
//!   payment_idem_bench growth | verify     one part of it: growth to ten million receipts; signatures
//!   payment_idem_bench profile PEER        where a backend's time goes: ours, floor, application or plpgsql

mod compare;
mod events;
mod growth;
mod machine;
mod measure;
mod peers;
mod plans;
mod profile;
mod report;
mod server;
mod verify;

use std::env;
use std::time::Instant;

use report::heading;
use server::Server;

/// How thorough a run is.
struct Size {
    compare: compare::Size,
    growth: Option<growth::Size>,
    receipts: i64,
    duplicates: usize,
}

fn size(name: &str) -> Size {
    let thousand = 1_000;
    let growth =
        |receipts: &[i64], rounds| Some(growth::Size { receipts: receipts.to_vec(), rounds, events: 2_000 });
    match name {
        "quick" => Size {
            compare: compare::Size { rounds: 3, round_s: 0.1 },
            growth: None,
            receipts: 10 * thousand,
            duplicates: 200,
        },
        "short" => Size {
            compare: compare::Size { rounds: 7, round_s: 0.6 },
            growth: growth(&[100 * thousand, 2_000 * thousand], 5),
            receipts: 100 * thousand,
            duplicates: 5_000,
        },
        "full" => Size {
            compare: compare::Size { rounds: 15, round_s: 2.0 },
            growth: growth(&[100 * thousand, 2_000 * thousand, 10_000 * thousand], 9),
            receipts: 100 * thousand,
            duplicates: 50_000,
        },
        other => panic!("short, full, quick or profile, not {other}"),
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let server = Server::from_environment();
    match &arguments[..] {
        [mode, peer] if mode == "profile" => profile::run(&server, peer),
        [mode] if mode == "verify" => verify::run(),
        [mode] if mode == "growth" => growth::run(&server, size("full").growth.as_ref().expect("it grows")),
        [name] => report(&server, &size(name), name),
        _ => panic!("payment_idem_bench short|full|quick|growth|verify or profile PEER"),
    }
}

fn report(server: &Server, size: &Size, name: &str) {
    let began = Instant::now();
    let progress = |what: &str| eprintln!("bench: {:4.0} s  {what}", began.elapsed().as_secs_f64());
    let mut database = server.fresh("bench_compare");
    heading(&format!("payment_idem: bench, {name}"));
    machine::print(&mut database);
    progress("filling the tables");
    database.fill_to(size.receipts, false);
    database.run("VACUUM ANALYZE"); // and no checkpoint: all pages have their full image in the WAL already
    compare::assert_alike(server, &mut database);

    heading(&format!("Peers side by side, over {} receipts", size.receipts));
    for (clients, synchronous) in [(1, false), (8, false), (1, true), (8, true)] {
        progress(&format!("{clients} client(s), synchronous_commit {synchronous}"));
        compare::run(server, &mut database, clients, synchronous, size.compare);
    }
    progress("signatures");
    heading("Signatures");
    verify::run();
    progress("duplicates");
    compare::prove_duplicates(server, &mut database, size.duplicates);
    if let Some(growth) = &size.growth {
        progress("growth");
        heading("Growth");
        growth::run(server, growth);
    }
    plans::print(server, &mut database);
    server.drop(database);
    progress("done");
}
