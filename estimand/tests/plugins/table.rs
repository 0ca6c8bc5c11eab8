//! The plugins and what is expected of each, a file a package.

mod contrib;
mod munin;
mod nagios;
mod prometheus;

use crate::outcome::{Outcome, Package, Plugin};

pub fn all() -> Vec<Plugin> {
    [nagios::plugins(), contrib::plugins(), munin::plugins(), prometheus::plugins()]
        .into_iter()
        .flatten()
        .collect()
}

const fn plugin(package: Package, command: &'static str, outcomes: &'static [Outcome]) -> Plugin {
    Plugin { package, command, called: None, env: &[], outcomes }
}
