//! The slot agent: runs the registrations of a node, and delivers their values. The paper's Slave.
//!
//! It asks the manager for the desired state ([`link`]), supervises a slot for each registration ([`slots`], in the order of
//! the [`timetable`]), has tasks run by keepers that outlive it ([`tasks`], also in [`containers`]), starts processes through one small process made for that (`estimand-exec`), reads their
//! output (`estimand-dialects`) and delivers the values ([`deliver`]). It opens no port, places nothing, and knows the
//! other parts through their interface alone. It goes on when they are away.

mod agent;
mod allow;
mod allow_env;
mod board;
mod check;
mod containers;
mod deliver;
mod derive;
mod devices;
mod environment;
mod errors;
mod facts;
mod home;
mod link;
mod plane_clock;
mod power;
mod program;
mod reserve;
mod runners;
mod service_client;
mod slot_folder;
mod slots;
mod tasks;
mod timetable;
mod uploads;
mod user;

use std::time::Duration;

pub use agent::{Agent, AgentOptions};
pub use allow::{Allow, AllowError};
pub use allow_env::{AllowEnv, EnvPattern};
pub use check::check;
pub use containers::{Docker, ImagePattern};
pub use errors::AgentError;
pub use estimand_collectors::{AllowLibraries, AllowNet, AllowRead, Bounds, NetPattern};
pub use estimand_exec::{Capabilities, Privileges};
pub use facts::hostname;
pub use home::{HomeError, check_node};
pub use reserve::Reserve;
pub use runners::UserRange;
pub use tasks::{TaskDefaults, keep_tasks};
pub use uploads::UploadPolicy;
pub use user::{RunAs, RunAsError};

/// Leased slots and tasks are ended so long before the lease ends.
const LEASE_MARGIN: Duration = Duration::from_millis(400);
