//! The advice for a run that was denied something because it lacks capabilities that the agent has.
//!
//! Runs have no capabilities, also those of root's agent. What they are denied then makes some of them fail, and others
//! silently say less than is true. Their standard error tells; the words there often show which capability it is.

use estimand_exec::Capabilities;

/// The names of the kernel's refusals.
const DENIALS: [&str; 2] = ["permission denied", "operation not permitted"];

/// Words in a denial, and the capability that would have prevented it. The first that is found counts.
const SIGNS: [(&[&str], &str); 14] = [
    (&["raw socket", "raw_socket", "icmp", "ping", "packet socket", "af_packet", "sock_raw"], "cap_net_raw"),
    (&["iptables", "ip6tables", "nft", "netlink", "ipset", "conntrack", "tun/tap"], "cap_net_admin"),
    (&["bind"], "cap_net_bind_service"),
    (&["kernel buffer", "/dev/kmsg", "dmesg", "syslog"], "cap_syslog"),
    (&["perf_event", "perf "], "cap_perfmon"),
    (&["bpf"], "cap_bpf"),
    (&["ptrace", "/proc/"], "cap_sys_ptrace"),
    (&["ioctl", "/dev/mem", "iopl", "ioperm", "sg_io"], "cap_sys_rawio"),
    (&["mount:", "setns", "unshare", "quotactl", "swapon"], "cap_sys_admin"),
    (&["chown", "changing ownership", "changing group"], "cap_chown"),
    (&["kill:", "kill "], "cap_kill"),
    (&["setuid", "seteuid", "set user id", "setgid", "setegid", "setgroups"], "cap_setuid"),
    (
        &["cannot create", "cannot touch", "cannot write", "cannot remove", "for writing", "mkdir"],
        "cap_dac_override",
    ),
    (&["permission denied"], "cap_dac_read_search"),
];

/// The advice, if something was denied that one of the lacking capabilities could have allowed. `identity` says how
/// the program runs, such as `as root, without its capabilities`.
pub fn advice(stderr: &[u8], lacking: Capabilities, identity: &str) -> Option<String> {
    if lacking.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(stderr);
    let denied = text.lines().map(str::to_ascii_lowercase).find(|line| is_denial(line))?;
    let sign = SIGNS.iter().find(|(words, _)| words.iter().any(|word| denied.contains(word)));
    let option = match sign.map(|(_, name)| *name) {
        Some(name) if name.parse().is_ok_and(|one| lacking.contains(one)) => {
            format!("`--keep-capability {name}` of its agent may help")
        }
        // It was denied to all, or to root as well.
        Some(_) => return None,
        None => {
            "`--keep-capability NAME` of its agent leaves it the capability that it needs, `all` leaves all"
                .to_owned()
        }
    };
    Some(format!("it was denied something and runs {identity}; {option}"))
}

fn is_denial(line: &str) -> bool {
    DENIALS.iter().any(|denial| line.contains(denial))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_is_told_by_the_words_of_the_denial() {
        for (stderr, expected) in [
            ("du: cannot read directory '/srv/x': Permission denied", Some("cap_dac_read_search")),
            ("cat: /root/x: permission denied", Some("cap_dac_read_search")),
            ("ping: socktype: SOCK_RAW\nping: socket: Operation not permitted", Some("cap_net_raw")),
            ("dmesg: read kernel buffer failed: Operation not permitted", Some("cap_syslog")),
            ("ls: cannot read symbolic link '/proc/1/exe': Permission denied", Some("cap_sys_ptrace")),
            (
                "iptables v1.8.9 (nf_tables): Could not fetch rule set: Permission denied",
                Some("cap_net_admin"),
            ),
            ("touch: cannot touch '/etc/x': Permission denied", Some("cap_dac_override")),
            ("chown: changing ownership of 'x': Operation not permitted", Some("cap_chown")),
            ("frob: Operation not permitted", Some("NAME")),
            ("cat: /nope: No such file or directory", None),
            ("", None),
        ] {
            let advice = advice(stderr.as_bytes(), Capabilities::ALL, "as root, without its capabilities");
            let option = expected.map(|name| format!("`--keep-capability {name}`"));
            match option {
                Some(option) => assert!(advice.as_ref().unwrap().contains(&option), "{stderr}: {advice:?}"),
                None => assert_eq!(advice, None, "{stderr}"),
            }
        }
    }

    #[test]
    fn what_the_agent_lacks_itself_is_no_remedy() {
        let denied = b"cat: /root/x: Permission denied";
        assert_eq!(advice(denied, Capabilities::NONE, "as u"), None);
        assert_eq!(advice(denied, "cap_net_raw".parse().unwrap(), "as u"), None);
    }
}
