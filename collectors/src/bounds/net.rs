//! The addresses that may be reached: by name, by number, or by network, each with or without a port.
//!
//! A pattern with a number allows what a name resolves to at the moment of the connection. One with a name allows that
//! name, wherever it leads: who allows a name trusts those who answer for it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::Barrier;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AllowNet {
    #[default]
    Everything,
    These(Vec<NetPattern>),
}

/// An address that is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetPattern {
    host: HostPattern,
    /// None: any.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    Any,
    /// In small letters.
    Name(String),
    Net {
        first: IpAddr,
        bits: u8,
    },
}

impl AllowNet {
    /// False if nothing that the host could lead to is allowed.
    pub(super) fn may_allow(&self, host: &str, port: u16) -> bool {
        let AllowNet::These(patterns) = self else { return true };
        let fits = |pattern: &NetPattern| match &pattern.host {
            HostPattern::Any | HostPattern::Net { .. } => true,
            HostPattern::Name(name) => name.eq_ignore_ascii_case(host),
        };
        patterns.iter().any(|pattern| pattern.has_port(port) && fits(pattern))
    }

    /// True if the host may be reached at this address of its.
    pub(super) fn allows(&self, host: &str, address: SocketAddr) -> bool {
        let AllowNet::These(patterns) = self else { return true };
        let ip = address.ip().to_canonical();
        let fits = |pattern: &NetPattern| match &pattern.host {
            HostPattern::Any => true,
            HostPattern::Name(name) => name.eq_ignore_ascii_case(host),
            HostPattern::Net { first, bits } => is_within(ip, *first, *bits),
        };
        patterns.iter().any(|pattern| pattern.has_port(address.port()) && fits(pattern))
    }

    /// The reason why nothing is reached there, and the option that would change it.
    pub(super) fn refusal(&self, host: &str, port: u16, ip: Option<IpAddr>) -> Barrier {
        let with_port = |host: &str| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let lies = ip.map(|ip| ip.to_canonical().to_string()).filter(|ip| ip != host);
        let option = with_port(lies.as_deref().unwrap_or(host));
        let lies = lies.map(|ip| format!(" (it is {ip})")).unwrap_or_default();
        let allowed: Vec<String> = match self {
            AllowNet::Everything => vec!["*".to_owned()],
            AllowNet::These(patterns) => patterns.iter().map(ToString::to_string).collect(),
        };
        let allowed =
            if allowed.is_empty() { "no address".to_owned() } else { format!("only {}", allowed.join(", ")) };
        Barrier::Refused(format!(
            "{}{lies} is not reached: the agent on this node allows {allowed}; `--allow-net {option}` allows it",
            with_port(host)
        ))
    }
}

impl NetPattern {
    fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|allowed| allowed == port)
    }
}

/// True if an address is in the network that begins with the first so many bits of another one.
fn is_within(ip: IpAddr, first: IpAddr, bits: u8) -> bool {
    let differ = match (ip, first) {
        (IpAddr::V4(ip), IpAddr::V4(first)) => u128::from(ip.to_bits() ^ first.to_bits()) << 96,
        (IpAddr::V6(ip), IpAddr::V6(first)) => ip.to_bits() ^ first.to_bits(),
        _ => return false,
    };
    differ.leading_zeros() >= u32::from(bits)
}

impl FromStr for NetPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no address; expected `*`, a name, or an address or network such as 10.0.0.0/8, each with \
                     or without `:PORT` ([IPV6]:PORT)"
            )
        };
        let (host, port) = match (text.strip_prefix('['), text.split_once(':')) {
            (Some(rest), _) => {
                let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
                let port = rest.strip_prefix(':');
                if !host.contains(':') || port.is_none() && !rest.is_empty() {
                    return Err(wrong());
                }
                (host, port)
            }
            // One of IPv6 has more than one colon, and then no port.
            (None, Some((host, port))) if !port.contains(':') => (host, Some(port)),
            (None, _) => (text, None),
        };
        let port = match port {
            None | Some("*") => None,
            Some(port) => Some(port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?),
        };
        Ok(NetPattern { host: HostPattern::read(host).ok_or_else(wrong)?, port })
    }
}

