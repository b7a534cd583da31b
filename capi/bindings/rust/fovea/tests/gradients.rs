//! Gradients of layers: by hand, and against central differences of the forward calls.
use fovea::*;

/// Any numbers in (-1, 1).
fn some(count: usize, from: usize) -> Vec<f32> {
    (from..from + count).map(|i| ((i * 37 % 101) as f32 - 50.3) / 51.0).collect()
}

fn close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance, "{found:?}, expected {expected:?}");
    }
}

/// What the loss, `sum(grad_out * out)`, changes by for each element of x.
fn differences(x: &[f32], grad_out: &[f32], forward: impl Fn(&[f32]) -> Vec<f32>) -> Vec<f32> {
    let loss = |x: &[f32]| forward(x).iter().zip(grad_out).map(|(a, b)| *a as f64 * *b as f64).sum::<f64>();
    let step = 1.0f32 / 128.0;
    (0..x.len())
        .map(|i| {
            let (mut above, mut below) = (x.to_vec(), x.to_vec());
            above[i] += step;
            below[i] -= step;
            ((loss(&above) - loss(&below)) / (above[i] - below[i]) as f64) as f32
        })
        .collect()
}

const NEAR: f32 = 1e-3;

#[test]
fn an_activation_hands_on_what_its_derivative_lets_through() -> Result<()> {
    let context = Context::default();
    let (x, grad, mut found) = ([-1.0f32, 2.0], [3.0f32, 4.0], [7.0f32; 2]);
    context.activation_backward(Activation::Relu, &x, &grad, &mut found)?;
    assert_eq!(found, [0.0, 4.0]);
    for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu] {
        let expected = differences(&x, &grad, |x| {
            let mut out = vec![0.0f32; 2];
            context.activation(activation, x, &mut out).unwrap();
            out
        });
        context.activation_backward(activation, &x, &grad, &mut found)?;
        close(&found, &expected, NEAR);
        let mut place = grad;
        context.activation_backward_in_place(activation, &x, &mut place)?;
        assert_eq!(place, found);
    }
    Ok(())
}

#[test]
fn a_softmax_takes_the_mean_off() -> Result<()> {
    let context = Context::default();
    let (half, grad, mut found) = ([0.5f32; 4], [1.0f32, 0.0, 0.0, 0.0], [7.0f32; 4]);
    let (out, given) = (Tensor::new(&half, [2, 2])?, Tensor::new(&grad, [2, 2])?);
    context.softmax_backward(out, -1, given, TensorMut::new(&mut found, [2, 2])?)?;
    assert_eq!(found, [0.25, -0.25, 0.0, 0.0]);
    context.softmax_backward(out, 0, given, TensorMut::new(&mut found, [2, 2])?)?;
    assert_eq!(found, [0.25, 0.0, -0.25, 0.0]);
    let mut place = grad;
    context.softmax_backward_in_place(out, 0, TensorMut::new(&mut place, [2, 2])?)?;
    assert_eq!(place, found);

    let logarithms = [0.5f32.ln(); 4];
    let out = Tensor::new(&logarithms, [2, 2])?;
    context.log_softmax_backward(out, 0, given, TensorMut::new(&mut found, [2, 2])?)?;
    close(&found, &[0.5, 0.0, -0.5, 0.0], 1e-6);
    let mut place = grad;
    context.log_softmax_backward_in_place(out, 0, TensorMut::new(&mut place, [2, 2])?)?;
    assert_eq!(place, found);
    Ok(())
}

#[test]
fn a_masked_softmax_gives_0_behind_the_length_of_a_sequence() -> Result<()> {
    let context = Context::default();
    let (out, lens) = ([1.0f32, 0.0, 0.5, 0.5], [1i64, 2]);
    let (grad, mut found) = ([5.0f32, f32::NAN, 2.0, 1.0], [7.0f32; 4]);
    let shape = [2, 1, 2];
    let out = Tensor::new(&out, shape)?;
    let written = TensorMut::new(&mut found, shape)?;
    context.masked_softmax_backward(out, Some((&lens).into()), Tensor::new(&grad, shape)?, written)?;
    assert_eq!(found, [0.0, 0.0, 0.25, -0.25]);
    let mut place = grad;
    context.masked_softmax_backward_in_place(out, Some((&lens).into()), TensorMut::new(&mut place, shape)?)?;
    assert_eq!(place, found);
    Ok(())
}

