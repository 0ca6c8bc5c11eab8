//! What the agent and its launcher say to each other, as bytes.
//!
//! A request is one packet; replies may share one. Both ends are the same binary, so there are no versions. The
//! launcher still reads every request as if a stranger had written it: what does not parse is refused, and
//! nothing of it is done. The strings of a run end in NUL inside the packet, so that the launcher can hand them
//! to the kernel where they lie.

use std::time::{Duration, Instant};

use crate::limits::Limits;

use super::Cells;
use super::privileges::Privileges;
use super::wire::{Reader, Writer};

/// The largest request. Arguments and environment may take 128 KiB of it.
pub(super) const MAX_REQUEST: usize = 160 * 1024;
/// The largest packet of replies.
pub(super) const MAX_REPLIES: usize = 32 * 1024;
/// How many arguments and variables a run may have, together.
pub(super) const MAX_STRINGS: usize = 16 * 1024;

/// What the agent asks for.
#[derive(Debug, PartialEq)]
pub(super) enum Request<'a> {
    /// The first packet: who the agent is. `token` begins what marks the agent's runs.
    Configure {
        id: &'a str,
        token: &'a str,
        cells: Cells,
        privileges: Privileges,
    },
    Start(Start<'a>),
    /// SIGTERM to everything that the run consists of.
    Terminate {
        run: u64,
    },
    /// SIGKILL to everything that the run consists of.
    Kill {
        run: u64,
    },
    OpenCell {
        cell: u64,
        name: &'a str,
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

/// When a leased run ends if it is not told otherwise: nanoseconds of the machine's monotonic clock, which both
/// sides read. Absolute, because the agent may be stopped between saying it and sending it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deadline(u64);

impl Deadline {
    pub const NEVER: Deadline = Deadline(u64::MAX);

    pub fn at(instant: Instant) -> Self {
        let left = nanos(instant.saturating_duration_since(Instant::now()));
        Deadline(Self::clock().saturating_add(left))
    }

    pub fn instant(self) -> Option<Instant> {
        let left = Duration::from_nanos(self.0.saturating_sub(Self::clock()));
        (self != Self::NEVER).then(|| Instant::now() + left)
    }

    fn clock() -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
    }
}

/// Which file is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum File {
    /// What lies at its path.
    AtPath = 0,
    /// The descriptor that comes with the packet.
    Open = 1,
    /// The same, and it is a script.
    Script = 2,
}

/// A run. The descriptors of its output, error, with `stdin` its input, and the file of its program come with the
/// packet in this order.
#[derive(Debug, PartialEq)]
pub(super) struct Start<'a> {
    pub run: u64,
    pub cell: u64,
    pub stdin: bool,
    pub file: File,
    pub until: Deadline,
    pub arguments: usize,
    pub variables: usize,
    /// Directory, program, arguments and variables, each closed by a NUL.
    pub strings: &'a [u8],
}

/// What the launcher answers and reports.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    Ready { containment: u8 },
    Started { run: u64, pid: i32 },
    Failed { run: u64, step: u8, errno: i32 },
    Ended { run: u64, status: i32, ran_for: Duration, cpu: Duration, max_rss: u64, over: u8 },
    CellOpen { cell: u64, unenforced: Vec<String> },
    CellClosed { cell: u64 },
    Refused { why: String },
}

impl<'a> Request<'a> {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Request::Configure { id, token, cells, privileges } => {
                let head = Writer::new(0).text(id).text(token).u8(*cells as u8);
                head.privileges(privileges).0
            }
            Request::Start(start) => {
                let mut packet = Writer::new(1)
                    .u64(start.run)
                    .u64(start.cell)
                    .u8(u8::from(start.stdin))
                    .u8(start.file as u8)
                    .u64(start.until.0)
                    .u64(start.arguments as u64)
                    .u64(start.variables as u64)
                    .0;
                packet.extend_from_slice(start.strings);
                packet
            }
            Request::Terminate { run } => Writer::new(2).u64(*run).0,
            Request::Kill { run } => Writer::new(3).u64(*run).0,
            Request::OpenCell { cell, name, limits } => {
                Writer::new(4)
                    .u64(*cell)
                    .text(name)
                    .optional(limits.memory)
                    .optional(limits.cpu.map(f64::to_bits))
                    .optional(limits.processes)
                    .optional(limits.open_files)
                    .0
            }
            Request::CloseCell { cell } => Writer::new(5).u64(*cell).0,
            Request::Lease { until } => Writer::new(6).u64(until.0).0,
        }
    }

    pub fn decode(packet: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(packet);
        let request = match reader.u8()? {
            0 => Request::Configure {
                id: reader.text()?,
                token: reader.text()?,
                cells: match reader.u8()? {
                    0 => Cells::Best,
                    1 => Cells::V2,
                    2 => Cells::None,
                    _ => return None,
                },
                privileges: reader.privileges()?,
            },
            1 => return Start::decode(reader).map(Request::Start),
            2 => Request::Terminate { run: reader.u64()? },
            3 => Request::Kill { run: reader.u64()? },
            4 => Request::OpenCell {
                cell: reader.u64()?,
                name: reader.text()?,
                limits: Limits {
                    memory: reader.optional()?,
                    cpu: reader.optional()?.map(f64::from_bits),
                    processes: reader.optional()?,
                    open_files: reader.optional()?,
                },
            },
            5 => Request::CloseCell { cell: reader.u64()? },
            6 => Request::Lease { until: Deadline(reader.u64()?) },
            _ => return None,
        };
        reader.0.is_empty().then_some(request)
    }
}

