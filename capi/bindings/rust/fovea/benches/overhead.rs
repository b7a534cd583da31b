//! What a small planned call costs here over the C function alone: both in turns, the quicker tenth of many short blocks.
use fovea::{sys, AttentionOptions, Buffers, Context, ContextOptions, Tensor};
use std::ptr::null_mut;
use std::time::Instant;

const RUNS: u32 = 200;
const BLOCKS: usize = 400;

fn seconds(mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..RUNS {
        call();
    }
    start.elapsed().as_secs_f64() / RUNS as f64
}

fn quick(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}

fn main() {
    let context = Context::new(ContextOptions::new().max_threads(1)).unwrap();
    let (query_shape, key_shape) = ([2, 5, 4, 20], [2, 5, 6, 20]);
    let (query, key) = (vec![0.5f32; 800], vec![0.25f32; 1200]);
    let (q, k) = (Tensor::shape_only::<f32>(query_shape).unwrap(), Tensor::shape_only::<f32>(key_shape).unwrap());
    let plan = context.sdpa_plan(&q, &k, &k, &q, AttentionOptions::new()).unwrap();
    let mut workspace = plan.workspace();
    let mut out = vec![0.0f32; 800];

    let mut c = CCall::new(&query_shape, &key_shape, &query, &key);
    let (mut rust_times, mut c_times) = (Vec::new(), Vec::new());
    for _ in 0..BLOCKS {
        c_times.push(seconds(|| c.run()));
        rust_times.push(seconds(|| plan.run(Buffers::new(&query, &key, &key, &mut out), &mut workspace).unwrap()));
    }
    let (rust, c) = (quick(rust_times), quick(c_times));
    println!("C {:.0} ns, Rust {:.0} ns: {:+.1} %", c * 1e9, rust * 1e9, 100.0 * (rust / c - 1.0));
}

/// The same plan by the C functions, its buffers filled in once.
struct CCall {
    plan: *mut sys::fovea_plan,
    buffers: sys::fovea_attention_buffers,
    workspace: Vec<u8>,
    _out: Vec<f32>,
}

impl CCall {
    fn new(query_shape: &[usize; 4], key_shape: &[usize; 4], query: &[f32], key: &[f32]) -> Self {
        let tensor = |shape: &[usize; 4]| {
            let shape = shape.map(|size| size as i64);
            unsafe { sys::fovea_tensor_contiguous(null_mut(), sys::FOVEA_F32, 4, shape.as_ptr()) }
        };
        let (q, k) = (tensor(query_shape), tensor(key_shape));
        let options = sys::fovea_context_options { max_threads: 1, ..Default::default() };
        let (mut context, mut plan) = (null_mut(), null_mut());
        let mut out = vec![0.0f32; query.len()];
        unsafe {
            assert_eq!(sys::fovea_context_create(&options, &mut context), 0);
            assert_eq!(sys::fovea_sdpa_plan_create(context, &q, &k, &k, &q, std::ptr::null(), &mut plan), 0);
        }
        let buffers = sys::fovea_attention_buffers {
            query: query.as_ptr().cast(),
            key: key.as_ptr().cast(),
            value: key.as_ptr().cast(),
            out: out.as_mut_ptr().cast(),
            ..Default::default()
        };
        let workspace = vec![0; unsafe { sys::fovea_plan_workspace_size(plan) }];
        CCall { plan, buffers, workspace, _out: out }
    }

    fn run(&mut self) {
        let memory = self.workspace.as_mut_ptr().cast();
        let status = unsafe { sys::fovea_attention_run(self.plan, &self.buffers, memory, self.workspace.len()) };
        assert_eq!(status, 0);
    }
}
