//! nginx, HAProxy and Caddy in front of a service on the same machine: with the settings of `docs/how-to/behind-a-proxy.md`,
//! and with those of somebody who has not read it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::wait::PATIENCE;
use estimand_testkit::web_proxy::{Kind, WebProxy};
use estimand_testkit::{TOKEN, plane};
use tempfile::TempDir;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/how-to/behind-a-proxy.md");

/// The settings of a proxy in the how-to, with other ports and files.
fn documented(language: &str, service: &Estimand, port: u16, pki: &Path) -> String {
    let page = fs::read_to_string(PAGE).unwrap();
    let block = page.split(&format!("```{language}\n")).nth(1).unwrap().split("```").next().unwrap();
    let address = service.base_url().strip_prefix("http://").unwrap();
    block
        .replace("127.0.0.1:7070", address)
        .replace("estimand.example.org {", &format!("https://127.0.0.1:{port} {{"))
        .replace("listen 443", &format!("listen {port}"))
        .replace("bind :443", &format!("bind :{port}"))
        .replace("/etc/proxy", pki.to_str().unwrap())
}

/// A service that runs as the how-to says.
fn service() -> Estimand {
    process::estimand().args(["up", "--no-agent", "--require-token", "--base", "/estimand"]).start()
}

/// A certificate for 127.0.0.1, and the authority that browsers know.
fn certificate() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let pki = |words: &[&str]| {
        let ended =
            Command::new(process::binary()).arg("pki").args(words).current_dir(&folder).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    };
    pki(&["init", "--dir", "."]);
    pki(&["issue", "proxy", "--service", "--address", "127.0.0.1", "--dir", "."]);
    let of = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    fs::write(folder.path().join("both.pem"), of("service.pem") + &of("service.key")).unwrap();
    folder
}

/// A proxy, and a browser of somebody elsewhere.
struct Front {
    _proxy: WebProxy,
    authority: std::path::PathBuf,
    url: String,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Front {
    fn documented(kind: Kind, language: &str, service: &Estimand, pki: &Path) -> Self {
        let port = free_port();
        let proxy = WebProxy::start(kind, &documented(language, service, port, pki), port);
        let url = format!("https://127.0.0.1:{port}/estimand");
        Front { _proxy: proxy, authority: pki.join("authority.pem"), url }
    }

    fn curl(&self) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--http1.1", "--no-buffer", "--max-time"]);
        curl.arg(PATIENCE.as_secs().to_string()).arg("--cacert").arg(&self.authority);
        curl
    }

