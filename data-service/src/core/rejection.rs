//! Why an operation is rejected.

use estimand_api::names::DataName;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error(
        "`{name}` is bound to `{to}` and has no values of its own: write to `{to}`, or remove the binding"
    )]
    BoundName { name: DataName, to: DataName },
    /// One item of a batch.
    #[error("item [{place}]: {cause}")]
    Item { place: usize, cause: Box<Rejection> },
    #[error("`{0}` is not bound")]
    NotBound(DataName),
    #[error("`{0}` never was bound")]
    NeverBound(DataName),
    #[error("`{name}` never served anything but the values of `{to}`: there is nothing to roll back to")]
    NothingBefore { name: DataName, to: DataName },
    #[error("`{name}` serves the values of `{now}` now, not those of `{from}`: somebody has bound it since")]
    BoundElsewhere { name: DataName, now: DataName, from: DataName },
    #[error("`{name}` is not bound, so it does not serve the values of `{from}`")]
    NotBoundFrom { name: DataName, from: DataName },
    #[error("`{0}` cannot be bound to itself")]
    ToItself(DataName),
    #[error("`{to}` is itself bound, to `{end}`: bind `{name}` to `{end}`")]
    ToBoundName { name: DataName, to: DataName, end: DataName },
    #[error("`{other}` is bound to `{name}`, which therefore cannot be bound itself")]
    IsTarget { name: DataName, other: DataName },
    #[error(
        "`{0}` has values of its own, which the binding would hide: delete them first, and let what \
         produces them write under another name"
    )]
    HidesValues(DataName),
}