const ROWS: [usize; 2] = [3, 4];

#[test]
fn layer_norm_goes_back_to_rows_residual_weight_and_bias() -> Result<()> {
    let context = Context::default();
    let (x, residual, weight, bias) = (some(12, 1), some(12, 40), some(4, 9), some(4, 5));
    let (grad, grad_sum) = (some(12, 70), some(12, 20));
    let norm = |x: &[f32], weight: &[f32], bias: &[f32]| {
        let (mut out, mut sum) = (vec![0.0f32; 12], vec![0.0f32; 12]);
        let options = LayerNormOptions::new().weight(weight).bias(bias).epsilon(0.01);
        let options = options.residual(Tensor::new(&residual, ROWS).unwrap());
        let options = options.sum(TensorMut::new(&mut sum, ROWS).unwrap());
        let out_view = TensorMut::new(&mut out, ROWS).unwrap();
        context.layer_norm(Tensor::new(x, ROWS).unwrap(), out_view, options).unwrap();
        [out, sum].concat()
    };
    let both = [grad.clone(), grad_sum.clone()].concat();
    let expected = differences(&x, &both, |x| norm(x, &weight, &bias));

    let (mut grad_x, mut grad_weight, mut grad_bias) = ([7.0f32; 12], [7.0f32; 4], [7.0f32; 4]);
    let rows = Tensor::new(&x, ROWS)?;
    let options = || -> Result<LayerNormOptions<'_>> {
        let options = LayerNormOptions::new().weight(&weight).bias(&bias).epsilon(0.01);
        Ok(options.residual(Tensor::new(&residual, ROWS)?))
    };
    let (out, sum) = (Tensor::new(&grad, ROWS)?, Tensor::new(&grad_sum, ROWS)?);
    let gradients = NormGradients::new().out(out).sum(sum).x(TensorMut::new(&mut grad_x, ROWS)?);
    context.layer_norm_backward(rows, options()?, gradients.weight(&mut grad_weight).bias(&mut grad_bias))?;
    close(&grad_x, &expected, NEAR);
    close(&grad_weight, &differences(&weight, &both, |weight| norm(&x, weight, &bias)), NEAR);
    close(&grad_bias, &differences(&bias, &both, |bias| norm(&x, &weight, bias)), NEAR);

    let mut place = grad.clone();
    let written = TensorMut::new(&mut place, ROWS)?;
    context.layer_norm_backward_in_place(rows, written, options()?, NormGradients::new().sum(sum))?;
    assert_eq!(place, grad_x);
    let mut place = grad_sum.clone();
    let written = TensorMut::new(&mut place, ROWS)?;
    context.layer_norm_backward_add(rows, written, options()?, NormGradients::new().out(out))?;
    assert_eq!(place, grad_x);
    Ok(())
}

#[test]
fn rms_norm_goes_back_to_rows_residual_and_weight() -> Result<()> {
    let context = Context::default();
    let (x, residual, weight) = (some(12, 1), some(12, 40), some(4, 9));
    let (grad, grad_sum) = (some(12, 70), some(12, 20));
    let norm = |x: &[f32], weight: &[f32]| {
        let (mut out, mut sum) = (vec![0.0f32; 12], vec![0.0f32; 12]);
        let options = RmsNormOptions::new().weight(weight).weight_from_one().epsilon(0.01);
        let options = options.residual(Tensor::new(&residual, ROWS).unwrap());
        let options = options.sum(TensorMut::new(&mut sum, ROWS).unwrap());
        let out_view = TensorMut::new(&mut out, ROWS).unwrap();
        context.rms_norm(Tensor::new(x, ROWS).unwrap(), out_view, options).unwrap();
        [out, sum].concat()
    };
    let both = [grad.clone(), grad_sum.clone()].concat();
    let (mut grad_x, mut grad_weight) = ([7.0f32; 12], [7.0f32; 4]);
    let rows = Tensor::new(&x, ROWS)?;
    let options = || -> Result<RmsNormOptions<'_>> {
        let options = RmsNormOptions::new().weight(&weight).weight_from_one().epsilon(0.01);
        Ok(options.residual(Tensor::new(&residual, ROWS)?))
    };
    let (out, sum) = (Tensor::new(&grad, ROWS)?, Tensor::new(&grad_sum, ROWS)?);
    let gradients = NormGradients::new().out(out).sum(sum).x(TensorMut::new(&mut grad_x, ROWS)?);
    context.rms_norm_backward(rows, options()?, gradients.weight(&mut grad_weight))?;
    close(&grad_x, &differences(&x, &both, |x| norm(x, &weight)), NEAR);
    close(&grad_weight, &differences(&weight, &both, |weight| norm(&x, weight)), NEAR);

    let mut place = grad.clone();
    let written = TensorMut::new(&mut place, ROWS)?;
    context.rms_norm_backward_in_place(rows, written, options()?, NormGradients::new().sum(sum))?;
    assert_eq!(place, grad_x);
    let mut place = grad_sum.clone();
    let written = TensorMut::new(&mut place, ROWS)?;
    context.rms_norm_backward_add(rows, written, options()?, NormGradients::new().out(out))?;
    assert_eq!(place, grad_x);
    Ok(())
}

