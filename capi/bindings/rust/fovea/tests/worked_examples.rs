//! Calls whose results can be told by hand.
use fovea::*;

/// Any numbers in (-1, 1).
fn some(count: usize) -> Vec<f32> {
    let mut state = 2463534242u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / 8388608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance, "{found:?}, expected {expected:?}");
    }
}

#[test]
fn masked_softmax_is_zero_behind_the_length_of_a_sequence() {
    let x = some(16);
    let mut out = [7.0f32; 16];
    let (view, out_view) = (Tensor::new(&x, [2, 2, 4]).unwrap(), TensorMut::new(&mut out, [2, 2, 4]).unwrap());
    let lens = [2i32, 3];
    Context::default().masked_softmax(view, Some((&lens).into()), out_view, MaskedSoftmaxOptions::new()).unwrap();
    for (row, weights) in out.chunks(4).enumerate() {
        let length = lens[row / 2] as usize;
        let sum: f32 = x[row * 4..][..length].iter().map(|x| x.exp()).sum();
        let expected: Vec<f32> = (0..4).map(|k| if k < length { x[row * 4 + k].exp() / sum } else { 0.0 }).collect();
        close(weights, &expected, 1e-6);
        assert!(weights[length..].iter().all(|x| *x == 0.0));
    }
}

#[test]
fn masked_softmax_takes_a_length_for_each_query_and_works_in_place() {
    let mut x = some(16);
    let lens = [1i64, 3, 2, 4];
    let lens = Tensor::new(&lens, [2, 2]).unwrap();
    let view = TensorMut::new(&mut x, [2, 2, 4]).unwrap();
    Context::default().masked_softmax_in_place(view, Some(lens), MaskedSoftmaxOptions::new()).unwrap();
    assert_eq!(x[..4], [1.0, 0.0, 0.0, 0.0]);
    assert!(x[12..].iter().all(|x| *x > 0.0));
}

/// Ten equal keys with the values 0 to 39, the same for both sequences by a stride of 0.
fn over_equal_keys(score: &Score<'_>, query_dim: usize, lens: &[i32; 2]) -> Result<[f32; 8]> {
    let (query, key) = (some(2 * query_dim), [1.0f32; 20]);
    let value: Vec<f32> = (0..40).map(|i| i as f32).collect();
    let mut out = [0.0f32; 8];
    Context::default().attention(
        score,
        Tensor::new(&query, [2, 1, query_dim])?,
        Tensor::strided(&key, 0, [2, 10, 2], [0, 2, 1])?,
        Tensor::strided(&value, 0, [2, 10, 4], [0, 4, 1])?,
        TensorMut::new(&mut out, [2, 1, 4])?,
        AttentionOptions::new().valid_lens(lens),
    )?;
    Ok(out)
}

const MEANS: [f32; 8] = [2.0, 3.0, 4.0, 5.0, 10.0, 11.0, 12.0, 13.0];

#[test]
fn equal_keys_give_the_mean_of_the_valid_values() {
    close(&over_equal_keys(&Score::dot(), 2, &[2, 6]).unwrap(), &MEANS, 1e-5);
    let (wq, wk, v) = (some(8 * 20), some(8 * 2), some(8));
    let (wq, wk) = (Tensor::new(&wq, [8, 20]).unwrap(), Tensor::new(&wk, [8, 2]).unwrap());
    close(&over_equal_keys(&Score::additive(wq, wk, &v), 20, &[2, 6]).unwrap(), &MEANS, 1e-5);
}

#[test]
fn a_sequence_without_keys_gives_zeros() {
    assert_eq!(over_equal_keys(&Score::dot(), 2, &[0, 1]).unwrap(), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]);
}

#[test]
fn a_length_past_the_keys_is_refused_with_its_name_and_value() {
    let error = over_equal_keys(&Score::dot(), 2, &[2, 11]).unwrap_err();
    assert_eq!(error.status(), Status::BadValue);
    assert_eq!(error.status().name(), "FOVEA_BAD_VALUE");
    assert!(error.message().contains("valid_lens") && error.message().contains("11"), "{error}");
}

