//! Name servers that do not answer.
//!
//! A program has one by a file of its own in the place of `/etc/resolv.conf`; it is a socket of the test, on a loopback
//! address and the port that name servers have.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use estimand_testkit::databases;
use estimand_testkit::http::Http;
use estimand_testkit::netns::Network;
use estimand_testkit::place::{Agent, Place};
use estimand_testkit::plane::Together;
use estimand_testkit::process::{self, Builder, Estimand, free_port};
use estimand_testkit::proxy::Proxy;
use estimand_testkit::wait::{self, PATIENCE};
use tempfile::TempDir;

use crate::{expect_refused, put, side_by_side};

const PORT: u16 = 53;
/// Nobody waits for a name at the end; on a machine that does much else.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Run with mounts of its own. The disks of other tests must not stay in use because of these.
const SETUP: &str = "mount --bind \"$0\" /etc/resolv.conf || exit 1; \
    grep -o \"/[^ ]*/estimand-disk-[^ ]*\" /proc/self/mounts | xargs -r -n 1 umount -l; exec \"$@\"";

/// Hears every question, and answers if it is told to.
struct NameServer {
    folder: TempDir,
    asked: Arc<AtomicUsize>,
    answering: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl NameServer {
    /// Every name will be `known`, once it answers.
    fn silent(known: Ipv4Addr) -> Self {
        let bound = (0..100).find_map(|_| {
            let address = Ipv4Addr::new(127, 53, fastrand::u8(..), fastrand::u8(1..255));
            UdpSocket::bind((address, PORT)).ok().map(|socket| (address, socket))
        });
        let (address, socket) = bound.expect("port 53 of a loopback address; run this test as root");
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("resolv.conf"), format!("nameserver {address}\n")).unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let [answering, over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (count, answers, end) = (Arc::clone(&asked), Arc::clone(&answering), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            let mut question = [0; 512];
            while !end.load(Ordering::Acquire) {
                let Ok((length, from)) = socket.recv_from(&mut question) else { continue };
                count.fetch_add(1, Ordering::Release);
                if answers.load(Ordering::Acquire) {
                    let _ = socket.send_to(&answer(&question[..length], known), from);
                }
            }
        });
        NameServer { folder, asked, answering, over, thread: Some(thread) }
    }

    fn answer(&self, answering: bool) {
        self.answering.store(answering, Ordering::Release);
    }

    fn until_asked(&self) {
        let before = self.asked.load(Ordering::Acquire);
        wait::until(PATIENCE, "the name server to be asked", || {
            (self.asked.load(Ordering::Acquire) > before).then_some(())
        });
    }

    /// A program that becomes the binary under test with this name server.
    fn program(&self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.folder.path().join("estimand");
        let text = format!(
            "#!/bin/sh\nexec unshare --mount sh -c '{SETUP}' '{}' '{}' \"$@\"\n",
            self.folder.path().join("resolv.conf").display(),
            process::binary().display()
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn estimand(&self) -> Builder {
        Estimand::builder(self.program())
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The question again, with one address if it asked for one of the old kind, and none otherwise.
fn answer(question: &[u8], known: Ipv4Addr) -> Vec<u8> {
    let mut answer = question.to_vec();
    let kind = question.len().checked_sub(4).map(|at| [question[at], question[at + 1]]);
    // A plain question has nothing behind it; with an additional record its end is elsewhere, so look for the name's.
    let name_end = question[12..].iter().position(|&byte| byte == 0).map_or(0, |at| 12 + at);
    let kind = question.get(name_end + 1..name_end + 3).map_or(kind, |two| Some([two[0], two[1]]));
    answer.truncate(name_end + 5);
    let has_address = kind == Some([0, 1]);
    answer[2..4].copy_from_slice(&[0x81, 0x80]);
    answer[6..12].copy_from_slice(&[0, u8::from(has_address), 0, 0, 0, 0]);
    if has_address {
        answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(known.octets());
    }
    answer
}

#[test]
fn names_that_nobody_answers_hold_up_only_who_asks() {
    side_by_side(&[
        (
            "an_agent_goes_on_while_names_are_not_answered",
            an_agent_goes_on_while_names_are_not_answered as fn(),
        ),
        (
            "a_service_whose_database_has_an_unanswered_name_says_so_and_waits",
            a_service_whose_database_has_an_unanswered_name_says_so_and_waits as fn(),
        ),
    ]);
}

fn an_agent_goes_on_while_names_are_not_answered() {
    let place = Place::new("names");
    // A name leads to a service that others may ask, which one on loopback is not.
    let network = Network::new();
    let names = NameServer::silent(network.address());
    let mut services = Together::start_on(&place, network.address());
    let plane = &services.plane;
    plane.register(&place.counting("pulse"));
    let by_name = services.url().replace(&network.address().to_string(), "services.test");
    let start = || {
        let args: Vec<_> =
            ["agent", "--node", "n1", "--server", &by_name, "--allow"].map(str::to_owned).into();
        let mock = estimand_testkit::mock::of_estimand();
        names
            .estimand()
            .args(args)
            .args([mock.parent().unwrap()])
            .without_http()
            .data_dir(place.agent_folder("n1"))
    };
    let mut agent = Agent { node: "n1".to_owned(), process: start().start() };
    names.until_asked();
    names.answer(true);
    plane.wait_fresh("pulse", &["n1"]);

    // Again, when it knows what to run: its slots go on, and it ends in order.
    names.answer(false);
    services.up.restart_on_same_port();
    names.until_asked();
    let before = place.runs("n1", "pulse");
    // A run that is cut off has counted and says nothing: so until one is over.
    wait::until(PATIENCE, "the slot to go on", || {
        (place.runs("n1", "pulse") > before + 3 && place.processes("pulse").is_empty()).then_some(())
    });
    let began = Instant::now();
    agent.process.terminate();
    let took = began.elapsed();
    assert!(took < AT_ONCE, "an agent that waits for a name ended after {took:?}");
    agent.process.restart_on_same_port();
    names.answer(true);
    let upto = place.runs("n1", "pulse");
    services.plane.check_history("pulse", "n1", upto);
}

fn a_service_whose_database_has_an_unanswered_name_says_so_and_waits() {
    let names = NameServer::silent(Ipv4Addr::LOCALHOST);
    let server = databases::postgres();
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into());
    let store = server.fresh_url().replace(
        &format!("127.0.0.1:{}/", server.port()),
        &format!("database.test:{}/", proxy.address().port()),
    );
    let port = free_port();
    let http = Http::new(&format!("http://127.0.0.1:{port}")).with_deadline(Duration::from_secs(5));
    let up = names.estimand().args(["up", "--no-agent"]).port(port).store(store);
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| up.start());
        names.until_asked();
        wait::until_ok(PATIENCE, "it to answer at all", || http.try_request("GET", "/healthz", &[], b""));
        let ready = http.get("/readyz");
        assert_eq!(ready.status, 503, "{ready}");
        names.answer(true);
        let mut up = starting.join().unwrap();
        put(&up.http(), "known", 1).expect_status(201);
        names.answer(false);
        put(&up.http(), "known", 2).expect_status(200);

        // The connection is lost, and nobody says where the next one would lead. Readers don't notice, and it can be
        // ended meanwhile.
        proxy.cut();
        expect_refused(&put(&up.http(), "known", 3));
        assert_eq!(up.http().get("/api/data/known/n").expect_status(200).json()["dataValue"], 2);
        let began = Instant::now();
        up.terminate();
        let took = began.elapsed();
        assert!(took < AT_ONCE, "a service that waits for a name ended after {took:?}");
    });
}