#[test]
fn a_linear_layer_goes_back_to_rows_weight_bias_and_multiplier() -> Result<()> {
    let context = Context::default();
    let (x, weight, bias, multiplier) = (some(6, 1), some(8, 30), some(4, 60), some(12, 80));
    let grad = some(12, 11);
    let linear = |x: &[f32], weight: &[f32], bias: &[f32], multiplier: &[f32]| {
        let mut out = vec![0.0f32; 12];
        let weight = Tensor::new(weight, [4, 2]).unwrap();
        let weight = PackedMatrix::linear(&context, weight, LinearPackOptions::new()).unwrap();
        let options = LinearOptions::new().activation(Activation::Silu).bias(bias);
        let options = options.multiplier(Tensor::new(multiplier, ROWS).unwrap());
        let out_view = TensorMut::new(&mut out, ROWS).unwrap();
        context.linear(Tensor::new(x, [3, 2]).unwrap(), &weight, out_view, options).unwrap();
        out
    };
    let options = || -> Result<LinearOptions<'_>> {
        let options = LinearOptions::new().activation(Activation::Silu).bias(&bias);
        Ok(options.multiplier(Tensor::new(&multiplier, ROWS)?))
    };
    let (mut grad_x, mut grad_weight, mut grad_bias, mut grad_multiplier) =
        ([7.0f32; 6], [7.0f32; 8], [7.0f32; 4], [7.0f32; 12]);
    let gradients = LinearGradients::new()
        .out(Tensor::new(&grad, ROWS)?)
        .x(TensorMut::new(&mut grad_x, [3, 2])?)
        .weight(TensorMut::new(&mut grad_weight, [4, 2])?)
        .bias(&mut grad_bias)
        .multiplier(TensorMut::new(&mut grad_multiplier, ROWS)?);
    let rows = Tensor::new(&x, [3, 2])?;
    context.linear_backward(rows, Tensor::new(&weight, [4, 2])?, WeightLayout::OutIn, options()?, gradients)?;
    close(&grad_x, &differences(&x, &grad, |x| linear(x, &weight, &bias, &multiplier)), NEAR);
    close(&grad_weight, &differences(&weight, &grad, |weight| linear(&x, weight, &bias, &multiplier)), NEAR);
    close(&grad_bias, &differences(&bias, &grad, |bias| linear(&x, &weight, bias, &multiplier)), NEAR);
    close(&grad_multiplier, &differences(&multiplier, &grad, |by| linear(&x, &weight, &bias, by)), NEAR);

    let turned = Tensor::strided(&weight, 0, [2, 4], [1, 2])?; // the same weight, as [K, N]
    let mut again = [7.0f32; 6];
    let gradients = LinearGradients::new().out(Tensor::new(&grad, ROWS)?).x(TensorMut::new(&mut again, [3, 2])?);
    context.linear_backward(rows, turned, WeightLayout::InOut, options()?, gradients)?;
    close(&again, &grad_x, 1e-6);
    Ok(())
}

