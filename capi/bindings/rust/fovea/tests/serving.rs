//! Schedules and pools: what sequences get in steps is what each of them gets alone.
use fovea::*;

const H: usize = 2;
const D: usize = 8;
const ROW: usize = H * D;

fn ramp(count: usize, from: usize) -> Vec<f32> {
    (from..from + count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect()
}

fn sizes() -> KvPoolSizes {
    let sizes = KvPoolSizes::new().layers(1).kv_heads(H as i64).head_dim(D as i64);
    sizes.positions(64).page_size(4).sequences(4)
}

fn schedule(context: &Context, pool: &KvPool, limits: ScheduleLimits) -> Schedule {
    let rows = Tensor::shape_only::<f32>([32, H, D]).unwrap();
    let (keys, values) = (pool.keys(0).unwrap(), pool.values(0).unwrap());
    let options = AttentionOptions::new().causal();
    Schedule::new(context, &Score::dot(), &rows, &keys, &values, &rows, options, limits.sequences(4)).unwrap()
}

/// A text of so many tokens: a query, key and value for each.
struct Text {
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
}

impl Text {
    fn new(tokens: usize, from: usize) -> Self {
        Text { query: ramp(tokens * ROW, from), key: ramp(tokens * ROW, from + 3), value: ramp(tokens * ROW, from + 7) }
    }

    /// Causal attention over the whole of it.
    fn attend(&self, context: &Context) -> Vec<f32> {
        let tokens = self.query.len() / ROW;
        let heads = |x| Tensor::strided(x, 0, [1, H, tokens, D], [0, D as isize, ROW as isize, 1]).unwrap();
        let mut out = vec![0.0f32; tokens * ROW];
        let view = [0, D as isize, ROW as isize, 1];
        let view = TensorMut::strided(&mut out, 0, [1, H, tokens, D], view).unwrap();
        let options = AttentionOptions::new().causal();
        context.sdpa(heads(&self.query), heads(&self.key), heads(&self.value), view, options).unwrap();
        out
    }
}

fn near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} for {expected}");
    }
}

/// Appends the tokens of a step, texts' ranges one behind the other, and attends.
fn step(schedule: &Schedule, pool: &mut KvPool, parts: &[(&Text, std::ops::Range<usize>)]) -> Vec<f32> {
    let rows = |of: fn(&Text) -> &Vec<f32>| -> Vec<f32> {
        let part =
            |(text, range): &(&Text, std::ops::Range<usize>)| of(text)[range.start * ROW..range.end * ROW].to_vec();
        let mut all: Vec<f32> = parts.iter().flat_map(part).collect();
        all.resize(32 * ROW, 0.0);
        all
    };
    let (query, key, value) = (rows(|text| &text.query), rows(|text| &text.key), rows(|text| &text.value));
    let view = |x| Tensor::new(x, [32, H, D]).unwrap();
    schedule.append(view(&key), view(&value), pool.pages(0).unwrap(), AppendOptions::new()).unwrap();
    let mut out = vec![0.0f32; 32 * ROW];
    let buffers = Buffers::new(&query, pool.keys(0).unwrap(), pool.values(0).unwrap(), &mut out);
    schedule.run(buffers, &mut Workspace::new()).unwrap();
    out
}

