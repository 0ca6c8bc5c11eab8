//! Plugins that people already own run unchanged: four of Debian's packages, each plugin of the tables
//! registered through the REST interface as it is, in one real `estimand up`, and what comes of it compared with
//! what is expected of it. Most of them measure this machine; where there is a figure of the kernel's own, the
//! value has to agree with it.
//!
//! A plugin that depends on the machine (no sensors, no RAID, a Perl module) is run once more beside the agent, and that run
//! says which outcome is right; none is left out. Plugins that ask a server ask one that the test runs on the loopback
//! interface.
#![allow(clippy::unwrap_used)]

mod beside;
mod kernel;
mod outcome;
mod peers;
mod plane;
mod table;

use peers::Peers;
use plane::Plane;

/// A file of each package, and the package.
const NEEDED: [(&str, &str); 5] = [
    ("/usr/lib/nagios/plugins/check_load", "monitoring-plugins-basic"),
    ("/usr/lib/nagios/plugins/check_memory", "monitoring-plugins-contrib"),
    ("/usr/share/munin/plugins/cpu", "munin-plugins-core"),
    ("/usr/share/munin/plugins/plugin.sh", "munin-common"),
    ("/usr/share/prometheus-node-exporter-collectors/smartmon.sh", "prometheus-node-exporter-collectors"),
];

#[test]
fn third_party_plugins_run_unchanged() {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(file, _)| !std::path::Path::new(file).exists())
        .map(|(_, package)| *package)
        .collect();
    assert!(
        missing.is_empty(),
        "this test runs plugins of Debian packages; please install {}",
        missing.join(", ")
    );

    let plugins = table::all();
    assert!(plugins.len() >= 45);
    let peers = Peers::start();
    let plane = Plane::up(&peers);
    let before: Vec<_> = plugins.iter().map(|plugin| plugin.expected_figures()).collect();
    let names: Vec<String> =
        plugins.iter().enumerate().map(|(at, plugin)| plane.register(at, plugin)).collect();
    let ran: Vec<_> = names.iter().map(|name| plane.until_ran(name)).collect();
    plane.until_all_is_delivered();
    let beside: Vec<_> = plugins
        .iter()
        .map(|plugin| plugin.depends_on_the_machine().then(|| plane.run_beside(plugin)))
        .collect();

    let mut wrong = Vec::new();
    for (at, (plugin, name)) in plugins.iter().zip(&names).enumerate() {
        let (value, instance) = (plane.value(name), &ran[at]);
        if let Err(why) = plugin.judge(instance, value.as_ref(), &before[at], beside[at].as_ref()) {
            wrong.push(format!("{plugin}\n  {why}\n  value: {value:?}\n  slot: {instance}"));
        }
    }
    let count = wrong.len();
    assert!(wrong.is_empty(), "{count} of {} are wrong:\n{}", plugins.len(), wrong.join("\n"));
    plane.end();
}
