//! Where work runs: how many threads, which instruction set.
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use crate::error::check;
use crate::parallel::{parallel_for, ParallelLoop};
use crate::{sys, Error, Precision, Result, Status};

/// Where work runs, and all operations as its methods. The default one takes the calling thread's oneTBB arena and the
/// best instruction set, and costs nothing to make. Clones are the same context.
#[derive(Clone, Default)]
pub struct Context(Option<Arc<Inner>>);

struct Inner {
    raw: *mut sys::fovea_context,
    // What the C context's parallel_for_user points to: boxed twice, as a trait object takes two words.
    _parallel_loop: Option<Box<Box<dyn ParallelLoop>>>,
}

// The library's contexts are immutable and may be used from any thread.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        unsafe { sys::fovea_context_destroy(self.raw) }
    }
}

/// What a [`Context`] is made with. In C: `fovea_context_options`.
#[derive(Default)]
pub struct ContextOptions {
    max_threads: i32,
    precision: Precision,
    max_isa: Option<String>,
    parallel_loop: Option<Box<Box<dyn ParallelLoop>>>,
}

impl ContextOptions {
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many threads at once; 0: as many as the arena, or as the parallel loop has.
    pub fn max_threads(mut self, max_threads: i32) -> Self {
        self.max_threads = max_threads;
        self
    }

    /// Of calls that do not say their own.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// "base", "avx2", "avx512" or "amx". Left out: what the environment variable FOVEA_ISA says, else the best but "amx".
    pub fn max_isa(mut self, max_isa: impl Into<String>) -> Self {
        self.max_isa = Some(max_isa.into());
        self
    }

    /// The caller's threads in place of oneTBB's.
    pub fn parallel_for(mut self, parallel_loop: impl ParallelLoop) -> Self {
        self.parallel_loop = Some(Box::new(Box::new(parallel_loop)));
        self
    }

    /// rayon's threads in place of oneTBB's.
    #[cfg(feature = "rayon")]
    pub fn rayon(self) -> Self {
        self.parallel_for(crate::parallel::Rayon)
    }
}

impl Context {
    pub fn new(options: ContextOptions) -> Result<Self> {
        let ContextOptions { max_threads, precision, max_isa, parallel_loop } = options;
        let max_isa = max_isa
            .map(CString::new)
            .transpose()
            .map_err(|_| Error::new(Status::UnknownIsa, "options.max_isa holds a NUL".into()))?;
        let threads = parallel_loop.as_ref().map_or(0, |users| i32::try_from(users.threads()).unwrap_or(i32::MAX));
        let raw_options = sys::fovea_context_options {
            struct_size: std::mem::size_of::<sys::fovea_context_options>(),
            max_threads: if max_threads == 0 { threads } else { max_threads },
            precision: precision as i32,
            max_isa: max_isa.as_ref().map_or(null(), |name| name.as_ptr()),
            parallel_for: if parallel_loop.is_some() { Some(parallel_for) } else { None },
            parallel_for_user: parallel_loop
                .as_ref()
                .map_or(null_mut(), |users| &**users as *const Box<dyn ParallelLoop> as *mut c_void),
        };
        let mut raw = null_mut();
        check(unsafe { sys::fovea_context_create(&raw_options, &mut raw) })?;
        Ok(Context(Some(Arc::new(Inner { raw, _parallel_loop: parallel_loop }))))
    }

    pub(crate) fn raw(&self) -> *const sys::fovea_context {
        self.0.as_ref().map_or(null(), |inner| inner.raw)
    }

    /// The instruction set it runs: "base", "avx2", "avx512", "amx"; "" where FOVEA_ISA names one that cannot run.
    pub fn isa_name(&self) -> &'static str {
        text(unsafe { sys::fovea_isa_name(self.raw()) })
    }

    /// How many threads a call may use at once.
    pub fn threads(&self) -> usize {
        unsafe { sys::fovea_context_threads(self.raw()) as usize }
    }
}

/// Of static storage.
fn text(pointer: *const c_char) -> &'static str {
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap_or("")
}

/// The version of the library that is loaded.
pub fn version() -> &'static str {
    text(unsafe { sys::fovea_version() })
}

/// The instruction sets this machine can run, worst first.
pub fn isa_available() -> Vec<&'static str> {
    let names = (0..).map(|index| unsafe { sys::fovea_isa_available(index) });
    names.take_while(|name| !name.is_null()).map(text).collect()
}
