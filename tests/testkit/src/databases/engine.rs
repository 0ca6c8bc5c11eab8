//! The differences between the database engines: where their programs are, how a data folder is made,
//! how the server is started and stopped, and how its own client asks it something.
//!
//! Commands are built here and run elsewhere. Durability is as in production: nothing here turns off
//! `fsync`, because tests that kill a server are about just that. Buffers are small, because several
//! servers run side by side. No configuration file and no variable of the user's environment is heeded.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use rustix::process::{Signal, geteuid};

use crate::spawner::bound_command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Mariadb,
}

/// The user a server runs as when the tests run as root, which no database server does.
pub(super) struct Account {
    name: &'static str,
    pub(super) user: u32,
    pub(super) group: u32,
}

pub(super) struct Engine {
    pub(super) kind: Kind,
    init: PathBuf,
    server: PathBuf,
    client: PathBuf,
    account: Option<Account>,
}

impl Engine {
    /// Finds the programs and the account. A missing one is a failed test, with the remedy in the message.
    pub(super) fn locate(kind: Kind) -> Self {
        let (package, account) = match kind {
            Kind::Postgres => ("postgresql", "postgres"),
            Kind::Mariadb => ("mariadb-server", "mysql"),
        };
        let [init, server, client] = match kind {
            Kind::Postgres => one_place_for(["initdb", "postgres", "psql"]),
            Kind::Mariadb => ["mariadb-install-db", "mariadbd", "mariadb"].map(in_some_place),
        }
        .map(|program| {
            program.unwrap_or_else(|missing| {
                panic!("this test needs {kind:?}, and {missing} is not installed: apt-get install {package}")
            })
        });
        let account = geteuid().is_root().then(|| {
            account_named(account).unwrap_or_else(|| {
                panic!(
                    "{kind:?} can't run as root, and there is no user {account}: apt-get install {package}"
                )
            })
        });
        Self { kind, init, server, client, account }
    }

    pub(super) fn owner(&self) -> Option<(u32, u32)> {
        self.account.as_ref().map(|account| (account.user, account.group))
    }

    /// Makes the data folder. It is not synced to disk: nobody depends on it before the server runs.
    pub(super) fn init_command(&self, home: &Path) -> Command {
        let mut command = self.bound(&self.init, home);
        match self.kind {
            Kind::Postgres => {
                command.args([
                    "--no-sync",
                    "-A",
                    "trust",
                    "-U",
                    "postgres",
                    "-E",
                    "UTF8",
                    "--locale=C",
                    "-D",
                ]);
                command.arg(home.join("data"));
            }
            Kind::Mariadb => {
                // `--no-defaults` counts only as the first argument.
                command.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
                command.args(["--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=16M"]);
                command.arg(option("--datadir", &home.join("data")));
                // A starting server deletes the temporary tables that it finds, other servers' too.
                command.arg(option("--tmpdir", home));
            }
        }
        command
    }

    pub(super) fn server_command(&self, home: &Path, port: u16) -> Command {
        let mut command = self.bound(&self.server, home);
        match self.kind {
            Kind::Postgres => {
                command.arg("-D").arg(home.join("data")).args(["-p", &port.to_string()]);
                for setting in [
                    "listen_addresses=127.0.0.1",
                    // No Unix socket: its path may be too long in a deep temporary directory.
                    "unix_socket_directories=",
                    "shared_buffers=16MB",
                    "max_connections=100",
                    // In the data folder, and so gone with it even after SIGKILL.
                    "dynamic_shared_memory_type=mmap",
                    "huge_pages=off",
                ] {
                    command.args(["-c", setting]);
                }
            }
            Kind::Mariadb => {
                command.arg("--no-defaults").arg(option("--datadir", &home.join("data")));
                command.args([&format!("--port={port}"), "--bind-address=127.0.0.1"]);
                // Relative to the data folder, where the server goes: never too long for a socket.
                command.args(["--socket=s.sock", "--pid-file=server.pid", "--skip-name-resolve"]);
                command.args(["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M"]);
                command.args(["--max-connections=100", "--skip-log-bin"]);
                // As the distribution's own configuration has it.
                command.args(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"]);
                command.arg(option("--tmpdir", home));
            }
        }
        command
    }

    /// Runs `sql` through the engine's own client and returns what it prints, columns split by tabs.
    pub(super) fn ask(&self, port: u16, database: &str, sql: &str) -> Result<String, String> {
        let mut command = Command::new(&self.client);
        forget_settings(&mut command);
        let port = port.to_string();
        match self.kind {
            Kind::Postgres => {
                command.env("PGCONNECT_TIMEOUT", "10").args(["-X", "-A", "-t", "-q", "-F", "\t"]);
                command.args(["-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres"]);
                command.args(["-p", &port, "-d", database, "-c", sql]);
            }
            Kind::Mariadb => {
                command.args(["--no-defaults", "--protocol=tcp", "--connect-timeout=10", "-h", "127.0.0.1"]);
                command.args(["-u", "root", "-N", "-B", "-P", &port, "-D", database, "-e", sql]);
            }
        }
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", self.client.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{sql}: {}: {}", output.status, said.trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Prints a database, with the program that comes with the engine for backups.
    pub(super) fn dump_command(&self, port: u16, database: &str) -> Command {
        let port = port.to_string();
        let name = match self.kind {
            Kind::Postgres => "pg_dump",
            Kind::Mariadb => "mariadb-dump",
        };
        let mut command = Command::new(self.client.with_file_name(name));
        forget_settings(&mut command);
        match self.kind {
            Kind::Postgres => command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port, database]),
            Kind::Mariadb => command.args([
                "--no-defaults",
                "--single-transaction",
                "--protocol=tcp",
                "-h",
                "127.0.0.1",
                "-u",
                "root",
                "-P",
                &port,
                database,
            ]),
        };
        command
    }

