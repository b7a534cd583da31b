//! The caller's own parallel loop in place of oneTBB's threads.
use std::any::Any;
use std::os::raw::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::sys;

/// A loop that runs the library's work on threads of the caller's.
///
/// A piece may wait for others that have begun, never for one that has not, so threads of any kind will do. It must not be
/// interrupted to run another piece on the same thread; it calls nothing that could.
pub trait ParallelLoop: Send + Sync + 'static {
    /// How many threads it has.
    fn threads(&self) -> usize;

    /// Calls `piece` `count` times, at once on as many threads as there are. Calls that are left out are made up for
    /// afterwards, one after the other; calls too many do nothing.
    fn run(&self, count: usize, piece: &(dyn Fn() + Sync));
}

/// What the library calls; `user` is a `Box<dyn ParallelLoop>`. A loop that panics has its rest done here: no panic may
/// pass through C.
#[allow(unused_unsafe)] // compilers before 1.65 see one within another
pub(crate) unsafe extern "C" fn parallel_for(
    user: *mut c_void,
    count: i64,
    work: sys::fovea_work,
    work_data: *mut c_void,
) {
    struct Shared(*mut c_void);
    unsafe impl Sync for Shared {} // what the library hands out to be used on any thread
    impl Shared {
        fn get(&self) -> *mut c_void {
            self.0
        }
    }
    let work = match work {
        Some(work) => work,
        None => return,
    };
    let (data, next) = (Shared(work_data), AtomicI64::new(0));
    let piece = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index < count {
            unsafe { work(data.get(), index) };
        }
    };
    let users_loop = &*(user as *const Box<dyn ParallelLoop>);
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| users_loop.run(count as usize, &piece))) {
        discard(payload);
    }
    while next.load(Ordering::Relaxed) < count {
        piece();
    }
}

/// Drops what a panic carried. That may panic in its turn, and what that carries is let be.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
}

/// The threads of rayon: of the pool that a call is made in, which [`rayon::ThreadPool::install`] chooses.
///
/// A thread that waits for a call's other pieces does other tasks of the pool meanwhile, as everywhere in rayon. So a task
/// must not make a call while it holds a lock that another task waits for: the two may be on one thread.
#[cfg(feature = "rayon")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Rayon;

#[cfg(feature = "rayon")]
impl ParallelLoop for Rayon {
    fn threads(&self) -> usize {
        rayon::current_num_threads()
    }

    fn run(&self, count: usize, piece: &(dyn Fn() + Sync)) {
        rayon::scope(|scope| {
            for _ in 1..count {
                scope.spawn(|_| piece());
            }
            piece();
        });
    }
}
