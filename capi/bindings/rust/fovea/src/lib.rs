//! Attention kernels for CPUs: exact, tiled, in any strides; the C library fovea from safe Rust.
//!
//! ```
//! use fovea::{AttentionOptions, Context, Tensor, TensorMut};
//!
//! let (query, key) = ([3.0f32, 0.0, 0.0, 3.0], [1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0]);
//! let value = [10.0f32, 20.0, 30.0, 40.0, 50.0, 60.0];
//! let mut out = [0.0f32; 4];
//! Context::default().sdpa(
//!     Tensor::new(&query, [2, 2])?,
//!     Tensor::new(&key, [3, 2])?,
//!     Tensor::new(&value, [3, 2])?,
//!     TensorMut::new(&mut out, [2, 2])?,
//!     AttentionOptions::new(),
//! )?;
//! assert!((out[2] - 38.30).abs() < 0.01 && (out[3] - 48.30).abs() < 0.01);
//! # Ok::<(), fovea::Error>(())
//! ```
//!
//! Shapes, formulas and errors are those of the C interface, whose manual is `fovea.h`: an operation here is a method of
//! [`Context`] under the name it has there without `fovea_`, and has the same options under the same names.
//!
//! - A [`Tensor`] is laid over a slice and checked against it. Where a tensor of rank 1 is wanted, a slice, vector or array
//!   will do.
//! - Options are set by name, all others are defaults: `AttentionOptions::new().causal().window_left(128)`. They hold the
//!   tensors that are returned beside the output, so a call takes them by value.
//! - Whatever fails is an [`Error`] with a [`Status`] and the library's line of text, and leaves outputs as they were.
//! - [`Plan`], [`MhaPlan`], [`PackedMatrix`], [`MhaWeights`], [`PreparedKeys`], [`KvPool`], [`Sequence`], [`Schedule`] and
//!   [`Context`] are `Send` and `Sync`.
//!
//! Features: `rayon` runs the library's work on rayon's threads, `ndarray` makes tensors of its arrays, `half` of slices of
//! its `f16` and `bf16`.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

pub use fovea_sys as sys;

#[path = "generated/buffers.rs"]
#[rustfmt::skip]
mod buffers;
mod context;
#[path = "generated/dtypes.rs"]
#[rustfmt::skip]
mod dtypes;
mod error;
mod gradients;
mod layers;
mod mha_plan;
#[cfg(feature = "ndarray")]
mod nd;
mod operations;
#[path = "generated/options.rs"]
#[rustfmt::skip]
mod options;
mod parallel;
mod plan;
mod pools;
mod prepared_keys;
mod schedules;
mod scores;
#[path = "generated/status.rs"]
#[rustfmt::skip]
mod status;
mod tensor;
mod users;
mod weights;

pub use buffers::Buffers;
pub use context::{isa_available, version, Context, ContextOptions};
pub use error::{Error, Result};
pub use mha_plan::{MhaBuffers, MhaPlan};
pub use operations::{alibi_slopes, rotary_frequencies};
pub use options::*;
pub use parallel::ParallelLoop;
#[cfg(feature = "rayon")]
pub use parallel::Rayon;
pub use plan::{Plan, Workspace};
pub use pools::{KvPool, Pages, Sequence};
pub use prepared_keys::PreparedKeys;
pub use schedules::{Schedule, SharedRun};
pub use status::Status;
pub use tensor::{Data, DataMut, Element, FourBits, Slice, Tensor, TensorMut, View};
pub use weights::{MhaWeights, PackedMatrix};

// The page's program, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
