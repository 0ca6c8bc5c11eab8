//! Durable submissions a second.

use std::time::Duration;

use estimand_testkit::TOKEN;

use crate::bench::Bench;
use crate::contest::{Sample, Side, contest};
use crate::load::Requests;
use crate::parts::reads::CONNECTIONS;
use crate::raw::sqlite::RawSqlite;
use crate::served::{BindingTarget, side};

const TASK: &[u8] = br#"{"command":["/bin/true"],"nodes":"nowhere"}"#;

/// Tasks for a node that there is not.
struct Submissions;

impl Requests for Submissions {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let length = TASK.len();
        let head = format!(
            "POST /api/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(TASK);
        true
    }
}

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let (cores, plan) = (bench.cores, bench.plan);
    let served = BindingTarget::start(cores, bench.keys, Some(&bench.place.path("submissions")), None)?;
    let mut raw = RawSqlite::create(&bench.place.path("raw-submissions.db"), bench.keys)?;
    let ours = side(cores, &served.process, CONNECTIONS, Submissions);
    let commits: Side<'_> = Box::new(|time: Duration| -> anyhow::Result<Sample> { raw.write(1, time) });
    let [ours, commits] = contest(plan, [ours, commits])?;
    let report = &mut bench.report;
    report.part("durable submissions of tasks, 64 connections, SQLite");
    report.ratio("submissions/s", "SQLite alone, one commit a small row", None, &ours, &commits);
    Ok(())
}
