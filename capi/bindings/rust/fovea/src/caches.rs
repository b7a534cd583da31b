//! What a decoder keeps from step to step: keys and values, and keys that a score function has projected.
use crate::error::check;
use crate::tensor::sealed::Raw;
use crate::*;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::Arc;

/// Keys and values of sequences of one length, appended to at every step.
pub struct KvCache(*mut sys::fovea_kv_cache);

// Changed through &mut alone.
unsafe impl Send for KvCache {}
unsafe impl Sync for KvCache {}

impl KvCache {
    /// An empty cache.
    pub fn new(sizes: KvCacheSizes) -> Result<Self> {
        let mut cache = null_mut();
        check(unsafe { sys::fovea_kv_cache_create(&sizes.raw()?, &mut cache) })?;
        Ok(KvCache(cache))
    }

    pub(crate) fn raw(&self) -> *mut sys::fovea_kv_cache {
        self.0
    }

    /// Appends key `[B, Hkv, n, D]` and value `[B, Hkv, n, Dv]` to every sequence.
    pub fn append<'a>(
        &mut self,
        context: &Context,
        key: impl Into<Tensor<'a>>,
        value: impl Into<Tensor<'a>>,
    ) -> Result<()> {
        let (key, value) = (key.into(), value.into());
        check(unsafe { sys::fovea_kv_cache_append(context.raw(), self.0, key.raw(), value.raw()) })
    }

    /// Attention over all that the cache holds.
    pub fn attend<'a>(
        &self,
        context: &Context,
        score: &Score<'_>,
        query: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: AttentionOptions<'_>,
    ) -> Result<()> {
        let (query, out) = (query.into(), out.into());
        check(unsafe {
            let (score, options) = (score.raw(), options.raw());
            sys::fovea_kv_cache_attend(context.raw(), self.0, &score, query.raw(), out.raw(), &options)
        })
    }

    /// Forgets the positions from `length` on.
    pub fn truncate(&mut self, length: usize) -> Result<()> {
        check(unsafe { sys::fovea_kv_cache_truncate(self.0, i64::try_from(length).unwrap_or(i64::MAX)) })
    }

    /// Sequence b becomes a copy of what was sequence source\[b\].
    pub fn reorder<'a>(&mut self, context: &Context, source: impl Into<Tensor<'a>>) -> Result<()> {
        let source = source.into();
        check(unsafe { sys::fovea_kv_cache_reorder(context.raw(), self.0, source.raw()) })
    }

    /// Positions held.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        unsafe { sys::fovea_kv_cache_length(self.0) as usize }
    }

    /// Bytes held.
    pub fn size(&self) -> usize {
        unsafe { sys::fovea_kv_cache_size(self.0) }
    }

    /// What the cache holds, as bytes for a file or another machine.
    pub fn save(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0u8; unsafe { sys::fovea_kv_cache_saved_size(self.0) }];
        check(unsafe { sys::fovea_kv_cache_save(self.0, bytes.as_mut_ptr().cast(), bytes.len()) })?;
        Ok(bytes)
    }

    /// A cache of what `save` gave. `capacity` `None`: as it was saved with.
    pub fn restore(bytes: &[u8], capacity: impl Into<Option<usize>>) -> Result<Self> {
        let capacity = match capacity.into() {
            Some(0) => return Err(Error::new(Status::BadValue, "capacity is 0, expected at least 1".into())),
            Some(capacity) => i64::try_from(capacity).unwrap_or(i64::MAX),
            None => 0,
        };
        let mut cache = null_mut();
        check(unsafe { sys::fovea_kv_cache_restore(bytes.as_ptr().cast(), bytes.len(), capacity, &mut cache) })?;
        Ok(KvCache(cache))
    }
}

impl Drop for KvCache {
    fn drop(&mut self) {
        unsafe { sys::fovea_kv_cache_destroy(self.0) }
    }
}

/// Keys that are attended again and again, as an additive, concat or bilinear score reads them. May be appended to and
/// truncated between runs of plans over them. Clones are the same keys.
///
/// Any number of calls may attend at once, and one alone may change the keys. Nobody waits for that: a call that finds the
/// keys in use is refused with [`Status::BadValue`]. Waiting could be for ever on rayon's threads, where the thread that
/// would have to go on may be the very one that waits.
#[derive(Clone)]
pub struct PreparedKeys(Arc<Keys>);

struct Keys {
    raw: *mut sys::fovea_prepared_keys,
    users: Users,
    size: usize,
    length: AtomicUsize, // as the last change left it, so that it can be told during the next
}

// One may change them, or any number attend: `users` sees to it.
unsafe impl Send for Keys {}
unsafe impl Sync for Keys {}

impl Drop for Keys {
    fn drop(&mut self) {
        unsafe { sys::fovea_prepared_keys_destroy(self.raw) }
    }
}

impl PreparedKeys {
    /// Room for keys, none of them there yet. The score's parameters are copied.
    pub fn new(context: &Context, score: &Score<'_>, sizes: PreparedKeysSizes) -> Result<Self> {
        let mut raw = null_mut();
        check(unsafe { sys::fovea_prepared_keys_create(context.raw(), &score.raw(), &sizes.raw(), &mut raw) })?;
        let size = unsafe { sys::fovea_prepared_keys_size(raw) };
        Ok(PreparedKeys(Arc::new(Keys { raw, users: Users::default(), size, length: AtomicUsize::new(0) })))
    }

    pub(crate) fn read<R>(&self, call: impl FnOnce(*const sys::fovea_prepared_keys) -> Result<R>) -> Result<R> {
        let _use = self.0.users.begin(false, "keys")?;
        call(self.0.raw)
    }

    fn write<R>(&self, call: impl FnOnce(*mut sys::fovea_prepared_keys) -> Result<R>) -> Result<R> {
        let _use = self.0.users.begin(true, "keys")?;
        let result = call(self.0.raw);
        let length = unsafe { sys::fovea_prepared_keys_length(self.0.raw) as usize };
        self.0.length.store(length, Ordering::Release);
        result
    }

    /// Appends key `[B, Hkv, n, Dk]` to every sequence.
    pub fn append<'a>(&self, context: &Context, key: impl Into<Tensor<'a>>) -> Result<()> {
        let key = key.into();
        self.write(|keys| check(unsafe { sys::fovea_prepared_keys_append(context.raw(), keys, key.raw()) }))
    }

    /// Forgets the keys from `length` on.
    pub fn truncate(&self, length: usize) -> Result<()> {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        self.write(|keys| check(unsafe { sys::fovea_prepared_keys_truncate(keys, length) }))
    }

    /// Keys of each sequence; during a change what they were before it.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.length.load(Ordering::Acquire)
    }

    /// Bytes held.
    pub fn size(&self) -> usize {
        self.0.size
    }
}

/// The calls that are using what may change: how many read it, or `CHANGING`. It counts and refuses, and never waits.
#[derive(Default)]
struct Users(AtomicIsize);

const CHANGING: isize = -1;

impl Users {
    fn begin(&self, changes: bool, name: &str) -> Result<Use<'_>> {
        let next = |users: isize| match (changes, users) {
            (true, 0) => Some(CHANGING),
            (false, 0..) => Some(users + 1),
            _ => None,
        };
        if self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, next).is_err() {
            return Err(Error::new(Status::BadValue, format!("{name} are in use by another call")));
        }
        Ok(Use(&self.0))
    }
}

/// Ends a use when it goes out of scope, after a panic too.
struct Use<'a>(&'a AtomicIsize);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        let after = |users| Some(if users == CHANGING { 0 } else { users - 1 });
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, after);
    }
}
