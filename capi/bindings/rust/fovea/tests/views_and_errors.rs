//! What is refused, and by whom: views that leave their slice, options and buffers that do not fit a plan.
use fovea::*;

#[test]
fn a_view_that_leaves_its_slice_is_refused() {
    let data = [0.0f32; 12];
    let status = |result: Result<Tensor<'_>>| result.map(|_| ()).map_err(|error| error.status());
    assert_eq!(status(Tensor::new(&data, [3, 4])), Ok(()));
    assert_eq!(status(Tensor::new(&data, [3, 5])), Err(Status::BadShape));
    assert_eq!(status(Tensor::new(&data, [2, 4])), Err(Status::BadShape));
    assert_eq!(status(Tensor::new(&data, [usize::MAX, 2])), Err(Status::SizeOverflow));
    assert_eq!(status(Tensor::new(&data, [1 << 32, 1 << 32, 0])), Err(Status::SizeOverflow));
    assert_eq!(status(Tensor::new(&data, [1, 1, 1, 1, 1, 3, 4])), Err(Status::BadRank));
    assert_eq!(status(Tensor::strided(&data, 0, [3, 4], [4, 1])), Ok(()));
    assert_eq!(status(Tensor::strided(&data, 1, [3, 4], [4, 1])), Err(Status::BadShape));
    assert_eq!(status(Tensor::strided(&data, 8, [3, 4], [-4, 1])), Ok(()));
    assert_eq!(status(Tensor::strided(&data, 7, [3, 4], [-4, 1])), Err(Status::BadShape));
    assert_eq!(status(Tensor::strided(&data, 0, [3, 4], [isize::MAX, 1])), Err(Status::BadShape));
    assert_eq!(status(Tensor::strided(&data, 0, [2, 2], [isize::MIN, 1])), Err(Status::BadShape));
    assert_eq!(status(Tensor::strided(&data, 0, [3, 4], [1])), Err(Status::BadStride));
    assert_eq!(status(Tensor::strided(&data, usize::MAX, [1], [1])), Err(Status::BadShape));
    assert_eq!(status(Tensor::strided(&data, 99, [0, 4], [4, 1])), Ok(()));
}

#[test]
fn strides_reach_what_they_name() {
    let x = [0.0f32, 1.0, 2.0, 3.0];
    let mut out = [0.0f32; 4];
    let rows_backwards = Tensor::strided(&x, 2, [2, 2], [-2, 1]).unwrap();
    Context::default().exp(rows_backwards, TensorMut::new(&mut out, [2, 2]).unwrap()).unwrap();
    assert_eq!([2, 3, 0, 1].map(|i| x[i].exp().round()), out.map(f32::round));
}

#[test]
fn errors_carry_the_message_of_their_own_thread() {
    let fail = |axes: usize| {
        let x = [0.0f32; 1];
        let mut out = [5.0f32; 1];
        let x = Tensor::new(&x, vec![1; axes]).unwrap();
        let error = Context::default().matmul(x, x, TensorMut::new(&mut out, vec![1; axes]).unwrap()).unwrap_err();
        assert_eq!(out, [5.0]);
        error
    };
    let here = fail(5);
    let there = std::thread::spawn(move || fail(6)).join().unwrap();
    assert_eq!((here.status(), there.status()), (Status::BadRank, Status::BadRank));
    assert!(here.to_string().contains('5') && there.to_string().contains('6'), "{here}; {there}");
}

#[test]
fn a_set_that_does_not_exist_is_refused_by_name() {
    let error = Context::new(ContextOptions::new().max_isa("nonsense")).err().unwrap();
    assert_eq!(error.status(), Status::UnknownIsa);
    assert!(error.message().contains("nonsense"));
    assert!(Context::new(ContextOptions::new().max_isa("a\0b")).is_err());
}

#[test]
fn options_set_the_flags_they_need_and_no_others() {
    let x = [1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0];
    let view = Tensor::new(&x, [1, 1, 3, 2]).unwrap();
    let attend = |options: AttentionOptions<'_>| {
        let mut out = [0.0f32; 6];
        let result =
            Context::default().sdpa(view, view, view, TensorMut::new(&mut out, [1, 1, 3, 2]).unwrap(), options);
        result.map(|()| out)
    };
    let (mut weights, mut lse) = ([7.0f32; 9], [7.0f32; 3]);
    let returned = TensorMut::new(&mut weights, [1, 1, 3, 3]).unwrap();
    let log_sum_exp = TensorMut::new(&mut lse, [1, 1, 3]).unwrap();
    attend(AttentionOptions::new().weights(returned).log_sum_exp(log_sum_exp)).unwrap();
    assert!((weights.iter().sum::<f32>() - 3.0).abs() < 1e-6 && lse.iter().all(|x| *x < 2.2));
    let average = TensorMut::new(&mut weights, [1, 3, 3]).unwrap();
    attend(AttentionOptions::new().weights(average).average_weights()).unwrap();
    // The last query alone stands far enough for two keys.
    let offset = attend(AttentionOptions::new().causal().query_offset(-1)).unwrap();
    assert_eq!((&offset[..2], &offset[2..4]), (&[0.0f32, 0.0][..], &[1.0f32, 0.0][..]));
    let windowed = attend(AttentionOptions::new().window_left(0).window_right(0)).unwrap();
    assert_eq!(windowed, x);
    let refused = attend(AttentionOptions::new().dropout(1.5)).unwrap_err();
    assert!(refused.message().contains("dropout"));
}