#[test]
fn sequences_get_in_steps_what_they_get_alone() {
    let context = Context::default();
    let mut pool = KvPool::new(&sizes()).unwrap();
    let mut schedule = schedule(&context, &pool, ScheduleLimits::new());
    let (one, two) = (Text::new(9, 1), Text::new(6, 50));
    let (all_one, all_two) = (one.attend(&context), two.attend(&context));
    let (first, second) = (pool.open().unwrap(), pool.open().unwrap());

    schedule.set(&pool.step(&context, &[(&first, 5)]).unwrap()).unwrap();
    assert_eq!((first.len(), schedule.positions()), (5, &[0, 1, 2, 3, 4][..]));
    near(&step(&schedule, &mut pool, &[(&one, 0..5)])[..5 * ROW], &all_one[..5 * ROW]);

    schedule.set(&pool.step(&context, &[(&second, 6), (&first, 4)]).unwrap()).unwrap();
    assert_eq!(schedule.positions(), [0, 1, 2, 3, 4, 5, 5, 6, 7, 8]);
    let out = step(&schedule, &mut pool, &[(&two, 0..6), (&one, 5..9)]);
    near(&out[..6 * ROW], &all_two);
    near(&out[6 * ROW..10 * ROW], &all_one[5 * ROW..]);
    assert!(schedule.describe().contains("op=ragged") && schedule.describe().contains("sequences=2"));

    // A step is a copy: sequences may change before a schedule is set to it.
    let third = pool.open().unwrap();
    let described = pool.step(&context, &[(&third, 3)]).unwrap();
    (third.truncate(0).unwrap(), drop(first.fork(9).unwrap()));
    schedule.set(&described).unwrap();
    assert_eq!((schedule.positions(), third.len()), (&[0, 1, 2][..], 0));
    drop(third);

    // A beginning is shared, and goes on by itself.
    let (free, forked) = (pool.free_pages(), first.fork(5).unwrap());
    assert_eq!((forked.len(), pool.free_pages()), (5, free));
    first.truncate(2).unwrap();
    schedule.set(&pool.step(&context, &[(&forked, 4)]).unwrap()).unwrap();
    near(&step(&schedule, &mut pool, &[(&one, 5..9)])[..4 * ROW], &all_one[5 * ROW..]);
    assert_eq!((first.len(), forked.len()), (2, 9));
}

#[test]
fn sequences_are_saved_dropped_and_closed() {
    let context = Context::default();
    let mut pool = KvPool::new(&sizes()).unwrap();
    let mut schedule = schedule(&context, &pool, ScheduleLimits::new());
    let text = Text::new(9, 1);
    let sequence = pool.open().unwrap();
    schedule.set(&pool.step(&context, &[(&sequence, 8)]).unwrap()).unwrap();
    step(&schedule, &mut pool, &[(&text, 0..8)]);

    let saved = pool.save(&sequence).unwrap();
    let restored = pool.restore(&saved).unwrap();
    assert_eq!((restored.len(), pool.free_pages(), pool.size() > 0), (8, 12, true));
    schedule.set(&pool.step(&context, &[(&restored, 1)]).unwrap()).unwrap();
    near(&step(&schedule, &mut pool, &[(&text, 8..9)])[..ROW], &text.attend(&context)[8 * ROW..]);
    assert_eq!(pool.restore(&saved[..20]).err().unwrap().status(), Status::BadValue);

    sequence.drop_front(5).unwrap();
    assert_eq!((sequence.len(), pool.free_pages()), (8, 12));
    assert_eq!(sequence.truncate(3).unwrap_err().status(), Status::BadValue); // those are gone
    drop(restored);
    assert_eq!(pool.free_pages(), 15);
    let other = KvPool::new(&sizes()).unwrap();
    assert!(other.save(&sequence).unwrap_err().message().contains("another pool"));
    drop(pool); // the sequence keeps it
    assert_eq!(sequence.fork(8).unwrap().len(), 8);
}

