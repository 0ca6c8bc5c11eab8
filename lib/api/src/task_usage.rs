//! The means that tasks used of their nodes: by attempt, by task, and added up over many.

use serde::{Deserialize, Serialize};

/// The most groups of an answer about the usage of tasks.
pub const MAX_USAGE_GROUPS: usize = 1_000;

/// The usage of one attempt at a task, as its node measured it. All processes of the attempt count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskUsage {
    /// Microseconds from its start until its main process ended.
    pub ran_us: u64,
    /// Microseconds of processor time in its programs.
    pub cpu_user_us: u64,
    /// Microseconds of processor time in the kernel for them.
    pub cpu_system_us: u64,
    /// The most bytes of memory that it held at once, without the page cache; absent: it was too short to be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak: Option<u64>,
    /// The mean over its time, without the page cache; absent: it was too short for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mean: Option<u64>,
    /// The most bytes of page cache that were seen with it, which the node takes back when they are wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_cache: Option<u64>,
    /// The bytes of memory to which it was held; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
    /// Bytes read from disks.
    pub disk_read: u64,
    /// Bytes written that go to disks.
    pub disk_written: u64,
}

/// An attempt at a task, with its usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptUsage {
    pub attempt: u32,
    pub usage: TaskUsage,
}

/// The usage of several attempts together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageSum {
    /// The attempts that ended and were measured.
    pub attempts: u64,
    pub ran_us: u64,
    pub cpu_us: u64,
    /// Bytes of memory, each for as many seconds as it was held.
    pub memory_byte_seconds: u64,
    /// The most bytes that one attempt held at once.
    pub memory_peak: u64,
    pub disk_read: u64,
    pub disk_written: u64,
}

/// The usage of a task by all of its attempts so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageSoFar {
    /// The last attempt that was measured.
    pub last: AttemptUsage,
    pub sum: UsageSum,
}

/// The tasks of one user, of one array, or with one value of a label: what they asked for, and what they used of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageGroup {
    /// The user, the array, or the value; absent: the tasks that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub tasks: u64,
    /// Microseconds of processor time that the measured attempts had by what their tasks asked for.
    pub asked_cpu_us: u64,
    /// Memory that the measured attempts had by what their tasks asked for, as bytes and seconds.
    pub asked_memory_byte_seconds: u64,
    pub used: UsageSum,
}

/// The usage of the tasks that are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageReport {
    /// Groups with the most processor time come first.
    pub groups: Vec<UsageGroup>,
    /// The number of groups that are left out.
    #[serde(default)]
    pub more: u64,
    /// All tasks together.
    pub all: UsageGroup,
}

/// Bytes for so many microseconds, as bytes and seconds.
pub fn byte_seconds(bytes: u64, micros: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(micros) / 1_000_000).unwrap_or(u64::MAX)
}

impl TaskUsage {
    /// Microseconds of processor time.
    pub fn cpu_us(&self) -> u64 {
        self.cpu_user_us.saturating_add(self.cpu_system_us)
    }
}

impl From<&TaskUsage> for UsageSum {
    fn from(usage: &TaskUsage) -> Self {
        // An attempt that was too short for a mean held its peak for that moment.
        let held = usage.memory_mean.or(usage.memory_peak).unwrap_or(0);
        UsageSum {
            attempts: 1,
            ran_us: usage.ran_us,
            cpu_us: usage.cpu_us(),
            memory_byte_seconds: byte_seconds(held, usage.ran_us),
            memory_peak: usage.memory_peak.unwrap_or(0),
            disk_read: usage.disk_read,
            disk_written: usage.disk_written,
        }
    }
}

