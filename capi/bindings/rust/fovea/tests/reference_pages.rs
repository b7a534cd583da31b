//! The examples of the reference pages (docs/reference). A page shows what stands between [name] and [end].
use fovea::*;

// [attention]
const QUERY: [f32; 4] = [3.0, 0.0, 0.0, 3.0];
const KEY: [f32; 6] = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
const VALUE: [f32; 6] = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
// [end]

fn near(found: f32, expected: f32) -> bool {
    (found - expected).abs() < 1e-3
}

#[test]
fn attending() -> Result<()> {
    // [attention]
    let (context, mut out) = (Context::default(), [0.0f32; 4]);
    let (q, k, v) = (Tensor::new(&QUERY, [2, 2])?, Tensor::new(&KEY, [3, 2])?, Tensor::new(&VALUE, [3, 2])?);
    context.sdpa(q, k, v, TensorMut::new(&mut out, [2, 2])?, AttentionOptions::new().causal())?;
    context.sdpa(q, k, v, TensorMut::new(&mut out, [2, 2])?, AttentionOptions::new())?; // [30.00, 40.00, 38.30, 48.30]
                                                                                        // [end]
    assert!(near(out[2], 38.3036));
    // [score]
    let (identity, ones) = ([1.0f32, 0.0, 0.0, 1.0], [1.0f32, 1.0]);
    let score = Score::additive(Tensor::new(&identity, [2, 2])?, Tensor::new(&identity, [2, 2])?, &ones);
    context.attention(&score, q, k, v, TensorMut::new(&mut out, [2, 2])?, AttentionOptions::new())?;
    // [end]
    assert!(out[0] > 10.0 && out[0] < 50.0);
    // [gradients]
    let (mut lse, mut grad_query, ones) = ([0.0f32; 2], [0.0f32; 4], [1.0f32; 4]);
    let options = AttentionOptions::new().log_sum_exp(&mut lse);
    context.attention(&score, q, k, v, TensorMut::new(&mut out, [2, 2])?, options)?;
    let wanted =
        AttentionGradients::new().out(Tensor::new(&ones, [2, 2])?).query(TensorMut::new(&mut grad_query, [2, 2])?);
    let options = AttentionOptions::new().log_sum_exp(&mut lse);
    context.attention_backward(&score, q, k, v, Tensor::new(&out, [2, 2])?, options, wanted)?;
    // [end]
    assert!(grad_query.iter().all(|x| x.is_finite()));
    // [prepared_keys]
    let sizes = PreparedKeysSizes::new().batch(1).kv_heads(1).capacity(8).query_dim(2).key_dim(2);
    let keys = PreparedKeys::new(&context, &score, sizes)?;
    keys.append(&context, k)?; // projected once
    context.attention_prepared(q, &keys, v, TensorMut::new(&mut out, [2, 2])?, AttentionOptions::new())?;
    // [end]
    assert_eq!(keys.len(), 3);
    // [kv_pool]
    let sizes = KvPoolSizes::new().layers(1).kv_heads(1).head_dim(2).positions(64).sequences(4);
    let mut pool = KvPool::new(&sizes.page_size(16))?;
    let prompt = pool.open()?;
    pool.step(&context, &[(&prompt, 3)])?; // room for 3 tokens; what a schedule is set to
    let answer = prompt.fork(3)?; // shares what it begins with
    prompt.truncate(1)?;
    // [end]
    assert_eq!((prompt.len(), answer.len()), (1, 3));
    // [schedule]
    let rows = Tensor::shape_only::<f32>([8, 1, 2])?; // up to 8 tokens a step
    let (keys, values, limits) = (pool.keys(0)?, pool.values(0)?, ScheduleLimits::new().sequences(4));
    let causal = AttentionOptions::new().causal();
    let mut schedule = Schedule::new(&context, &Score::dot(), &rows, &keys, &values, &rows, causal, limits)?;

    let sequence = pool.open()?;
    schedule.set(&pool.step(&context, &[(&sequence, 3)])?)?; // once a step
    let (key, value) = (Tensor::new(&KEY, [3, 1, 2])?, Tensor::new(&VALUE, [3, 1, 2])?);
    schedule.append(key, value, pool.pages(0)?, AppendOptions::new())?; // once a layer
    let (query, mut rows) = ([0.0f32; 16], [0.0f32; 16]);
    schedule.run(Buffers::new(&query, pool.keys(0)?, pool.values(0)?, &mut rows), &mut Workspace::new())?;
    // [end]
    assert!(near(rows[0], 10.0) && near(rows[4], 30.0));
    // [context]
    let one = Context::new(ContextOptions::new().max_threads(1).max_isa("base"))?;
    one.sdpa(q, k, v, TensorMut::new(&mut out, [2, 2])?, AttentionOptions::new())?;
    // [end]
    assert_eq!(one.threads(), 1);
    // [status]
    if let Err(error) = context.sdpa(q, k, q, TensorMut::new(&mut out, [2, 2])?, AttentionOptions::new()) {
        println!("{}: {}", error.status().name(), error.message());
    }
    // [end]
    Ok(())
}