/// Of one unit, tanh(0.5 q + 2 k). What the backward pass is given it does not make again: doubled, it gives other gradients.
#[test]
fn additive_attention_keeps_its_projections() -> Result<()> {
    let context = Context::default();
    let (query, key, value, vector, ones) = ([1.0f32], [0.25f32, -0.5], [0.0f32, 1.0], [1.0f32], [1.0f32]);
    let (query_weight, key_weight) = ([0.5f32], [2.0f32]);
    let score = Score::additive(Tensor::new(&query_weight, [1, 1])?, Tensor::new(&key_weight, [1, 1])?, &vector);
    let (mut kept_query, mut kept_key, mut out, mut lse) = ([0.0f32], [0.0f32; 2], [0.0f32], [0.0f32]);
    let rows = || Ok::<_, Error>((Tensor::new(&query, [1, 1])?, Tensor::new(&key, [2, 1])?, Tensor::new(&value, [2, 1])?));
    let (q, k, v) = rows()?;
    let options = AttentionOptions::new()
        .log_sum_exp(&mut lse)
        .projected_query(TensorMut::new(&mut kept_query, [1, 1])?)
        .projected_key(TensorMut::new(&mut kept_key, [2, 1])?);
    context.attention(&score, q, k, v, TensorMut::new(&mut out, [1, 1])?, options)?;
    assert_eq!((kept_query, kept_key), ([0.5], [0.5, -1.0]));
    let mut backward = |kept_key: Option<&mut [f32; 2]>| -> Result<[f32; 2]> {
        let (q, k, v) = rows()?;
        let (mut found, mut options) = ([0.0f32; 2], AttentionOptions::new().log_sum_exp(&mut lse));
        if let Some(kept) = kept_key {
            options = options.projected_key(TensorMut::new(kept, [2, 1])?);
        }
        let wanted =
            AttentionGradients::new().out(Tensor::new(&ones, [1, 1])?).key(TensorMut::new(&mut found, [2, 1])?);
        context.attention_backward(&score, q, k, v, Tensor::new(&out, [1, 1])?, options, wanted)?;
        Ok(found)
    };
    let found = backward(Some(&mut kept_key))?;
    assert_eq!(found, backward(None)?);
    kept_key[0] *= 2.0;
    assert_ne!(found, backward(Some(&mut kept_key))?);
    Ok(())
}

#[test]
fn merged_states_go_back_to_their_parts() -> Result<()> {
    let (outs, lses, ones) = ([1.0f32, 2.0, 5.0, 6.0], [0.0f32; 2], [1.0f32; 2]);
    let (mut grad_outs, mut grad_lses) = ([7.0f32; 4], [7.0f32; 2]);
    let gradients = MergeGradients::new()
        .out(Tensor::new(&ones, [1, 2])?)
        .log_sum_exp(&ones[..1])
        .outs(TensorMut::new(&mut grad_outs, [2, 1, 2])?)
        .lses(TensorMut::new(&mut grad_lses, [2, 1])?);
    let (outs, lses) = (Tensor::new(&outs, [2, 1, 2])?, Tensor::new(&lses, [2, 1])?);
    Context::default().merge_states_backward(outs, lses, gradients)?;
    close(&grad_outs, &[0.5; 4], 1e-6);
    close(&grad_lses, &[-1.5, 2.5], 1e-6);
    Ok(())
}

const Q: [usize; 3] = [1, 3, 4];
const K: [usize; 3] = [1, 5, 4];
const W: [usize; 2] = [4, 4];

/// Weights and biases of query, key, value and out.
fn parameters<'a>(weights: &'a [f32], biases: &'a [f32]) -> MhaParameters<'a> {
    let weight = |i: usize| Tensor::new(&weights[16 * i..16 * i + 16], W).unwrap();
    MhaParameters::new()
        .heads(2)
        .query_weight(weight(0))
        .key_weight(weight(1))
        .value_weight(weight(2))
        .out_weight(weight(3))
        .query_bias(&biases[..4])
        .key_bias(&biases[4..8])
        .value_bias(&biases[8..12])
        .out_bias(&biases[12..])
}

fn mha_options(sinks: &[f32]) -> MhaOptions<'_> {
    let attention = AttentionOptions::new().causal().sinks(sinks);
    MhaOptions::new().attention(attention).rotary(RotaryOptions::new())
}