impl HostPattern {
    fn read(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(HostPattern::Any);
        }
        let (host, bits) = match text.split_once('/') {
            Some((host, bits)) => (host, Some(bits)),
            None => (text, None),
        };
        if let Ok(first) = host.parse::<IpAddr>() {
            let first = first.to_canonical();
            let most = if first.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
            return Some(HostPattern::Net { first, bits });
        }
        let is_name = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            // That is meant to be a number.
            && text.bytes().any(|byte| byte.is_ascii_alphabetic());
        is_name.then(|| HostPattern::Name(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for NetPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match &self.host {
            HostPattern::Any => "*".to_owned(),
            HostPattern::Name(name) => name.clone(),
            HostPattern::Net { first, bits: 32 } if first.is_ipv4() => first.to_string(),
            HostPattern::Net { first, bits: 128 } => first.to_string(),
            HostPattern::Net { first, bits } => format!("{first}/{bits}"),
        };
        match self.port {
            None => f.write_str(&host),
            Some(port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Some(port) => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Bounds;
    use super::*;

    #[test]
    fn patterns_are_read_as_they_are_shown() {
        for text in [
            "*",
            "*:443",
            "db.example",
            "db.example:5432",
            "10.0.0.0/8",
            "10.0.0.0/8:80",
            "127.0.0.1",
            "::1",
            "[::1]:80",
            "fd00::/8",
            "[fd00::/8]:443",
        ] {
            assert_eq!(text.parse::<NetPattern>().unwrap().to_string(), text);
        }
        for (text, shown) in
            [("DB.Example:*", "db.example"), ("[::1]", "::1"), ("::ffff:10.0.0.1", "10.0.0.1")]
        {
            assert_eq!(text.parse::<NetPattern>().unwrap().to_string(), shown);
        }
        for wrong in [
            "",
            ":80",
            "x:",
            "x:y",
            "x:0",
            "x:99999",
            "1.2.3",
            "256.1.1.1",
            "10.0.0.0/33",
            "10.0.0.0/",
            "::/129",
            "[::1",
            "[::1]80",
            "[x]:80",
            "a b",
            "http://x",
            "x/8",
            "*.example",
        ] {
            assert!(wrong.parse::<NetPattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_is_allowed_by_its_number_or_by_its_name() {
        let all = ["db.example:6379", "127.0.0.1", "[::1]:80", "10.0.0.0/8:443", "fd00::/8"];
        let allow = AllowNet::These(all.map(|one| one.parse().unwrap()).into());
        let check = |host: &str, address: &str, expected: bool| {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(allow.allows(host, address), expected, "{host} {address}");
        };
        check("db.example", "192.0.2.1:6379", true);
        check("DB.EXAMPLE", "192.0.2.1:6379", true);
        check("db.example", "192.0.2.1:6380", false);
        check("db.example.org", "192.0.2.1:6379", false);
        check("any.name", "127.0.0.1:1", true);
        check("any.name", "[::ffff:127.0.0.1]:1", true);
        check("any.name", "127.0.0.2:1", false);
        check("any.name", "0.0.0.0:1", false);
        check("::1", "[::1]:80", true);
        check("::1", "[::1]:81", false);
        check("x", "10.255.0.1:443", true);
        check("x", "11.0.0.1:443", false);
        check("x", "10.0.0.1:80", false);
        check("x", "[fdff::1]:9", true);
        check("x", "[fc00::1]:9", false);
        assert!(AllowNet::Everything.allows("x", "192.0.2.1:1".parse().unwrap()));
    }

    #[tokio::test]
    async fn names_are_looked_up_only_if_they_may_be_allowed() {
        let bounds = |patterns: &[&str]| Bounds {
            net: AllowNet::These(patterns.iter().map(|one| one.parse().unwrap()).collect()),
            ..Bounds::default()
        };
        let refused = |found: Result<_, Barrier>| match found {
            Err(Barrier::Refused(why)) => why,
            other => panic!("{other:?}"),
        };
        let why = refused(bounds(&[]).find_addresses("no.such.name.invalid", 80).await);
        assert!(why.contains("allows no address; `--allow-net no.such.name.invalid:80`"), "{why}");
        let why = refused(bounds(&["192.0.2.0/24", "x:1"]).find_addresses("localhost", 80).await);
        assert!(why.starts_with("localhost:80 (it is ") && why.contains("only 192.0.2.0/24, x:1;"), "{why}");
        let why = refused(bounds(&["192.0.2.1:81"]).find_addresses("[::1]", 80).await);
        assert!(why.contains("`--allow-net [::1]:80`"), "{why}");
        let found = bounds(&["127.0.0.0/8"]).find_addresses("localhost", 80).await.unwrap();
        assert_eq!(found, ["127.0.0.1:80".parse().unwrap()]);
    }
}
