//! A real nginx, HAProxy or Caddy with settings of a test, in a folder of its own. It ends with the test process or when the
//! [`WebProxy`] is dropped.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{spawner, wait};

const READY_DEADLINE: Duration = Duration::from_secs(60);
/// The parts of nginx's settings that say where it writes; a test says the rest.
const NGINX: &str = "daemon off;\nmaster_process off;\nuser root;\npid nginx.pid;\nevents {}\n\
                     http {\naccess_log off;\nclient_body_temp_path body;\nproxy_temp_path proxy;\n";

/// A port is free for TCP; HTTP/3 would take the one of UDP, too.
const CADDY: &str =
    "{\n    admin off\n    auto_https disable_redirects\n    servers {\n        protocols h1 h2\n    }\n}\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Nginx,
    HaProxy,
    Caddy,
}

pub struct WebProxy {
    child: Child,
    folder: TempDir,
}

impl WebProxy {
    /// Starts it with settings that listen at a port.
    #[track_caller]
    pub fn start(kind: Kind, settings: &str, port: u16) -> Self {
        let folder =
            tempfile::Builder::new().prefix("estimand-proxy-").tempdir().expect("a folder for a proxy");
        let file = folder.path().join("settings");
        let text = match kind {
            Kind::Nginx => format!("{NGINX}{settings}\n}}\n"),
            Kind::HaProxy => settings.to_owned(),
            Kind::Caddy => format!("{CADDY}{settings}"),
        };
        fs::write(&file, text).expect("settings for a proxy");
        let log = File::create(folder.path().join("log")).expect("a log for a proxy");
        let mut command = command(kind, folder.path(), &file);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file can be opened twice")).stderr(log);
        let child = spawner::spawn(command)
            .unwrap_or_else(|error| panic!("{kind:?}: {error}; tests/setup full installs it"));
        let mut proxy = WebProxy { child, folder };
        let ready = wait::poll(READY_DEADLINE, || match proxy.child.try_wait() {
            Ok(None) => {
                std::net::TcpStream::connect(("127.0.0.1", port)).map(drop).map_err(|e| e.to_string())
            }
            ended => Err(format!("it ended: {ended:?}")),
        });
        if let Err(last) = ready {
            panic!("{kind:?} did not start: {last}\n{}", proxy.log());
        }
        proxy
    }

    /// All that it said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

fn command(kind: Kind, folder: &Path, file: &Path) -> Command {
    let (program, words): (&str, &[&str]) = match kind {
        Kind::Nginx => ("nginx", &["-e", "stderr", "-p", ".", "-c"]),
        Kind::HaProxy => ("haproxy", &["-db", "-f"]),
        Kind::Caddy => ("caddy", &["run", "--adapter", "caddyfile", "--config"]),
    };
    let mut command = spawner::bound_command(program, None);
    // Caddy keeps what it knows of certificates at home.
    command.args(words).arg(file).current_dir(folder).env("HOME", folder);
    command.env_remove("XDG_DATA_HOME").env_remove("XDG_CONFIG_HOME");
    command
}

impl Drop for WebProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
