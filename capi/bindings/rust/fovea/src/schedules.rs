//! Attention over many sequences of different lengths at once, whose plan is made once and set anew at every step.
use crate::buffers::Layouts;
use crate::error::check;
use crate::plan::text_of;
use crate::tensor::sealed::Raw;
use crate::*;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::raw::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// A plan of attention whose sequences change from step to step. It is made once for one kind of layer, with room for the most
/// that a step may bring; is set once a step; and runs once for each layer of that kind, on any number of threads at once.
pub struct Schedule {
    raw: *mut sys::fovea_schedule,
    layouts: Layouts,
    workers: usize,
    held: Arc<Held>,
}

/// What plans of multi-head attention keep of a schedule: they run with it alone, so that nobody sets it meanwhile.
pub(crate) struct Held {
    raw: *mut sys::fovea_schedule,
    _context: Context, // which it keeps using
}

// Changed through &mut alone.
unsafe impl Send for Schedule {}
unsafe impl Sync for Schedule {}

unsafe impl Send for Held {}
unsafe impl Sync for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        unsafe { sys::fovea_schedule_destroy(self.raw) }
    }
}

impl Schedule {
    /// Of queries `[T, H, D]`, and keys `[N, Hkv, D]` packed or `[P, Hkv, page, D]` in pages, as [`KvPool::keys`] are. No data
    /// is read: [`Tensor::shape_only`] will do. Until a step is set there is nothing to run.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        context: &Context,
        score: &Score<'_>,
        query: &impl View,
        key: &impl View,
        value: &impl View,
        out: &impl View,
        options: AttentionOptions<'_>,
        limits: ScheduleLimits,
    ) -> Result<Self> {
        let layouts = Layouts::new(query, Some(key), value, out, Some(score), &options);
        let (score, options, limits) = (score.raw(), options.raw(), limits.raw()?);
        let mut raw = null_mut();
        check(unsafe {
            let (query, key, value, out) = (query.raw(), key.raw(), value.raw(), out.raw());
            sys::fovea_schedule_create(context.raw(), &score, query, key, value, out, &options, &limits, &mut raw)
        })?;
        let workers = if limits.workers == 0 { context.threads() } else { limits.workers as usize };
        let held = Arc::new(Held { raw, _context: context.clone() });
        Ok(Schedule { raw, layouts, workers, held })
    }

    /// Sets a step, a copy of it: what [`KvPool::step`] gives, or one of your own. After an error the schedule is as before.
    pub fn set(&mut self, step: &Step<'_>) -> Result<()> {
        check(unsafe { sys::fovea_schedule_set(self.raw, &step.raw()) })
    }

    /// Where each token of the present step stands in its sequence.
    pub fn positions(&self) -> &[i32] {
        let tensor = unsafe { sys::fovea_schedule_positions(self.raw) };
        if tensor.rank != 1 || tensor.shape[0] == 0 {
            return &[];
        }
        // Its memory, which stays till the next step is set through &mut.
        unsafe { std::slice::from_raw_parts(tensor.data as *const i32, tensor.shape[0] as usize) }
    }

    /// Writes a layer's new keys `[T, Hkv, D]` and values `[T, Hkv, Dv]` into its pages.
    pub fn append<'a>(
        &self,
        key: impl Into<Tensor<'a>>,
        value: impl Into<Tensor<'a>>,
        pages: Pages<'a>,
        mut options: AppendOptions<'a>,
    ) -> Result<()> {
        let (key, value, Pages { keys, values, key_scales, value_scales }) = (key.into(), value.into(), pages);
        options.key_scales = options.key_scales.or(key_scales);
        options.value_scales = options.value_scales.or(value_scales);
        options.with_raw(|options| {
            let (key, value, keys, values) = (key.raw(), value.raw(), keys.raw(), values.raw());
            check(unsafe { sys::fovea_schedule_append(self.raw, key, value, keys, values, options) })
        })
    }

    /// The same for latent attention, whose values are the first features of keys' rows, as a view of whose memory they were
    /// planned: keys alone are written.
    pub fn append_keys<'a>(
        &self,
        key: impl Into<Tensor<'a>>,
        key_pages: impl Into<TensorMut<'a>>,
        options: AppendOptions<'a>,
    ) -> Result<()> {
        let (key, pages) = (key.into(), key_pages.into());
        options.with_raw(|options| {
            check(unsafe { sys::fovea_schedule_append(self.raw, key.raw(), null(), pages.raw(), null(), options) })
        })
    }

    /// Attends for the present step with one layer's data. The workspace grows where the step needs more of it.
    pub fn run(&self, buffers: Buffers<'_>, workspace: &mut Workspace) -> Result<()> {
        let buffers = buffers.raw(&self.layouts)?;
        let (memory, size) = workspace.at_least(self.workspace_size());
        check(unsafe { sys::fovea_schedule_run(self.raw, &buffers, memory, size) })
    }

    /// A run whose tasks your own threads take.
    pub fn shared_run<'a>(&'a self, buffers: Buffers<'a>, workspace: &'a mut Workspace) -> Result<SharedRun<'a>> {
        let buffers = buffers.raw(&self.layouts)?;
        let (memory, size) = workspace.at_least(self.workspace_size());
        let phases = (0..self.phases()).map(|phase| Phase::of(self.tasks(phase))).collect();
        let workers = (0..self.workers).map(|_| AtomicBool::new(false)).collect();
        Ok(SharedRun { schedule: self, buffers, memory, size, phases, workers, _data: PhantomData })
    }

    /// How many phases a run of the present step has, one after the other.
    pub fn phases(&self) -> usize {
        unsafe { sys::fovea_schedule_phases(self.raw) as usize }
    }

    /// How many tasks a phase has, in any order.
    pub fn tasks(&self, phase: usize) -> usize {
        let phase = i64::try_from(phase).unwrap_or(i64::MAX);
        unsafe { sys::fovea_schedule_tasks(self.raw, phase) as usize }
    }

    /// Bytes of scratch memory that a run of the present step needs.
    pub fn workspace_size(&self) -> usize {
        unsafe { sys::fovea_schedule_workspace_size(self.raw) }
    }

    /// One line about the present step: "op=ragged isa=avx512 sequences=8 tokens=519 ...".
    pub fn describe(&self) -> String {
        text_of(|text, size| unsafe { sys::fovea_schedule_describe(self.raw, text, size) })
    }

    pub(crate) fn raw(&self) -> *const sys::fovea_schedule {
        self.raw
    }

    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }
}

