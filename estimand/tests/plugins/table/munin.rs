//! `munin-plugins-core` with `munin-common`: what munin's node would run to fetch, with the environment that it
//! would give.

use crate::kernel::{
    connections_opened, context_switches, entropy_bits, forks, idle_ticks, interrupts, load5, loopback_bytes,
    memory_active_bytes, open_files, packets_received, processes, swapped_in_pages, uptime_days, user_ticks,
};
use crate::outcome::Check::{Agrees, Is, Says, Within};
use crate::outcome::Outcome::{AsBeside, Failure, Nothing, Value};
use crate::outcome::{Outcome, PLENTY, Package, Plugin};

const NODE: &[(&str, &str)] = &[
    ("MUNIN_LIBDIR", "/usr/share/munin"),
    ("MUNIN_PLUGSTATE", "{folder}/state"),
    ("MUNIN_STATEFILE", "{folder}/state/munin"),
    ("MUNIN_CAP_MULTIGRAPH", "1"),
];

const fn plugin(command: &'static str, outcomes: &'static [Outcome]) -> Plugin {
    Plugin { env: NODE, ..super::plugin(Package::Munin, command, outcomes) }
}

/// One of those that are told by their name what to look at.
const fn called(name: &'static str, command: &'static str, outcomes: &'static [Outcome]) -> Plugin {
    Plugin { called: Some(name), ..plugin(command, outcomes) }
}

pub fn plugins() -> Vec<Plugin> {
    machine().into_iter().chain(by_name()).chain(odd()).chain(failures()).collect()
}

fn machine() -> Vec<Plugin> {
    vec![
        plugin(
            "cpu",
            &[Value(&[Agrees("/user/value", user_ticks, 0.0), Agrees("/idle/value", idle_ticks, 0.0)])],
        ),
        plugin("load", &[Value(&[Agrees("/load/value", load5, 3.0)])]),
        plugin(
            "memory",
            &[Value(&[
                Within("/free/value", 1.0, PLENTY),
                Agrees("/active/value", memory_active_bytes, 4e9),
            ])],
        ),
        plugin("forks", &[Value(&[Agrees("/forks/value", forks, 0.0)])]),
        plugin(
            "interrupts",
            &[Value(&[Agrees("/intr/value", interrupts, 0.0), Agrees("/ctx/value", context_switches, 0.0)])],
        ),
        plugin("irqstats", &[Value(&[])]),
        plugin(
            "processes",
            &[Value(&[Agrees("/processes/value", processes, 200.0), Within("/zombie/value", 0.0, PLENTY)])],
        ),
        plugin("threads", &[Value(&[Within("/threads/value", 1.0, PLENTY)])]),
        plugin("proc_pri", &[Value(&[Within("/high/value", 0.0, PLENTY)])]),
        plugin("open_files", &[Value(&[Agrees("/used/value", open_files, 20_000.0)])]),
        plugin("open_inodes", &[Value(&[Within("/used/value", 1.0, PLENTY)])]),
        plugin("swap", &[Value(&[Agrees("/swap_in/value", swapped_in_pages, 0.0)])]),
        plugin("uptime", &[Value(&[Agrees("/uptime/value", uptime_days, 0.02)])]),
        plugin("users", &[Value(&[Within("/pts/value", 0.0, PLENTY)])]),
        plugin("vmstat", &[Value(&[Within("/wait/value", 0.0, PLENTY)])]),
        plugin("tcp", &[Value(&[Within("/listen/value", 1.0, PLENTY)])]),
        plugin("entropy", &[Value(&[Agrees("/entropy/value", entropy_bits, 4096.0)])]),
        plugin("fw_packets", &[Value(&[Agrees("/received/value", packets_received, 0.0)])]),
        // Its fields are named for what is mounted here.
        plugin("df", &[Value(&[])]),
        plugin("df_abs", &[Value(&[])]),
        plugin("df_inode", &[Value(&[])]),
    ]
}

