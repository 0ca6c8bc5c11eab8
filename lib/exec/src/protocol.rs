//! Requests of the agent and replies of its launcher, and their encoding.
//!
//! A request is one packet; replies may share one. Both ends are the same binary, so there are no versions. The
//! launcher still reads every request as if a stranger had written it: a packet that does not parse to its last byte is
//! refused, and nothing of it is done.

use std::ffi::CString;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::limits::Limits;

use super::failure::Failure;
use super::privileges::Privileges;
use super::{CgroupMode, DirRights, Precedence, RunOutcome};

/// The largest request. Arguments and environment may take 128 KiB of it.
pub(super) const MAX_REQUEST: usize = 160 * 1024;
/// The largest packet of replies.
pub(super) const MAX_REPLIES: usize = 32 * 1024;
/// The most arguments and variables of a run, together.
pub(super) const MAX_STRINGS: usize = 16 * 1024;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Request {
    /// The first packet. The marks of the agent's runs begin with `token`.
    Configure {
        id: String,
        token: String,
        /// True if no launcher of this id was before.
        first: bool,
        cgroups: CgroupMode,
        precedence: Precedence,
        privileges: Privileges,
        measures: bool,
    },
    Start(Start),
    /// SIGUSR1 to the main process of the run, which goes on.
    Checkpoint {
        run: u64,
    },
    /// SIGTERM to all processes of the run.
    Terminate {
        run: u64,
    },
    /// SIGKILL to all processes of the run.
    Kill {
        run: u64,
    },
    OpenCell {
        cell: u64,
        name: String,
        limits: Limits,
    },
    CloseCell {
        cell: u64,
    },
    /// The runs that have a deadline have this one now.
    Lease {
        until: Deadline,
    },
}

/// The end of a lease: nanoseconds of the machine's monotonic clock, which both sides read. Absolute, because the
/// agent may be stopped between making it and sending it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Deadline(u64);

impl Deadline {
    pub fn at(instant: Instant) -> Self {
        let left = instant.saturating_duration_since(Instant::now()).as_nanos();
        Deadline(Self::clock().saturating_add(u64::try_from(left).unwrap_or(u64::MAX)))
    }

    pub fn instant(self) -> Instant {
        Instant::now() + Duration::from_nanos(self.0.saturating_sub(Self::clock()))
    }

    fn clock() -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
    }
}

/// The file that is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ProgramSource {
    /// The file at its path.
    Path,
    /// The descriptor that comes with the packet.
    Descriptor,
    /// The same, and it is a script.
    Script,
}

/// A run. The descriptors of its output, error, with `stdin` its input, and the file of its program come with the
/// packet in this order.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Start {
    pub run: u64,
    pub cell: u64,
    pub stdin: bool,
    pub source: ProgramSource,
    pub until: Option<Deadline>,
    pub directory: CString,
    pub dir_rights: DirRights,
    pub program: CString,
    pub arguments: Vec<CString>,
    pub variables: Vec<CString>,
}

/// Answers and reports of the launcher.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Reply {
    Ready { containment: ContainmentKind },
    Started { run: u64, pid: i32 },
    Failed { run: u64, failure: Failure },
    Ended { run: u64, outcome: RunOutcome },
    CellOpen { cell: u64, unenforced: Vec<String> },
    CellClosed { cell: u64 },
    Refused { reason: String },
}

/// The means by which processes are held together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ContainmentKind {
    #[default]
    Subreaper,
    CgroupV1,
    CgroupV2,
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a request of plain values can be encoded")
    }

    pub fn decode(packet: &[u8]) -> Option<Self> {
        let (request, rest) = postcard::take_from_bytes(packet).ok()?;
        let within_bounds = match &request {
            Request::Start(start) => start.is_within_bounds(),
            _ => true,
        };
        (rest.is_empty() && within_bounds).then_some(request)
    }
}

impl Start {
    fn is_within_bounds(&self) -> bool {
        !self.arguments.is_empty() && self.arguments.len() + self.variables.len() <= MAX_STRINGS
    }
}

