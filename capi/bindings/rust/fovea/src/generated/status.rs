// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0

use crate::sys;

/// What kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// a required pointer is NULL
    NullPointer,
    /// a tensor has the wrong number of axes
    BadRank,
    /// sizes are negative, out of range or do not fit together
    BadShape,
    /// a stride the operation does not take, or an output that repeats itself
    BadStride,
    /// an element type the argument does not take
    BadDtype,
    /// a number is out of range: an option, a valid length
    BadValue,
    /// unknown flag bits, or a newer struct with members this build lacks
    BadOption,
    /// an output overlaps an input or another output
    Overlap,
    /// the product of sizes or strides does not fit the address space
    SizeOverflow,
    /// FOVEA_WORKSPACE_TOO_SMALL
    WorkspaceTooSmall,
    /// FOVEA_OUT_OF_MEMORY
    OutOfMemory,
    /// FOVEA_ISA or max_isa names no instruction set this machine can run
    UnknownIsa,
    /// a defect in fovea; please report it
    InternalError,
    /// a pool has too few free pages, or no room for another sequence
    PoolExhausted,
    /// A status that this crate is too old to know.
    Unknown(i32),
}

impl From<i32> for Status {
    fn from(status: i32) -> Self {
        match status {
            sys::FOVEA_NULL_POINTER => Status::NullPointer,
            sys::FOVEA_BAD_RANK => Status::BadRank,
            sys::FOVEA_BAD_SHAPE => Status::BadShape,
            sys::FOVEA_BAD_STRIDE => Status::BadStride,
            sys::FOVEA_BAD_DTYPE => Status::BadDtype,
            sys::FOVEA_BAD_VALUE => Status::BadValue,
            sys::FOVEA_BAD_OPTION => Status::BadOption,
            sys::FOVEA_OVERLAP => Status::Overlap,
            sys::FOVEA_SIZE_OVERFLOW => Status::SizeOverflow,
            sys::FOVEA_WORKSPACE_TOO_SMALL => Status::WorkspaceTooSmall,
            sys::FOVEA_OUT_OF_MEMORY => Status::OutOfMemory,
            sys::FOVEA_UNKNOWN_ISA => Status::UnknownIsa,
            sys::FOVEA_INTERNAL_ERROR => Status::InternalError,
            sys::FOVEA_POOL_EXHAUSTED => Status::PoolExhausted,
            other => Status::Unknown(other),
        }
    }
}

impl From<Status> for i32 {
    fn from(status: Status) -> Self {
        match status {
            Status::NullPointer => sys::FOVEA_NULL_POINTER,
            Status::BadRank => sys::FOVEA_BAD_RANK,
            Status::BadShape => sys::FOVEA_BAD_SHAPE,
            Status::BadStride => sys::FOVEA_BAD_STRIDE,
            Status::BadDtype => sys::FOVEA_BAD_DTYPE,
            Status::BadValue => sys::FOVEA_BAD_VALUE,
            Status::BadOption => sys::FOVEA_BAD_OPTION,
            Status::Overlap => sys::FOVEA_OVERLAP,
            Status::SizeOverflow => sys::FOVEA_SIZE_OVERFLOW,
            Status::WorkspaceTooSmall => sys::FOVEA_WORKSPACE_TOO_SMALL,
            Status::OutOfMemory => sys::FOVEA_OUT_OF_MEMORY,
            Status::UnknownIsa => sys::FOVEA_UNKNOWN_ISA,
            Status::InternalError => sys::FOVEA_INTERNAL_ERROR,
            Status::PoolExhausted => sys::FOVEA_POOL_EXHAUSTED,
            Status::Unknown(other) => other,
        }
    }
}
