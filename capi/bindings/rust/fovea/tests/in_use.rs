//! Prepared keys that are asked for while they are in use, from the thread that uses them too: refused, never waited for.
use fovea::*;
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;

fn ramp(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect()
}

const B: usize = 4;
const L: usize = 256; // enough for a second thread to be worth waking
const D: usize = 64;
const SHAPE: [usize; 4] = [B, 1, L, D];

fn prepared(context: &Context, x: &[f32]) -> PreparedKeys {
    let weights = ramp(64 * D);
    let (weight, vector) = (Tensor::new(&weights, [64, D]).unwrap(), ramp(64));
    let sizes = PreparedKeysSizes::new().batch(B as i64).kv_heads(1).capacity(L as i64).query_dim(D as i64).key_dim(D as i64);
    let keys = PreparedKeys::new(context, &Score::additive(weight, weight, &vector), sizes).unwrap();
    keys.append(context, Tensor::new(x, SHAPE).unwrap()).unwrap();
    keys
}

fn attend(context: &Context, keys: &PreparedKeys, x: &[f32]) -> Result<Vec<f32>> {
    let mut out = vec![0.0f32; x.len()];
    let view = Tensor::new(x, SHAPE)?;
    let out_view = TensorMut::new(&mut out, SHAPE)?;
    context.attention_prepared(view, keys, view, out_view, AttentionOptions::new()).map(|()| out)
}

/// Runs what may hang on a thread of its own.
fn within_a_minute(what: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        what();
        done.send(()).unwrap();
    });
    wait.recv_timeout(Duration::from_secs(60)).expect("it hangs, or has panicked: see above");
}

fn is_in_use<T: std::fmt::Debug>(result: Result<T>) {
    let error = result.unwrap_err();
    assert_eq!((error.status(), error.message()), (Status::BadValue, "keys are in use by another call"));
}

/// A loop that does, on the thread of a call, what a thread of rayon's may take up while it waits.
#[derive(Clone, Default)]
struct Meddling {
    keys: Arc<Mutex<Option<PreparedKeys>>>,
    plan: Arc<Mutex<Option<Plan>>>,
    met: Arc<Mutex<Vec<usize>>>,
}

impl ParallelLoop for Meddling {
    fn threads(&self) -> usize {
        2
    }

    fn run(&self, count: usize, piece: &(dyn Fn() + Sync)) {
        let taken = self.keys.lock().unwrap().take(); // the calls made here come here, too
        if let Some(keys) = taken {
            is_in_use(keys.truncate(1));
            is_in_use(keys.append(&Context::default(), Tensor::new(&ramp(D * B), [B, 1, 1, D]).unwrap()));
            attend(&Context::default(), &keys, &ramp(B * L * D)).unwrap(); // with others that read
            self.met.lock().unwrap().push(keys.len());
        }
        (0..count).for_each(|_| piece());
    }
}

#[test]
fn what_would_change_keys_within_a_call_over_them_is_refused() {
    within_a_minute(|| {
        let meddling = Meddling::default();
        let context = Context::new(ContextOptions::new().parallel_for(meddling.clone())).unwrap();
        let x = ramp(B * L * D);
        let keys = prepared(&Context::default(), &x);
        let expected = attend(&Context::default(), &keys, &x).unwrap();
        *meddling.keys.lock().unwrap() = Some(keys.clone());
        assert_eq!(attend(&context, &keys, &x).unwrap(), expected);

        let view = Tensor::new(&x, SHAPE).unwrap();
        let plan = context.attention_prepared_plan(&view, &keys, &view, &view, AttentionOptions::new()).unwrap();
        *meddling.keys.lock().unwrap() = Some(keys.clone());
        let mut out = vec![0.0f32; x.len()];
        plan.run(Buffers::prepared(&x, &x, &mut out), &mut plan.workspace()).unwrap();
        assert_eq!(out, expected);
        assert_eq!(*meddling.met.lock().unwrap(), [L, L], "the loop was not run");
        keys.truncate(1).unwrap(); // all uses have ended
        assert_eq!(keys.len(), 1);
    });
}

/// While keys grow, in the loop of that very call.
#[derive(Clone, Default)]
struct Asking(Meddling);

impl ParallelLoop for Asking {
    fn threads(&self) -> usize {
        2
    }

