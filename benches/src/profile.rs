//! Where a backend's time goes: delivers events while `perf` looks on, and prints what it saw.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::cells;
use crate::events::Shape;
use crate::measure::round;
use crate::peers::{Peer, Session};
use crate::report::{heading, table};
use crate::server::Server;

const EVENTS: usize = 20_000;
const DATA: &str = "build/bench/perf.data";

/// Entry points whose whole time, with all below it, is worth a line; what is not exported has no name to perf.
const GROUPS: [(&str, &str); 24] = [
    ("PostgresMain", "everything"),
    ("ingest_wrapper", "payment_idem.ingest"),
    ("SPI_execute_plan", "its statements"),
    ("standard_ExecutorStart", "start of statements (ExecutorStart)"),
    ("standard_ExecutorRun", "run of statements (ExecutorRun, with those inside functions)"),
    ("standard_ExecutorFinish", "ends of WITH parts (ExecutorFinish)"),
    ("standard_ExecutorEnd", "end of statements (ExecutorEnd)"),
    ("ExecInitModifyTable", "  opening tables to write"),
    ("ExecConstraints", "  CHECK constraints"),
    ("stringToNode", "    read from their text, at each statement"),
    ("expression_planner", "    simplified, at each statement"),
    ("ExecCheckIndexConstraints", "  ON CONFLICT: looking first"),
    ("ExecInsertIndexTuples", "  index entries"),
    ("heap_insert", "  rows"),
    ("heap_update", "  the order's new version"),
    ("ExecFindPartition", "  finding partitions"),
    ("XLogInsert", "  WAL records"),
    ("_bt_first", "  index look-ups"),
    ("ReadBufferExtended", "  buffers"),
    ("fmgr_security_definer", "function with SET search_path, and all in it"),
    ("AtEOXact_GUC", "  putting settings back"),
    ("GetCachedPlan", "kept plans: locks and checks"),
    ("CommitTransactionCommand", "commit"),
    ("do_syscall_64", "system calls"),
];

/// Profiles one backend of a peer.
pub fn run(server: &Server, peer: &str) {
    let (name, peer) = match peer {
        "ours" => ("ours", Peer::Ours),
        "floor" => ("(a) floor", Peer::Floor),
        "application" => ("(b) application", Peer::Application),
        "plpgsql" => ("(c) plpgsql", Peer::Plpgsql),
        other => panic!("ours, floor, application or plpgsql, not {other}"),
    };
    let mut database = server.fresh("bench_profile");
    database.fill_to(100_000, false);
    database.run("VACUUM ANALYZE");
    let shape = Shape { random_ids: false, bank_reference: true };
    let events = database.factory.make(&mut database.control, EVENTS, shape);
    let settings = [("synchronous_commit", "off")];
    let mut session = Session::open(server, database.name, database.tenant(), peer, false, &settings);
    let (warm_up, measured) = events.split_at(EVENTS / 20);
    session.deliver(warm_up);

    let perf = record(session.pid);
    let sample = round(&mut database, std::slice::from_mut(&mut session), measured);
    stop(perf);
    heading(&format!("Where a backend's time goes: {name}"));
    println!(
        "{} events, {:.1} us of processor time each while perf looked on\n",
        measured.len(),
        sample.cpu_us
    );
    print_profile(sample.cpu_us);
    server.drop(database);
}

fn record(pid: i32) -> Child {
    // Unwound from copies of the stack: neither PostgreSQL nor Rust keeps frame pointers.
    let perf = Command::new("perf")
        .args(["record", "--call-graph", "dwarf,16384", "-F", "299", "-o", DATA, "-p", &pid.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("perf is not installed");
    sleep(Duration::from_secs(1)); // it attaches
    perf
}

fn stop(mut perf: Child) {
    Command::new("kill").args(["-INT", &perf.id().to_string()]).status().expect("kill");
    perf.wait().expect("perf");
}

fn perf_report(arguments: &[&str]) -> String {
    let output =
        Command::new("perf").args(["report", "-i", DATA, "-g", "none", "--stdio"]).args(arguments).output();
    String::from_utf8_lossy(&output.expect("perf report").stdout).into_owned()
}

fn print_profile(cpu_us: f64) {
    let whole = perf_report(&["--children", "--sort", "sym"]);
    let share = |symbol: &str| {
        whole.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.get(3..) == Some(&[symbol][..]))
                .then(|| words[0].trim_end_matches('%').parse::<f64>().ok())?
        })
    };
    let mut rows = vec![cells!["with all below it", "share", "us/event"]];
    for (symbol, what) in GROUPS {
        if let Some(share) = share(symbol) {
            rows.push(cells![what, format!("{share:.1} %"), format!("{:.1}", share / 100.0 * cpu_us)]);
        }
    }
    table(&rows);
    for (title, sort, lines) in [("by library", "dso", 6), ("by itself", "sym", 25)] {
        println!("{title}\n");
        let own = perf_report(&["--no-children", "--sort", sort]);
        own.lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty() && !line.contains("0x0000"))
            .take(lines)
            .for_each(|line| println!("{}", line.trim_end()));
        println!();
    }
}
