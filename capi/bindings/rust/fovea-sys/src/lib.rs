//! fovea's C interface, as its headers declare it: every name, number and struct, and nothing else. The crate `fovea` is
//! the one to program with; it needs no `unsafe`.
//!
//! The library is looked for, in this order:
//!
//! 1. in the folder that the environment variable `FOVEA_LIB_DIR` names: `libfovea.so`, or `libfovea.a` where that is alone
//!    there or `FOVEA_STATIC=1` asks for it;
//! 2. with pkg-config, as `fovea`, or as `fovea-static` with `FOVEA_STATIC=1`;
//! 3. in the repository this crate lies in, which is built with Meson and linked statically.
//!
//! Dependents find `DEP_FOVEA_LIBDIR` in their build scripts' environment where the library's folder is known.
#![allow(non_camel_case_types)]
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags, rustdoc::bare_urls)]

#[path = "generated/bindings.rs"]
#[rustfmt::skip]
mod bindings;
pub use bindings::*;
