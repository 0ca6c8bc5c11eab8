//! How far the start of a reservation is that goes to Celery.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// The document has none.
    #[default]
    None,
    /// It is to be published when its time has come.
    Due {
        /// The reason that it is not published, if its time has come.
        waits_for: Option<String>,
        /// Its promise is over, and it is not known yet whether it was published.
        is_past: bool,
    },
    Published {
        /// Microseconds since 1970.
        at: i64,
        /// The reason that it had to wait, if it had to.
        waited_for: Option<String>,
    },
    /// Its time was over before it could be published.
    Missed(String),
}

impl Standing {
    pub const NEW: Standing = Standing::Due { waits_for: None, is_past: false };

    pub fn is_due(&self) -> bool {
        matches!(self, Standing::Due { .. })
    }

    /// How much later than its start it was published, in microseconds.
    pub fn late(&self, start: u64) -> i64 {
        let start = i64::try_from(start).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        match self {
            Standing::Published { at, .. } => at.saturating_sub(start).max(0),
            Standing::None | Standing::Due { .. } | Standing::Missed(_) => 0,
        }
    }
}