fn small_plan(options: AttentionOptions<'_>) -> Plan {
    let (query, key) = (Tensor::shape_only::<f32>([4, 2]).unwrap(), Tensor::shape_only::<f32>([6, 2]).unwrap());
    Context::default().sdpa_plan(&query, &key, &key, &query, options).unwrap()
}

#[test]
fn a_run_refuses_slices_that_are_too_short_missing_or_not_planned() {
    let lens = Tensor::shape_only::<i32>([1]).unwrap();
    let plan = small_plan(AttentionOptions::new().valid_lens(lens));
    let mut workspace = plan.workspace();
    let (q, k, short) = ([1.0f32; 8], [1.0f32; 12], [1.0f32; 11]);
    let mut out = [3.0f32; 8];
    let mut run = |buffers: Buffers<'_>| plan.run(buffers, &mut workspace).map_err(|error| error.status());
    assert_eq!(run(Buffers::new(&q, &k, &k, &mut out).valid_lens(&[3i32])), Ok(()));
    assert_eq!(out, [1.0; 8]);
    out = [3.0; 8];
    assert_eq!(run(Buffers::new(&q, &short, &k, &mut out).valid_lens(&[3i32])), Err(Status::BadShape));
    assert_eq!(run(Buffers::new(&q, &k, &k, &mut out[..7]).valid_lens(&[3i32])), Err(Status::BadShape));
    assert_eq!(run(Buffers::new(&q, &k, &k, &mut out).valid_lens(&[3i64])), Err(Status::BadDtype));
    assert_eq!(run(Buffers::new(&q, &k, &k, &mut out)), Err(Status::NullPointer));
    assert_eq!(run(Buffers::prepared(&q, &k, &mut out).valid_lens(&[3i32])), Err(Status::NullPointer));
    let mask = [true; 24];
    assert_eq!(run(Buffers::new(&q, &k, &k, &mut out).valid_lens(&[3i32]).mask(&mask)), Err(Status::BadValue));
    assert_eq!(out, [3.0; 8]);
}

#[test]
fn a_run_refuses_another_plans_workspace() {
    let (long, short) = (Tensor::shape_only::<f32>([512, 64]).unwrap(), small_plan(AttentionOptions::new()));
    let long = Context::default().sdpa_plan(&long, &long, &long, &long, AttentionOptions::new()).unwrap();
    assert!(long.workspace_size() > short.workspace_size());
    assert!(long.describe().starts_with("op=sdpa"));
    let (x, mut out) = (vec![0.0f32; 512 * 64], vec![0.0f32; 512 * 64]);
    let error = long.run(Buffers::new(&x, &x, &x, &mut out), &mut short.workspace()).unwrap_err();
    assert_eq!(error.status(), Status::WorkspaceTooSmall);
}

#[test]
fn planned_views_of_any_strides_are_laid_over_the_slices_of_a_run() {
    // Keys backwards: the plan knows where in the slice the first one is.
    let data: Vec<f32> = (0..12).map(|i| i as f32 / 7.0).collect();
    let query = [1.0f32, -1.0];
    let q = Tensor::new(&query, [1, 2]).unwrap();
    let backwards = Tensor::strided(&data, 10, [6, 2], [-2, 1]).unwrap();
    let (mut once, mut planned) = ([0.0f32; 2], [0.0f32; 2]);
    let context = Context::default();
    let out = TensorMut::new(&mut once, [1, 2]).unwrap();
    let plan = context.sdpa_plan(&q, &backwards, &backwards, &out, AttentionOptions::new().window_left(2)).unwrap();
    context.sdpa(q, backwards, backwards, out, AttentionOptions::new().window_left(2)).unwrap();
    plan.run(Buffers::new(&query, &data, &data, &mut planned), &mut plan.workspace()).unwrap();
    assert_eq!(once, planned);
    assert!(once[0] != 0.0);
}
