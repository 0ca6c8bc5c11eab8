//! A step of a start that failed.

use std::io;

use serde::{Deserialize, Serialize};

/// The steps of a start, of which one may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// The request itself.
    Request,
    Fork,
    Session,
    Cell,
    Limits,
    Directory,
    Descriptors,
    Execute,
    Identity,
    Capabilities,
}

/// A step that failed, and the kernel's error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub step: Step,
    pub errno: i32,
}

impl Failure {
    /// Names the step at which an error occurred.
    pub fn at<E: Into<io::Error>>(step: Step) -> impl FnOnce(E) -> Failure {
        move |error| Failure { step, errno: error.into().raw_os_error().unwrap_or(libc::EIO) }
    }
}
