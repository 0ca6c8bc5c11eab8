//! The headers of the interface beyond those of HTTP.

/// When a request was sent by the sender's clock. The receiver sees by how much that differs from its own.
pub const SENT_AT_HEADER: &str = "estimand-sent-at";

/// The revision of the snapshot from which a read was answered.
pub const REVISION_HEADER: &str = "estimand-revision";

/// Advice that goes with a success.
pub const HINT_HEADER: &str = "estimand-hint";

/// A key of the caller's own, by which a submission that is sent again is known.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";

/// The right of a node to a file, as the file service gave it.
pub const FILE_GRANT_HEADER: &str = "estimand-file-grant";

/// For how long the values of a request hold that says so nowhere else.
pub const VALID_FOR_HEADER: &str = "estimand-valid-for";

/// Data names of pushed metrics begin with it.
pub const NAME_PREFIX_HEADER: &str = "estimand-name-prefix";

/// Attributes of resources that tell the series of pushed metrics apart.
pub const SERIES_ATTRIBUTES_HEADER: &str = "estimand-series-attributes";
