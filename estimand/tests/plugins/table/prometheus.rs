//! `prometheus-node-exporter-collectors`: scripts that are meant to write into a file for the exporter.

use crate::outcome::Check::{Is, Within};
use crate::outcome::Outcome::{AsBeside, Failure, Nothing, Value};
use crate::outcome::{Outcome, PLENTY, Package, Plugin};

const fn plugin(command: &'static str, outcomes: &'static [Outcome]) -> Plugin {
    super::plugin(Package::Prometheus, command, outcomes)
}

pub fn plugins() -> Vec<Plugin> {
    vec![
        plugin(
            "directory-size.sh /usr/share/munin /no/such",
            &[Value(&[
                Is("/node_directory_size_bytes/type", "\"gauge\""),
                Is("/node_directory_size_bytes/help", "\"Disk space used by some directories\""),
                Within("/node_directory_size_bytes/series/directory=\"~1usr~1share~1munin\"", 1e5, 1e9),
            ])],
        ),
        // It succeeds with nothing wherever there is /etc/os-release.
        plugin("node_os_info.sh", &[Nothing]),
        // Noise on stderr where there is no `smartctl`, and a success.
        plugin("smartmon.sh", &[AsBeside]),
        // Told nothing it fails and says so on stdout; as another user than root, on stderr.
        plugin(
            "lvm-prom-collector",
            &[Failure(&["exit 1: This script must be run with super-user privileges."])],
        ),
        plugin("lvm-prom-collector -g", &[AsBeside]),
        plugin("apt_info.py", &[AsBeside]),
        plugin("yum.sh", &[AsBeside]),
        plugin(
            "pacman.sh",
            &[Value(&[
                Within("/pacman_updates_pending/value", 0.0, PLENTY),
                Is("/pacman_updates_pending/type", "\"unknown\""),
            ])],
        ),
        // Descriptions of metrics that have no sample.
        plugin("fstab-check.sh", &[AsBeside]),
        plugin("inotify-instances", &[AsBeside]),
        plugin("multipathd_info", &[AsBeside]),
        plugin("btrfs_stats.py", &[AsBeside]),
        plugin("ipmitool", &[AsBeside]),
        plugin("deleted_libraries.py", &[AsBeside]),
        // Ends with 1 where there is no array, and says nothing of it.
        plugin("md_info.sh", &[AsBeside]),
        plugin("md_info_detail.sh", &[AsBeside]),
        plugin("mellanox_hca_temp", &[AsBeside]),
        plugin("nvme_metrics.sh", &[AsBeside]),
        plugin("chrony.py", &[AsBeside]),
        plugin("ntpd_metrics.py", &[AsBeside]),
        plugin("smartmon.py", &[AsBeside]),
        plugin("storcli.py", &[AsBeside]),
        // Its error is a sample, on stdout.
        plugin("tw_cli.py", &[AsBeside]),
    ]
}
