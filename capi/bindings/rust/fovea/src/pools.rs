//! Keys and values of many sequences, in pages that sequences share where they begin alike.
use crate::error::check;
use crate::tensor::sealed::Raw;
use crate::users::Users;
use crate::*;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Keys and values of many sequences and layers, in pages that sequences share where they begin alike.
///
/// Pages are written through `&mut KvPool` alone: [`KvPool::step`], [`KvPool::restore`] and who is given [`KvPool::pages`].
/// Sequences open, fork, shorten and close beside that. Nobody waits for it: what finds the pool in another call on another
/// thread is refused with [`Status::BadValue`], and a sequence that is dropped then closes with the pool's next change.
///
/// ```
/// use fovea::*;
///
/// let context = Context::default();
/// let mut pool = KvPool::new(&KvPoolSizes::new().layers(1).kv_heads(1).head_dim(4).positions(64).sequences(2))?;
/// let prompt = pool.open()?;
/// pool.step(&context, &[(&prompt, 5)])?; // what a schedule is set to
/// let answer = prompt.fork(3)?;
/// assert_eq!((prompt.len(), answer.len()), (5, 3));
/// assert_eq!(pool.open().err().unwrap().status(), Status::PoolExhausted);
/// # Ok::<(), fovea::Error>(())
/// ```
pub struct KvPool {
    shared: Arc<Shared>,
    step: [Table; 5],
}

/// A sequence of a [`KvPool`], which it keeps. Closed when it is dropped.
pub struct Sequence {
    pool: Arc<Shared>,
    id: i64,
    length: AtomicUsize,
}

/// A layer's pages, to be written: `[P, Hkv, page, D]` and `[P, Hkv, page, Dv]`, with scales where they are of `i8`, or
/// values of [`FourBits`](crate::FourBits), `[P, Hkv, page, Dv / 2]`. Those of a pool, or of memory elsewhere.
pub struct Pages<'a> {
    pub keys: TensorMut<'a>,
    pub values: TensorMut<'a>,
    pub key_scales: Option<TensorMut<'a>>,
    pub value_scales: Option<TensorMut<'a>>,
}

struct Shared {
    raw: *mut sys::fovea_kv_pool,
    users: Users,
    closing: Mutex<Vec<i64>>, // sequences that were dropped while a call was using the pool
    free_pages: AtomicI64,    // as the last change left them
}

// One call at a time uses it: `users` sees to it. Pages are borrowed through KvPool.
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        unsafe { sys::fovea_kv_pool_destroy(self.raw) }
    }
}

impl Shared {
    /// Makes a call that is alone with the pool.
    fn alone<R>(&self, call: impl FnOnce(*mut sys::fovea_kv_pool) -> Result<R>) -> Result<R> {
        let _use = self.users.begin(true, "the pool is")?;
        self.close_dropped();
        let result = call(self.raw);
        self.close_dropped();
        self.free_pages.store(unsafe { sys::fovea_kv_pool_free_pages(self.raw) }, Ordering::Release);
        result
    }

    fn close_dropped(&self) {
        let dropped = match self.closing.lock() {
            Ok(mut closing) => std::mem::take(&mut *closing),
            Err(_) => return, // a thread had no memory for its entry
        };
        for id in dropped {
            unsafe { sys::fovea_kv_pool_close(self.raw, id) };
        }
    }

    /// A new sequence, which `make` opens.
    fn opened(
        self: &Arc<Self>,
        make: impl FnOnce(*mut sys::fovea_kv_pool, *mut i64) -> sys::fovea_status,
    ) -> Result<Sequence> {
        self.alone(|pool| {
            let mut id = -1;
            check(make(pool, &mut id))?;
            let length = unsafe { sys::fovea_kv_pool_length(pool, id) } as usize;
            Ok(Sequence { pool: self.clone(), id, length: AtomicUsize::new(length) })
        })
    }
}

