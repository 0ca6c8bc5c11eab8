//! The common parts of long-running processes: supervised tasks, one driver of
//! background loops, one back-off, one circuit breaker, one cancellation, a clock that tests can turn,
//! signals, readiness, failures in a row, turns of owners, files that are replaced as a whole or held by one process, the sockets of this machine,
//! certificates in files and the system's authorities, and figures in Prometheus' text form.
//!
//! Knows no other crate of Estimand.

pub mod back_off;
pub mod background;
pub mod calls;
pub mod clock;
pub mod files;
pub mod lock_file;
pub mod metrics;
pub mod open_files;
mod panic;
pub mod pem;
mod readiness;
mod rounds;
mod signals;
pub mod stop;
mod system_trust;
pub mod tasks;
pub mod tcp_sockets;
mod trouble;
pub mod tunnel;
pub mod turns;

pub use back_off::BackOff;
pub use background::{Driver, Loop, Next, Work};
pub use calls::{CallError, Calls};
pub use clock::{Clock, ManualClock, SystemClock};
pub use metrics::Metrics;
pub use panic::panic_text;
pub use readiness::{PartReady, Readiness, Unready};
pub use rounds::{Rounds, Ticket};
pub use signals::Signals;
pub use stop::{Stop, StopTrigger};
pub use system_trust::{NO_AUTHORITIES, SystemTrust};
pub use tasks::Tasks;
pub use trouble::Trouble;
