//! 16-bit tensors: a call gives what it gives of the same numbers in float32, rounded once; where no products of bfloat16 are
//! taken, which are the library's to choose on some processors.
#![cfg(feature = "half")]
use fovea::*;
use half::{bf16, f16};

const Q: [usize; 4] = [1, 2, 5, 8];
const K: [usize; 4] = [1, 1, 9, 8];

/// Numbers that take all of float32's bits.
fn some(count: usize) -> impl Iterator<Item = f32> {
    (0..count).map(|i| ((i * 37 % 101) as f32 - 50.3) / 47.0)
}

fn context() -> Context {
    Context::new(ContextOptions::new().max_isa("base")).unwrap()
}

fn sdpa<T: Element, O: Element>(query: &[T], key: &[T], value: &[T], out: &mut [O], options: AttentionOptions<'_>) {
    let (query, key) = (Tensor::new(query, Q).unwrap(), Tensor::new(key, K).unwrap());
    let (value, out) = (Tensor::new(value, K).unwrap(), TensorMut::new(out, Q).unwrap());
    context().sdpa(query, key, value, out, options).unwrap();
}

fn check<T: Element + PartialEq + std::fmt::Debug>(narrow: fn(f32) -> T, widen: fn(T) -> f32) {
    let data: Vec<T> = some(160).map(narrow).collect();
    let (query, key, value) = (&data[..80], &data[16..88], &data[50..122]);
    let wide: Vec<f32> = data.iter().map(|x| widen(*x)).collect();
    let mut expected = [0.0f32; 80];
    sdpa(&wide[..80], &wide[16..88], &wide[50..122], &mut expected, AttentionOptions::new());
    let rounded: Vec<T> = expected.iter().map(|x| narrow(*x)).collect();
    assert!(rounded.iter().zip(&expected).any(|(short, long)| widen(*short) != *long));

    let mut out = [narrow(7.0); 80];
    sdpa(query, key, value, &mut out, AttentionOptions::new());
    assert_eq!(rounded, out);
    let mut unrounded = [7.0f32; 80];
    sdpa(query, key, value, &mut unrounded, AttentionOptions::new());
    assert_eq!(expected, unrounded);

    let (mut weights, mut wide_weights) = ([narrow(7.0); 90], [7.0f32; 90]);
    let asked = TensorMut::new(&mut weights, [1, 2, 5, 9]).unwrap();
    sdpa(query, key, value, &mut out, AttentionOptions::new().weights(asked));
    let asked = TensorMut::new(&mut wide_weights, [1, 2, 5, 9]).unwrap();
    sdpa(query, key, value, &mut out, AttentionOptions::new().weights(asked));
    assert_eq!(weights.to_vec(), wide_weights.map(narrow).to_vec());

    let (q, k) = (Tensor::shape_only::<T>(Q).unwrap(), Tensor::shape_only::<T>(K).unwrap());
    let plan = context().sdpa_plan(&q, &k, &k, &q, AttentionOptions::new()).unwrap();
    out = [narrow(7.0); 80];
    plan.run(Buffers::new(query, key, value, &mut out), &mut plan.workspace()).unwrap();
    assert_eq!(rounded, out);
    let refused = plan.run(Buffers::new(&wide[..80], key, value, &mut out), &mut plan.workspace()).unwrap_err();
    assert_eq!(refused.status(), Status::BadDtype);
}

#[test]
fn f16_in_and_out_is_float32_rounded_once() {
    check(f16::from_f32, f16::to_f32);
}

#[test]
fn bf16_in_and_out_is_float32_rounded_once() {
    check(bf16::from_f32, bf16::to_f32);
}

#[test]
fn regression_and_products_take_them() {
    let x = [f16::from_f32(1.0); 4];
    let mut out = [f16::from_f32(7.0); 4];
    let view = Tensor::new(&x, [2, 2]).unwrap();
    let written = TensorMut::new(&mut out, [2, 2]).unwrap();
    Context::default().kernel_regression(view, view, view, written, KernelRegressionOptions::new()).unwrap();
    assert_eq!(out, [f16::from_f32(1.0); 4]);
    Context::default().matmul(view, view, TensorMut::new(&mut out, [2, 2]).unwrap()).unwrap();
    assert_eq!(out, [f16::from_f32(2.0); 4]);
}