fn number(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

impl KvPool {
    /// An empty pool.
    pub fn new(sizes: &KvPoolSizes) -> Result<Self> {
        let mut raw = null_mut();
        check(unsafe { sys::fovea_kv_pool_create(&sizes.raw()?, &mut raw) })?;
        let free_pages = AtomicI64::new(unsafe { sys::fovea_kv_pool_free_pages(raw) });
        let shared = Shared { raw, users: Users::default(), closing: Mutex::default(), free_pages };
        Ok(KvPool { shared: Arc::new(shared), step: Default::default() })
    }

    /// A new, empty sequence.
    pub fn open(&self) -> Result<Sequence> {
        self.shared.opened(|pool, id| unsafe { sys::fovea_kv_pool_open(pool, id) })
    }

    /// Makes room for a step, in which each sequence grows by so many positions, all or none of them: where pages run out the
    /// error is [`Status::PoolExhausted`]. What it gives is for [`Schedule::set`].
    pub fn step(&mut self, context: &Context, sequences: &[(&Sequence, usize)]) -> Result<Step<'_>> {
        if sequences.iter().any(|(sequence, _)| !Arc::ptr_eq(&sequence.pool, &self.shared)) {
            return Err(of_another_pool());
        }
        let ids: Vec<i64> = sequences.iter().map(|(sequence, _)| sequence.id).collect();
        let tokens: Vec<i64> = sequences.iter().map(|(_, tokens)| number(*tokens)).collect();
        let (ids, tokens) = (Tensor::from(&ids), Tensor::from(&tokens));
        let (shared, tables) = (&self.shared, &mut self.step);
        shared.alone(|pool| {
            let mut step = sys::fovea_step::default();
            check(unsafe { sys::fovea_kv_pool_step(context.raw(), pool, ids.raw(), tokens.raw(), &mut step) })?;
            // Copied, as what the pool has of it is gone when a sequence changes.
            let described = [step.query_starts, step.key_starts, step.key_lens, step.page_ids, step.page_starts];
            for (table, tensor) in tables.iter_mut().zip(described) {
                table.copy(unsafe { tensor.as_ref() });
            }
            for (sequence, _) in sequences {
                sequence.measure();
            }
            Ok(())
        })?;
        let [query_starts, key_starts, key_lens, page_ids, page_starts] = &self.step;
        Ok(Step {
            query_starts: query_starts.view(),
            key_starts: key_starts.view(),
            key_lens: key_lens.view(),
            page_ids: page_ids.view(),
            page_starts: page_starts.view(),
            tree: None,
        })
    }

    /// A layer's keys, `[P, Hkv, page, D]`.
    pub fn keys(&self, layer: usize) -> Result<Tensor<'_>> {
        let raw = unsafe { sys::fovea_kv_pool_keys(self.shared.raw, number(layer)) };
        self.view(raw).ok_or_else(|| no_layer(layer))
    }

    /// A layer's values, `[P, Hkv, page, Dv]`.
    pub fn values(&self, layer: usize) -> Result<Tensor<'_>> {
        let raw = unsafe { sys::fovea_kv_pool_values(self.shared.raw, number(layer)) };
        self.view(raw).ok_or_else(|| no_layer(layer))
    }

    /// The scales of keys of `i8`, `[P, Hkv, page, D / group]` of 16 bits; `None` of other keys.
    pub fn key_scales(&self, layer: usize) -> Option<Tensor<'_>> {
        self.view(unsafe { sys::fovea_kv_pool_key_scales(self.shared.raw, number(layer)) })
    }

    /// Likewise of values; of 4 bits `[P, Hkv, page, 2 Dv / group]`.
    pub fn value_scales(&self, layer: usize) -> Option<Tensor<'_>> {
        self.view(unsafe { sys::fovea_kv_pool_value_scales(self.shared.raw, number(layer)) })
    }

    /// A layer's pages, to be appended to.
    pub fn pages(&mut self, layer: usize) -> Result<Pages<'_>> {
        // No two of them overlap, and the pool is borrowed as long as they are.
        let written = |tensor: Tensor<'_>| unsafe { TensorMut::from_raw(*tensor.raw()) };
        Ok(Pages {
            keys: written(self.keys(layer)?),
            values: written(self.values(layer)?),
            key_scales: self.key_scales(layer).map(written),
            value_scales: self.value_scales(layer).map(written),
        })
    }

    fn view(&self, raw: sys::fovea_tensor) -> Option<Tensor<'_>> {
        if raw.rank < 0 {
            return None;
        }
        Some(unsafe { Tensor::from_raw(raw) })
    }

    /// Pages that no sequence holds; during a change how many there were before it.
    pub fn free_pages(&self) -> usize {
        self.shared.free_pages.load(Ordering::Acquire) as usize
    }

    /// Bytes of all pages.
    pub fn size(&self) -> usize {
        unsafe { sys::fovea_kv_pool_size(self.shared.raw) }
    }

    /// A sequence as bytes, for a file or another machine.
    pub fn save(&self, sequence: &Sequence) -> Result<Vec<u8>> {
        if !Arc::ptr_eq(&sequence.pool, &self.shared) {
            return Err(of_another_pool());
        }
        self.shared.alone(|pool| {
            let mut bytes = vec![0u8; unsafe { sys::fovea_kv_pool_saved_size(pool, sequence.id) }];
            check(unsafe { sys::fovea_kv_pool_save(pool, sequence.id, bytes.as_mut_ptr().cast(), bytes.len()) })?;
            Ok(bytes)
        })
    }

    /// A sequence of what [`KvPool::save`] gave, here or in another pool of the same layers, heads, features and types.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<Sequence> {
        let (data, size) = (bytes.as_ptr().cast(), bytes.len());
        self.shared.opened(|pool, id| unsafe { sys::fovea_kv_pool_restore(pool, data, size, id) })
    }
}

