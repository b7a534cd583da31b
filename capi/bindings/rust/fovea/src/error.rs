//! How a call fails.
use crate::{sys, Status};
use std::ffi::CStr;
use std::fmt;

/// A failed call: what kind of failure, and one line that names the argument, its value and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    message: String,
}

/// What every operation returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(status: Status, message: String) -> Self {
        Error { status, message }
    }

    pub fn status(&self) -> Status {
        self.status
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    // The message is this thread's, and no other call of fovea stands between.
    #[cold]
    fn last(status: i32) -> Self {
        let message = unsafe { CStr::from_ptr(sys::fovea_last_error()) };
        Error { status: status.into(), message: message.to_string_lossy().into_owned() }
    }
}

#[inline]
pub(crate) fn check(status: sys::fovea_status) -> Result<()> {
    if status == sys::FOVEA_OK {
        return Ok(());
    }
    Err(Error::last(status))
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl Status {
    /// The name in C, "FOVEA_BAD_SHAPE".
    pub fn name(self) -> &'static str {
        unsafe { CStr::from_ptr(sys::fovea_status_name(self.into())) }.to_str().unwrap_or("")
    }
}
