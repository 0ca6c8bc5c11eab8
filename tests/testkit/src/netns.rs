//! Several hosts on one machine: network namespaces at a bridge, whose cables can be cut.
//!
//! The bridge has a namespace of its own, so that no packet filter of this machine sees the frames between hosts:
//! Docker's drops what is forwarded. The test process, and what it starts outside of hosts, is at a cable, too, with an
//! address on the network. A network is gone when it and its hosts are dropped. What a killed test process left is removed when the next one
//! makes a network: names carry the process id. Names and subnets are those of no other network, so tests may
//! run side by side. All of this needs root and `iproute2`; without them a test that asks for it fails.

mod commands;
mod leftovers;

use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use commands::{bridge, ip_batch};

/// `nsenter` changes the network and nothing else, and becomes the program: its process id is the
/// program's. (`ip netns exec` mounts /sys anew as well, and with that hides the control groups.)
pub(crate) const ENTER: &str = "nsenter";

const MAX_SUBNETS_TRIED: usize = 100;
const OWN_HOST_PART: u8 = 1;
const LAST_HOST_PART: u8 = 254;
/// The bridge, within its namespace, and its end of the test process's cable.
const BRIDGE: &str = "bridge";
const OWN_PORT: &str = "own";
/// The bridge's treatment of frames of a port, by the numbers of the spanning tree protocol.
const DROPPED: &str = "0";
const FORWARDED: &str = "3";

/// Numbers for names within this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A network that hosts can be made on.
pub struct Network(Arc<Bridge>);

/// A machine as far as its network is concerned: own addresses, ports and loopback.
pub struct Host {
    name: String,
    namespace: String,
    /// The end of its cable at the bridge, in the bridge's namespace.
    port: String,
    address: Ipv4Addr,
    bridge: Arc<Bridge>,
}

struct Bridge {
    namespace: String,
    /// The test process's end of its cable.
    interface: String,
    /// The first three parts of all addresses.
    subnet: [u8; 3],
    last_host_part: AtomicU8,
    /// The namespaces of all hosts that are not dropped, with their addresses.
    hosts: Mutex<Vec<(String, Ipv4Addr)>>,
}

impl Network {
    #[track_caller]
    #[allow(clippy::new_without_default, reason = "what changes the machine is not made by default")]
    pub fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "network namespaces need root: run this test as root");
        leftovers::remove();
        for _ in 0..MAX_SUBNETS_TRIED {
            let subnet = [10, fastrand::u8(..), fastrand::u8(..)];
            if routes_within(subnet) > 0 {
                continue;
            }
            let bridge = Bridge::create(subnet);
            // Another process may have had the same idea at the same moment.
            if routes_within(subnet) == 1 {
                return Self(Arc::new(bridge));
            }
        }
        panic!("no free subnet within 10.0.0.0/8 in {MAX_SUBNETS_TRIED} tries");
    }

    /// Where its hosts reach what runs outside of them.
    pub fn address(&self) -> Ipv4Addr {
        self.0.address(OWN_HOST_PART)
    }

    /// A new host on this network, up when this returns. `name` may be used again on another network.
    #[track_caller]
    pub fn host(&self, name: &str) -> Host {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        assert!(!name.is_empty() && name.len() <= 64 && name.chars().all(fits), "{name:?} is no host's name");
        let part = self.0.last_host_part.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(part <= LAST_HOST_PART, "a network has no more than 253 hosts");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let host = Host {
            name: name.to_owned(),
            namespace: format!("{}-{name}", leftovers::name('n', number)),
            port: leftovers::name('v', number),
            address: self.0.address(part),
            bridge: Arc::clone(&self.0),
        };
        host.connect();
        host
    }
}

