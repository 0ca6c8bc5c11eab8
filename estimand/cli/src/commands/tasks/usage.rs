//! The means that tasks used, beside what they asked for: of one attempt in words, and `tasks usage`.

use estimand_api::task::TaskEnding;
use estimand_api::task_record::TaskRecord;
use estimand_api::task_usage::{TaskUsage, UsageGroup, UsageReport};
use estimand_api::{resources, size};
use serde_json::Value;

use crate::arguments::tasks::UsageArgs;
use crate::commands::Session;
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};
use crate::output::{remark, words};

/// The usage of the last attempt, each kind with its name.
pub fn facts(task: &TaskRecord) -> Vec<(&'static str, String)> {
    let Some(usage) = task.used.last().map(|used| &used.usage) else { return Vec::new() };
    let asked = |name: &str| task.document.get("resources")?.get(name).cloned();
    let mut facts = vec![("processor", processor(usage, asked(resources::CPU)))];
    facts.extend(memory(usage, asked(resources::MEMORY)).map(|memory| ("memory", memory)));
    let (read, written) = (words::bytes(usage.disk_read), words::bytes(usage.disk_written));
    facts.push(("disk", format!("read {read}, written {written}")));
    facts
}

/// `asked 0.5, used 0.9: 1.2s in 1.3s, 0.1s of it in the kernel`
fn processor(usage: &TaskUsage, asked: Option<Value>) -> String {
    let asked = asked.map(|asked| format!("asked {asked}, ")).unwrap_or_default();
    let (cpu, ran) = (took(usage.cpu_us()), took(usage.ran_us));
    let mean = mean(usage.cpu_us(), usage.ran_us);
    format!("{asked}used {mean}: {cpu} in {ran}, {} of it in the kernel", took(usage.cpu_system_us))
}

/// `asked 64.0 MiB, used 29.9 MiB, 20.1 MiB on average; page cache 3.0 MiB`
fn memory(usage: &TaskUsage, asked: Option<Value>) -> Option<String> {
    let peak = usage.memory_peak?;
    let asked = asked.and_then(|asked| size::read(&asked, 0, u64::MAX).ok());
    let asked = asked.map(|asked| format!("asked {}, ", words::bytes(asked))).unwrap_or_default();
    let mean = usage.memory_mean.map(|mean| format!(", {} on average", words::bytes(mean)));
    let cache = usage.memory_cache.filter(|cache| *cache > 0);
    let cache = cache.map(|cache| format!("; page cache {}", words::bytes(cache)));
    Some(
        [asked, format!("used {}", words::bytes(peak)), mean.unwrap_or_default(), cache.unwrap_or_default()]
            .concat(),
    )
}

/// The end of an attempt in words; for want of memory with its limit and its peak.
pub fn ending(ending: &TaskEnding, usage: Option<&TaskUsage>) -> String {
    let figures = |usage: &TaskUsage| {
        let (limit, peak) = (words::bytes(usage.memory_limit?), words::bytes(usage.memory_peak?));
        Some(format!("{ending}: limit {limit}, peak {peak}"))
    };
    let told = usage.filter(|_| *ending == TaskEnding::OutOfMemory).and_then(figures);
    told.unwrap_or_else(|| ending.to_string())
}

/// The usage in the cause of an end, in short: what it took of processors and memory.
pub fn of_cause(cause: &Value) -> Option<String> {
    let usage: TaskUsage = serde_json::from_value(cause.get("used")?.clone()).ok()?;
    let memory = usage.memory_peak.map(|peak| format!(", {}", words::bytes(peak))).unwrap_or_default();
    Some(format!("used {} of processor{memory}", took(usage.cpu_us())))
}

pub async fn usage(session: &mut Session, args: &UsageArgs) -> Result<(), Failure> {
    let report = session.client.task_usage(&args.by).await?;
    if session.out.json {
        return Ok(session.out.pretty(&report)?);
    }
    if report.all.tasks == 0 {
        remark("there are no tasks; `estimand tasks submit` makes one");
        return Ok(());
    }
    session.out.table(&table(&args.by, &report))?;
    session.out.flush()?;
    if report.more > 0 {
        remark(&format!("and {} with less processor time", words::count_u64(report.more, "other")));
    }
    Ok(())
}

