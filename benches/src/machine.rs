//! On what the figures were measured.

use std::fs;
use std::thread::available_parallelism;

use crate::cells;
use crate::report::table;
use crate::server::Database;

const SETTINGS: [&str; 12] = [
    "shared_buffers",
    "fsync",
    "full_page_writes",
    "wal_level",
    "wal_sync_method",
    "wal_compression",
    "max_wal_size",
    "checkpoint_timeout",
    "autovacuum",
    "data_checksums",
    "commit_delay",
    "jit",
];

/// Prints the machine, the server and its settings.
pub fn print(database: &mut Database) {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes: f64 =
        memory.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(f64::NAN);
    let mut rows = vec![
        cells!["machine", ""],
        cells!["cores", available_parallelism().map_or(0, |cores| cores.get())],
        cells!["processor", model.unwrap_or("unknown")],
        cells!["memory", format!("{:.0} GiB", kilobytes / f64::from(1 << 20))],
        cells!["system", fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim()],
        cells!["PostgreSQL", database.value::<String>("SHOW server_version")],
        cells![
            "payment_idem",
            database.value::<String>("SELECT extversion FROM pg_extension WHERE extname = 'payment_idem'")
        ],
    ];
    for name in SETTINGS {
        rows.push(cells![name, database.value::<String>(&format!("SHOW {name}"))]);
    }
    table(&rows);
}