impl<'a> Start<'a> {
    fn decode(mut reader: Reader<'a>) -> Option<Self> {
        let start = Start {
            run: reader.u64()?,
            cell: reader.u64()?,
            stdin: match reader.u8()? {
                0 => false,
                1 => true,
                _ => return None,
            },
            file: match reader.u8()? {
                0 => File::AtPath,
                1 => File::Open,
                2 => File::Script,
                _ => return None,
            },
            until: Deadline(reader.u64()?),
            arguments: usize::try_from(reader.u64()?).ok()?,
            variables: usize::try_from(reader.u64()?).ok()?,
            strings: reader.0,
        };
        let strings = start.arguments.checked_add(start.variables).filter(|count| *count <= MAX_STRINGS)?;
        let nuls = start.strings.iter().filter(|byte| **byte == 0).count();
        let whole = start.strings.last() == Some(&0) && nuls == strings + 2;
        (whole && start.arguments > 0).then_some(start)
    }
}

impl Reply {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Reply::Ready { containment } => Writer::new(0).u8(*containment).0,
            Reply::Started { run, pid } => Writer::new(1).u64(*run).i32(*pid).0,
            Reply::Failed { run, step, errno } => Writer::new(2).u64(*run).u8(*step).i32(*errno).0,
            Reply::Ended { run, status, ran_for, cpu, max_rss, over } => {
                Writer::new(3)
                    .u64(*run)
                    .i32(*status)
                    .u64(nanos(*ran_for))
                    .u64(nanos(*cpu))
                    .u64(*max_rss)
                    .u8(*over)
                    .0
            }
            Reply::CellOpen { cell, unenforced } => {
                let head = Writer::new(4).u64(*cell).u8(u8::try_from(unenforced.len()).unwrap_or(u8::MAX));
                unenforced.iter().take(usize::from(u8::MAX)).fold(head, |writer, text| writer.text(text)).0
            }
            Reply::CellClosed { cell } => Writer::new(5).u64(*cell).0,
            Reply::Refused { why } => Writer::new(6).text(why).0,
        }
    }

    /// Takes one reply off the front of a packet.
    pub fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match reader.u8()? {
            0 => Reply::Ready { containment: reader.u8()? },
            1 => Reply::Started { run: reader.u64()?, pid: reader.i32()? },
            2 => Reply::Failed { run: reader.u64()?, step: reader.u8()?, errno: reader.i32()? },
            3 => Reply::Ended {
                run: reader.u64()?,
                status: reader.i32()?,
                ran_for: Duration::from_nanos(reader.u64()?),
                cpu: Duration::from_nanos(reader.u64()?),
                max_rss: reader.u64()?,
                over: reader.u8()?,
            },
            4 => Reply::CellOpen {
                cell: reader.u64()?,
                unenforced: (0..reader.u8()?)
                    .map(|_| reader.text().map(str::to_owned))
                    .collect::<Option<_>>()?,
            },
            5 => Reply::CellClosed { cell: reader.u64()? },
            6 => Reply::Refused { why: reader.text()?.to_owned() },
            _ => return None,
        })
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::capabilities::Capabilities;
    use super::super::privileges::Identity;
    use super::*;

    #[test]
    fn requests_and_replies_survive_the_way() {
        let limits = Limits { memory: Some(7), cpu: Some(0.5), processes: None, open_files: Some(9) };
        let start = Start {
            run: 1,
            cell: 2,
            stdin: true,
            file: File::Script,
            until: Deadline(7),
            arguments: 1,
            variables: 1,
            strings: b"/\0p\0p\0A=1\0",
        };
        for request in [
            Request::Configure {
                id: "a",
                token: "b",
                cells: Cells::V2,
                privileges: Privileges {
                    run_as: Some(Identity { uid: 1, gid: 2, groups: vec![3, 4] }),
                    keep: Capabilities(5),
                },
            },
            Request::Start(start),
            Request::Terminate { run: 4 },
            Request::Kill { run: 5 },
            Request::OpenCell { cell: 6, name: "é", limits },
            Request::CloseCell { cell: 8 },
        ] {
            let packet = request.encode();
            assert_eq!(Request::decode(&packet).unwrap(), request);
            for shorter in 0..packet.len() {
                assert_eq!(Request::decode(&packet[..shorter]), None, "{request:?} cut to {shorter}");
            }
        }
        let replies = [
            Reply::Ready { containment: 1 },
            Reply::Ended {
                run: 1,
                status: 256,
                ran_for: Duration::from_micros(7),
                cpu: Duration::ZERO,
                max_rss: 1,
                over: 2,
            },
            Reply::CellOpen { cell: 3, unenforced: vec!["x".into(), "y".into()] },
        ];
        let packet = replies.iter().flat_map(Reply::encode).collect::<Vec<u8>>();
        let mut reader = Reader(&packet);
        for reply in replies {
            assert_eq!(Reply::decode(&mut reader).unwrap(), reply);
        }
        assert!(reader.0.is_empty());
    }

    #[test]
    fn a_start_is_refused_unless_its_strings_are_whole_and_counted() {
        let of = |arguments, variables, strings: &'static [u8]| {
            let start = Start {
                run: 1,
                cell: 2,
                stdin: false,
                file: File::AtPath,
                until: Deadline::NEVER,
                arguments,
                variables,
                strings,
            };
            Request::decode(&Request::Start(start).encode()).is_some()
        };
        assert!(of(1, 0, b"/\0p\0p\0"));
        assert!(!of(0, 1, b"/\0p\0p\0"), "no argument");
        assert!(!of(2, 0, b"/\0p\0p\0"), "too few");
        assert!(!of(1, 0, b"/\0p\0p\0q\0"), "too many");
        assert!(!of(1, 0, b"/\0p\0p\0q"), "not closed");
        assert!(!of(usize::MAX, 2, b"/\0p\0p\0"), "overflow");
    }
}
