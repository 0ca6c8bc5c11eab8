//! The store of a service whose settings are in a file, as a package starts it: its folder and its database are looked at,
//! not those of the user who asks.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use estimand_testkit::process::{self, free_port};
use estimand_testkit::wait::{self, PATIENCE};

use super::Diagnosis;
use crate::session::Running;

/// A service that has its settings from a file, and another home to ask from.
struct Packaged {
    folder: tempfile::TempDir,
    port: u16,
    _service: Running,
}

impl Packaged {
    fn start(store: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let file = folder.path().join("services.yaml");
        let data = folder.path().join("data");
        let text = format!("data-dir: {}\nlisten: 127.0.0.1:{port}\n{store}\n", data.display());
        std::fs::write(&file, text).unwrap();
        let mut command = process::command(process::binary());
        command.args(["up", "--no-agent", "--config"]).arg(file);
        let service = Running::of(command.spawn().unwrap());
        Packaged { folder, port, _service: service }
    }

    /// Waits for a finding about the store with these words.
    #[track_caller]
    fn until_found(&self, level: &str, part: &str) -> Diagnosis {
        let home = self.folder.path().join("home");
        let diagnose = || {
            let mut command = process::command(process::binary());
            command.args(["doctor", "--json"]).env("HOME", &home).env_remove("XDG_DATA_HOME");
            command.env("ESTIMAND_SERVER", format!("http://127.0.0.1:{}", self.port));
            Diagnosis::of(&command.output().unwrap())
        };
        let has = |found: &Diagnosis| found.find("store", part).is_some_and(|one| one["level"] == level);
        wait::until(PATIENCE, &format!("doctor to say {level} {part:?}"), || Some(diagnose()).filter(has))
    }
}

#[test]
fn the_folder_is_that_of_the_settings() {
    let packaged = Packaged::start("");
    let data = packaged.folder.path().join("data");
    packaged.until_found("ok", &format!("free in {}", data.display()));
}

#[test]
fn a_database_that_is_away_is_a_failure_until_it_answers() {
    let port = free_port();
    let packaged = Packaged::start(&format!("store: postgres://estimand@127.0.0.1:{port}/estimand"));
    let address = format!("postgres at 127.0.0.1:{port}");
    let found = packaged.until_found("failure", &format!("{address} does not answer"));
    assert_eq!(found.code, 1, "{found:?}");
    // Another program at that port is silent, and a PostgreSQL says whether it speaks TLS.
    let silent = TcpListener::bind(("127.0.0.1", port)).unwrap();
    packaged.until_found("failure", &format!("{address} does not answer within"));
    std::thread::spawn(move || {
        for stream in silent.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut question = [0; 8];
            let _ = stream.read_exact(&mut question).and_then(|()| stream.write_all(b"N"));
        }
    });
    packaged.until_found("ok", &format!("{address} answers"));
}
