//! Planned multi-head attention: the bits of the call.
use fovea::*;

const EMBED: usize = 12;
const H: usize = 2;
const D: usize = 4;
const TOKENS: usize = 6;

fn ramp(count: usize, from: usize) -> Vec<f32> {
    (from..from + count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect()
}

fn layer(context: &Context) -> MhaWeights {
    let (project, back) = (ramp(3 * H * D * EMBED, 1), ramp(EMBED * H * D, 5));
    let parameters = MhaParameters::new().heads(H as i64);
    let parameters = parameters.in_weight(Tensor::new(&project, [3 * H * D, EMBED]).unwrap());
    MhaWeights::new(context, &parameters.out_weight(Tensor::new(&back, [EMBED, H * D]).unwrap())).unwrap()
}

fn options<'a>(lens: &'a [i64; 2], frequencies: &'a [f32]) -> MhaOptions<'a> {
    let attention = AttentionOptions::new().causal().valid_lens(lens);
    MhaOptions::new().attention(attention).rotary(RotaryOptions::new().frequencies(frequencies))
}

#[test]
fn a_plan_gives_what_the_call_gives() {
    let context = Context::default();
    let (x, lens) = (ramp(2 * 5 * EMBED, 3), [3i64, 5]);
    let shape = [2, 5, EMBED];
    let mut frequencies = vec![1.0f32, 0.5];
    let mut wanted = vec![0.0f32; x.len()];
    let weights = layer(&context);
    let (rows, given) = (Tensor::new(&x, shape).unwrap(), options(&lens, &frequencies));
    let out = TensorMut::new(&mut wanted, shape).unwrap();
    context.multi_head_attention(&weights, rows, None, None, out, given).unwrap();

    let like = Tensor::shape_only::<f32>(shape).unwrap();
    let given = options(&[0; 2], &frequencies);
    let plan = context.mha_plan(&weights, &like, None, None, &like, given).unwrap();
    frequencies.fill(0.0); // copied, as the weights are kept
    drop(weights);
    let mut workspace = Workspace::new();
    for _ in 0..2 {
        let mut out = vec![0.0f32; x.len()];
        let buffers = MhaBuffers::new(&x, &mut out).attention(Buffers::default().valid_lens(&lens));
        plan.run(buffers, &mut workspace).unwrap();
        assert_eq!(out, wanted);
    }
    assert!(plan.workspace_size(None) > 0);

    let mut out = vec![0.0f32; x.len()];
    let mut refuse = |buffers: MhaBuffers<'_>, status, words: &str| {
        let error = plan.run(buffers, &mut workspace).err().unwrap();
        assert_eq!(error.status(), status);
        assert!(error.message().contains(words), "{}", error.message());
    };
    refuse(MhaBuffers::new(&x[1..], &mut out), Status::BadShape, "buffers.query has 119 elements, the plan needs 120");
    refuse(MhaBuffers::new(&lens, &mut out), Status::BadDtype, "buffers.query has elements of type");
    refuse(MhaBuffers::new(&x, &mut out).key(&x), Status::BadValue, "buffers.key was not planned");
    refuse(MhaBuffers::new(&x, &mut out), Status::NullPointer, "valid_lens");
    assert!(out.iter().all(|x| *x == 0.0));
    let wrong = Tensor::shape_only::<f32>([2, 5, EMBED + 1]).unwrap();
    let refused = context.mha_plan(&layer(&context), &wrong, None, None, &like, MhaOptions::new());
    assert_eq!(refused.err().unwrap().status(), Status::BadShape);
}

fn sized_pool() -> KvPool {
    let sizes = KvPoolSizes::new().layers(1).kv_heads(H as i64).head_dim(D as i64);
    KvPool::new(&sizes.positions(64).page_size(4).sequences(2)).unwrap()
}

fn schedule(context: &Context, pool: &KvPool) -> Schedule {
    let rows = Tensor::shape_only::<f32>([TOKENS, H, D]).unwrap();
    let (keys, values) = (pool.keys(0).unwrap(), pool.values(0).unwrap());
    let (options, limits) = (AttentionOptions::new().causal(), ScheduleLimits::new().sequences(2));
    Schedule::new(context, &Score::dot(), &rows, &keys, &values, &rows, options, limits).unwrap()
}