#[test]
fn multi_head_attention_goes_back_to_everything_it_takes() -> Result<()> {
    let context = Context::default();
    let (query, key, value, grad) = (some(12, 1), some(20, 7), some(20, 27), some(12, 11));
    let (weights, biases, sinks) = (some(64, 30), some(16, 60), some(2, 80));
    let attend = |rows: [&[f32]; 3], weights: &[f32], biases: &[f32], sinks: &[f32]| {
        let mut out = vec![0.0f32; 12];
        let (written, parameters) = (TensorMut::new(&mut out, Q).unwrap(), parameters(weights, biases));
        let (query, key) = (Tensor::new(rows[0], Q).unwrap(), Some(Tensor::new(rows[1], K).unwrap()));
        let (value, options) = (Some(Tensor::new(rows[2], K).unwrap()), mha_options(sinks));
        context.multi_head_attention_once(&parameters, query, key, value, written, options).unwrap();
        out
    };
    let (mut grad_query, mut grad_key, mut grad_value) = ([7.0f32; 12], [7.0f32; 20], [7.0f32; 20]);
    let (mut grad_weights, mut grad_biases, mut grad_sinks) = ([7.0f32; 64], [7.0f32; 16], [7.0f32; 2]);
    let mut of_weight = grad_weights.chunks_mut(16).map(|part| TensorMut::new(part, W).unwrap());
    let mut of_bias = grad_biases.chunks_mut(4);
    let gradients = MhaGradients::new()
        .out(Tensor::new(&grad, Q)?)
        .query(TensorMut::new(&mut grad_query, Q)?)
        .key(TensorMut::new(&mut grad_key, K)?)
        .value(TensorMut::new(&mut grad_value, K)?)
        .query_weight(of_weight.next().unwrap())
        .key_weight(of_weight.next().unwrap())
        .value_weight(of_weight.next().unwrap())
        .out_weight(of_weight.next().unwrap())
        .query_bias(of_bias.next().unwrap())
        .key_bias(of_bias.next().unwrap())
        .value_bias(of_bias.next().unwrap())
        .out_bias(of_bias.next().unwrap())
        .attention(AttentionGradients::new().sinks(&mut grad_sinks));
    let (q, k, v) = (Tensor::new(&query, Q)?, Some(Tensor::new(&key, K)?), Some(Tensor::new(&value, K)?));
    let options = mha_options(&sinks);
    context.multi_head_attention_backward(&parameters(&weights, &biases), q, k, v, options, gradients)?;
    close(&grad_query, &differences(&query, &grad, |x| attend([x, &key, &value], &weights, &biases, &sinks)), NEAR);
    close(&grad_key, &differences(&key, &grad, |x| attend([&query, x, &value], &weights, &biases, &sinks)), NEAR);
    close(&grad_value, &differences(&value, &grad, |x| attend([&query, &key, x], &weights, &biases, &sinks)), NEAR);
    let rows: [&[f32]; 3] = [&query, &key, &value];
    close(&grad_weights, &differences(&weights, &grad, |weights| attend(rows, weights, &biases, &sinks)), NEAR);
    close(&grad_biases, &differences(&biases, &grad, |biases| attend(rows, &weights, biases, &sinks)), NEAR);
    close(&grad_sinks, &differences(&sinks, &grad, |sinks| attend(rows, &weights, &biases, sinks)), NEAR);
    Ok(())
}

#[test]
fn multi_head_attention_reads_what_its_forward_call_kept() -> Result<()> {
    let context = Context::default();
    let (query, key, value, grad) = (some(12, 1), some(20, 7), some(20, 27), some(12, 11));
    let (weights, biases, sinks) = (some(64, 30), some(16, 60), some(2, 80));
    let (q, k, v) = (Tensor::new(&query, Q)?, Some(Tensor::new(&key, K)?), Some(Tensor::new(&value, K)?));
    let mut kept = [0.0f32; 3 * 2 * (2 + 2 + 1) + 5 * 2 * (2 + 2)];
    let mut out = [0.0f32; 12];
    let options = mha_options(&sinks).kept(&mut kept).precision(Precision::Highest);
    context.multi_head_attention_once(&parameters(&weights, &biases), q, k, v, TensorMut::new(&mut out, Q)?, options)?;
    let mut found = [[7.0f32; 12]; 2];
    for (reads, found) in found.iter_mut().enumerate() {
        let options = if reads == 0 { mha_options(&sinks) } else { mha_options(&sinks).kept(&mut kept) };
        let gradients = MhaGradients::new().out(Tensor::new(&grad, Q)?).query(TensorMut::new(found, Q)?);
        context.multi_head_attention_backward(&parameters(&weights, &biases), q, k, v, options, gradients)?;
    }
    assert_eq!(found[0], found[1]);
    Ok(())
}