impl Reply {
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a reply of plain values can be encoded")
    }

    /// Takes one reply off the front of a packet.
    pub fn decode(packet: &mut &[u8]) -> Option<Self> {
        let (reply, rest) = postcard::take_from_bytes(packet).ok()?;
        *packet = rest;
        Some(reply)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::capabilities::Capabilities;
    use super::super::privileges::Identity;
    use super::super::{ExceededLimit, Exit, RunUsage};
    use super::*;

    fn start(arguments: Vec<CString>, variables: Vec<CString>) -> Request {
        Request::Start(Start {
            run: 1,
            cell: 2,
            stdin: true,
            source: ProgramSource::Script,
            until: Some(Deadline(7)),
            directory: c"/".into(),
            dir_rights: DirRights::Run,
            program: c"p".into(),
            arguments,
            variables,
        })
    }

    #[test]
    fn requests_and_replies_survive_the_way() {
        let limits = Limits { memory: Some(7), cpu: Some(0.5), processes: None, open_files: Some(9) };
        for request in [
            Request::Configure {
                id: "a".into(),
                token: "b".into(),
                first: true,
                cgroups: CgroupMode::V2,
                precedence: Precedence::Background,
                privileges: Privileges {
                    run_as: Some(Identity { uid: 1, gid: 2, groups: vec![3, 4] }),
                    keep: Capabilities(5),
                },
                measures: true,
            },
            start(vec![c"p".into()], vec![c"A=1".into()]),
            Request::Checkpoint { run: 3 },
            Request::Terminate { run: 4 },
            Request::Kill { run: 5 },
            Request::OpenCell { cell: 6, name: "é".into(), limits },
            Request::CloseCell { cell: 8 },
        ] {
            let packet = request.encode();
            assert_eq!(Request::decode(&packet).unwrap(), request);
            for shorter in 0..packet.len() {
                assert_eq!(Request::decode(&packet[..shorter]), None, "{request:?} cut to {shorter}");
            }
            assert_eq!(Request::decode(&[&packet[..], &[0]].concat()), None, "{request:?} and more");
        }
        let replies = [
            Reply::Ready { containment: ContainmentKind::CgroupV1 },
            Reply::Ended {
                run: 1,
                outcome: RunOutcome {
                    exit: Exit::Code(1),
                    ran_for: Duration::from_micros(7),
                    cpu: Duration::ZERO,
                    memory: Some(1),
                    exceeded: Some(ExceededLimit::Processes),
                    usage: Some(RunUsage { memory_limit: Some(3), ..RunUsage::default() }),
                },
            },
            Reply::CellOpen { cell: 3, unenforced: vec!["x".into(), "y".into()] },
        ];
        let packet = replies.iter().flat_map(Reply::encode).collect::<Vec<u8>>();
        let mut rest = &packet[..];
        for reply in replies {
            assert_eq!(Reply::decode(&mut rest).unwrap(), reply);
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn a_start_is_refused_unless_its_strings_are_whole_and_counted() {
        let packet = start(vec![c"p".into()], vec![]).encode();
        let accepts = |end: &[u8]| {
            // A count of arguments, `p` with its length, and a count of variables.
            let head = packet.strip_suffix(&[1, 1, b'p', 0]).unwrap();
            Request::decode(&[head, end].concat()).is_some()
        };
        assert!(accepts(&[1, 1, b'p', 0]));
        assert!(!accepts(&[0, 1, 1, b'p']), "no argument");
        assert!(!accepts(&[2, 1, b'p', 0]), "too few");
        assert!(!accepts(&[1, 1, b'p', 0, 1, b'q']), "too many");
        assert!(!accepts(&[1, 2, b'p', 0, 0]), "a NUL inside");
        assert!(!accepts(&[1, 1, b'p']), "not closed");
        let mut overflow = [0xff; 10];
        overflow[9] = 1;
        assert!(!accepts(&[&overflow[..], &[1, b'p', 0]].concat()), "overflow");
        let many = |count| Request::decode(&start(vec![c"".into(); count], vec![]).encode()).is_some();
        assert!(many(MAX_STRINGS) && !many(MAX_STRINGS + 1));
    }
}