#[test]
fn over_a_schedule_s_steps() {
    let context = Context::default();
    let (mut pool, mut other) = (sized_pool(), sized_pool());
    let (mut planned, mut called) = (schedule(&context, &pool), schedule(&context, &other));
    let weights = layer(&context);
    let like = Tensor::shape_only::<f32>([TOKENS, EMBED]).unwrap();
    let options = MhaOptions::new().rotary(RotaryOptions::new()).schedule(&planned).pages(pool.pages(0).unwrap());
    let plan = context.mha_plan(&weights, &like, None, None, &like, options).unwrap();
    let (first, second) =
        ([pool.open().unwrap(), pool.open().unwrap()], [other.open().unwrap(), other.open().unwrap()]);
    let mut workspace = Workspace::new();
    for (step, tokens) in [[4, 2], [1, 1], [0, 3], [0, 0]].iter().enumerate() {
        planned.set(&pool.step(&context, &[(&first[0], tokens[0]), (&first[1], tokens[1])]).unwrap()).unwrap();
        called.set(&other.step(&context, &[(&second[0], tokens[0]), (&second[1], tokens[1])]).unwrap()).unwrap();
        let (x, count) = (ramp(TOKENS * EMBED, step), tokens[0] + tokens[1]);
        let (mut out, mut wanted) = (vec![0.0f32; x.len()], vec![0.0f32; x.len()]);
        let options = MhaOptions::new().rotary(RotaryOptions::new()).schedule(&called).pages(other.pages(0).unwrap());
        let rows = Tensor::new(&x[..count * EMBED], [count, EMBED]).unwrap();
        let to = TensorMut::new(&mut wanted[..count * EMBED], [count, EMBED]).unwrap();
        context.multi_head_attention(&weights, rows, None, None, to, options).unwrap();
        let buffers = MhaBuffers::new(&x, &mut out).schedule(&planned, Some(pool.pages(0).unwrap()));
        plan.run(buffers, &mut workspace).unwrap();
        assert_eq!(out, wanted);
    }
    let (x, mut out) = (ramp(TOKENS * EMBED, 1), vec![0.0f32; TOKENS * EMBED]);
    let refused = plan.run(MhaBuffers::new(&x, &mut out), &mut workspace).err().unwrap();
    assert_eq!(refused.message(), "buffers.schedule is missing, and was planned with");
    let buffers = MhaBuffers::new(&x, &mut out).schedule(&planned, None);
    let refused = plan.run(buffers, &mut workspace).err().unwrap();
    assert_eq!(refused.message(), "buffers.key_pages is missing, and was planned with");
    let buffers = MhaBuffers::new(&x, &mut out).schedule(&called, Some(pool.pages(0).unwrap()));
    assert_eq!(plan.run(buffers, &mut workspace).err().unwrap().status(), Status::BadValue);
    assert_eq!((plan.workspace_size(None), plan.workspace_size(Some(&called))), (0, 0));
    assert!(plan.workspace_size(Some(&planned)) > 0);
    drop(planned); // the plan keeps what is below
    drop(plan);
}

#[test]
fn latent_attention_appends_keys_alone() {
    let context = Context::default();
    let (rows, query) = (ramp(3 * D, 1), ramp(3 * H * D, 9));
    let mut pages = vec![0.0f32; 2 * 2 * D];
    let shape = [2, 1, 2, D];
    let steps = [2 * D as isize, 2 * D as isize, D as isize, 1];
    let many = Tensor::shape_only::<f32>([3, H, D]).unwrap();
    let to = Tensor::shape_only::<f32>([3, H, 2]).unwrap();
    let mut schedule = {
        let values = Tensor::strided(&pages, 0, [2, 1, 2, 2], steps).unwrap();
        let (keys, limits) = (Tensor::new(&pages, shape).unwrap(), ScheduleLimits::new().sequences(1));
        let options = AttentionOptions::new().causal();
        Schedule::new(&context, &Score::dot(), &many, &keys, &values, &to, options, limits).unwrap()
    };
    let (starts, lens, ids) = ([0i32, 3], [3i32], [1i32, 0]);
    let step = Step::new().query_starts(&starts).key_lens(&lens).page_ids(Tensor::new(&ids, [1, 2]).unwrap());
    schedule.set(&step).unwrap();
    let (key, to) = (Tensor::new(&rows, [3, 1, D]).unwrap(), TensorMut::new(&mut pages, shape).unwrap());
    schedule.append_keys(key, to, AppendOptions::new()).unwrap();
    assert_eq!((&pages[2 * D..], &pages[..D]), (&rows[..2 * D], &rows[2 * D..]));
    let mut out = vec![0.0f32; 3 * H * 2];
    schedule.run(Buffers::new(&query, &pages, &pages, &mut out), &mut Workspace::new()).unwrap();
    assert_eq!(out[..2], rows[..2]); // the first token attends itself
}