fn of_another_pool() -> Error {
    Error::new(Status::BadValue, "a sequence is of another pool".into())
}

fn no_layer(layer: usize) -> Error {
    Error::new(Status::BadValue, format!("the pool has no layer {layer}"))
}

impl Sequence {
    /// A new sequence that begins as the first `length` positions of this one, whose pages it shares.
    pub fn fork(&self, length: usize) -> Result<Sequence> {
        self.pool.opened(|pool, id| unsafe { sys::fovea_kv_pool_fork(pool, self.id, number(length), id) })
    }

    /// Forgets the positions from `length` on.
    pub fn truncate(&self, length: usize) -> Result<()> {
        self.pool.alone(|pool| {
            check(unsafe { sys::fovea_kv_pool_truncate(pool, self.id, number(length)) })?;
            self.measure();
            Ok(())
        })
    }

    /// Gives back the pages that hold only positions before `first`, which no query attends any more. Positions keep their
    /// numbers.
    pub fn drop_front(&self, first: usize) -> Result<()> {
        self.pool.alone(|pool| check(unsafe { sys::fovea_kv_pool_drop(pool, self.id, number(first)) }))
    }

    /// Positions, the dropped ones included; during a step how many there were before it.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.length.load(Ordering::Acquire)
    }

    /// Notes its length. For calls that are alone with the pool.
    fn measure(&self) {
        let length = unsafe { sys::fovea_kv_pool_length(self.pool.raw, self.id) };
        self.length.store(length as usize, Ordering::Release);
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        if let Ok(mut closing) = self.pool.closing.lock() {
            closing.push(self.id);
        }
        let _ = self.pool.alone(|_| Ok(())); // which closes it; else who uses the pool does
    }
}

/// A copy of one of a step's tensors, which lie in memory without gaps.
#[derive(Default)]
struct Table {
    tensor: Option<sys::fovea_tensor>,
    memory: Vec<i64>,
}

// The tensor is of this memory.
unsafe impl Send for Table {}
unsafe impl Sync for Table {}

impl Table {
    fn copy(&mut self, tensor: Option<&sys::fovea_tensor>) {
        self.tensor = tensor.copied();
        if let Some(tensor) = &mut self.tensor {
            let count: i64 = tensor.shape[..tensor.rank as usize].iter().product();
            let bytes = count as usize * if tensor.dtype == sys::FOVEA_I64 { 8 } else { 4 };
            self.memory.resize((bytes + 7) / 8, 0);
            unsafe { std::ptr::copy_nonoverlapping(tensor.data as *const u8, self.memory.as_mut_ptr().cast(), bytes) };
            tensor.data = self.memory.as_mut_ptr().cast();
        }
    }

    fn view(&self) -> Option<Tensor<'_>> {
        self.tensor.map(|tensor| unsafe { Tensor::from_raw(tensor) })
    }
}
