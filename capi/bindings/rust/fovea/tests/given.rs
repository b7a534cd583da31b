//! A 0 that is given is another number than one that is left out.
use fovea::*;

fn rows(data: &[f32]) -> Tensor<'_> {
    Tensor::new(data, [3, 2]).unwrap()
}

const X: [f32; 6] = [1.0, 0.0, 0.0, 4.0, 2.0, 2.0];

#[test]
fn a_scale_of_0_gives_the_mean_of_the_values() {
    let context = Context::default();
    let attend = |score: Score<'_>, options: AttentionOptions<'_>| {
        let mut out = [0.0f32; 6];
        context
            .attention(&score, rows(&X), rows(&X), rows(&X), TensorMut::new(&mut out, [3, 2]).unwrap(), options)
            .unwrap();
        out
    };
    for score in [Score::dot, || Score::gaussian(1.0)] {
        assert_eq!(attend(score(), AttentionOptions::new().scale(0.0)), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
        assert_ne!(attend(score(), AttentionOptions::new()), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    }
    let unit = [1.0f32, 0.0, 0.0, 1.0];
    let unit = Tensor::new(&unit, [2, 2]).unwrap();
    let parameters = MhaParameters::new().heads(1).query_weight(unit).key_weight(unit).value_weight(unit);
    let mut out = [0.0f32; 6];
    let options = MhaOptions::new().attention(AttentionOptions::new().scale(0.0));
    let view = TensorMut::new(&mut out, [3, 2]).unwrap();
    context.multi_head_attention_once(&parameters, rows(&X), None, None, view, options).unwrap();
    assert_eq!(out, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
}

#[test]
fn an_epsilon_of_0_adds_nothing() {
    let (x, mut out) = ([-1e-3f32, 1e-3], [0.0f32; 2]);
    let mut norm = |options: LayerNormOptions<'_>| {
        Context::default()
            .layer_norm(Tensor::new(&x, [1, 2]).unwrap(), TensorMut::new(&mut out, [1, 2]).unwrap(), options)
            .map(|()| out)
    };
    assert!(norm(LayerNormOptions::new().epsilon(0.0)).unwrap()[1] > 0.999);
    assert!(norm(LayerNormOptions::new()).unwrap()[1] < 0.31);
}

#[test]
fn a_width_and_a_base_of_0_are_refused() {
    let context = Context::default();
    let mut out = [7.0f32; 6];
    let refused = |result: Result<()>, name: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.status(), Status::BadValue);
        assert!(error.message().contains(name), "{error}");
    };
    let mut regress = |options| {
        context.kernel_regression(rows(&X), rows(&X), rows(&X), TensorMut::new(&mut out, [3, 2]).unwrap(), options)
    };
    refused(regress(KernelRegressionOptions::new().sigma(0.0)), "sigma");
    regress(KernelRegressionOptions::new()).unwrap();
    let view = TensorMut::new(&mut out, [3, 2]).unwrap();
    refused(context.positional_encoding(view, PositionalEncodingOptions::new().base(0.0)), "base");
    let view = TensorMut::new(&mut out, [3, 2]).unwrap();
    refused(context.rotary(rows(&X), view, RotaryOptions::new().base(0.0)), "base");
}

#[test]
fn rotary_turns_nothing_where_it_is_told_0() {
    let turn = |options| {
        let mut out = [7.0f32; 6];
        Context::default().rotary(rows(&X), TensorMut::new(&mut out, [3, 2]).unwrap(), options).unwrap();
        out
    };
    assert_eq!(turn(RotaryOptions::new().position_scale(0.0)), X);
    assert_eq!(turn(RotaryOptions::new().rotary_dim(0)), X);
    assert_ne!(turn(RotaryOptions::new()), X);
}

#[test]
fn sizes_of_0_are_refused() {
    let refused = |error: Option<Error>, name: &str| {
        let error = error.unwrap();
        assert_eq!(error.status(), Status::BadValue);
        assert!(error.message().contains(name), "{error}");
    };
    let sizes = || KvPoolSizes::new().layers(1).kv_heads(1).positions(2).head_dim(2).sequences(1);
    refused(KvPool::new(&sizes().value_dim(0)).err(), "value_dim is 0");
    refused(KvPool::new(&sizes().page_size(0)).err(), "page_size is 0");
    refused(KvPool::new(&sizes().kv_heads(0)).err(), "kv_heads");
    KvPool::new(&sizes()).unwrap();
    let unit = [1.0f32, 0.0, 0.0, 1.0];
    let unit = Tensor::new(&unit, [2, 2]).unwrap();
    let parameters = || MhaParameters::new().heads(1).query_weight(unit).key_weight(unit).value_weight(unit);
    refused(MhaWeights::new(&Context::default(), &parameters().kv_heads(0)).err(), "kv_heads is 0");
    MhaWeights::new(&Context::default(), &parameters()).unwrap();
}