impl UsageSum {
    pub fn add(&mut self, other: &UsageSum) {
        let sums = [
            (&mut self.attempts, other.attempts),
            (&mut self.ran_us, other.ran_us),
            (&mut self.cpu_us, other.cpu_us),
            (&mut self.memory_byte_seconds, other.memory_byte_seconds),
            (&mut self.disk_read, other.disk_read),
            (&mut self.disk_written, other.disk_written),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        self.memory_peak = self.memory_peak.max(other.memory_peak);
    }
}

impl UsageSoFar {
    /// The usage with one more attempt, behind that of those before it.
    pub fn after(before: Option<&UsageSoFar>, attempt: u32, usage: TaskUsage) -> UsageSoFar {
        let mut sum = before.map(|before| before.sum).unwrap_or_default();
        sum.add(&UsageSum::from(&usage));
        UsageSoFar { last: AttemptUsage { attempt, usage }, sum }
    }
}

impl UsageGroup {
    /// Adds one task that asks for so much at a time: thousandths of a processor, and bytes.
    pub fn add(&mut self, cpu: u64, memory: u64, used: Option<&UsageSum>) {
        self.tasks += 1;
        let Some(used) = used else { return };
        let asked_cpu = u128::from(cpu) * u128::from(used.ran_us) / 1_000;
        self.asked_cpu_us = self.asked_cpu_us.saturating_add(u64::try_from(asked_cpu).unwrap_or(u64::MAX));
        let asked_memory = byte_seconds(memory, used.ran_us);
        self.asked_memory_byte_seconds = self.asked_memory_byte_seconds.saturating_add(asked_memory);
        self.used.add(used);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECOND: u64 = 1_000_000;
    const MIB: u64 = 1 << 20;

    fn usage(seconds: u64, peak: u64, mean: Option<u64>) -> TaskUsage {
        TaskUsage {
            ran_us: seconds * SECOND,
            cpu_user_us: seconds * SECOND / 2,
            cpu_system_us: 7,
            memory_peak: Some(peak * MIB),
            memory_mean: mean.map(|mean| mean * MIB),
            disk_written: 512,
            ..TaskUsage::default()
        }
    }

    #[test]
    fn attempts_add_up_and_the_last_one_is_told() {
        let first = UsageSoFar::after(None, 1, usage(2, 40, Some(30)));
        let both = UsageSoFar::after(Some(&first), 3, usage(4, 20, None));
        assert_eq!((both.last.attempt, both.last.usage), (3, usage(4, 20, None)));
        let UsageSum { attempts, ran_us, cpu_us, memory_byte_seconds, memory_peak, disk_written, .. } =
            both.sum;
        assert_eq!((attempts, ran_us, cpu_us), (2, 6 * SECOND, 3 * SECOND + 14));
        assert_eq!((memory_byte_seconds, memory_peak), ((2 * 30 + 4 * 20) * MIB, 40 * MIB));
        assert_eq!(disk_written, 1024);
    }

    #[test]
    fn what_was_asked_for_counts_for_as_long_as_it_ran() {
        let mut group = UsageGroup::default();
        group.add(1_500, 64 * MIB, None);
        assert_eq!((group.tasks, group.asked_cpu_us), (1, 0), "nothing of it is measured");
        let sum = UsageSum::from(&usage(10, 40, Some(30)));
        group.add(1_500, 64 * MIB, Some(&sum));
        assert_eq!((group.tasks, group.asked_cpu_us), (2, 15 * SECOND));
        assert_eq!((group.asked_memory_byte_seconds, group.used), (640 * MIB, sum));
        group.add(u64::MAX, u64::MAX, Some(&UsageSum { ran_us: u64::MAX, cpu_us: u64::MAX, ..sum }));
        assert_eq!((group.asked_cpu_us, group.used.cpu_us), (u64::MAX, u64::MAX), "no sum begins anew");
    }

    #[test]
    fn figures_that_are_not_there_are_left_out_and_read() {
        let shown = serde_json::to_value(TaskUsage { ran_us: 5, ..TaskUsage::default() }).unwrap();
        let expected =
            json!({ "ranUs": 5, "cpuUserUs": 0, "cpuSystemUs": 0, "diskRead": 0, "diskWritten": 0 });
        assert_eq!(shown, expected);
        let read: TaskUsage = serde_json::from_value(json!({ "ranUs": 5, "gpuUs": 1 })).unwrap();
        assert_eq!(read.ran_us, 5);
    }
}
