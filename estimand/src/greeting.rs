//! The text that a service prints when it listens.

use std::path::Path;

use estimand_store::StoreUrl;

use estimand_web::server::ListenAddress;

use crate::agent;
use crate::guard::Guard;
use crate::options::Options;

/// A proxy may add nothing to a request by which it could be told from a program of this machine.
const OPEN_HERE: &str =
    "values need no token on this machine, nor of those who reach a proxy on it (--require-token)\n";

const OPEN_AT_SOCKET: &str = "values need no token of those whom the socket's permissions let connect, nor of those who reach a proxy there (--require-token)\n";

/// The lines below the first one, which is for programs: they read the address from it. These are for people.
pub fn greeting(address: &str, options: &Options, store: &StoreUrl, guard: &Guard) -> String {
    let openness = match (&options.listen, options.is_open_here()) {
        (_, false) => "",
        (ListenAddress::Tcp(_), true) => OPEN_HERE,
        (ListenAddress::Unix(_), true) => OPEN_AT_SOCKET,
    };
    if !options.is_up {
        return openness.to_owned();
    }
    let mut text = match options.listen {
        ListenAddress::Tcp(_) => format!("the dashboard is at {address}/\nstoring in {store}\n"),
        ListenAddress::Unix(_) => format!("storing in {store}\n"),
    };
    if let Some(place) = guard.kept_in() {
        text.push_str(&format!("the operator's token is in {}\n", place.display()));
    }
    text.push_str(openness);
    if let Some(agent) = &options.agent {
        text.push_str(&format!("running as node {}\n{}", agent.node, agent::greeting(agent)));
    }
    let authority = options.tls.as_ref().and_then(|tls| tls.authority.as_deref());
    let needs_token = !options.insecure && !options.is_open_here();
    let token = match guard.kept_in() {
        _ if !needs_token => None,
        Some(place) => Some(format!("$(cat {})", place.display())),
        None => Some("$ESTIMAND_TOKEN".to_owned()),
    };
    text.push_str(&first_requests(address, authority, token.as_deref()));
    text
}

/// Commands to begin with, as they have to be typed for this address.
fn first_requests(address: &str, authority: Option<&Path>, token: Option<&str>) -> String {
    let believing =
        |option: &str| authority.map_or_else(String::new, |file| format!(" {option} {}", file.display()));
    let token = token.map_or_else(String::new, |token| format!(" -H \"Authorization: Bearer {token}\""));
    let (socket, url) = match address.strip_prefix("unix:") {
        Some(path) => (format!(" --unix-socket {path}"), "http://localhost"),
        None => (String::new(), address),
    };
    let curl = format!("curl{socket}{}{token}", believing("--cacert"));
    let body = r#"{"dataName":"cpu_usage","nodeName":"node-1","dataValue":0.42}"#;
    format!(
        "\nTry, in another terminal:\n  \
         {curl} -X POST {url}/api/data -d '{body}'\n  \
         {curl} '{url}/api/data?dataName=cpu_usage'\n  \
         estimand --server {address}{} watch\n\n",
        believing("--authority")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_requests_fit_the_address() {
        let open = first_requests("http://127.0.0.1:7070", None, None);
        assert!(open.contains("curl -X POST http://127.0.0.1:7070/api/data -d '{\"dataName\""), "{open}");
        assert!(open.contains("  estimand --server http://127.0.0.1:7070 watch\n"), "{open}");
        let socket = first_requests("unix:/run/e.sock", None, None);
        assert!(
            socket.contains("curl --unix-socket /run/e.sock -X POST http://localhost/api/data -d"),
            "{socket}"
        );
        assert!(socket.contains("  estimand --server unix:/run/e.sock watch\n"), "{socket}");
        let authority = Path::new("pki/authority.pem");
        let closed = first_requests("https://10.0.0.1:7070", Some(authority), Some("$(cat /d/token)"));
        let curl = "curl --cacert pki/authority.pem -H \"Authorization: Bearer $(cat /d/token)\" ";
        assert_eq!(closed.matches(curl).count(), 2, "{closed}");
        assert!(
            closed.contains("estimand --server https://10.0.0.1:7070 --authority pki/authority.pem watch"),
            "{closed}"
        );
    }
}