#[test]
fn what_there_is_no_room_for_changes_nothing() {
    let context = Context::default();
    let mut pool = KvPool::new(&sizes()).unwrap();
    let mut schedule = schedule(&context, &pool, ScheduleLimits::new());
    let sequence = pool.open().unwrap();
    let error = pool.step(&context, &[(&sequence, 65)]).err().unwrap();
    assert_eq!((error.status(), sequence.len(), pool.free_pages()), (Status::PoolExhausted, 0, 16));
    assert!(error.message().contains("17"), "{error}");
    let _others: Vec<Sequence> = (0..3).map(|_| pool.open().unwrap()).collect();
    assert_eq!(pool.open().err().unwrap().status(), Status::PoolExhausted);
    assert_eq!(pool.keys(1).err().unwrap().status(), Status::BadValue);
    assert!(pool.key_scales(0).is_none());
    schedule.set(&pool.step(&context, &[(&sequence, 2)]).unwrap()).unwrap();
    let (starts, lens, ids) = ([0i32, 2], [2i32], [16i32]); // a page that there is not
    let own = Step::new().query_starts(&starts).key_lens(&lens).page_ids(Tensor::new(&ids, [1, 1]).unwrap());
    assert_eq!(schedule.set(&own).unwrap_err().status(), Status::BadValue);
    assert_eq!(schedule.positions(), [0, 1]); // as before
    let short = [0.0f32; 5];
    let mut out = vec![0.0f32; 32 * ROW];
    let buffers = Buffers::new(&short, pool.keys(0).unwrap(), pool.values(0).unwrap(), &mut out);
    assert_eq!(schedule.run(buffers, &mut Workspace::new()).unwrap_err().status(), Status::BadShape);
}

#[test]
fn own_threads_share_a_run() {
    let context = Context::default();
    let sizes = sizes().positions(4096).page_size(64);
    let mut pool = KvPool::new(&sizes).unwrap();
    let mut schedule = schedule(&context, &pool, ScheduleLimits::new().workers(2));
    let sequence = pool.open().unwrap();
    let text = Text::new(2048 + 32, 1);
    for from in (0..2048).step_by(32) {
        schedule.set(&pool.step(&context, &[(&sequence, 32)]).unwrap()).unwrap();
        step(&schedule, &mut pool, &[(&text, from..from + 32)]);
    }
    schedule.set(&pool.step(&context, &[(&sequence, 1)]).unwrap()).unwrap();
    let expected = step(&schedule, &mut pool, &[(&text, 2048..2049)]);

    let (mut found, mut workspace) = (vec![0.0f32; 32 * ROW], Workspace::new());
    let query = &text.query[2048 * ROW..];
    let buffers = Buffers::new(query, pool.keys(0).unwrap(), pool.values(0).unwrap(), &mut found);
    let run = schedule.shared_run(buffers, &mut workspace).unwrap();
    // The last phase merges what the one before it has left of parts of the keys.
    let last = schedule.phases() - 1;
    assert!(schedule.tasks(last - 1) > 1 && schedule.tasks(last) > 0, "{}", schedule.describe());
    let refused = |phase, tasks, worker, why: &str| {
        let error = run.run_tasks(phase, tasks, worker).unwrap_err();
        assert_eq!((error.status(), error.message()), (Status::BadValue, why));
    };
    refused(last, 0..1, 0, &format!("phase {} is not done", last - 1));
    refused(0, 0..0, 2, "worker 2 of 2");
    refused(9, 0..1, 0, &format!("phase 9 of {}", last + 1));
    refused(last - 1, 1..99, 0, &format!("tasks 1..99 of {}", schedule.tasks(last - 1)));
    for phase in 0..schedule.phases() {
        let (tasks, run) = (schedule.tasks(phase), &run);
        std::thread::scope(|scope| {
            for worker in 0..2 {
                scope.spawn(move || {
                    (worker..tasks).step_by(2).for_each(|task| run.run_tasks(phase, task..task + 1, worker).unwrap())
                });
            }
        });
    }
    refused(last, 0..1, 0, "task 0 was begun before");
    drop(run);
    assert_eq!(found, expected);
}

