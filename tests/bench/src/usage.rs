//! The resources that a process uses, read from `/proc`: its processor time, that of the children it has reaped, and
//! its memory.

use std::fs;
use std::ops::Sub;
use std::time::Duration;

use anyhow::Context;
use estimand_testkit::processes;

/// Processor time, in user and kernel mode, to a clock tick.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    pub own: Duration,
    /// Of the children that have ended, and of theirs.
    pub children: Duration,
}

impl Cpu {
    /// The use of a process so far.
    pub fn of(pid: u32) -> anyhow::Result<Self> {
        let path = format!("/proc/{pid}/stat");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        Self::parse(&text).with_context(|| format!("{path} is not as expected"))
    }

    /// The use of a process and all processes below it so far, with those that have ended.
    pub fn of_all_below(pid: u32) -> anyhow::Result<Duration> {
        let own = Cpu::of(pid)?.total();
        // One that ended just now is among the ended children of its parent the next time.
        let below = processes::descendants(pid);
        let below = below.iter().filter_map(|process| Cpu::of(process.pid).ok()).map(Cpu::total);
        Ok(own + below.sum::<Duration>())
    }

    fn parse(stat: &str) -> Option<Self> {
        // The command's name is in parentheses and may itself hold spaces and parentheses.
        let (_, after_name) = stat.rsplit_once(") ")?;
        let mut ticks = after_name.split_whitespace().skip(11).map(str::parse::<u64>);
        let mut two = || Some(ticks.next()?.ok()? + ticks.next()?.ok()?);
        let (own, children) = (two()?, two()?);
        let time = |ticks: u64| {
            Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
        };
        Some(Cpu { own: time(own), children: time(children) })
    }

    pub fn total(self) -> Duration {
        self.own + self.children
    }
}

impl Sub for Cpu {
    type Output = Cpu;

    fn sub(self, before: Cpu) -> Cpu {
        Cpu {
            own: self.own.saturating_sub(before.own),
            children: self.children.saturating_sub(before.children),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        let cpu = Cpu::parse("7 (a) b) S 1 7 7 0 -1 0 1 2 3 4 100 20 30 4 20 0 1 0 55").unwrap();
        let ticks = |time: Duration| (time.as_secs_f64() / tick).round();
        assert_eq!((ticks(cpu.own), ticks(cpu.children)), (120.0, 34.0));
    }
}
