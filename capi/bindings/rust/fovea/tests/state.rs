//! Prepared keys, packed weights; plans and handles on many threads; the caller's own loop.
use fovea::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

fn send_and_sync<T: Send + Sync>() {}

#[test]
fn handles_may_be_shared() {
    send_and_sync::<Context>();
    send_and_sync::<Plan>();
    send_and_sync::<PackedMatrix>();
    send_and_sync::<MhaWeights>();
    send_and_sync::<KvPool>();
    send_and_sync::<Sequence>();
    send_and_sync::<Schedule>();
    send_and_sync::<SharedRun<'_>>();
    send_and_sync::<PreparedKeys>();
    send_and_sync::<Tensor<'_>>();
}

fn ramp(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect()
}

#[test]
fn prepared_keys_give_what_the_whole_call_gives_planned_and_not() {
    let (wq, wk, v, keys, query, value) = (ramp(12), ramp(15), ramp(3), ramp(35), ramp(8), ramp(14));
    let (wq, wk) = (Tensor::new(&wq, [3, 4]).unwrap(), Tensor::new(&wk, [3, 5]).unwrap());
    let score = Score::additive(wq, wk, &v);
    let context = Context::default();
    let (q, k, values) = (
        Tensor::new(&query, [2, 4]).unwrap(),
        Tensor::new(&keys, [7, 5]).unwrap(),
        Tensor::new(&value, [7, 2]).unwrap(),
    );
    let mut expected = [0.0f32; 4];
    let out = TensorMut::new(&mut expected, [2, 2]).unwrap();
    context.attention(&score, q, k, values, out, AttentionOptions::new()).unwrap();

    let sizes = PreparedKeysSizes::new().batch(1).kv_heads(1).capacity(8).query_dim(4).key_dim(5);
    let prepared = PreparedKeys::new(&context, &score, sizes).unwrap();
    prepared.append(&context, k).unwrap();
    assert_eq!((prepared.len(), prepared.size() > 0), (7, true));
    let mut found = [0.0f32; 4];
    let out = TensorMut::new(&mut found, [2, 2]).unwrap();
    context.attention_prepared(q, &prepared, values, out, AttentionOptions::new()).unwrap();
    assert_eq!(expected, found);

    let shape = Tensor::shape_only::<f32>([2, 2]).unwrap();
    let plan = context.attention_prepared_plan(&q, &prepared, &values, &shape, AttentionOptions::new()).unwrap();
    let mut workspace = plan.workspace();
    found = [0.0; 4];
    plan.run(Buffers::prepared(&query, &value, &mut found), &mut workspace).unwrap();
    assert_eq!(expected, found);
    prepared.truncate(6).unwrap(); // while the plan is there
    let refused = plan.run(Buffers::prepared(&query, &value, &mut found), &mut workspace).unwrap_err();
    assert_eq!(refused.status(), Status::BadShape);
    prepared.append(&context, Tensor::strided(&keys, 30, [1, 5], [5, 1]).unwrap()).unwrap();
    drop(prepared); // the plan keeps them
    plan.run(Buffers::prepared(&query, &value, &mut found), &mut workspace).unwrap();
    assert_eq!(expected, found);
}

#[test]
fn planned_scores_take_their_parameters_in_each_run() {
    let (weight, query, key, value) = (ramp(6), ramp(4), ramp(15), ramp(5));
    let w = Tensor::new(&weight, [2, 3]).unwrap();
    let (q, k, v) = (
        Tensor::new(&query, [2, 2]).unwrap(),
        Tensor::new(&key, [5, 3]).unwrap(),
        Tensor::new(&value, [5, 1]).unwrap(),
    );
    let (mut once, mut planned) = ([0.0f32; 2], [0.0f32; 2]);
    let context = Context::default();
    let out = TensorMut::new(&mut once, [2, 1]).unwrap();
    let plan = context.attention_plan(&Score::bilinear(w), &q, &k, &v, &out, AttentionOptions::new()).unwrap();
    context.attention(&Score::bilinear(w), q, k, v, out, AttentionOptions::new()).unwrap();
    let buffers = Buffers::new(&query, &key, &value, &mut planned).weight(&weight);
    plan.run(buffers, &mut plan.workspace()).unwrap();
    assert_eq!(once, planned);
}

