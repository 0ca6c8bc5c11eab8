//! `monitoring-plugins-contrib`: many authors, many habits. Several need programs or modules that this package
//! only suggests, and without them their interpreter ends with an exit code that would say "warning" or
//! "critical" if there were a text.

use crate::kernel::{
    entropy_bits, load1, load5, memory_available_kib, memory_total_kib, swap_total_kib, uptime_minutes,
};
use crate::outcome::Check::{Agrees, Is, LeftOut, Says, Within};
use crate::outcome::Outcome::{Failure, Value};
use crate::outcome::{Outcome, PLENTY, Package, Plugin};

const fn plugin(command: &'static str, outcomes: &'static [Outcome]) -> Plugin {
    super::plugin(Package::Nagios, command, outcomes)
}

const OK: &str = "\"ok\"";
/// Any value.
const SAYS_SOMETHING: Outcome = Value(&[Says("/text", " ")]);
const IS_UNKNOWN: Outcome = Failure(&["it ended with exit 3, unknown: "]);

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
        plugin("pmp-check-lvm-snapshots", &[Value(&[Says("/text", "LVM")]), IS_UNKNOWN]),
        plugin(
            "check_tcpcount",
            &[Value(&[Is("/status", OK), Within("/perf/tcp_listen/value", 1.0, PLENTY)])],
        ),
        // A bar and nothing behind it.
        plugin("check_nbprocs", &[Value(&[Says("/text", "running processes")])]),
        plugin("check_cpufreq", &[Value(&[Says("/text", "cpufreq")]), IS_UNKNOWN]),
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
        plugin("check_running_kernel", &[SAYS_SOMETHING, IS_UNKNOWN]),
        plugin("check_libs", &[SAYS_SOMETHING, IS_UNKNOWN]),
        // Its long text are the packages.
        plugin("check_packages", &[Value(&[Says("/long", "packages")]), SAYS_SOMETHING, IS_UNKNOWN]),
        plugin("check_etc_hosts", &[Value(&[Is("/text", "\"/etc/hosts OK\"")]), SAYS_SOMETHING]),
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
    vec![
        plugin(
            "check_host 127.0.0.1",
            &[
                Value(&[Is("/status", OK), Within("/perf/rta/value", 0.0, 1000.0), Is("/perf/pkt/max", "5")]),
                IS_UNKNOWN,
            ],
        ),
        plugin(
            "check_rta_multi 127.0.0.1",
            &[Value(&[Is("/status", OK), Is("/perf/pl/value", "0")]), IS_UNKNOWN],
        ),
        plugin("check_temperature", &[SAYS_SOMETHING, IS_UNKNOWN]),
        plugin(
            "check_fc",
            &[SAYS_SOMETHING, Failure(&["unknown: check_fc: Cannot open /sys/class/fc_host"])],
        ),
        plugin(
            "check_multipath",
            &[SAYS_SOMETHING, Failure(&["unknown: ERROR: No multipath binary found"]), IS_UNKNOWN],
        ),
        plugin(
            "check_raid",
            &[SAYS_SOMETHING, Failure(&["unknown: check_raid UNKNOWN - No active plugins"]), IS_UNKNOWN],
        ),
        plugin(
            "check_ipmi_sensor",
            &[
                SAYS_SOMETHING,
                Failure(&["unknown: Error: ipmimonitoring/ipmi-sensors command not found"]),
                IS_UNKNOWN,
            ],
        ),
        plugin("check_drbd", &[SAYS_SOMETHING, Failure(&["unknown: DRBD UNKNOWN: No such file /proc/drbd"])]),
    ]
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
        plugin("check_checksums", &[Failure(&["unknown: UNKNOWN -"])]),
        // Usage on stderr, and nothing on stdout.
        plugin(
            "check_cpu -w 1",
            &[Failure(&["it ended with exit 3, unknown and printed nothing"]), SAYS_SOMETHING],
        ),
        plugin("check_cert_expire", &[Failure(&["it ended with exit 3, unknown and printed nothing"])]),
        // A script that Perl refuses.
        plugin("check_nfsmounts", &[Failure(&["it ended with exit 255: "])]),
        // Exit 2, as Perl has it when a module is missing; with the module it works or is unknown.
        plugin(
            "check_lm_sensors",
            &[Failure(&["exit 2 and printed nothing", "compilation aborted"]), SAYS_SOMETHING, IS_UNKNOWN],
        ),
        plugin("check_redis", &[Failure(&["exit 2 and printed nothing"]), SAYS_SOMETHING, IS_UNKNOWN]),
        plugin("check_haproxy", &[Failure(&["exit 2 and printed nothing"]), SAYS_SOMETHING, IS_UNKNOWN]),
        // Exit 1, as Python has it.
        plugin("check_chrony", &[Failure(&["exit 1 and printed nothing"]), SAYS_SOMETHING, IS_UNKNOWN]),
        // A library that is missing, or no server.
        plugin("check_memcached", &[Failure(&["it ended with exit 127: "]), SAYS_SOMETHING, IS_UNKNOWN]),
    ]
}
