//! Calls of multi-head attention that are checked and laid out once, then run without allocating.
use crate::buffers::Layouts;
use crate::error::check;
use crate::operations::pointer;
use crate::schedules::Held;
use crate::tensor::sealed::Raw;
use crate::tensor::Layout;
use crate::*;
use std::ptr::null_mut;
use std::sync::Arc;

/// A checked call of multi-head attention with everything but the data decided. Any number of threads may run one plan at
/// once, each with a [`Workspace`] of its own. It keeps its weights, its context, and copies of what rotary was given.
///
/// With a [`Schedule`] each run is of that one's present step, and has it lent: [`MhaBuffers::schedule`].
pub struct MhaPlan {
    raw: *mut sys::fovea_mha_plan,
    rows: [Option<Layout>; 4],
    pages: [Option<Layout>; 4],
    attention: Layouts,
    // What the plan keeps using.
    schedule: Option<Arc<Held>>,
    _weights: MhaWeights,
    _context: Context,
    _rotary: Vec<Vec<u64>>,
}

// Immutable once made.
unsafe impl Send for MhaPlan {}
unsafe impl Sync for MhaPlan {}

impl Drop for MhaPlan {
    fn drop(&mut self) {
        unsafe { sys::fovea_mha_plan_destroy(self.raw) }
    }
}

/// The data of a planned run: a slice for every tensor that was planned, beginning with the first element of it in memory.
pub struct MhaBuffers<'a> {
    query: Data<'a>,
    key: Option<Data<'a>>,
    value: Option<Data<'a>>,
    out: DataMut<'a>,
    pages: [Option<DataMut<'a>>; 4],
    attention: Option<Buffers<'a>>,
    schedule: Option<&'a Schedule>,
}

impl<'a> MhaBuffers<'a> {
    /// Of a call that was planned without optional tensors.
    pub fn new(query: impl Into<Data<'a>>, out: impl Into<DataMut<'a>>) -> Self {
        let (query, out) = (query.into(), out.into());
        MhaBuffers { query, key: None, value: None, out, pages: Default::default(), attention: None, schedule: None }
    }

