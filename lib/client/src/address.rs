//! The address of a service: of the network, or a socket in the file system.

use std::path::{Path, PathBuf};

use url::Url;

use crate::Client;

/// Begins the address of a service at a socket in the file system.
const UNIX: &str = "unix:";
/// The URL by which requests over such a socket are made.
const AT_SOCKET: &str = "http://localhost/";

/// The URL of an address, and the socket by which it is reached if it is at one. None of what is no address.
pub(crate) fn read(address: &str) -> Option<(Url, Option<PathBuf>)> {
    if let Some(path) = address.strip_prefix(UNIX) {
        let path = Some(PathBuf::from(path)).filter(|path| path.is_absolute())?;
        return Some((Url::parse(AT_SOCKET).ok()?, Some(path)));
    }
    let mut base = Url::parse(address).ok()?;
    if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
        return None;
    }
    // The name could also lead to `[::1]`, where somebody else may listen.
    if base.scheme() == "http" && base.host_str() == Some("localhost") {
        base.set_ip_host(std::net::Ipv4Addr::LOCALHOST.into()).ok()?;
    }
    Some((base, None))
}

impl Client {
    /// The address to which a given token is not sent, because it would go over the network unencrypted.
    pub fn withholds_token(&self) -> Option<&Url> {
        let mut withholding = self.services().filter(|service| service.options.credentials.token.is_some());
        withholding.find(|service| !is_private(&service.base)).map(Client::address)
    }

    /// The address that it speaks to.
    pub fn address(&self) -> &Url {
        &self.base
    }

    /// A URL as people know the service: with the socket in place of a host that means nothing.
    pub(crate) fn shown(&self, url: &Url) -> String {
        match &self.socket {
            Some(socket) => format!("{UNIX}{} {}", socket.display(), &url[url::Position::BeforePath..]),
            None => url.to_string(),
        }
    }

    /// The socket in the file system at which the service is; none if it is at an address of the network.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// The address as it is given on a command line.
    pub fn shown_address(&self) -> String {
        match &self.socket {
            Some(socket) => format!("{UNIX}{}", socket.display()),
            None => self.base.as_str().trim_end_matches('/').to_owned(),
        }
    }

    /// The URL of path segments and query parameters below the service's address.
    pub(crate) fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

/// True if no other machine can read requests on their way there.
pub(crate) fn is_private(base: &Url) -> bool {
    base.scheme() == "https" || is_here(base)
}

/// True for an address of this machine alone.
pub fn is_here(address: &Url) -> bool {
    match address.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}
