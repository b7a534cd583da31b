//! Who uses what may change: calls that would get in each other's way are refused, and none waits.
use crate::{Error, Result, Status};
use std::sync::atomic::{AtomicIsize, Ordering};

/// The calls that are using what may change: how many read it, or `CHANGING`. It counts and refuses, and never waits.
#[derive(Default)]
pub(crate) struct Users(AtomicIsize);

const CHANGING: isize = -1;

impl Users {
    pub(crate) fn begin(&self, changes: bool, what: &str) -> Result<Use<'_>> {
        let next = |users: isize| match (changes, users) {
            (true, 0) => Some(CHANGING),
            (false, 0..) => Some(users + 1),
            _ => None,
        };
        if self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, next).is_err() {
            return Err(Error::new(Status::BadValue, format!("{what} in use by another call")));
        }
        Ok(Use(&self.0))
    }
}

/// Ends a use when it goes out of scope, after a panic too.
pub(crate) struct Use<'a>(&'a AtomicIsize);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        let after = |users| Some(if users == CHANGING { 0 } else { users - 1 });
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, after);
    }
}

// What needs no library, so that Miri can run it.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changes_or_any_number_read() {
        let users = Users::default();
        let (first, second) = (users.begin(false, "keys are").unwrap(), users.begin(false, "keys are").unwrap());
        assert_eq!(users.begin(true, "keys are").err().unwrap().message(), "keys are in use by another call");
        drop(first);
        assert!(users.begin(true, "keys are").is_err());
        drop(second);
        let change = users.begin(true, "keys are").unwrap();
        assert!(users.begin(true, "keys are").is_err() && users.begin(false, "keys are").is_err());
        drop(change);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _change = users.begin(true, "keys are").unwrap();
            panic!("on purpose");
        }));
        assert!(panicked.is_err() && users.begin(true, "keys are").is_ok());
    }

    #[test]
    fn what_is_changed_alone_is_changed_by_one_thread() {
        struct Shared(Users, std::cell::UnsafeCell<usize>);
        unsafe impl Sync for Shared {}
        impl Shared {
            fn change(&self) -> bool {
                self.0.begin(true, "keys are").map(|_alone| unsafe { *self.1.get() += 1 }).is_ok()
            }
        }
        let shared = Shared(Users::default(), std::cell::UnsafeCell::new(0));
        let changed: usize = std::thread::scope(|scope| {
            let count = || (0..50).filter(|_| shared.change()).count();
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(shared.1.into_inner(), changed);
    }
}
