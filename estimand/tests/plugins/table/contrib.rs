//! `monitoring-plugins-contrib`: many authors, many habits. Several need programs or modules that this package
//! only suggests, and without them their interpreter ends with an exit code that would say "warning" or
//! "critical" if there were a text.

use crate::kernel::{
    entropy_bits, load1, load5, memory_available_kib, memory_total_kib, swap_total_kib, uptime_minutes,
};
use crate::outcome::Check::{Agrees, Is, LeftOut, Says, Within};
use crate::outcome::Outcome::{AsBeside, Failure, Value};
use crate::outcome::{Outcome, PLENTY, Package, Plugin};

const fn plugin(command: &'static str, outcomes: &'static [Outcome]) -> Plugin {
    super::plugin(Package::Nagios, command, outcomes)
}

const OK: &str = "\"ok\"";

pub fn plugins() -> Vec<Plugin> {
    machine().into_iter().chain(rates()).chain(hardware()).chain(failures()).collect()
}

fn machine() -> Vec<Plugin> {
    vec![
        plugin(
            "check_memory",
            &[Value(&[
                Is("/status", OK),
                Agrees("/perf/mem_total/value", memory_total_kib, 0.0),
                Is("/perf/mem_total/unit", "\"kB\""),
                Agrees("/perf/mem_available/value", memory_available_kib, 4e6),
                Agrees("/perf/mem_used/max", memory_total_kib, 0.0),
            ])],
        ),
        plugin(
            "check_memory -w 0% -c 100%",
            &[Value(&[Is("/code", "1"), Agrees("/perf/mem_total/value", memory_total_kib, 0.0)])],
        ),
        plugin(
            "check_madrisan_load",
            &[Value(&[Agrees("/perf/load1/value", load1, 3.0), Agrees("/perf/load5/value", load5, 3.0)])],
        ),
        plugin(
            "check_madrisan_swap",
            &[Value(&[
                Agrees("/perf/swap_total/value", swap_total_kib, 0.0),
                Is("/perf/swap_total/unit", "\"kB\""),
            ])],
        ),
        plugin("check_madrisan_uptime", &[Value(&[Agrees("/perf/uptime/value", uptime_minutes, 2.0)])]),
        plugin("check_madrisan_users", &[Value(&[Within("/perf/logged_users/value", 0.0, PLENTY)])]),
        plugin("check_uptime", &[Value(&[Is("/status", OK), Says("/text", "up "), Is("/perf", "{}")])]),
        plugin("pmp-check-unix-memory", &[Value(&[Within("/perf/memory_used/value", 0.0, 100.0)])]),
        plugin("pmp-check-lvm-snapshots", &[AsBeside]),
        plugin(
            "check_tcpcount",
            &[Value(&[Is("/status", OK), Within("/perf/tcp_listen/value", 1.0, PLENTY)])],
        ),
        // A bar and nothing behind it.
        plugin("check_nbprocs", &[Value(&[Says("/text", "running processes")])]),
        plugin("check_cpufreq", &[AsBeside]),
        // A blank before the unit makes it a record of its own, which is none.
        plugin(
            "check_entropy",
            &[Value(&[
                Agrees("/perf/entropy/value", entropy_bits, 4096.0),
                LeftOut("`bytes` has no `=` after its label"),
            ])],
        ),
        plugin("check_ifmountfs /", &[Value(&[Is("/status", OK), Is("/text", "\"filesystems OK\"")])]),
        plugin(
            "check_ifmountfs /no/such",
            &[Value(&[Is("/code", "2"), Says("/text", "/no/such unmounted")])],
        ),
        plugin("check_readonlyfs", &[Value(&[Says("/text", "readonly")])]),
        plugin("check_running_kernel", &[AsBeside]),
        plugin("check_libs", &[AsBeside]),
        plugin("check_packages", &[AsBeside]),
        plugin("check_etc_hosts", &[AsBeside]),
    ]
}

/// Plugins that sample twice, a second apart.
fn rates() -> Vec<Plugin> {
    vec![
        plugin(
            "check_cpu",
            &[Value(&[
                Is("/status", OK),
                Within("/perf/cpu_user/value", 0.0, 100.0),
                Within("/perf/cpu_idle/value", 0.0, 100.0),
                Is("/perf/cpu_idle/unit", "\"%\""),
            ])],
        ),
        plugin("check_iowait", &[Value(&[Within("/perf/cpu_iowait/value", 0.0, 100.0)])]),
        plugin("check_cswch", &[Value(&[Is("/status", OK), Within("/perf/cswch~1s/value", 1.0, PLENTY)])]),
        plugin("check_intr", &[Value(&[Within("/perf/intr~1s/value", 0.0, PLENTY)])]),
        plugin("check_paging", &[Value(&[Within("/perf/vmem_pgfault~1s/value", 0.0, PLENTY)])]),
        plugin("check_network -i ^lo$", &[Value(&[Within("/perf/lo_rxbyte~1s/value", 0.0, PLENTY)])]),
        plugin("check_network_errors", &[Value(&[Within("/perf/lo_rxerr~1s/value", 0.0, PLENTY)])]),
    ]
}

/// Plugins for hardware that most machines have not.
fn hardware() -> Vec<Plugin> {
    [
        "check_host 127.0.0.1",
        "check_rta_multi 127.0.0.1",
        "check_temperature",
        "check_fc",
        "check_multipath",
        "check_raid",
        "check_ipmi_sensor",
        "check_drbd",
    ]
    .map(|command| plugin(command, &[AsBeside]))
    .into()
}

/// Plugins that cannot work as they are called here.
fn failures() -> Vec<Plugin> {
    vec![
        plugin("check_statusfile {folder}/none", &[Failure(&["unknown: UNKNOWN: ", "does not exist"])]),
        plugin(
            "check_madrisan_load --load1=9,9",
            &[Failure(&["unknown: check_madrisan_load: command line error"])],
        ),
        plugin("pmp-check-mysql-status", &[Failure(&["unknown: Error: you must specify either -c or -w"])]),
        plugin("check_checksums", &[AsBeside]),
        // Usage on stderr, and nothing on stdout.
        plugin("check_cpu -w 1", &[AsBeside]),
        plugin("check_cert_expire", &[AsBeside]),
        // Perl modules, Python modules, libraries and servers that are missing or not; then their interpreters end with 1, 2,
        // 127 or 255.
        plugin("check_nfsmounts", &[AsBeside]),
        plugin("check_lm_sensors", &[AsBeside]),
        plugin("check_redis", &[AsBeside]),
        plugin("check_haproxy", &[AsBeside]),
        plugin("check_chrony", &[AsBeside]),
        plugin("check_memcached", &[AsBeside]),
    ]
}
