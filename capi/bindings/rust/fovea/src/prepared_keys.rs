//! Keys that a score function has projected, kept from call to call.
use crate::error::check;
use crate::tensor::sealed::Raw;
use crate::users::Users;
use crate::*;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

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
        let _use = self.0.users.begin(false, "keys are")?;
        call(self.0.raw)
    }

    fn write<R>(&self, call: impl FnOnce(*mut sys::fovea_prepared_keys) -> Result<R>) -> Result<R> {
        let _use = self.0.users.begin(true, "keys are")?;
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