fn table(by: &str, report: &UsageReport) -> Table {
    let head = by.strip_prefix("label:").unwrap_or(by).to_uppercase();
    let mut table = Table::new(
        [
            &head,
            "TASKS",
            "RAN",
            "CPU TIME",
            "CPU ASKED",
            "USED",
            "MEMORY ASKED",
            "USED",
            "PEAK",
            "READ",
            "WRITTEN",
        ],
        0,
    );
    for group in &report.groups {
        table.row(row(group.name.as_deref().unwrap_or("-"), group));
    }
    if report.groups.len() > 1 {
        table.row(row("(all)", &report.all));
    }
    table
}

fn row(name: &str, group: &UsageGroup) -> [Cell; 11] {
    let UsageGroup { tasks, used, asked_cpu_us, asked_memory_byte_seconds, .. } = group;
    let held = |byte_seconds: u64| match used.ran_us {
        0 => "-".to_owned(),
        ran => {
            let bytes = u128::from(byte_seconds) * 1_000_000 / u128::from(ran);
            words::bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
        }
    };
    [
        name.to_owned(),
        tasks.to_string(),
        took(used.ran_us),
        took(used.cpu_us),
        mean(*asked_cpu_us, used.ran_us),
        mean(used.cpu_us, used.ran_us),
        held(*asked_memory_byte_seconds),
        held(used.memory_byte_seconds),
        words::bytes(used.memory_peak),
        words::bytes(used.disk_read),
        words::bytes(used.disk_written),
    ]
    .map(|text| Cell::from(text.as_str()))
}

/// Processors on average.
fn mean(cpu_us: u64, ran_us: u64) -> String {
    match ran_us {
        0 => "-".to_owned(),
        ran => format!("{:.2}", cpu_us as f64 / ran as f64),
    }
}

fn took(micros: u64) -> String {
    words::took(micros as f64 / 1_000.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::task_usage::UsageSum;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn used() -> TaskUsage {
        TaskUsage {
            ran_us: 2_000_000,
            cpu_user_us: 900_000,
            cpu_system_us: 100_000,
            memory_peak: Some(48 * MIB),
            memory_mean: Some(20 * MIB),
            memory_cache: Some(3 * MIB),
            memory_limit: Some(48 * MIB),
            disk_read: 0,
            disk_written: 4096,
        }
    }

    #[test]
    fn what_was_used_stands_beside_what_was_asked_for() {
        let memory = super::memory(&used(), Some(Value::from("64MiB"))).unwrap();
        assert_eq!(memory, "asked 64.0 MiB, used 48.0 MiB, 20.0 MiB on average; page cache 3.0 MiB");
        let processor = processor(&used(), Some(Value::from(0.75)));
        assert_eq!(processor, "asked 0.75, used 0.50: 1.0s in 2.0s, 100ms of it in the kernel");
        let brief = TaskUsage { memory_peak: Some(MIB), ..TaskUsage::default() };
        assert_eq!(super::memory(&brief, None).unwrap(), "used 1.0 MiB");
    }

    #[test]
    fn an_end_for_want_of_memory_has_its_limit_and_its_peak() {
        let used = used();
        let text = ending(&TaskEnding::OutOfMemory, Some(&used));
        assert_eq!(text, "out of memory: limit 48.0 MiB, peak 48.0 MiB");
        assert_eq!(ending(&TaskEnding::OutOfMemory, None), "out of memory");
        assert_eq!(ending(&TaskEnding::Exit(3), Some(&used)), "exit code 3");
    }

    #[test]
    fn a_group_is_told_by_its_means_while_it_ran() {
        let mut group = UsageGroup::default();
        group.add(750, 64 * MIB, Some(&UsageSum::from(&used())));
        let cells = row("alice", &group);
        let expected = [
            "alice", "1", "2.0s", "1.0s", "0.75", "0.50", "64.0 MiB", "20.0 MiB", "48.0 MiB", "0 B",
            "4.0 KiB",
        ];
        assert_eq!(cells, expected.map(Cell::from));
        assert_eq!(row("-", &UsageGroup::default())[4], Cell::from("-"), "nothing is measured");
    }
}
