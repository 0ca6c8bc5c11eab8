//! `monitoring-plugins-basic`.
//!
//! A plugin that says "critical" has answered. It is a failure only if it says "unknown", or nothing at all.

use crate::kernel::{load1, load5, load15, processes};
use crate::outcome::Check::{Agrees, Is, Says, Within};
use crate::outcome::Outcome::{AsBeside, Failure, Value};
use crate::outcome::{Outcome, PLENTY, Package, Plugin};
use crate::peers::PAGE;
use crate::plane::FILE;

const fn plugin(command: &'static str, outcomes: &'static [Outcome]) -> Plugin {
    super::plugin(Package::Nagios, command, outcomes)
}

const OK: &str = "\"ok\"";
const WARNING: &str = "\"warning\"";
const CRITICAL: &str = "\"critical\"";
const FILE_BYTES: f64 = FILE.len() as f64;
const PAGE_BYTES: f64 = PAGE.len() as f64;
/// How much the load may change within the test, both ways.
const SOME_LOAD: f64 = 3.0;

pub fn plugins() -> Vec<Plugin> {
    machine().into_iter().chain(words()).chain(servers()).collect()
}

/// Plugins that look at this machine.
fn machine() -> Vec<Plugin> {
    vec![
        plugin(
            "check_load -w 99999,99999,99999 -c 99999,99999,99999",
            &[Value(&[
                Is("/status", OK),
                Is("/code", "0"),
                Says("/text", "OK"),
                Agrees("/perf/load1/value", load1, SOME_LOAD),
                Agrees("/perf/load5/value", load5, SOME_LOAD),
                Agrees("/perf/load15/value", load15, SOME_LOAD),
                Is("/perf/load1/unit", "\"\""),
                Is("/perf/load1/warn", "\"99999.000\""),
                Is("/perf/load1/min", "0"),
                Is("/perf/load1/max", "null"),
            ])],
        ),
        // It ends with 1, and its data are as valid as ever.
        plugin(
            "check_load -w 0,0,0 -c 99999,99999,99999",
            &[Value(&[
                Is("/status", WARNING),
                Is("/code", "1"),
                Says("/text", "WARNING"),
                Agrees("/perf/load1/value", load1, SOME_LOAD),
            ])],
        ),
        plugin(
            "check_load -w 0,0,0 -c 0,0,0",
            &[Value(&[
                Is("/status", CRITICAL),
                Is("/code", "2"),
                Agrees("/perf/load1/value", load1, SOME_LOAD),
            ])],
        ),
        plugin(
            "check_load -r -w 99999 -c 99999",
            &[Value(&[Is("/status", OK), Within("/perf/scaled_load1/value", 0.0, 99999.0)])],
        ),
        plugin(
            "check_disk -w 0% -c 0% -p /",
            &[Value(&[
                Says("/text", "free space: /"),
                Within("/perf/~1/value", 1.0, PLENTY),
                Within("/perf/~1/max", 1.0, PLENTY),
                Is("/perf/~1/unit", "\"B\""),
            ])],
        ),
        plugin(
            "check_disk -w 1% -c 0% -p /no/such",
            &[Value(&[Is("/status", CRITICAL), Says("/text", "/no/such")])],
        ),
        // Without swap that is critical, and there is a figure all the same.
        plugin(
            "check_swap -w 1% -c 0%",
            &[Value(&[Says("/text", "SWAP"), Within("/perf/swap/value", 0.0, PLENTY)])],
        ),
        plugin("check_procs", &[Value(&[Is("/status", OK), Agrees("/perf/procs/value", processes, 200.0)])]),
        plugin(
            "check_procs -w :1 -c :2",
            &[Value(&[
                Is("/status", CRITICAL),
                Is("/perf/procs/warn", "\":1\""),
                Is("/perf/procs/crit", "\":2\""),
            ])],
        ),
        plugin(
            "check_procs -C no-such-command -c 1:",
            &[Value(&[Is("/status", CRITICAL), Is("/perf/procs/value", "0")])],
        ),
        plugin(
            "check_procs -m RSS",
            &[Value(&[
                Says("/text", "RSS OK"),
                Is("/perf/procs_crit/value", "0"),
                Within("/perf/procs/value", 1.0, PLENTY),
            ])],
        ),
        plugin(
            "check_users -w 5000 -c 9000",
            &[Value(&[Is("/status", OK), Within("/perf/users/value", 0.0, 5000.0)])],
        ),
        plugin("check_apt -t 50", &[AsBeside]),
        // No such disk, or one that is well, or one that is not asked as this user.
        plugin("check_ide_smart -d /dev/sda", &[AsBeside]),
        plugin("check_sensors", &[AsBeside]),
    ]
}