impl<'a> MhaOptions<'a> {
    /// All of a layer's pages at once, with a schedule that was made for them.
    pub fn pages(mut self, pages: Pages<'a>) -> Self {
        self.key_pages = Some(pages.keys);
        self.value_pages = Some(pages.values);
        self.key_scales = pages.key_scales;
        self.value_scales = pages.value_scales;
        self
    }
}

/// A run of a [`Schedule`] shared among threads of the caller's, with the bits of [`Schedule::run`]. Phases go one after the
/// other; the tasks of one go to any threads in any order, each of them once.
///
/// What would get in another thread's way is refused with [`Status::BadValue`]: a task that was begun before, a phase before the
/// one in front of it is done, a worker's number that another thread is using.
pub struct SharedRun<'a> {
    schedule: &'a Schedule,
    buffers: sys::fovea_attention_buffers,
    memory: *mut c_void,
    size: usize,
    phases: Vec<Phase>,
    workers: Vec<AtomicBool>,
    _data: PhantomData<(Buffers<'a>, &'a mut Workspace)>,
}

struct Phase {
    begun: Vec<AtomicBool>, // by task
    done: AtomicUsize,
}

// Tasks of a phase write different places, and each is begun once.
unsafe impl Send for SharedRun<'_> {}
unsafe impl Sync for SharedRun<'_> {}

impl Phase {
    fn of(tasks: usize) -> Self {
        Phase { begun: (0..tasks).map(|_| AtomicBool::new(false)).collect(), done: AtomicUsize::new(0) }
    }

    /// Takes all of these tasks, or none.
    fn begin(&self, tasks: &Range<usize>) -> Result<()> {
        let wanted = self.begun.get(tasks.clone());
        let wanted = wanted.ok_or_else(|| refusal(format!("tasks {tasks:?} of {}", self.begun.len())))?;
        let taken = wanted.iter().take_while(|begun| !begun.swap(true, Ordering::Relaxed)).count();
        if taken == wanted.len() {
            return Ok(());
        }
        wanted[..taken].iter().for_each(|begun| begun.store(false, Ordering::Relaxed));
        Err(refusal(format!("task {} was begun before", tasks.start + taken)))
    }
}

fn refusal(message: String) -> Error {
    Error::new(Status::BadValue, message)
}

impl SharedRun<'_> {
    /// Runs some tasks of a phase on the calling thread. `worker`, below the limit that the schedule was made with, is a number
    /// of the thread's own.
    pub fn run_tasks(&self, phase: usize, tasks: Range<usize>, worker: usize) -> Result<()> {
        let this = self.phases.get(phase).ok_or_else(|| refusal(format!("phase {phase} of {}", self.phases.len())))?;
        let before = phase.checked_sub(1).map(|before| &self.phases[before]);
        if before.map_or(false, |before| before.done.load(Ordering::Acquire) < before.begun.len()) {
            return Err(refusal(format!("phase {} is not done", phase - 1)));
        }
        let busy = self.workers.get(worker);
        let busy = busy.ok_or_else(|| refusal(format!("worker {worker} of {}", self.workers.len())))?;
        if busy.swap(true, Ordering::Acquire) {
            return Err(refusal(format!("worker {worker} is in use by another call")));
        }
        let result = this.begin(&tasks).and_then(|()| {
            let (begin, end) = (tasks.start as i64, tasks.end as i64);
            let (schedule, memory, size) = (self.schedule.raw, self.memory, self.size);
            check(unsafe {
                let (phase, worker) = (phase as i64, worker as i64);
                sys::fovea_schedule_run_tasks(schedule, &self.buffers, memory, size, phase, begin, end, worker)
            })
        });
        if result.is_ok() {
            this.done.fetch_add(tasks.len(), Ordering::AcqRel);
        }
        busy.store(false, Ordering::Release);
        result
    }
}