#[test]
fn concat_is_additive_with_the_weight_cut_in_two() {
    let (query, key, value, weight, v) = (some(15), some(28), some(7), some(6 * 9), some(6));
    let (mut concat, mut additive) = ([0.0f32; 3], [0.0f32; 3]);
    let (q, k) = (Tensor::new(&query, [3, 5]).unwrap(), Tensor::new(&key, [7, 4]).unwrap());
    let values = Tensor::new(&value, [7, 1]).unwrap();
    let whole = Score::concat(Tensor::new(&weight, [6, 9]).unwrap(), &v);
    let left = Tensor::strided(&weight, 0, [6, 5], [9, 1]).unwrap();
    let right = Tensor::strided(&weight, 5, [6, 4], [9, 1]).unwrap();
    let parts = Score::additive(left, right, &v);
    let context = Context::default();
    let attend = |score: &Score<'_>, out: &mut [f32; 3]| {
        context.attention(score, q, k, values, TensorMut::new(out, [3, 1]).unwrap(), AttentionOptions::new()).unwrap()
    };
    attend(&whole, &mut concat);
    attend(&parts, &mut additive);
    close(&concat, &additive, 1e-6);
}

#[test]
fn multi_head_attention_over_equal_keys_projects_the_one_value() {
    const E: usize = 100;
    let (wq, wk, wv, wo) = (some(E * E), some(E * E), some(E * E), some(E * E));
    let square = |weight| Tensor::new(weight, [E, E]).unwrap();
    let parameters = MhaParameters::new()
        .heads(5)
        .query_weight(square(&wq))
        .key_weight(square(&wk))
        .value_weight(square(&wv))
        .out_weight(square(&wo));
    let context = Context::default();
    let weights = MhaWeights::new(&context, &parameters).unwrap();
    let row = |weight: &[f32], x: &[f32]| -> Vec<f32> {
        weight.chunks(E).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
    };
    let expected = row(&wo, &row(&wv, &[1.0; E]));
    let (x, y, lens) = (vec![1.0f32; 2 * 4 * E], vec![1.0f32; 2 * 6 * E], [3i32, 2]);
    let x_view = Tensor::new(&x, [2, 4, E]).unwrap();
    for key in [None, Some(Tensor::new(&y, [2, 6, E]).unwrap())] {
        let mut out = vec![0.0f32; 2 * 4 * E];
        let view = TensorMut::new(&mut out, [2, 4, E]).unwrap();
        let options = MhaOptions::new().attention(AttentionOptions::new().valid_lens(&lens));
        context.multi_head_attention(&weights, x_view, key, None, view, options).unwrap();
        out.chunks(E).for_each(|found| close(found, &expected, 2e-3));
    }
}

#[test]
fn the_encoding_turns_slower_from_pair_to_pair() {
    let mut encoding = vec![0.0f32; 60 * 32];
    let view = TensorMut::new(&mut encoding, [60, 32]).unwrap();
    Context::default().positional_encoding(view, PositionalEncodingOptions::new()).unwrap();
    for (index, found) in encoding.iter().enumerate() {
        let (step, column) = (index / 32, index % 32);
        let angle = step as f64 / 10000f64.powf((column / 2 * 2) as f64 / 32.0);
        let expected = if column % 2 == 0 { angle.sin() } else { angle.cos() };
        assert!((*found as f64 - expected).abs() <= 1e-6);
    }
    let sign_changes = |column: usize| {
        (1..60).filter(|i| (encoding[i * 32 + column] < 0.0) != (encoding[(i - 1) * 32 + column] < 0.0)).count()
    };
    assert!(sign_changes(6) > sign_changes(8) && sign_changes(7) > sign_changes(9));
}

#[test]
fn a_wide_kernel_regresses_to_the_mean_and_a_narrow_one_to_the_data() {
    let noise = some(50);
    let x: Vec<f32> = (0..50).map(|i| i as f32 / 10.0).collect();
    let y: Vec<f32> = x.iter().zip(&noise).map(|(x, n)| 2.0 * x.sin() + x.powf(0.8) + 0.5 * n).collect();
    let mean = y.iter().sum::<f32>() / 50.0;
    let regress = |sigma| {
        let mut out = vec![0.0f32; 50];
        let options = KernelRegressionOptions::new().sigma(sigma);
        Context::default().kernel_regression(&x, &x, &y, &mut out, options).unwrap();
        out
    };
    close(&regress(1e6), &[mean; 50], 1e-5);
    close(&regress(0.01), &y, 1e-6);
}