fn by_name() -> Vec<Plugin> {
    vec![
        called(
            "if_lo",
            "if_",
            &[Value(&[Agrees("/down/value", loopback_bytes, 0.0), Agrees("/up/value", loopback_bytes, 0.0)])],
        ),
        called("if_err_lo", "if_err_", &[Value(&[Within("/rcvd/value", 0.0, PLENTY)])]),
        called("ps_estimand", "ps_", &[Value(&[Within("/count/value", 1.0, PLENTY)])]),
        called("psu_root", "psu_", &[Value(&[Within("/count/value", 1.0, PLENTY)])]),
        called("port_22", "port_", &[Value(&[Within("/count/value", 0.0, PLENTY)])]),
        called("ping_127.0.0.1", "ping_", &[AsBeside]),
        // No such interface, program or device: they say so on stderr, and succeed.
        called("bonding_err_none", "bonding_err_", &[Nothing]),
        called("sensors_temp", "sensors_", &[AsBeside]),
        called("ipmi_temp", "ipmi_", &[AsBeside]),
    ]
}

/// Several graphs, unknown values, further words, noise.
fn odd() -> Vec<Plugin> {
    vec![
        plugin(
            "netstat",
            &[Value(&[
                Agrees("/graphs/netstat/active/value", connections_opened, 0.0),
                Within("/graphs/netstat_established/established/value", 0.0, PLENTY),
            ])],
        ),
        plugin("buddyinfo", &[Value(&[Within("/graphs/buddyinfo/order0/value", 0.0, PLENTY)])]),
        // Graphs without a field in them.
        plugin("proc", &[Nothing]),
        Plugin { env: &[], ..plugin("buddyinfo", &[Value(&[Is("/multigraph/value", "0")])]) },
        plugin("apt", &[Value(&[Within("/pending/value", 0.0, PLENTY)])]),
        plugin("munin_stats", &[AsBeside]),
        plugin("munin_update", &[Value(&[Is("/error/value", "1"), Says("/error/extinfo", "cannot read")])]),
        plugin("postfix_mailstats", &[AsBeside]),
        plugin("cpuspeed", &[AsBeside]),
        plugin("mysql_threads", &[AsBeside]),
        // A program is missing, says stderr; the figures are there.
        plugin("amavis", &[Value(&[Within("/total/value", 0.0, PLENTY)])]),
        plugin("acpi", &[AsBeside]),
        plugin("qmailqstat", &[AsBeside]),
        plugin("multiping", &[AsBeside]),
        Plugin {
            env: &[("MUNIN_LIBDIR", "/usr/share/munin"), ("target", "http://127.0.0.1:{http}/")],
            ..plugin("http_loadtime", &[AsBeside])
        },
        // The description of a graph is no value.
        plugin("cpu config", &[Nothing]),
        Plugin {
            env: &[("MUNIN_LIBDIR", "/usr/share/munin"), ("MUNIN_CAP_DIRTYCONFIG", "1")],
            ..plugin("load config", &[AsBeside])
        },
    ]
}

fn failures() -> Vec<Plugin> {
    vec![
        // They succeed with a field and no value for it, because a program is missing.
        plugin("ntp_kernel_err", &[AsBeside]),
        plugin("sendmail_mailtraffic", &[AsBeside]),
        plugin("snort_alerts", &[AsBeside]),
        plugin("cupsys_pages", &[AsBeside]),
        // They say on stdout why they fail.
        plugin("courier_mta_mailqueue", &[AsBeside]),
        plugin("multips", &[Failure(&["it ended with exit 1: Configuration required"])]),
        plugin("nfsd4", &[AsBeside]),
        plugin("pgbouncer_connections", &[AsBeside]),
        // And these on stderr.
        plugin("loggrep", &[Failure(&["it ended with exit 255: No log file specified"])]),
        plugin("hddtemp_smartctl", &[AsBeside]),
        plugin("nfs_client", &[AsBeside]),
        plugin("proxy_plugin", &[AsBeside]),
        plugin("apache_accesses", &[AsBeside]),
    ]
}