#[test]
fn planning() -> Result<()> {
    let mut out = [0.0f32; 4];
    let context = Context::default();
    // [plan]
    let view = TensorMut::new(&mut out, [2, 2])?;
    let (q, k, v) = (Tensor::new(&QUERY, [2, 2])?, Tensor::new(&KEY, [3, 2])?, Tensor::new(&VALUE, [3, 2])?);
    let plan = context.sdpa_plan(&q, &k, &v, &view, AttentionOptions::new())?;
    let mut workspace = plan.workspace();
    plan.run(Buffers::new(&QUERY, &KEY, &VALUE, &mut out), &mut workspace)?;
    // [end]
    assert!(near(out[2], 38.3036));
    Ok(())
}

#[test]
fn reducing() -> Result<()> {
    let (context, mut out) = (Context::default(), [0.0f32; 4]);
    // [kernel_regression]
    let (at, inputs, targets, mut y) = ([1.5f32], [0.0f32, 1.0, 2.0], [0.0f32, 1.0, 4.0], [0.0f32]);
    context.kernel_regression(&at, &inputs, &targets, &mut y, KernelRegressionOptions::new().sigma(0.3))?;
    // [end]
    assert!((y[0] - 2.5).abs() < 0.02);
    // [merge_states]
    let (outs, lses) = ([0.0f32; 8], [0.0f32; 4]); // of two parts of the keys, as log_sum_exp returns them
    let (parts, sums) = (Tensor::new(&outs, [2, 2, 2])?, Tensor::new(&lses, [2, 2])?);
    context.merge_states(parts, sums, TensorMut::new(&mut out, [2, 2])?, None)?;
    // [end]
    assert_eq!(out[0], 0.0);
    // [masked_softmax]
    let (mut x, lens) = ([0.0f32; 8], [1i64, 2]);
    let lens = Tensor::new(&lens, [1, 2])?;
    context.masked_softmax_in_place(TensorMut::new(&mut x, [1, 2, 4])?, Some(lens), MaskedSoftmaxOptions::new())?;
    // [end]
    assert_eq!(x, [1.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0]);
    // [elementwise]
    context.tanh(&QUERY, &mut out)?;
    context.exp_in_place(&mut out)?;
    // [end]
    assert_eq!(out[1], 1.0);
    Ok(())
}

#[test]
fn layers() -> Result<()> {
    let (context, mut out) = (Context::default(), [0.0f32; 4]);
    // [matmul]
    let packed = PackedMatrix::new(&context, Tensor::new(&VALUE, [3, 2])?, MatmulPackOptions::new())?;
    let transposed = Tensor::strided(&KEY, 0, [2, 3], [1, 2])?;
    context.matmul_packed(transposed, &packed, TensorMut::new(&mut out, [2, 2])?)?;
    // [end]
    assert_eq!(out, [60.0, 80.0, 80.0, 100.0]);
    // [linear]
    let (x, bias) = (Tensor::new(&QUERY, [2, 2])?, [0.0f32, -1.0]);
    let weight = PackedMatrix::linear(&context, x, LinearPackOptions::new())?; // as torch.nn.Linear has it
    let options = LinearOptions::new().activation(Activation::Relu).bias(&bias);
    context.linear(x, &weight, TensorMut::new(&mut out, [2, 2])?, options)?;
    // [end]
    assert_eq!(out, [9.0, 0.0, 0.0, 8.0]);
    // [layer_norm]
    context.layer_norm(x, TensorMut::new(&mut out, [2, 2])?, LayerNormOptions::new().epsilon(1e-5).residual(x))?;
    // [end]
    assert!(near(out[0], 1.0) && near(out[1], -1.0));
    // [rms_norm]
    let mut sums = [0.0f32; 4];
    let options = RmsNormOptions::new().residual(x).sum(TensorMut::new(&mut sums, [2, 2])?);
    context.rms_norm(x, TensorMut::new(&mut out, [2, 2])?, options)?; // of x + x, which is in sums then
                                                                      // [end]
    assert!(near(out[0], 1.41421) && sums[0] == 6.0);
    // [softmax]
    context.softmax(x, 0, TensorMut::new(&mut out, [2, 2])?)?; // down the columns
    context.log_softmax(x, -1, TensorMut::new(&mut out, [2, 2])?)?; // along the rows
                                                                    // [end]
    assert!(near(out[1], -3.04859));
    // [activation]
    context.activation(Activation::Silu, &QUERY, &mut out)?;
    // [end]
    assert!(near(out[0], 2.85772));
    // [gemm]
    let options = GemmOptions::new().alpha(0.5).beta(-1.0).c(x);
    context.gemm(x, x, TensorMut::new(&mut out, [2, 2])?, options)?; // x x / 2 - x
                                                                     // [end]
    assert_eq!(out, [1.5, 0.0, 0.0, 1.5]);
    // [multi_head_attention]
    let identity = [1.0f32, 0.0, 0.0, 1.0];
    let w = Tensor::new(&identity, [2, 2])?;
    let parameters = MhaParameters::new().heads(2).query_weight(w).key_weight(w).value_weight(w).out_weight(w);
    let (weights, mut projected) = (MhaWeights::new(&context, &parameters)?, [0.0f32; 6]);
    let (x, y) = (Tensor::new(&KEY, [3, 2])?, TensorMut::new(&mut projected, [3, 2])?);
    context.multi_head_attention(&weights, x, None, None, y, MhaOptions::new())?; // self-attention
                                                                                  // [end]
    assert!(projected[0] > 0.0 && projected[0] < 1.0);
    Ok(())
}