    fn run(&self, count: usize, piece: &(dyn Fn() + Sync)) {
        let taken = self.0.keys.lock().unwrap().take();
        if let Some(keys) = taken {
            let x = ramp(B * L * D);
            is_in_use(attend(&Context::default(), &keys, &x));
            is_in_use(keys.truncate(0));
            let view = Tensor::new(&x, SHAPE).unwrap();
            is_in_use(
                Context::default()
                    .attention_prepared_plan(&view, &keys, &view, &view, AttentionOptions::new())
                    .map(|_| ()),
            );
            let plan = self.0.plan.lock().unwrap().take().unwrap();
            let mut out = vec![5.0f32; x.len()];
            is_in_use(plan.run(Buffers::prepared(&x, &x, &mut out), &mut plan.workspace()));
            assert!(out.iter().all(|x| *x == 5.0));
            self.0.met.lock().unwrap().push(keys.len());
        }
        (0..count).for_each(|_| piece());
    }
}

#[test]
fn what_would_read_keys_while_they_change_is_refused() {
    within_a_minute(|| {
        let asking = Asking::default();
        let context = Context::new(ContextOptions::new().parallel_for(asking.clone())).unwrap();
        let x = ramp(B * L * D);
        let keys = prepared(&Context::default(), &x);
        let expected = attend(&Context::default(), &keys, &x).unwrap();
        let view = Tensor::new(&x, SHAPE).unwrap();
        let plan =
            Context::default().attention_prepared_plan(&view, &keys, &view, &view, AttentionOptions::new()).unwrap();
        keys.truncate(0).unwrap();
        *asking.0.keys.lock().unwrap() = Some(keys.clone());
        *asking.0.plan.lock().unwrap() = Some(plan);
        keys.append(&context, view).unwrap();
        assert_eq!(*asking.0.met.lock().unwrap(), [0], "the loop was not run");
        assert_eq!(attend(&Context::default(), &keys, &x).unwrap(), expected);
    });
}

/// rayon's threads, one of them late: the other takes up another task while it waits.
#[cfg(feature = "rayon")]
struct Late;

#[cfg(feature = "rayon")]
impl ParallelLoop for Late {
    fn threads(&self) -> usize {
        2
    }

    fn run(&self, count: usize, piece: &(dyn Fn() + Sync)) {
        rayon::scope(|scope| {
            let (begun, began) = mpsc::channel();
            scope.spawn(move |_| {
                let _ = begun.send(());
                std::thread::sleep(Duration::from_millis(5));
            });
            (0..count).for_each(|_| piece());
            let _ = began.recv_timeout(Duration::from_millis(20)); // by the other thread, unless that waits as well
        });
    }
}

#[cfg(feature = "rayon")]
#[test]
fn rayons_tasks_attend_and_truncate_without_waiting_for_each_other() {
    within_a_minute(|| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let context = Context::new(ContextOptions::new().parallel_for(Late)).unwrap();
        let x = ramp(B * L * D);
        let keys = prepared(&Context::default(), &x);
        let expected = attend(&Context::default(), &keys, &x).unwrap();
        // From outside the pool, so that a thread that waits finds these tasks rather than pieces of its own.
        pool.in_place_scope(|scope| {
            for task in 0..100 {
                let (context, keys, x, expected) = (&context, &keys, &x, &expected);
                scope.spawn(move |_| {
                    let failed = if task % 3 == 0 {
                        keys.truncate(L).err()
                    } else {
                        attend(context, keys, x).map(|out| assert_eq!(out, *expected)).err()
                    };
                    assert!(failed.map_or(true, |error| error.message().contains("in use")));
                });
            }
        });
        keys.truncate(L).unwrap();
        assert_eq!(attend(&Context::default(), &keys, &x).unwrap(), expected);
    });
}

/// Panics when it is dropped, with what panics when it is dropped.
struct Bomb(usize);

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any(Bomb(self.0 + 1));
    }
}

struct Exploding;

impl ParallelLoop for Exploding {
    fn threads(&self) -> usize {
        2
    }

    fn run(&self, _count: usize, piece: &(dyn Fn() + Sync)) {
        piece();
        std::panic::panic_any(Bomb(0));
    }
}

#[test]
fn a_loop_may_panic_with_what_panics_when_it_is_dropped() {
    let context = Context::new(ContextOptions::new().parallel_for(Exploding)).unwrap();
    let x = ramp(B * L * D);
    let keys = prepared(&context, &x);
    let expected = attend(&Context::default(), &keys, &x).unwrap();
    assert_eq!(attend(&context, &keys, &x).unwrap(), expected);
    keys.truncate(0).unwrap(); // the use has ended
}
