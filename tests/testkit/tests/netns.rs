//! Hosts have networks of their own, whose cables can be cut and mended. Needs root.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use estimand_testkit::netns::{Host, Network};
use estimand_testkit::process::Estimand;
use estimand_testkit::wait::{self, PATIENCE};

/// How long silence is listened to. Less than the three seconds after which the kernel gives up on an ARP request.
const SILENCE: Duration = Duration::from_millis(1_500);

fn interfaces() -> String {
    String::from_utf8(Command::new("ip").args(["-o", "link"]).output().unwrap().stdout).unwrap()
}

/// The test process's cable is the interface with the network's address.
fn interface_of(network: &Network) -> String {
    let address = format!("{}/24", network.address());
    let output = Command::new("ip").args(["-o", "address", "show", "to", &address]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().nth(1).unwrap().to_owned()
}

fn server(host: &Host) -> Estimand {
    Estimand::builder(env!("CARGO_BIN_EXE_fake-estimand")).args(["up"]).inside(host).start()
}

#[test]
fn hosts_reach_each_other_and_the_test() {
    let network = Network::new();
    let (one, two) = (network.host("node-1"), network.host("node-2"));
    let estimand = server(&two);
    assert!(estimand.base_url().starts_with(&format!("http://{}:", two.address())));
    // From the test process, and from the other host.
    assert!(estimand.http().get("/").text().contains("--listen"));
    let (host, port) = estimand.base_url().strip_prefix("http://").unwrap().rsplit_once(':').unwrap();
    let ask = format!("exec 3<>/dev/tcp/{host}/{port}; echo -e 'GET / HTTP/1.1\\r\\n\\r' >&3; cat <&3");
    let asked = one.command("bash").args(["-c", &ask]).output().unwrap();
    assert!(String::from_utf8_lossy(&asked.stdout).contains("--listen"), "{asked:?}");
    // The process is the one that was started, and not one in between.
    let program = std::fs::read_link(format!("/proc/{}/exe", estimand.pid())).unwrap();
    assert_eq!(program.file_name().unwrap(), "fake-estimand");
}

#[test]
fn a_cut_cable_is_silence_and_a_mended_one_loses_nothing() {
    let network = Network::new();
    let host = network.host("node-1");
    let estimand = server(&host);
    let listener = TcpListener::bind((network.address(), 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let talk = format!("exec 3<>/dev/tcp/{}/{port}; cat <&3", network.address());
    let mut client = host.command("bash").args(["-c", &talk]).stdout(Stdio::piped()).spawn().unwrap();
    let mut heard = BufReader::new(client.stdout.take().unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    let mut line = String::new();
    stream.write_all(b"before\n").unwrap();
    heard.read_line(&mut line).unwrap();
    assert_eq!(line, "before\n");

    host.cut();
    stream.write_all(b"during\n").unwrap();
    let began = Instant::now();
    let silence = estimand.http().with_deadline(SILENCE).try_request("GET", "/", &[], b"").unwrap_err();
    assert!(began.elapsed() >= SILENCE, "nothing tells that the cable is cut: {silence}");
    // The other way too: only a limit of its own ends the attempt.
    let attempt = format!("exec 3<>/dev/tcp/{}/{port}", network.address());
    let attempt = host.command("timeout").args(["4", "bash", "-c", &attempt]).output().unwrap();
    assert_eq!(attempt.status.code(), Some(124), "{attempt:?}");

    host.restore();
    assert!(estimand.http().get("/").text().contains("--listen"));
    drop(stream);
    let mut rest = String::new();
    heard.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "during\n");
    client.wait().unwrap();
}

#[test]
fn nothing_is_left_of_a_network() {
    let network = Network::new();
    let host = network.host("node-1");
    let namespace = host.command("ip").args(["netns", "identify"]).output().unwrap().stdout;
    let namespace = String::from_utf8(namespace).unwrap().trim().to_owned();
    let file = Path::new("/run/netns").join(&namespace);
    assert!(file.exists() && namespace.ends_with("node-1"), "{namespace:?}");
    let cable = interface_of(&network);
    let bridge = Path::new("/run/netns").join(format!("{}-bridge", cable.replacen('s', "n", 1)));
    assert!(bridge.exists(), "{bridge:?}");
    drop(network);
    assert!(host.command("true").status().unwrap().success(), "a host keeps its network");
    drop(host);
    assert!(!file.exists() && !bridge.exists());
    assert!(!interfaces().contains(&cable), "{cable} in {}", interfaces());
}

#[test]
fn leftovers_of_a_killed_test_process_are_removed() {
    // No process has such an id: it is beyond what the kernel gives.
    let pid = fastrand::u32(0x800_0000..0x1000_0000);
    let (namespace, interface) = (format!("ek{pid:x}n0-node-1"), format!("ek{pid:x}s0"));
    for args in [["netns", "add", &namespace].as_slice(), &["link", "add", &interface, "type", "bridge"]] {
        assert!(Command::new("ip").args(args).status().unwrap().success());
    }
    let _network = Network::new();
    wait::until(PATIENCE, "the leftovers to be gone", || {
        let gone = !Path::new("/run/netns").join(&namespace).exists() && !interfaces().contains(&interface);
        gone.then_some(())
    });
}