#[test]
fn packed_weights_serve_many_threads() {
    let (weight, bias, x) = (ramp(12 * 7), ramp(12), ramp(5 * 7));
    let context = Context::default();
    let packed =
        PackedMatrix::linear(&context, Tensor::new(&weight, [12, 7]).unwrap(), LinearPackOptions::new()).unwrap();
    assert!(packed.size() > 0);
    let apply = |add: bool| {
        let mut out = vec![1.0f32; 60];
        let (x, view) = (Tensor::new(&x, [5, 7]).unwrap(), TensorMut::new(&mut out, [5, 12]).unwrap());
        let options = LinearOptions::new().bias(&bias).activation(Activation::Relu);
        if add {
            context.linear_add(x, &packed, view, options).unwrap();
        } else {
            context.linear(x, &packed, view, options).unwrap();
        }
        out
    };
    let expected = apply(false);
    let dot = |i: usize, j: usize| (0..7).map(|k| x[i * 7 + k] * weight[j * 7 + k]).sum::<f32>() + bias[j];
    for (index, found) in expected.iter().enumerate() {
        assert!((found - dot(index / 12, index % 12).max(0.0)).abs() < 1e-5);
    }
    assert!(apply(true).iter().zip(&expected).all(|(sum, plain)| *sum == plain + 1.0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(apply(false), expected));
        }
    });
}

/// Leaves calls out, makes some twice, and panics: the results must not mind.
struct Careless(Arc<AtomicUsize>);

impl ParallelLoop for Careless {
    fn threads(&self) -> usize {
        3
    }

    fn run(&self, count: usize, piece: &(dyn Fn() + Sync)) {
        match self.0.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => {}
            1 => std::thread::scope(|scope| {
                for _ in 0..2 * count {
                    scope.spawn(piece);
                }
            }),
            _ => panic!("on purpose"),
        }
    }
}

#[test]
fn a_callers_loop_may_be_careless() {
    let x = ramp(64 * 256);
    let view = Tensor::new(&x, [4, 64, 64]).unwrap();
    let attend = |context: &Context| {
        let mut out = vec![0.0f32; 64 * 256];
        let view_mut = TensorMut::new(&mut out, [4, 64, 64]).unwrap();
        context.sdpa(view, view, view, view_mut, AttentionOptions::new()).unwrap();
        out
    };
    let calls = Arc::new(AtomicUsize::new(0));
    let context = Context::new(ContextOptions::new().parallel_for(Careless(calls.clone()))).unwrap();
    assert_eq!(context.threads(), 3);
    let expected = attend(&Context::default());
    for _ in 0..6 {
        assert_eq!(attend(&context), expected);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 6);
}

#[cfg(feature = "rayon")]
#[test]
fn rayon_runs_the_work() {
    let x = ramp(64 * 256);
    let view = Tensor::new(&x, [4, 64, 64]).unwrap();
    let context = Context::new(ContextOptions::new().rayon()).unwrap();
    let (mut here, mut there) = (vec![0.0f32; 64 * 256], vec![0.0f32; 64 * 256]);
    let out = TensorMut::new(&mut here, [4, 64, 64]).unwrap();
    Context::default().sdpa(view, view, view, out, AttentionOptions::new()).unwrap();
    let out = TensorMut::new(&mut there, [4, 64, 64]).unwrap();
    context.sdpa(view, view, view, out, AttentionOptions::new()).unwrap();
    assert_eq!(here, there);
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_of_any_strides_are_tensors() {
    use ndarray::{s, Array2, Array3};
    let x = Array3::from_shape_vec((4, 2, 8), ramp(64)).unwrap();
    let heads = x.view().permuted_axes([1, 0, 2]);
    let rows = heads.slice(s![.., ..;-1, ..]);
    let mut out = Array3::<f32>::zeros((2, 4, 8));
    Context::default().sdpa(&rows, &rows, &rows, &mut out, AttentionOptions::new()).unwrap();
    let plain = rows.as_standard_layout().into_owned();
    let mut expected = Array3::<f32>::zeros((2, 4, 8));
    Context::default().sdpa(&plain, &plain, &plain, &mut expected, AttentionOptions::new()).unwrap();
    assert_eq!(out, expected);
    let a = Array2::<f32>::eye(3);
    let mut product = Array2::<f32>::zeros((3, 3));
    Context::default().matmul(&a.t(), &a, &mut product).unwrap();
    assert_eq!(product, a);
}
