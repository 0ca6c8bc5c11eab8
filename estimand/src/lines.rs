//! Where reservations are taken over plain TCP, if they are.

use std::net::TcpListener;

use anyhow::{Context, bail};

use crate::options::Options;

/// The listener for reservations over plain TCP, if they are taken there.
pub fn lines(options: &Options) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = options.parts.sale().and_then(|sale| sale.lines) else { return Ok(None) };
    if !options.insecure && !address.ip().to_canonical().is_loopback() {
        bail!(
            "--reservations-lines {address} can be reached by other machines, and tokens would go there unencrypted: give an \
             address of this machine such as 127.0.0.1:{}, or --insecure",
            address.port()
        );
    }
    let failed = || format!("cannot take reservations at {address}");
    TcpListener::bind(address).map(Some).with_context(failed)
}
