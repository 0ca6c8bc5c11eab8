//! The bounds on all processes of a cell together.

use serde::{Deserialize, Serialize};

/// Each is a bound only if it is given. A bound that this machine cannot enforce is named when the cell is opened.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Cores.
    pub cpu: Option<f64>,
    pub processes: Option<u64>,
    pub open_files: Option<u64>,
}