    /// The data of `key`.
    pub fn key(mut self, key: impl Into<Data<'a>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The data of `value`.
    pub fn value(mut self, value: impl Into<Data<'a>>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// The schedule that was planned with, and a layer's pages as [`KvPool::pages`] are, where it is one of pages.
    pub fn schedule(mut self, schedule: &'a Schedule, pages: Option<Pages<'a>>) -> Self {
        self.schedule = Some(schedule);
        if let Some(Pages { keys, values, key_scales, value_scales }) = pages {
            self.pages = [Some(keys), Some(values), key_scales, value_scales].map(|one| one.map(DataMut::from));
        }
        self
    }

    /// The data of the tensors in `options.attention` and `options.score`: its query, key, value and out are left out.
    pub fn attention(mut self, attention: Buffers<'a>) -> Self {
        self.attention = Some(attention);
        self
    }
}

const PAGES: [&str; 4] = ["key_pages", "value_pages", "key_scales", "value_scales"];

/// Has a tensor stay as long as the plan.
fn own(tensor: &mut Option<Tensor<'_>>, kept: &mut Vec<Vec<u64>>) {
    if let Some(given) = tensor {
        let (memory, copy) = given.copied();
        kept.push(memory);
        *tensor = Some(copy);
    }
}

impl Context {
    /// Plans the call that [`Context::multi_head_attention`] would make. No data is read: [`Tensor::shape_only`] will do, and
    /// for pages [`TensorMut::shape_only`]; but what rotary is given is copied. With a schedule, `query` and `out` are for the
    /// most tokens that a step may have.
    pub fn mha_plan(
        &self,
        weights: &MhaWeights,
        query: &impl View,
        key: Option<Tensor<'_>>,
        value: Option<Tensor<'_>>,
        out: &impl View,
        mut options: MhaOptions<'_>,
    ) -> Result<MhaPlan> {
        let mut rotary = Vec::new();
        if let Some(given) = &mut options.rotary {
            let RotaryOptions { positions, frequencies, sections, cosines, sines, .. } = given;
            for tensor in [positions, frequencies, sections, cosines, sines] {
                own(tensor, &mut rotary);
            }
        }
        let layout = |tensor: &Option<TensorMut<'_>>| tensor.as_ref().map(|tensor| tensor.layout());
        let none = AttentionOptions::new();
        let attention = Layouts::of_options(options.score.as_ref(), options.attention.as_ref().unwrap_or(&none));
        let pages = [&options.key_pages, &options.value_pages, &options.key_scales, &options.value_scales].map(layout);
        let mut raw = null_mut();
        options.with_raw(|options| {
            let (key, value) = (pointer(&key), pointer(&value));
            check(unsafe {
                let (weights, query, out) = (weights.raw(), query.raw(), out.raw());
                sys::fovea_mha_plan_create(self.raw(), weights, query, key, value, out, options, &mut raw)
            })
        })?;
        let rows =
            [Some(query.layout()), key.map(|key| key.layout()), value.map(|value| value.layout()), Some(out.layout())];
        let schedule = options.schedule.map(|schedule| schedule.held().clone());
        let (_weights, _context) = (weights.clone(), self.clone());
        Ok(MhaPlan { raw, rows, pages, attention, schedule, _weights, _context, _rotary: rotary })
    }
}

impl MhaPlan {
    /// Bytes of scratch memory a run needs, with a schedule one of its present step; 0 if it is not the plan's.
    pub fn workspace_size(&self, schedule: Option<&Schedule>) -> usize {
        self.expect(schedule).map_or(0, |()| unsafe { sys::fovea_mha_plan_workspace_size(self.raw) })
    }

    /// The plan reads the schedule: whoever runs it shows that nobody sets that meanwhile.
    fn expect(&self, given: Option<&Schedule>) -> Result<()> {
        let (status, what) = match (&self.schedule, given) {
            (None, None) => return Ok(()),
            (Some(planned), Some(given)) if Arc::ptr_eq(planned, given.held()) => return Ok(()),
            (Some(_), None) => (Status::NullPointer, "missing, and was planned with"),
            (None, Some(_)) => (Status::BadValue, "given, and was not planned with"),
            (Some(_), Some(_)) => (Status::BadValue, "another than was planned with"),
        };
        Err(Error::new(status, format!("buffers.schedule is {what}")))
    }

    /// Runs the call on other data in the layouts that were planned. The workspace grows where more is needed.
    pub fn run(&self, buffers: MhaBuffers<'_>, workspace: &mut Workspace) -> Result<()> {
        self.expect(buffers.schedule)?;
        let attention = buffers.attention.map(|attention| attention.raw(&self.attention)).transpose()?;
        for ((page, planned), name) in buffers.pages.iter().zip(&self.pages).zip(PAGES) {
            if page.is_none() && planned.is_some() {
                return Err(Error::new(
                    Status::NullPointer,
                    format!("buffers.{name} is missing, and was planned with"),
                ));
            }
        }
        let [keys, values, key_scales, value_scales] = buffers.pages;
        let data = sys::fovea_mha_buffers {
            struct_size: std::mem::size_of::<sys::fovea_mha_buffers>(),
            query: Data::pointer(Some(buffers.query), &self.rows[0], "query")?,
            key: Data::pointer(buffers.key, &self.rows[1], "key")?,
            value: Data::pointer(buffers.value, &self.rows[2], "value")?,
            out: DataMut::pointer(Some(buffers.out), &self.rows[3], "out")?,
            key_pages: DataMut::pointer(keys, &self.pages[0], "key_pages")?,
            value_pages: DataMut::pointer(values, &self.pages[1], "value_pages")?,
            key_scales: DataMut::pointer(key_scales, &self.pages[2], "key_scales")?,
            value_scales: DataMut::pointer(value_scales, &self.pages[3], "value_scales")?,
            attention: attention.as_ref().map_or(std::ptr::null(), |attention| attention),
        };
        let (memory, size) = workspace.at_least(unsafe { sys::fovea_mha_plan_workspace_size(self.raw) });
        check(unsafe { sys::fovea_mha_run(self.raw, &data, memory, size) })
    }
}
