//! Kernel regression learns how wide its kernel should be, by gradient descent.
//!
//!     cargo run --example learned_width
//!
//! Kernel regression is attention with a Gaussian score. The loss is the mean squared error over the training points,
//! each predicted from all the others: one that saw itself would learn a kernel of no width. A step changes the logarithm
//! of sigma, so sigma stays positive. Exits with an error if what was learned is no better than two widths set by hand.
use fovea::{AttentionGradients, AttentionOptions, Context, Result, Score, Tensor, TensorMut};

const POINTS: usize = 50;
const SHAPE: [usize; 2] = [POINTS, 1]; // queries, keys and values of one feature
const STEPS: usize = 20;
const RATE: f32 = 1.0;

/// SplitMix64 (Steele, Lea and Flood 2014): the same numbers everywhere. In (0, 1).
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let bits = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (((bits ^ (bits >> 31)) >> 11) as f64 + 0.5) / 9007199254740992.0
}

/// Points of y = 2 sin x + x^0.8, off by normal noise (Box and Muller 1958) of 0.5.
fn noisy_points() -> (Vec<f32>, Vec<f32>) {
    let state = &mut 1;
    let point = |i| {
        let x = 5.0 * (i as f64 + uniform(state)) / POINTS as f64;
        let noise = (-2.0 * uniform(state).ln()).sqrt() * (std::f64::consts::TAU * uniform(state)).cos();
        (x as f32, (2.0 * x.sin() + x.powf(0.8) + 0.5 * noise) as f32)
    };
    (0..POINTS).map(point).unzip()
}

/// The loss of a width, and what it changes by with that width.
fn loss(context: &Context, inputs: &[f32], targets: &[f32], sigma: f32) -> Result<(f32, f32)> {
    let (x, y, score) = (Tensor::new(inputs, SHAPE)?, Tensor::new(targets, SHAPE)?, Score::gaussian(sigma));
    let (mut out, mut log_sum_exp, mut grad_sigma) = ([0.0f32; POINTS], [0.0f32; POINTS], [0.0f32]);
    let options = AttentionOptions::new().leave_one_out().log_sum_exp(&mut log_sum_exp);
    context.attention(&score, x, x, y, TensorMut::new(&mut out, SHAPE)?, options)?;

    let errors: Vec<f32> = out.iter().zip(targets).map(|(out, target)| out - target).collect();
    let grad_out: Vec<f32> = errors.iter().map(|error| 2.0 * error / POINTS as f32).collect();
    let gradients = AttentionGradients::new().out(Tensor::new(&grad_out, SHAPE)?).sigmas(&mut grad_sigma);
    let options = AttentionOptions::new().leave_one_out().log_sum_exp(&mut log_sum_exp);
    context.attention_backward(&score, x, x, y, Tensor::new(&out, SHAPE)?, options, gradients)?;
    Ok((errors.iter().map(|error| error * error).sum::<f32>() / POINTS as f32, grad_sigma[0]))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let context = Context::default();
    let (inputs, targets) = noisy_points();
    let (wide, narrow) = (1.0, 0.2);
    let mut sigma = wide;
    for step in 0..STEPS {
        let (now, grad_sigma) = loss(&context, &inputs, &targets, sigma)?;
        if step % 4 == 0 {
            println!("step {step:2}: sigma {sigma:.3}, loss {now:.4}");
        }
        sigma *= (-RATE * sigma * grad_sigma).exp();
    }
    let learned = loss(&context, &inputs, &targets, sigma)?.0;
    println!("learned: sigma {sigma:.3}, loss {learned:.4}");
    for fixed in [wide, narrow] {
        let by_hand = loss(&context, &inputs, &targets, fixed)?.0;
        println!("by hand: sigma {fixed:.3}, loss {by_hand:.4}");
        if learned.is_nan() || learned >= by_hand {
            return Err(format!("what was learned is no better than sigma {fixed}").into());
        }
    }
    Ok(())
}
