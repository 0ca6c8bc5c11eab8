//! A throw-away registry of images: Debian's `docker-registry` on 127.0.0.1, which engines trust without TLS.
//!
//! It keeps images in a temporary folder, and ends with the test process or when the [`ImageRegistry`] is dropped.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::databases::janitor::Home;
use crate::http::Http;
use crate::ports::free_port;
use crate::{spawner, wait};

const SERVER: &str = "docker-registry";
const READY_DEADLINE: Duration = Duration::from_secs(60);

pub struct ImageRegistry {
    port: u16,
    child: Child,
    home: Home,
}

impl ImageRegistry {
    /// Starts a registry; returns when it answers.
    #[track_caller]
    pub fn start() -> Self {
        let mut home = Home::create("estimand-images-", None);
        let port = free_port();
        let settings = home.path().join("config.yml");
        let text = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n",
            home.path().join("images").display()
        );
        fs::write(&settings, text).expect("settings of the registry");
        let path = home.path().join("server.log");
        let log = File::create(&path).expect("a log for the registry");
        let mut command = spawner::bound_command(SERVER, None);
        command.arg("serve").arg(settings).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file can be opened twice")).stderr(log);
        let child = spawner::spawn(command)
            .unwrap_or_else(|error| panic!("{SERVER}: {error}: apt-get install docker-registry"));
        home.server_is(Some(child.id()));
        let http = Http::new(&format!("http://127.0.0.1:{port}"));
        let ready = wait::poll(READY_DEADLINE, || match http.try_request("GET", "/v2/", &[], b"") {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(answer.to_string()),
            Err(error) => Err(error.to_string()),
        });
        if let Err(last) = ready {
            let log = fs::read_to_string(&path).unwrap_or_default();
            panic!("the registry of images did not start: {last}; its log:\n{log}");
        }
        ImageRegistry { port, child, home }
    }

    /// An image in this registry.
    pub fn reference(&self, image: &str) -> String {
        format!("127.0.0.1:{}/{image}", self.port)
    }
}

impl Drop for ImageRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.home.server_is(None);
    }
}
