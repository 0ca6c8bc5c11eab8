//! The package is installed, upgraded, removed and purged as an operator does it, and its units run under a real systemd with
//! all that they forbid themselves.

use std::time::Duration;

use estimand_testkit::machine::Machine;
use estimand_testkit::wait::{self, PATIENCE};

use crate::{build, stripped};

/// As root on the machine of the services.
const OPERATOR: &str = "export ESTIMAND_SERVER_USER=estimand ESTIMAND_TOKEN=$(cat /var/lib/estimand/token);";
/// An old version that an upgrade follows.
const OLD: &str = "0.0.1-1";
/// The file that the task there waits for.
const GO: &str = "/run/go";
/// Systemd's count against the services, of 100. Without any rule it would be 96.
const MOST_EXPOSED: u32 = 20;

struct Node(Machine);

impl Node {
    fn install(&self, package: &str) -> String {
        self.0.shell(&format!("DEBIAN_FRONTEND=noninteractive dpkg --install /packages/{package} 2>&1"))
    }

    fn version(&self) -> String {
        self.0.shell("dpkg-query --show --showformat='${Version}' estimand")
    }

    fn is_active(&self, unit: &str) -> bool {
        self.0.output(&format!("systemctl is-active --quiet {unit}")).status.success()
    }

    #[track_caller]
    fn wait_ready(&self) {
        wait::until_ok(PATIENCE, "the services to be ready", || {
            let answer = self.0.output("curl --silent --fail --show-error http://127.0.0.1:7070/readyz");
            if answer.status.success() { Ok(()) } else { Err(self.journal()) }
        });
    }

    #[track_caller]
    fn wait_for(&self, command: &str, wanted: &str) {
        wait::until_ok(PATIENCE, wanted, || {
            let output = self.0.output(&format!("{OPERATOR} {command} 2>&1"));
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && said.contains(wanted) {
                Ok(())
            } else {
                Err(said + &self.journal())
            }
        });
    }

    /// Types the commands of the documents, which only this machine can run.
    fn type_the_page(&self) {
        let page = include_str!("../../../docs/packages.md");
        let block = page.split("```").find(|block| block.contains("$ systemctl enable --now estimand\n"));
        let commands: Vec<&str> = block.unwrap().lines().filter_map(|line| line.strip_prefix("$ ")).collect();
        let (start, rest) = commands.split_first().unwrap();
        self.0.shell(&format!("{start} 2>&1"));
        // A person does not type the next command before the services listen.
        self.wait_ready();
        self.0.shell(&format!("set -e; exec 2>&1\n{}", rest.join("\n")));
    }

    fn journal(&self) -> String {
        self.0.shell("journalctl --no-pager --lines 15 --unit estimand --unit estimand-agent")
    }

    fn main_process(&self, unit: &str) -> String {
        self.0.shell(&format!("systemctl show --property MainPID --value {unit}")).trim().to_owned()
    }
}

#[test]
fn a_debian_package_is_installed_upgraded_removed_and_purged() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::boot("1g");
    for version in [&[("LEVEL", "1"), ("VERSION", OLD)][..], &[("LEVEL", "1")]] {
        build("debian/build", version, &[stripped(), folder.path()]);
    }
    let packages = machine.path("/packages");
    std::fs::create_dir(&packages).unwrap();
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), packages.join(entry.file_name())).unwrap();
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    let [old, new] = names.try_into().unwrap();
    let node = Node(machine);

    let said = node.install(&old);
    assert!(said.contains("systemctl enable --now estimand"), "{said}");
    assert!(!node.is_active("estimand") && !node.is_active("estimand-agent"), "nobody has asked for them");
    units_are_right(&node);
    let files = node.0.shell("dpkg-query --listfiles estimand");
    for file in [
        "share/man/man1/estimand-get.1.gz",
        "share/bash-completion/completions/estimand",
        "share/doc/estimand/docs/how-to/alerts.md",
        "share/doc/estimand/docs/reference/settings.md",
        "share/doc/estimand/collectors/README.md",
        "lib/estimand/collectors/cpu_usage.sh",
    ] {
        assert!(files.contains(&format!("/usr/{file}\n")), "{files}");
    }

    node.0.shell("echo 'log: debug' >> /etc/estimand/services.yaml");
    node.type_the_page();
    assert_eq!(node.0.shell("stat --format '%U %a' /var/lib/estimand/token").trim(), "estimand 600");
    node.0.shell(&format!("{OPERATOR} estimand put kept here 5"));
    node.wait_for("estimand get load", "fresh");
    // A script of the package runs by the settings of the package.
    node.wait_for("estimand get cpu_usage", "fresh");
    node.0.shell(
        "sed -i 's|^allow: .*|allow: [/bin, /usr/bin]|' /etc/estimand/agent.yaml;
         systemctl restart estimand-agent 2>&1",
    );
    node.wait_for("estimand run-task -- id -un", "estimand-tasks");
    let task = node.0.shell(&format!(
        "{OPERATOR} estimand tasks submit -- sh -c 'until test -e {GO}; do sleep 0.1; done; echo whole'"
    ));
    let task = task.split('`').nth(1).unwrap_or_else(|| panic!("{task}")).to_owned();
    node.wait_for(&format!("estimand tasks show {task}"), "RUNNING");
    killed_services_come_again(&node);

    let (services, agent) = (node.main_process("estimand"), node.main_process("estimand-agent"));
    let said = node.install(&new);
    assert!(!said.contains("systemctl enable"), "an upgrade needs no hint: {said}");
    assert_ne!(node.version(), OLD);
    assert_ne!(node.main_process("estimand"), services);
    assert_ne!(node.main_process("estimand-agent"), agent);
    node.wait_ready();
    assert!(node.0.shell("cat /etc/estimand/services.yaml").ends_with("log: debug\n"));
    node.wait_for("estimand get kept", "5");
    node.0.shell(&format!("touch {GO}"));
    // The task was begun once, by the old agent, and is ended by its keeper and told by the new one.
    node.wait_for(&format!("estimand tasks wait {task}; estimand tasks logs {task}"), "whole");
    node.wait_for(&format!("estimand tasks show {task}"), "SUCCEEDED");

    node.0.shell("dpkg --remove estimand 2>&1");
    assert!(!node.is_active("estimand") && !node.is_active("estimand-agent"));
    node.0.shell(
        "! command -v estimand; test -e /var/lib/estimand/estimand.db; test -e /etc/estimand/services.yaml",
    );
    node.0.shell("dpkg --purge estimand 2>&1");
    node.0.shell("for left in /var/lib/estimand /var/lib/estimand-agent /etc/estimand; do ! test -e $left; done; ! getent passwd estimand && ! getent passwd estimand-tasks");
}

/// systemd understands each line of them, and finds the services well closed in.
fn units_are_right(node: &Node) {
    let said = node.0.shell("systemd-analyze verify estimand.service estimand-agent.service 2>&1");
    assert!(!said.contains("estimand"), "{said}");
    let score = node
        .0
        .output(&format!("systemd-analyze security --threshold={MOST_EXPOSED} --no-pager estimand.service"));
    assert!(score.status.success(), "{}", String::from_utf8_lossy(&score.stdout));
}

fn killed_services_come_again(node: &Node) {
    let killed = node.main_process("estimand");
    node.0.shell(&format!("kill -KILL {killed}"));
    wait::until(Duration::from_secs(60), "systemd to start the services again", || {
        let now = node.main_process("estimand");
        (now != killed && now != "0").then_some(())
    });
    node.wait_ready();
    node.wait_for("estimand get kept", "5");
}