    #[track_caller]
    fn ask(&self, path: &str, words: &[&str]) -> Answer {
        let output =
            self.curl().arg("--include").args(words).arg(format!("{}{path}", self.url)).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (head, body) = text.rsplit_once("\r\n\r\n").unwrap_or_else(|| {
            panic!("{path}: {text:?} {}", String::from_utf8_lossy(&output.stderr));
        });
        let head = head.rsplit("\r\n\r\n").next().unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn show_token(&self, path: &str, words: &[&str]) -> Answer {
        let shown = format!("Authorization: Bearer {TOKEN}");
        self.ask(path, &[&["--header", &shown], words].concat())
    }
}

/// Waits for lines of a stream, each of which begins so.
fn until_said(stream: &mut Child, beginnings: &[&str], mut then: impl FnMut(usize)) {
    let mut lines = BufReader::new(stream.stdout.take().unwrap()).lines().map(Result::unwrap);
    for (number, beginning) in beginnings.iter().enumerate() {
        assert!(lines.any(|line| line.starts_with(beginning)), "the stream ended without {beginning:?}");
        then(number);
    }
}

fn is_told_from_this_machine_and_hands_all_on(kind: Kind, language: &str) {
    let service = service();
    let pki = certificate();
    let front = Front::documented(kind, language, &service, pki.path());
    for (path, status) in [("/healthz", 200), ("/", 200), ("/api/data?dataName=load", 401), ("/metrics", 401)]
    {
        assert_eq!(front.ask(path, &[]).status, status, "{path}");
    }
    // The page, from its own links.
    assert!(front.ask("/", &[]).body.contains("\"assets/app.js\""));
    assert!(front.ask("/assets/lib/api.js", &[]).body.contains("import.meta.url"));
    assert_eq!(front.ask("", &["--location"]).status, 200);
    // A change that the page asks for.
    let origin = format!("Origin: {}", front.url.strip_suffix("/estimand").unwrap());
    let json = "Content-Type: application/json";
    let body = r#"{"dataName":"probe","cmd":"/bin/true","max-Time":60}"#;
    let change = ["--header", &origin, "--header", json, "--data", body];
    let made = front.show_token("/api/registry", &change);
    assert_eq!(made.status, 201, "{}\n{}", made.head, made.body);
    assert!(
        made.head.to_ascii_lowercase().contains("location: /estimand/api/registry/probe"),
        "{}",
        made.head
    );
    assert_eq!(front.show_token("/api/registry/probe", &[]).status, 200);
    // Events as they come.
    let mut watch = front.curl();
    watch.args(["--header", &format!("Authorization: Bearer {TOKEN}")]);
    watch.arg(format!("{}/api/data/watch?dataName=load", front.url)).stdout(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    until_said(&mut watch, &["event: snapshot", "event: change"], |number| {
        if number == 0 {
            plane::put(&service.http(), "load", 1).expect_status(201);
        }
    });
    watch.kill().unwrap();
    watch.wait().unwrap();
    // The command line takes the path, too.
    let mut command = process::command(process::binary());
    command
        .args(["--server", &front.url, "get", "load", "--json"])
        .env("ESTIMAND_AUTHORITY", &front.authority);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nginx_as_documented_is_told_from_this_machine_and_hands_all_on() {
    is_told_from_this_machine_and_hands_all_on(Kind::Nginx, "nginx");
}

#[test]
fn haproxy_as_documented_is_told_from_this_machine_and_hands_all_on() {
    is_told_from_this_machine_and_hands_all_on(Kind::HaProxy, "haproxy");
}

#[test]
fn caddy_as_documented_is_told_from_this_machine_and_hands_all_on() {
    is_told_from_this_machine_and_hands_all_on(Kind::Caddy, "caddy");
}

/// Without `--require-token` a proxy is closed only if it says that it is one.
#[test]
fn a_proxy_that_says_nothing_is_closed_by_required_tokens_alone() {
    let open = process::estimand().args(["up", "--no-agent"]).start();
    let closed = process::estimand().args(["up", "--no-agent", "--require-token"]).start();
    let ports = [(); 4].map(|()| free_port());
    let server = |port: u16, to: &Estimand, more: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {}; {more} }} }}\n",
            to.base_url()
        )
    };
    let settings = server(ports[0], &open, "")
        + &server(ports[1], &open, "proxy_set_header X-Forwarded-For $remote_addr;")
        + &server(ports[2], &open, "proxy_set_header Host estimand.example.org;")
        + &server(ports[3], &closed, "");
    let proxy = WebProxy::start(Kind::Nginx, &settings, ports[3]);
    let status = |port: u16, path: &str| {
        let http = estimand_testkit::http::Http::new(&format!("http://127.0.0.1:{port}")).showing(None);
        http.get(path).status
    };
    let statuses = |port: u16| ["/healthz", "/", "/api/data?dataName=load"].map(|path| status(port, path));
    assert_eq!(statuses(ports[0]), [200, 200, 200], "as documented: {}", proxy.log());
    assert_eq!(statuses(ports[1]), [200, 200, 401]);
    assert_eq!(statuses(ports[2]), [200, 200, 403]);
    assert_eq!(statuses(ports[3]), [200, 200, 401]);
}
