//! Calls that are checked and laid out once, then run without allocating.
use crate::buffers::Layouts;
use crate::error::check;
use crate::*;
use std::os::raw::{c_char, c_void};
use std::ptr::null_mut;

/// A checked call with everything but the data decided. Any number of threads may run one plan at once, each with a
/// [`Workspace`] of its own.
///
/// ```
/// use fovea::{AttentionOptions, Buffers, Context, Tensor};
///
/// let shape = Tensor::shape_only::<f32>([2, 5, 4, 20])?;
/// let plan = Context::default().sdpa_plan(&shape, &shape, &shape, &shape, AttentionOptions::new().causal())?;
/// let mut workspace = plan.workspace();
/// let (query, mut out) = (vec![1.0f32; 800], vec![0.0f32; 800]);
/// for _step in 0..3 {
///     plan.run(Buffers::new(&query, &query, &query, &mut out), &mut workspace)?;
/// }
/// assert!(out.iter().all(|x| (x - 1.0).abs() < 1e-6));
/// # Ok::<(), fovea::Error>(())
/// ```
pub struct Plan {
    raw: *mut sys::fovea_plan,
    layouts: Layouts,
    // What the plan keeps using.
    _context: Context,
    keys: Option<PreparedKeys>,
}

// Immutable once made.
unsafe impl Send for Plan {}
unsafe impl Sync for Plan {}

impl Drop for Plan {
    fn drop(&mut self) {
        unsafe { sys::fovea_plan_destroy(self.raw) }
    }
}

/// A run's scratch memory.
#[derive(Default)]
pub struct Workspace(Vec<u8>);

impl Workspace {
    /// None yet, for a [`crate::Schedule`], which makes it larger where a step needs that.
    pub fn new() -> Self {
        Self::default()
    }

    /// At least so many bytes of it.
    pub(crate) fn at_least(&mut self, size: usize) -> (*mut c_void, usize) {
        if self.0.len() < size {
            self.0.resize(size, 0);
        }
        (self.0.as_mut_ptr().cast(), self.0.len())
    }
}

/// What a function gives that writes a text, and its length as `snprintf` does.
pub(crate) fn text_of(write: impl Fn(*mut c_char, usize) -> usize) -> String {
    let length = write(null_mut(), 0);
    let mut text = vec![0u8; length + 1];
    write(text.as_mut_ptr().cast(), text.len());
    text.truncate(length);
    String::from_utf8_lossy(&text).into_owned()
}

impl Context {
    /// Plans the call that [`Context::sdpa`] would make. No data is read: [`Tensor::shape_only`] will do.
    pub fn sdpa_plan(
        &self,
        query: &impl View,
        key: &impl View,
        value: &impl View,
        out: &impl View,
        options: AttentionOptions<'_>,
    ) -> Result<Plan> {
        let layouts = Layouts::new(query, Some(key), value, out, None, &options);
        let mut raw = null_mut();
        check(unsafe {
            let (query, key, value, out) = (query.raw(), key.raw(), value.raw(), out.raw());
            sys::fovea_sdpa_plan_create(self.raw(), query, key, value, out, &options.raw(), &mut raw)
        })?;
        Ok(Plan { raw, layouts, _context: self.clone(), keys: None })
    }

    /// Plans the call that [`Context::attention`] would make. Of the score, a width is taken now, tensors in each run.
    pub fn attention_plan(
        &self,
        score: &Score<'_>,
        query: &impl View,
        key: &impl View,
        value: &impl View,
        out: &impl View,
        options: AttentionOptions<'_>,
    ) -> Result<Plan> {
        let layouts = Layouts::new(query, Some(key), value, out, Some(score), &options);
        let mut raw = null_mut();
        check(unsafe {
            let (score, query, key, value, out) = (score.raw(), query.raw(), key.raw(), value.raw(), out.raw());
            sys::fovea_attention_plan_create(self.raw(), &score, query, key, value, out, &options.raw(), &mut raw)
        })?;
        Ok(Plan { raw, layouts, _context: self.clone(), keys: None })
    }

    /// Plans the call that [`Context::attention_backward`] would make. Runs take the gradients' data too, and read that of
    /// `out`.
    #[allow(clippy::too_many_arguments)] // those of the forward call, and the gradients
    pub fn attention_backward_plan(
        &self,
        score: &Score<'_>,
        query: &impl View,
        key: &impl View,
        value: &impl View,
        out: &impl View,
        options: AttentionOptions<'_>,
        gradients: AttentionGradients<'_>,
    ) -> Result<Plan> {
        let layouts = Layouts::new(query, Some(key), value, out, Some(score), &options).add_gradients(&gradients);
        let mut raw = null_mut();
        check(unsafe {
            let (query, key, value, out) = (query.raw(), key.raw(), value.raw(), out.raw());
            let (score, options, gradients) = (score.raw(), options.raw(), gradients.raw());
            sys::fovea_attention_backward_plan_create(
                self.raw(),
                &score,
                query,
                key,
                value,
                out,
                &options,
                &gradients,
                &mut raw,
            )
        })?;
        Ok(Plan { raw, layouts, _context: self.clone(), keys: None })
    }

    /// Plans the call that [`Context::attention_prepared`] would make. Runs attend what the keys hold then, but for as many
    /// keys as now.
    pub fn attention_prepared_plan(
        &self,
        query: &impl View,
        keys: &PreparedKeys,
        value: &impl View,
        out: &impl View,
        options: AttentionOptions<'_>,
    ) -> Result<Plan> {
        let layouts = Layouts::new(query, None, value, out, None, &options);
        let mut raw = null_mut();
        keys.read(|keys| {
            check(unsafe {
                let (query, value, out) = (query.raw(), value.raw(), out.raw());
                sys::fovea_attention_prepared_plan_create(self.raw(), query, keys, value, out, &options.raw(), &mut raw)
            })
        })?;
        Ok(Plan { raw, layouts, _context: self.clone(), keys: Some(keys.clone()) })
    }
}

impl Plan {
    /// Scratch memory for one run at a time.
    pub fn workspace(&self) -> Workspace {
        Workspace(vec![0; self.workspace_size()])
    }

    /// Bytes of scratch memory a run needs.
    pub fn workspace_size(&self) -> usize {
        unsafe { sys::fovea_plan_workspace_size(self.raw) }
    }

    /// Runs the call on other data in the layouts that were planned.
    #[inline]
    pub fn run(&self, buffers: Buffers<'_>, workspace: &mut Workspace) -> Result<()> {
        let buffers = buffers.raw(&self.layouts)?;
        let (memory, size) = (workspace.0.as_mut_ptr() as *mut c_void, workspace.0.len());
        let run = || check(unsafe { sys::fovea_attention_run(self.raw, &buffers, memory, size) });
        match &self.keys {
            None => run(),
            Some(keys) => keys.read(|_| run()),
        }
    }

    /// One line that tells instruction set, path, tiles, tasks, threads and bytes.
    pub fn describe(&self) -> String {
        text_of(|text, size| unsafe { sys::fovea_plan_describe(self.raw, text, size) })
    }
}
