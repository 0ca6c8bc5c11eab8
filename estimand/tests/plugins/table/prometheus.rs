//! `prometheus-node-exporter-collectors`: scripts that are meant to write into a file for the exporter.

use crate::outcome::Check::{Is, Within};
use crate::outcome::Outcome::{Failure, Nothing, Value};
use crate::outcome::{Outcome, PLENTY, Package, Plugin};

const fn plugin(command: &'static str, outcomes: &'static [Outcome]) -> Plugin {
    super::plugin(Package::Prometheus, command, outcomes)
}

const HAS_EXIT_1: Outcome = Failure(&["it ended with exit 1"]);

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
        plugin(
            "smartmon.sh",
            &[
                Value(&[Is("/smartmon_smartctl_version/series/version=\"\"", "1")]),
                Value(&[Is("/smartmon_smartctl_version/type", "\"gauge\"")]),
            ],
        ),
        // Told nothing it fails and says so on stdout; as another user than root, on stderr.
        plugin(
            "lvm-prom-collector",
            &[Failure(&["exit 1: This script must be run with super-user privileges."])],
        ),
        plugin("lvm-prom-collector -g", &[Failure(&["exit 127"]), HAS_EXIT_1, Nothing, Value(&[])]),
        plugin(
            "apt_info.py",
            &[
                Value(&[
                    Is("/apt_upgrades_pending/type", "\"gauge\""),
                    Within("/apt_autoremove_pending/value", 0.0, PLENTY),
                    Within("/node_reboot_required/value", 0.0, 1.0),
                ]),
                HAS_EXIT_1,
            ],
        ),
        plugin(
            "yum.sh",
            &[Value(&[Within("/yum_upgrades_pending/series/origin=\"\"", 0.0, PLENTY)]), Value(&[])],
        ),
        plugin(
            "pacman.sh",
            &[Value(&[
                Within("/pacman_updates_pending/value", 0.0, PLENTY),
                Is("/pacman_updates_pending/type", "\"unknown\""),
            ])],
        ),
        // Descriptions of metrics that have no sample.
        plugin("fstab-check.sh", &[Nothing, Value(&[Is("/node_fstab_mount_status/type", "\"gauge\"")])]),
        plugin("inotify-instances", &[Nothing, Value(&[Is("/inotify_instances/type", "\"gauge\"")])]),
        plugin("multipathd_info", &[Nothing, Value(&[])]),
        plugin("btrfs_stats.py", &[Nothing, Value(&[]), HAS_EXIT_1]),
        plugin("ipmitool", &[Nothing, Value(&[]), Failure(&["exit"])]),
        plugin(
            "deleted_libraries.py",
            &[Failure(&["exit 1: Failed to open file: /proc/"]), Nothing, Value(&[])],
        ),
        // Ends with 1 where there is no array, and says nothing of it.
        plugin("md_info.sh", &[HAS_EXIT_1, Nothing, Value(&[])]),
        plugin("md_info_detail.sh", &[HAS_EXIT_1, Nothing, Value(&[])]),
        plugin(
            "mellanox_hca_temp",
            &[
                Failure(&["exit 1: mellanox_hca_temp: mget_temp_ext is not installed"]),
                Failure(&["exit 1: mellanox_hca_temp: Please run as root!"]),
                Nothing,
                Value(&[]),
            ],
        ),
        plugin(
            "nvme_metrics.sh",
            &[Failure(&["exit 1: nvme_metrics.sh: nvme is not installed"]), HAS_EXIT_1, Nothing, Value(&[])],
        ),
        plugin(
            "chrony.py",
            &[
                Failure(&["exit 1: ModuleNotFoundError: No module named 'prometheus_client'"]),
                HAS_EXIT_1,
                Value(&[]),
            ],
        ),
        plugin("ntpd_metrics.py", &[Failure(&["exit 1: ", "ntpq"]), HAS_EXIT_1, Value(&[])]),
        plugin("smartmon.py", &[Failure(&["exit 1: ", "smartctl"]), HAS_EXIT_1, Value(&[])]),
        plugin("storcli.py", &[Failure(&["exit 1: ", "storcli"]), HAS_EXIT_1, Value(&[])]),
        // Its error is a sample, on stdout.
        plugin("tw_cli.py", &[Failure(&["exit 1: tw_cli_cli_error{message="]), HAS_EXIT_1, Value(&[])]),
    ]
}