#[test]
fn dropout_of_an_encoding_goes_back_alone() -> Result<()> {
    let context = Context::default();
    let (x, mut out, mut grad) = (vec![10.0f32; 64], vec![0.0f32; 64], vec![1.0f32; 64]);
    let options = || PositionalEncodingOptions::new().dropout(0.5).dropout_seed(3);
    context.add_positional_encoding(Tensor::new(&x, [8, 8])?, TensorMut::new(&mut out, [8, 8])?, options())?;
    context.add_positional_encoding_in_place(TensorMut::new(&mut grad, [8, 8])?, options().dropout_alone())?;
    assert!(grad.contains(&0.0) && grad.contains(&2.0));
    for (out, grad) in out.iter().zip(&grad) {
        assert_eq!(*grad, if *out == 0.0 { 0.0 } else { 2.0 });
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_by_name_and_leaves_gradients_as_they_were() -> Result<()> {
    let context = Context::default();
    let (x, mut found) = ([1.0f32; 4], [7.0f32; 4]);
    let view = Tensor::new(&x, [2, 2])?;
    let refused = |result: Result<()>, status: Status, words: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.status(), status);
        assert!(error.message().contains(words), "{error}");
    };
    let written = TensorMut::new(&mut found, [2, 2])?;
    refused(context.activation_backward(Activation::Relu, view, &x, written), Status::BadRank, "grad_out");
    let written = TensorMut::new(&mut found, [2, 2])?;
    refused(context.softmax_backward(view, 2, view, written), Status::BadValue, "axis");
    let given = NormGradients::new().x(TensorMut::new(&mut found, [2, 2])?);
    refused(context.layer_norm_backward(view, LayerNormOptions::new(), given), Status::NullPointer, "gradients.out");
    let given = NormGradients::new().out(view).bias(&mut found[..2]);
    refused(context.rms_norm_backward(view, RmsNormOptions::new(), given), Status::BadValue, "gradients.bias");
    let given = LinearGradients::new().out(view).bias(&mut found[..2]);
    let (options, layout) = (LinearOptions::new(), WeightLayout::OutIn);
    refused(context.linear_backward(view, view, layout, options, given), Status::BadValue, "options.bias is NULL");
    let given = MergeGradients::new().out(view);
    refused(context.merge_states_backward(view, &x[..2], given), Status::BadRank, "gradients.out");
    let parameters = MhaParameters::new().heads(1).query_weight(view).key_weight(view).value_weight(view);
    let given = MhaGradients::new().out(view).query_bias(&mut found[..2]);
    let result = context.multi_head_attention_backward(&parameters, view, None, None, MhaOptions::new(), given);
    refused(result, Status::BadValue, "gradients.query_bias");
    assert_eq!(found, [7.0; 4]);
    Ok(())
}

#[cfg(feature = "half")]
fn round_once<T: Element + PartialEq + std::fmt::Debug>(narrow: fn(f32) -> T, widen: fn(T) -> f32) -> Result<()> {
    let context = Context::new(ContextOptions::new().max_isa("base"))?;
    let (x, grad) = (some(12, 1).into_iter().map(narrow), some(12, 70).into_iter().map(narrow));
    let (x, grad): (Vec<T>, Vec<T>) = (x.collect(), grad.collect());
    let wide = |short: &[T]| short.iter().map(|x| widen(*x)).collect::<Vec<f32>>();
    let (wide_x, wide_grad) = (wide(&x), wide(&grad));
    let (mut expected, mut found) = ([7.0f32; 12], [narrow(7.0); 12]);
    context.activation_backward(Activation::Silu, &wide_x, &wide_grad, &mut expected)?;
    context.activation_backward(Activation::Silu, &x, &grad, &mut found)?;
    assert_eq!(found, expected.map(narrow));
    let given = NormGradients::new().out(Tensor::new(&wide_grad, ROWS)?).x(TensorMut::new(&mut expected, ROWS)?);
    context.rms_norm_backward(Tensor::new(&wide_x, ROWS)?, RmsNormOptions::new(), given)?;
    let given = NormGradients::new().out(Tensor::new(&grad, ROWS)?).x(TensorMut::new(&mut found, ROWS)?);
    context.rms_norm_backward(Tensor::new(&x, ROWS)?, RmsNormOptions::new(), given)?;
    assert_eq!(found, expected.map(narrow));
    Ok(())
}

#[cfg(feature = "half")]
#[test]
fn sixteen_bits_are_float32_rounded_once() -> Result<()> {
    round_once(half::f16::from_f32, half::f16::to_f32)?;
    round_once(half::bf16::from_f32, half::bf16::to_f32)
}