/// Plugins that look at files, or at their arguments.
fn words() -> Vec<Plugin> {
    vec![
        plugin(
            "check_dummy 0 'it is fine | a=1 b=2%;3;4'",
            &[Value(&[
                Is("/text", "\"OK: it is fine\""),
                Is("/perf/a/value", "1"),
                Is("/perf/b/unit", "\"%\""),
                Is("/perf/b/crit", "\"4\""),
            ])],
        ),
        plugin(
            "check_dummy 1 hm",
            &[Value(&[Is("/status", WARNING), Is("/text", "\"WARNING: hm\""), Is("/perf", "{}")])],
        ),
        plugin("check_dummy 2 bad", &[Value(&[Is("/status", CRITICAL), Is("/text", "\"CRITICAL: bad\"")])]),
        plugin(
            "check_dummy 3 'who knows'",
            &[Failure(&["it ended with exit 3, unknown: UNKNOWN: who knows"])],
        ),
        plugin(
            "check_file_age -w 999999 -c 999999 -f {folder}/file",
            &[Value(&[
                Is("/status", OK),
                Within("/perf/size/value", FILE_BYTES, FILE_BYTES),
                Is("/perf/size/unit", "\"B\""),
                Within("/perf/age/value", 0.0, 600.0),
                Is("/perf/age/unit", "\"s\""),
            ])],
        ),
        plugin(
            "check_file_age -f {folder}/none",
            &[Value(&[Is("/status", CRITICAL), Says("/text", "File not found")])],
        ),
        plugin(
            "check_log -F {folder}/file -O {folder}/old -q root",
            &[Value(&[Is("/status", OK), Says("/text", "initialized")])],
        ),
        plugin(
            "check_cluster -s -d 0,0,1",
            &[Value(&[Is("/status", OK), Says("/text", "2 ok, 1 warning, 0 unknown, 0 critical")])],
        ),
        plugin(
            "check_cluster -h -d 0,0,1 -w 0 -c 3",
            &[Value(&[Is("/status", WARNING), Says("/text", "1 down")])],
        ),
        plugin(
            "check_mrtg -F {folder}/none -v 1 -a AVG -w 1 -c 2",
            &[Failure(&["exit 3, unknown: Unable to open MRTG log file"])],
        ),
        plugin(
            "check_nagios -F {folder}/none -e 5 -C x",
            &[Value(&[Is("/status", CRITICAL), Says("/text", "Cannot open status log")])],
        ),
        plugin(
            "urlize http://there /usr/lib/nagios/plugins/check_dummy 0 hi",
            &[Value(&[Is("/text", "\"<A href=\\\"http://there\\\">OK: hi</A>\"")])],
        ),
        plugin(
            "negate /usr/lib/nagios/plugins/check_dummy 2 turned",
            &[Value(&[Is("/status", OK), Is("/text", "\"CRITICAL: turned\"")])],
        ),
        // Its usage, and no word of data.
        plugin("check_disk", &[Failure(&["it ended with exit 3, unknown"])]),
    ]
}

/// Plugins that ask a server.
fn servers() -> Vec<Plugin> {
    vec![
        plugin(
            "check_http -I 127.0.0.1 -p {http}",
            &[Value(&[
                Is("/status", OK),
                Says("/text", "HTTP OK: HTTP/1.1 200 OK"),
                Within("/perf/time/value", 0.0, 10.0),
                Is("/perf/time/unit", "\"s\""),
                Is("/perf/size/unit", "\"B\""),
                Within("/perf/size/value", PAGE_BYTES, PAGE_BYTES),
            ])],
        ),
        plugin(
            "check_http -I 127.0.0.1 -p {http} -u /missing",
            &[Value(&[Is("/status", WARNING), Says("/text", "404 Not Found")])],
        ),
        plugin(
            "check_http -I 127.0.0.1 -p {closed}",
            &[Value(&[Is("/status", CRITICAL), Says("/text", "refused")])],
        ),
        plugin(
            "check_tcp -H 127.0.0.1 -p {http}",
            &[Value(&[Is("/status", OK), Says("/text", "TCP OK"), Within("/perf/time/value", 0.0, 10.0)])],
        ),
        plugin(
            "check_tcp -H 127.0.0.1 -p {closed}",
            &[Value(&[Is("/status", CRITICAL), Says("/text", "Connection refused")])],
        ),
        plugin(
            "check_ssh -p {ssh} 127.0.0.1",
            &[Value(&[
                Is("/status", OK),
                Says("/text", "Estimand_1.0"),
                Within("/perf/time/value", 0.0, 10.0),
            ])],
        ),
        plugin(
            "check_smtp -H 127.0.0.1 -p {smtp}",
            &[Value(&[Is("/status", OK), Says("/text", "SMTP OK"), Within("/perf/time/value", 0.0, 10.0)])],
        ),
        // Its first line is what the socket said; its own and its data come in the second.
        plugin(
            "check_smtp -H 127.0.0.1 -p {closed}",
            &[Value(&[
                Is("/status", CRITICAL),
                Says("/text", "Connection refused"),
                Says("/long", "SMTP CRITICAL"),
                Within("/perf/time/value", 0.0, 10.0),
            ])],
        ),
        plugin("check_ftp -H 127.0.0.1 -p {ftp}", &[Value(&[Is("/status", OK), Says("/text", "FTP OK")])]),
        plugin("check_pop -H 127.0.0.1 -p {pop}", &[Value(&[Is("/status", OK), Says("/text", "POP OK")])]),
        plugin("check_imap -H 127.0.0.1 -p {imap}", &[Value(&[Is("/status", OK), Says("/text", "IMAP OK")])]),
        plugin(
            "check_time -H 127.0.0.1 -p {time} -w 30 -c 60",
            &[Value(&[Is("/status", OK), Within("/perf/offset/value", 0.0, 30.0)])],
        ),
        plugin(
            "check_time -H 127.0.0.1 -p {closed}",
            &[Failure(&["exit 3, unknown: connect to address 127.0.0.1", "Connection refused"])],
        ),
        plugin(
            "check_udp -H 127.0.0.1 -p {udp} -s marco -e marco",
            &[Value(&[Is("/status", OK), Within("/perf/time/value", 0.0, 10.0)])],
        ),
        // As a user that may not send ICMP they are critical or unknown.
        plugin("check_ping -H 127.0.0.1 -p 2 -w 1000,20% -c 2000,40%", &[AsBeside]),
        plugin("check_icmp -H 127.0.0.1", &[AsBeside]),
        plugin("check_ntp_time -H 127.0.0.1 -p {closed} -t 5", &[AsBeside]),
    ]
}
