//! Other users of the machine, and pages in a browser, beside services on a loopback address.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Output};

use estimand_testkit::process::{self, Estimand};
use estimand_testkit::wait::{self, PATIENCE};
use estimand_testkit::{TOKEN, TOKEN_VARIABLE};
use rustix::fs::{Gid, Uid, chown, fchown};

/// The user `nobody`.
const STRANGER: u32 = 65_534;

/// Listens, with a socket of that user, and answers nobody.
fn listener(at: &str, user: u32) -> TcpListener {
    let listener = TcpListener::bind(at).unwrap();
    listener.set_nonblocking(true).unwrap();
    // The owner of a socket is whoever made it; this says that another user did.
    fchown(&listener, Some(Uid::from_raw(user)), None).expect("this test needs root");
    listener
}

/// Runs a command that shows the token there, and returns how it ended and what was heard.
fn show_token(server: &str, listener: &TcpListener, more: &[(&str, &str)]) -> (Output, String) {
    let mut command = Command::new(process::binary());
    command.args(["--server", server, "audit"]).env(TOKEN_VARIABLE, TOKEN).envs(more.iter().copied());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut heard = String::new();
    // Each connection is heard and closed.
    wait::until(PATIENCE, "the command to end", || {
        if let Ok((mut stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            let mut bytes = [0; 4096];
            let length = stream.read(&mut bytes).unwrap_or(0);
            heard.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
        child.try_wait().unwrap()
    });
    (child.wait_with_output().unwrap(), heard)
}

#[test]
fn a_token_is_not_shown_to_another_users_listener() {
    let stranger = listener("127.0.0.1:0", STRANGER);
    let port = stranger.local_addr().unwrap().port();
    let server = format!("http://127.0.0.1:{port}");
    let (ended, heard) = show_token(&server, &stranger, &[]);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("belongs to the user nobody"), "{said}");
    assert!(!heard.contains("Authorization") && !heard.contains(TOKEN), "{heard}");
    // Unless it is the user of the services.
    for user in ["65534", "nobody"] {
        let (_, heard) = show_token(&server, &stranger, &[("ESTIMAND_SERVER_USER", user)]);
        assert!(heard.contains(TOKEN), "{user}: {heard}");
    }
    // Nor at the other address that `localhost` may lead to.
    let own = listener("127.0.0.1:0", 0);
    let port = own.local_addr().unwrap().port();
    let beside = listener(&format!("[::1]:{port}"), STRANGER);
    let (_, heard) = show_token(&format!("http://localhost:{port}"), &own, &[]);
    assert!(heard.contains(TOKEN), "{heard}");
    assert!(beside.accept().is_err(), "it went to [::1]");
}

#[test]
fn a_rebound_name_gets_nothing_from_an_insecure_service_on_loopback() {
    let service = process::estimand().args(["up", "--no-agent", "--insecure"]).start();
    let http = service.http().showing(None);
    for request in ["GET /api/registry", "POST /api/registry"] {
        let rebound = format!(
            "{request} HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(http.raw(rebound.as_bytes()).status, 403, "{request}");
    }
    http.get("/api/registry").expect_status(200);
}

#[test]
fn an_agents_environment_is_hidden_from_its_own_user() {
    let services = process::estimand().args(["up", "--no-agent"]).start();
    let folder = tempfile::tempdir().unwrap();
    let (user, group) = (Some(Uid::from_raw(STRANGER)), Some(Gid::from_raw(STRANGER)));
    std::fs::create_dir(folder.path().join("agent")).unwrap();
    for path in [folder.path().to_owned(), folder.path().join("agent")] {
        chown(&path, user, group).unwrap();
    }
    let mut agent = Estimand::builder("/usr/bin/setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args([process::binary().as_os_str(), "agent".as_ref()])
        .args(["--node", "n1", "--server", services.base_url()])
        .without_http()
        .data_dir(folder.path().join("agent"))
        .start();
    // The files of a process that hides its memory are root's.
    let environment = format!("/proc/{}/environ", agent.pid());
    assert_eq!(std::fs::metadata(environment).unwrap().uid(), 0);
    let http = services.http();
    wait::until(PATIENCE, "the agent to be heard of", || {
        (http.get("/api/nodes/n1").status == 200).then_some(())
    });
    assert!(agent.terminate().success(), "{}", agent.stderr_tail());
}