    /// Reads what a dump has printed from standard input.
    pub(super) fn restore_command(&self, port: u16, database: &str) -> Command {
        let port = port.to_string();
        let mut command = Command::new(&self.client);
        forget_settings(&mut command);
        match self.kind {
            Kind::Postgres => {
                command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres"]);
                command.args(["-p", &port, "-d", database]);
            }
            Kind::Mariadb => {
                command.args(["--no-defaults", "--protocol=tcp", "-h", "127.0.0.1", "-u", "root"]);
                command.args(["-P", &port, "-D", database]);
            }
        }
        command
    }

    /// A database that every server has.
    pub(super) fn own_database(&self) -> &'static str {
        match self.kind {
            Kind::Postgres => "postgres",
            Kind::Mariadb => "mysql",
        }
    }

    /// Asks a server which data folder it serves: only the right answer shows that it is ours.
    pub(super) fn which_data(&self) -> &'static str {
        match self.kind {
            Kind::Postgres => "SHOW data_directory",
            Kind::Mariadb => "SELECT TRIM(TRAILING '/' FROM @@datadir)",
        }
    }

    /// The signal for an orderly stop that doesn't wait for clients.
    pub(super) fn stop_signal(&self) -> Signal {
        match self.kind {
            Kind::Postgres => Signal::INT,
            Kind::Mariadb => Signal::TERM,
        }
    }

    pub(super) fn url(&self, port: u16, database: &str) -> String {
        match self.kind {
            Kind::Postgres => format!("postgres://postgres@127.0.0.1:{port}/{database}"),
            Kind::Mariadb => format!("mysql://root@127.0.0.1:{port}/{database}"),
        }
    }

    fn bound(&self, program: &Path, home: &Path) -> Command {
        let mut command = bound_command(program, self.account.as_ref().map(|account| account.name));
        forget_settings(&mut command);
        // The folder of the tests may be closed to the server's account.
        command.current_dir(home).env("HOME", home).stdin(Stdio::null());
        command
    }
}

/// Variables with which a user configures the clients of their own databases.
fn forget_settings(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("PG") || text.starts_with("MYSQL") || text.starts_with("MARIADB") {
            command.env_remove(&name);
        }
    }
}

fn option(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

/// PATH first, so that whoever runs the tests can choose; then where distributions put servers.
fn places() -> Vec<PathBuf> {
    let mut places: Vec<_> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    places.extend(versions.into_iter().rev().map(|(_, bin)| bin));
    places.extend(["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from));
    places
}

fn in_some_place(program: &'static str) -> Result<PathBuf, &'static str> {
    places().into_iter().map(|place| place.join(program)).find(|path| path.is_file()).ok_or(program)
}

/// Programs of one version, from the first place that has them all.
fn one_place_for<const N: usize>(programs: [&'static str; N]) -> [Result<PathBuf, &'static str>; N] {
    let complete = |place: &PathBuf| programs.iter().all(|program| place.join(program).is_file());
    match places().into_iter().find(complete) {
        Some(place) => programs.map(|program| Ok(place.join(program))),
        None => programs.map(Err),
    }
}

pub(super) fn account_named(name: &'static str) -> Option<Account> {
    let accounts = fs::read_to_string("/etc/passwd").ok()?;
    accounts.lines().find_map(|line| {
        let fields: Vec<_> = line.split(':').collect();
        let [found, _, user, group, ..] = fields[..] else { return None };
        (found == name).then_some(Account { name, user: user.parse().ok()?, group: group.parse().ok()? })
    })
}
