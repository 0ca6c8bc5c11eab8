//! A program that people would use in Estimand's place, filled with the same keys, and the requests that it is sent.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use estimand_testkit::process::free_port;
use fastrand::Rng;

use crate::contest::{Sample, Side};
use crate::cores::Cores;
use crate::keys::Keys;
use crate::load::{Load, Requests};
use crate::parts::reads::CONNECTIONS;
use crate::peer::Peer;
use crate::reply::Wire;
use crate::usage::Cpu;

const FILL_DEADLINE: Duration = Duration::from_secs(300);
/// A compiler that works while the program runs needs so long at most.
const WARM_AT_MOST: Duration = Duration::from_secs(60);
/// Two rates that differ by less are the same.
const FLAT: f64 = 0.05;

/// A key, and a value drawn for it.
#[derive(Debug, Clone, Copy)]
pub struct Draw {
    pub name: u32,
    pub node: u32,
    pub value: u32,
}

impl Draw {
    /// A value as long as an answer of Estimand's about one.
    pub fn document(self) -> String {
        let Draw { name, node, value } = self;
        format!(
            r#"{{"dataName":"bench_{name:04}","nodeName":"node-{node:03}","dataValue":0.{value:06},"collectedAt":"2026-01-01T00:00:00.000000Z","receivedAt":"2026-01-01T00:00:00.000000Z","validFor":null,"state":"fresh","revision":1234567}}"#
        )
    }
}

/// Appends a request about a key.
pub type Render = fn(&mut Vec<u8>, Draw);

/// Requests about random keys, without an end.
struct RandomKeys {
    keys: Keys,
    rng: Rng,
    render: Render,
}

impl Requests for RandomKeys {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let (name, node) = self.keys.any(&mut self.rng);
        (self.render)(out, Draw { name, node, value: self.rng.u32(0..1_000_000) });
        true
    }
}

/// One request about each key.
struct EveryKey {
    keys: Keys,
    next: u32,
    render: Render,
}

impl Requests for EveryKey {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let Keys { names, nodes } = self.keys;
        let more = self.next < names * nodes;
        if more {
            let (name, node) = (self.next / nodes, self.next % nodes);
            (self.render)(out, Draw { name, node, value: self.next });
            self.next += 1;
        }
        more
    }
}

/// Writes a configuration for that folder and a free port, which is returned with the file.
pub fn configure(folder: &Path, name: &str, configuration: &str) -> anyhow::Result<(PathBuf, u16)> {
    fs::create_dir_all(folder)?;
    let (port, file) = (free_port(), folder.join(name));
    let configuration = configuration.replace("@FOLDER@", &folder.display().to_string());
    fs::write(&file, configuration.replace("@PORT@", &port.to_string()))?;
    Ok((file, port))
}

pub struct Rival {
    pub name: &'static str,
    /// Of its answers to writes, or of its reads.
    pub remark: &'static str,
    pub wire: Wire,
    pub address: SocketAddr,
    pub peers: Vec<Peer>,
    /// The process of the database that it stands on.
    pub beneath: Vec<u32>,
    pub read: Option<Render>,
    pub write: Option<Render>,
}

impl Rival {
    /// A program that speaks HTTP at that port, once it listens.
    pub fn start<A: AsRef<OsStr>>(
        name: &'static str,
        remark: &'static str,
        (program, args): (&Path, impl IntoIterator<Item = A>),
        port: u16,
        folder: &Path,
    ) -> anyhow::Result<Rival> {
        let address = ([127, 0, 0, 1], port).into();
        let mut peer = Peer::start(program, args, folder)?;
        peer.until_it_listens(address)?;
        let (peers, beneath, wire) = (vec![peer], Vec::new(), Wire::Http);
        Ok(Rival { name, remark, wire, address, peers, beneath, read: None, write: None })
    }

    /// Writes every key once.
    pub fn fill(&self, cores: Cores, keys: Keys) -> anyhow::Result<()> {
        let render = self.write.context("it takes no writes")?;
        let mut load = Load::connect_by(self.wire, self.address, CONNECTIONS)?;
        let mut requests = EveryKey { keys, next: 0, render };
        cores.on_load_core(|| load.drive(&mut requests, FILL_DEADLINE))?;
        Ok(())
    }

    /// Reads or writes of random keys.
    pub fn side(&self, cores: Cores, keys: Keys, render: Render) -> Side<'_> {
        let mut requests = RandomKeys { keys, rng: Rng::with_seed(7), render };
        let mut load = None;
        Box::new(move |time| {
            let load = match &mut load {
                Some(load) => load,
                none => none.insert(Load::connect_by(self.wire, self.address, CONNECTIONS)?),
            };
            let before = self.cpu()?;
            let driven = cores.on_load_core(|| load.drive(&mut requests, time));
            let sample = driven.with_context(|| self.name)?;
            let used = self.cpu()?.saturating_sub(before).div_f64(sample.latencies.count().max(1) as f64);
            Ok(Sample { cpu: Some(used), ..sample })
        })
    }

    fn cpu(&self) -> anyhow::Result<Duration> {
        self.peers.iter().map(Peer::pid).chain(self.beneath.iter().copied()).map(Cpu::of_all_below).sum()
    }
}

/// Loads a side until its rate does not grow any more.
pub fn warm(side: &mut Side<'_>, time: Duration) -> anyhow::Result<()> {
    let mut best = 0.0;
    let mut spent = Duration::ZERO;
    while spent < WARM_AT_MOST {
        let rate = side(time)?.per_second;
        spent += time;
        if rate < best * (1.0 + FLAT) {
            break;
        }
        best = rate;
    }
    Ok(())
}