#[test]
fn going_back() -> Result<()> {
    let context = Context::default();
    // [layer_gradients]
    let (ones, identity) = ([1.0f32; 4], [1.0f32, 0.0, 0.0, 1.0]);
    let (x, w, grad_out) = (Tensor::new(&QUERY, [2, 2])?, Tensor::new(&identity, [2, 2])?, Tensor::new(&ones, [2, 2])?);
    let (mut grad, mut grad_weight) = ([0.0f32; 4], [0.0f32; 4]);
    let wanted = LinearGradients::new().out(grad_out).x(TensorMut::new(&mut grad, [2, 2])?);
    let wanted = wanted.weight(TensorMut::new(&mut grad_weight, [2, 2])?);
    context.linear_backward(x, w, WeightLayout::OutIn, LinearOptions::new(), wanted)?;
    context.activation_backward_in_place(Activation::Relu, x, TensorMut::new(&mut grad, [2, 2])?)?;
    // [end]
    assert_eq!((grad, grad_weight), ([1.0, 0.0, 0.0, 1.0], [3.0; 4]));
    Ok(())
}

#[test]
fn positions() -> Result<()> {
    let (context, mut out) = (Context::default(), [0.0f32; 4]);
    // [positional_encoding]
    let mut encoding = vec![0.0f32; 60 * 32];
    context.positional_encoding(TensorMut::new(&mut encoding, [60, 32])?, PositionalEncodingOptions::new())?;
    let x = TensorMut::new(&mut encoding, [60, 32])?;
    context.add_positional_encoding_in_place(x, PositionalEncodingOptions::new())?; // twice as much
                                                                                    // [end]
    assert_eq!(encoding[1], 2.0);
    // [rotary]
    let (x, turned) = (Tensor::new(&QUERY, [2, 2])?, TensorMut::new(&mut out, [2, 2])?); // [L, D]
    context.rotary(x, turned, RotaryOptions::new().offset(3))?;
    // [end]
    assert!(near(out[0], 3.0 * 3f32.cos()));
    // [rotary_frequencies]
    let options = RotaryFrequenciesOptions::new()
        .kind(FrequenciesKind::Llama3)
        .base(500000.0)
        .factor(8.0)
        .original_length(8192)
        .low_frequency_factor(1.0)
        .high_frequency_factor(4.0);
    let mut frequencies = [0.0f32; 64];
    let factor = rotary_frequencies(&mut frequencies, options)?; // Llama 3.1
    let (x, turned) = (Tensor::new(&[1.0f32; 128], [1, 128])?, [0.0f32; 128]);
    let _ = (x, turned, RotaryOptions::new().frequencies(&frequencies).attention_factor(factor));
    // [end]
    assert!(factor == 1.0 && frequencies[0] == 1.0 && frequencies[63] < 4e-7);
    // [alibi_slopes]
    let mut slopes = [0.0f32; 4];
    alibi_slopes(&mut slopes)?; // [1/4, 1/16, 1/64, 1/256]
                                // [end]
    assert_eq!(slopes[3], 1.0 / 256.0);
    // [tensor]
    let mut inside = vec![0.0f32; 2 * 5 * 4 * 64]; // [B, L, H, D] in memory
    let view = TensorMut::strided(&mut inside, 0, [2, 4, 5, 64], [5 * 4 * 64, 64, 4 * 64, 1])?; // [B, H, L, D]
    context.tanh_in_place(view)?;
    // [end]
    assert_eq!(inside[0], 0.0);
    Ok(())
}

#[cfg(feature = "half")]
#[test]
fn quantizing() -> Result<()> {
    let context = Context::default();
    // [quantize]
    let (mut rows, mut scales) = ([0i8; 6], [half::f16::ZERO; 3]);
    let (v, s) = (Tensor::new(&VALUE, [3, 2])?, TensorMut::new(&mut scales, [3, 1])?);
    context.quantize(v, TensorMut::new(&mut rows, [3, 2])?, s)?; // a scale for each row
    let mut back = [0.0f32; 6];
    let (q, s) = (Tensor::new(&rows, [3, 2])?, Tensor::new(&scales, [3, 1])?);
    context.dequantize(q, s, TensorMut::new(&mut back, [3, 2])?)?;
    // [end]
    assert!(back.iter().zip(&VALUE).all(|(found, value)| (found - value).abs() < 0.3));
    Ok(())
}