#[test]
fn layers_take_a_schedule_and_pages() {
    let context = Context::default();
    let mut pool = KvPool::new(&sizes()).unwrap();
    let mut schedule = schedule(&context, &pool, ScheduleLimits::new());
    let (weights, x) = (ramp(4 * ROW * ROW, 0), ramp(32 * ROW, 9));
    let weight = |i: usize| Tensor::new(&weights[i * ROW * ROW..][..ROW * ROW], [ROW, ROW]).unwrap();
    let parameters = MhaParameters::new().heads(H as i64).query_weight(weight(0)).key_weight(weight(1));
    let layer = MhaWeights::new(&context, &parameters.value_weight(weight(2)).out_weight(weight(3))).unwrap();
    let mut alone = vec![0.0f32; 5 * ROW];
    let attention = AttentionOptions::new().causal();
    let options = MhaOptions::new().attention(attention).rotary(RotaryOptions::new());
    let out = TensorMut::new(&mut alone, [5, ROW]).unwrap();
    layer_call(&context, &layer, &x[..5 * ROW], 5, out, options);

    let sequence = pool.open().unwrap();
    let mut found = vec![0.0f32; 5 * ROW];
    for (from, to) in [(0, 3), (3, 5)] {
        schedule.set(&pool.step(&context, &[(&sequence, to - from)]).unwrap()).unwrap();
        let options = MhaOptions::new().rotary(RotaryOptions::new()).schedule(&schedule).pages(pool.pages(0).unwrap());
        let out = TensorMut::new(&mut found[from * ROW..to * ROW], [to - from, ROW]).unwrap();
        layer_call(&context, &layer, &x[from * ROW..to * ROW], to - from, out, options);
    }
    near(&found, &alone);
}

fn layer_call(
    context: &Context,
    layer: &MhaWeights,
    x: &[f32],
    rows: usize,
    out: TensorMut<'_>,
    options: MhaOptions<'_>,
) {
    let x = Tensor::new(x, [rows, ROW]).unwrap();
    context.multi_head_attention(layer, x, None, None, out, options).unwrap();
}

#[test]
fn a_pool_is_changed_by_one_call_alone() {
    let context = Context::default();
    let mut pool = KvPool::new(&sizes()).unwrap();
    let prompt = pool.open().unwrap();
    pool.step(&context, &[(&prompt, 6)]).unwrap();
    let in_use = |error: &Error| assert_eq!(error.message(), "the pool is in use by another call");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..300 {
                    match prompt.fork(6) {
                        Ok(forked) => drop(forked.truncate(4).map_err(|error| in_use(&error))),
                        Err(error) => in_use(&error),
                    }
                }
            });
        }
    });
    drop(prompt);
    pool.open().unwrap(); // closes what is left
    assert_eq!(pool.free_pages(), 16);
}

#[cfg(feature = "half")]
#[test]
fn what_is_quantized_reads_back() {
    use half::f16;
    let context = Context::default();
    let x = ramp(4 * 32, 5);
    let (mut bytes, mut scales, mut back) = ([0i8; 128], [f16::ZERO; 8], [0.0f32; 128]);
    let q = TensorMut::new(&mut bytes, [4, 32]).unwrap();
    let s = TensorMut::new(&mut scales, [4, 2]).unwrap();
    context.quantize(Tensor::new(&x, [4, 32]).unwrap(), q, s).unwrap();
    let (q, s) = (Tensor::new(&bytes, [4, 32]).unwrap(), Tensor::new(&scales, [4, 2]).unwrap());
    context.dequantize(q, s, TensorMut::new(&mut back, [4, 32]).unwrap()).unwrap();
    assert!(x.iter().zip(&back).all(|(x, back)| (x - back).abs() <= 0.51 / 127.0 && back.abs() <= 1.001));
    assert_ne!(back, [0.0; 128]);
}