impl Host {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// A command that runs `program` on this host. For what a test runs to its end: it doesn't die with
    /// the test process. For servers, see [`Builder::inside`](crate::process::Builder::inside).
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(ENTER);
        command.args(enter_args(&self.namespace)).arg(program);
        command
    }

    /// Cuts the cable: from now on nothing that this host sends arrives, and nothing arrives at it.
    ///
    /// The bridge drops the frames of its port, both ways, so that neither side is told: the link stays
    /// up, no RST, no ICMP. Since each side knows the other's hardware address for good, not even an ARP
    /// request fails: connections stay open and silent, and new ones find silence too. That is the worst
    /// that a cut cable can be, and what it is for everyone who isn't at its ends. (With the link down,
    /// the host would see that it has no carrier, and connecting would fail within seconds.)
    pub fn cut(&self) {
        self.set_port(DROPPED);
    }

    /// Mends what [`Host::cut`] did. TCP goes on by itself at its next retransmission, whose pauses double.
    pub fn restore(&self) {
        self.set_port(FORWARDED);
    }

    fn set_port(&self, state: &str) {
        bridge(&["-netns", &self.bridge.namespace, "link", "set", "dev", &self.port, "state", state]);
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    fn connect(&self) {
        let Self { namespace, port, address, bridge, .. } = self;
        let mut others = bridge.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let mac = hardware_address(*address);
        ip_batch(
            None,
            &format!(
                "netns add {namespace}
                 neigh replace {address} lladdr {mac} dev {cable} nud permanent",
                cable = bridge.interface
            ),
        );
        ip_batch(
            Some(&bridge.namespace),
            &format!(
                "link add {port} type veth peer name eth0 address {mac} netns {namespace}
                 link set {port} master {BRIDGE} up"
            ),
        );
        let mut inside = format!(
            "link set lo up
             address add {address}/24 dev eth0
             link set eth0 up\n"
        );
        let own = bridge.address(OWN_HOST_PART);
        for neighbour in others.iter().map(|(_, address)| *address).chain([own]) {
            inside.push_str(&neighbour_entry(neighbour));
        }
        ip_batch(Some(namespace), &inside);
        for (other, _) in others.iter() {
            ip_batch(Some(other), &neighbour_entry(*address));
        }
        others.push((namespace.clone(), *address));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let mut others = self.bridge.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        others.retain(|(namespace, _)| *namespace != self.namespace);
        // Its other end goes along. The namespace itself is gone with the last process in it.
        leftovers::delete(&["-netns", &self.bridge.namespace, "link", "delete", &self.port]);
        leftovers::delete(&["netns", "delete", &self.namespace]);
    }
}

impl Bridge {
    fn create(subnet: [u8; 3]) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let bridge = Self {
            namespace: format!("{}-{BRIDGE}", leftovers::name('n', number)),
            interface: leftovers::name('s', number),
            subnet,
            last_host_part: OWN_HOST_PART.into(),
            hosts: Mutex::default(),
        };
        let Self { namespace, interface, .. } = &bridge;
        let address = bridge.address(OWN_HOST_PART);
        ip_batch(
            None,
            &format!(
                "netns add {namespace}
                 link add {interface} address {} type veth peer name {OWN_PORT} netns {namespace}
                 address add {address}/24 dev {interface}
                 link set {interface} up",
                hardware_address(address)
            ),
        );
        ip_batch(
            Some(namespace),
            &format!(
                "link add {BRIDGE} type bridge
                 link set {OWN_PORT} master {BRIDGE} up
                 link set {BRIDGE} up"
            ),
        );
        bridge
    }

    fn address(&self, host_part: u8) -> Ipv4Addr {
        let [a, b, c] = self.subnet;
        Ipv4Addr::new(a, b, c, host_part)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        leftovers::delete(&["link", "delete", &self.interface]);
        leftovers::delete(&["netns", "delete", &self.namespace]);
    }
}

/// The arguments of [`ENTER`] before the program.
pub(crate) fn enter_args(namespace: &str) -> [String; 2] {
    [format!("--net=/run/netns/{namespace}"), "--".to_owned()]
}

/// Every interface has one that follows from its address, so that nobody has to ask for it.
fn hardware_address(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

fn neighbour_entry(address: Ipv4Addr) -> String {
    format!("neigh replace {address} lladdr {} dev eth0 nud permanent\n", hardware_address(address))
}

/// How many routes of this machine, but for those to everywhere, lead to addresses of `subnet`.
fn routes_within(subnet: [u8; 3]) -> usize {
    let table = fs::read_to_string("/proc/thread-self/net/route").expect("the kernel has IPv4");
    let [a, b, c] = subnet;
    let subnet = Ipv4Addr::new(a, b, c, 0).to_bits();
    let hex = |text: &&str| u32::from_str_radix(text, 16).ok().map(u32::swap_bytes);
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| {
        let (target, mask) = (row.get(1).and_then(hex), row.get(7).and_then(hex));
        matches!((target, mask), (Some(target), Some(mask))
            if mask != 0 && (subnet ^ target) & mask & 0xffff_ff00 == 0)
    })
    .count()
}
