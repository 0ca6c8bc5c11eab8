//! PostgreSQL, written to by its own `pgbench`, a row a commit.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use estimand_testkit::databases::{Kind, Server};

use crate::contest::{Sample, Side};
use crate::cores::Cores;
use crate::histogram::Histogram;
use crate::keys::Keys;
use crate::parts::reads::CONNECTIONS;
use crate::peer::find;

pub struct Pgbench {
    program: PathBuf,
    script: PathBuf,
    url: String,
    _server: Server,
}

impl Pgbench {
    pub fn start(folder: &std::path::Path, keys: Keys) -> anyhow::Result<Option<Self>> {
        let beside = || {
            let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
            versions.map(|version| version.path().join("bin/pgbench")).find(|program| program.is_file())
        };
        let Some(program) = find("pgbench").or_else(beside) else { return Ok(None) };
        std::fs::create_dir_all(folder)?;
        let script = folder.join("upsert.sql");
        let last = keys.count() - 1;
        std::fs::write(
            &script,
            format!(
                "\\set id random(0, {last})\n\
                 INSERT INTO v VALUES (:id, random()) ON CONFLICT (id) DO UPDATE SET value = excluded.value;\n"
            ),
        )?;
        let server = Server::start_own(Kind::Postgres);
        let url = server.fresh_url();
        server.query(&url, "CREATE TABLE v (id bigint PRIMARY KEY, value double precision)");
        server.query(&url, &format!("INSERT INTO v SELECT i, 0 FROM generate_series(0, {last}) i"));
        Ok(Some(Pgbench { program, script, url, _server: server }))
    }

    /// Whole seconds: it takes no others.
    pub fn side(&self, cores: Cores) -> Side<'_> {
        Box::new(move |time: Duration| -> anyhow::Result<Sample> {
            let seconds = time.as_secs_f64().ceil().max(1.0).to_string();
            let clients = CONNECTIONS.to_string();
            let mut command = Command::new(&self.program);
            command.args(["-n", "-M", "prepared", "-c", &clients, "-j", "1", "-T", &seconds, "-f"]);
            command.arg(&self.script).arg(&self.url);
            let output = cores.on_load_core(move || command.output().context("running pgbench"))?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(output.status.success(), "pgbench: {said}{}", String::from_utf8_lossy(&output.stderr));
            let rate =
                said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
            let per_second = rate.with_context(|| format!("pgbench said no rate: {said}"))?;
            Ok(Sample { per_second, ..Sample::new(Histogram::default(), time) })
        })
    }
}