#[cfg(feature = "half")]
#[test]
fn four_bits_read_back() {
    use half::f16;
    let context = Context::default();
    let x = ramp(4 * 64, 5);
    let (mut bytes, mut scales, mut back) = ([FourBits(0); 128], [f16::ZERO; 16], [0.0f32; 256]);
    let q = TensorMut::new(&mut bytes, [4, 32]).unwrap();
    let s = TensorMut::new(&mut scales, [4, 4]).unwrap();
    context.quantize(Tensor::new(&x, [4, 64]).unwrap(), q, s).unwrap();
    let (q, s) = (Tensor::new(&bytes, [4, 32]).unwrap(), Tensor::new(&scales, [4, 4]).unwrap());
    context.dequantize(q, s, TensorMut::new(&mut back, [4, 64]).unwrap()).unwrap();
    assert!(x.iter().zip(&back).all(|(x, back)| (x - back).abs() <= 2.1 / 30.0));
    let (mut found, mut expected) = (vec![0.0f32; 256], vec![0.0f32; 256]);
    let rows = Tensor::new(&x, [4, 64]).unwrap();
    let options = AttentionOptions::new().value_scales(s);
    context.sdpa(rows, rows, q, TensorMut::new(&mut found, [4, 64]).unwrap(), options).unwrap();
    let values = Tensor::new(&back, [4, 64]).unwrap();
    context.sdpa(rows, rows, values, TensorMut::new(&mut expected, [4, 64]).unwrap(), AttentionOptions::new()).unwrap();
    assert_eq!(found, expected);
}

#[test]
fn pools_of_8_bits_have_scales() {
    check_scaled_pool(Dtype::I8, 16, [2, H as i64, 4, 2], 0.02);
}

#[test]
fn pools_of_4_bits_have_scales() {
    check_scaled_pool(Dtype::U8, 32, [2, H as i64, 4, 2], 0.15);
}

// Keys of 8 bits, and values of a type.
fn check_scaled_pool(values_dtype: Dtype, group: i64, value_scales: [i64; 4], off: f32) {
    let context = Context::default();
    let sizes = KvPoolSizes::new().layers(1).kv_heads(H as i64).head_dim(32).positions(8).page_size(4).sequences(1);
    let sizes = sizes.key_dtype(Dtype::I8).value_dtype(values_dtype).scale_group(group);
    let mut pool = KvPool::new(&sizes).unwrap();
    assert_eq!(pool.key_scales(0).unwrap().shape(), [2, H as i64, 4, 32 / group]);
    assert_eq!(pool.value_scales(0).unwrap().shape(), value_scales);
    let rows = Tensor::shape_only::<f32>([5, H, 32]).unwrap();
    let options = AttentionOptions::new().key_scales(pool.key_scales(0).unwrap());
    let options = options.value_scales(pool.value_scales(0).unwrap());
    let limits = ScheduleLimits::new().sequences(1);
    let (keys, values) = (pool.keys(0).unwrap(), pool.values(0).unwrap());
    let mut schedule = Schedule::new(&context, &Score::dot(), &rows, &keys, &values, &rows, options, limits).unwrap();
    let sequence = pool.open().unwrap();
    schedule.set(&pool.step(&context, &[(&sequence, 5)]).unwrap()).unwrap();

    let (query, key, value) = (ramp(5 * H * 32, 1), ramp(5 * H * 32, 2), ramp(5 * H * 32, 3));
    let view = |x| Tensor::new(x, [5, H, 32]).unwrap();
    schedule.append(view(&key), view(&value), pool.pages(0).unwrap(), AppendOptions::new()).unwrap();
    let (mut found, mut expected) = (vec![0.0f32; 5 * H * 32], vec![0.0f32; 5 * H * 32]);
    let buffers = Buffers::new(&query, pool.keys(0).unwrap(), pool.values(0).unwrap(), &mut found);
    let buffers = buffers.key_scales(pool.key_scales(0).unwrap()).value_scales(pool.value_scales(0).unwrap());
    schedule.run(buffers, &mut Workspace::new()).unwrap();

    let strides = [0, 32, H as isize * 32, 1];
    let heads = |x| Tensor::strided(x, 0, [1, H, 5, 32], strides).unwrap();
    let out = TensorMut::strided(&mut expected, 0, [1, H, 5, 32], strides).unwrap();
    context.sdpa(heads(&query), heads(&key), heads(&value), out, AttentionOptions::new()).unwrap();
    assert!(found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < off));
}
