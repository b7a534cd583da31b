//! A server in small: requests that begin with the same prompt come and go while others are being answered. Every step takes
//! all there are, prompts and single tokens alike, in one run for each layer; sequences share the pages of the prompt. The
//! model is an embedding of numbers, as its keys, values and queries are not the point here.
use fovea::*;

const LAYERS: usize = 2;
const HEADS: usize = 4;
const DIM: usize = 32;
const ROW: usize = HEADS * DIM;
const TOKENS: usize = 64; // the most of a step

struct Request {
    sequence: Sequence,
    waiting: usize, // tokens of its question that no step has taken yet, or the one that was said last
    answer_left: usize,
}

/// What a projection would give for token `position` of a sequence.
fn embed(rows: &mut Vec<f32>, position: usize, seed: usize) {
    rows.extend((0..ROW).map(|i| (((position * 31 + i * 17 + seed) % 97) as f32 - 48.0) / 48.0));
}

fn main() -> Result<()> {
    let context = Context::default();
    let sizes = KvPoolSizes::new().layers(LAYERS as i64).kv_heads(HEADS as i64).head_dim(DIM as i64);
    let mut pool = KvPool::new(&sizes.positions(512).page_size(16).sequences(8))?;
    let rows = Tensor::shape_only::<f32>([TOKENS, HEADS, DIM])?;
    let options = AttentionOptions::new().causal();
    let limits = ScheduleLimits::new().sequences(8);
    let (keys, values) = (pool.keys(0)?, pool.values(0)?);
    let mut schedule = Schedule::new(&context, &Score::dot(), &rows, &keys, &values, &rows, options, limits)?;

    let prompt = pool.open()?; // what every request begins with
    let mut workspace = Workspace::new();
    step(&context, &mut pool, &mut schedule, &mut workspace, &[(&prompt, 40)])?;
    let mut requests: Vec<Request> = Vec::new();
    for number in 0.. {
        if number % 2 == 0 && number < 8 {
            let sequence = prompt.fork(prompt.len())?;
            requests.push(Request { sequence, waiting: 3 + 2 * number, answer_left: 4 });
        }
        if requests.is_empty() {
            break;
        }
        let grown: Vec<_> = requests.iter().map(|request| (&request.sequence, request.waiting)).collect();
        match step(&context, &mut pool, &mut schedule, &mut workspace, &grown) {
            Ok(()) => println!("step {number}: {} free pages, {}", pool.free_pages(), schedule.describe()),
            Err(error) if error.status() == Status::PoolExhausted => {
                requests.pop(); // and ask it to come back
                continue;
            }
            Err(error) => return Err(error),
        }
        for request in &mut requests {
            request.waiting = 1;
            request.answer_left -= 1;
        }
        requests.retain(|request| request.answer_left > 0); // the others close, and give their pages back
    }
    Ok(())
}

/// Takes the waiting tokens of all sequences through the layers.
fn step(
    context: &Context,
    pool: &mut KvPool,
    schedule: &mut Schedule,
    workspace: &mut Workspace,
    grown: &[(&Sequence, usize)],
) -> Result<()> {
    schedule.set(&pool.step(context, grown)?)?;
    let positions: Vec<usize> = schedule.positions().iter().map(|position| *position as usize).collect();
    let mut out = vec![0.0f32; TOKENS * ROW];
    for layer in 0..LAYERS {
        let (mut query, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
        for position in &positions {
            embed(&mut query, *position, layer);
            embed(&mut key, *position, layer + 10);
            embed(&mut value, *position, layer + 20);
        }
        let shape = [positions.len(), HEADS, DIM];
        schedule.append(
            Tensor::new(&key, shape)?,
            Tensor::new(&value, shape)?,
            pool.pages(layer)?,
            AppendOptions::new(),
        )?;
        query.resize(TOKENS * ROW, 0.0);
        schedule.run(Buffers::new(&query, pool.keys(layer)?, pool.values(layer)?, &mut out), workspace)?;
    }
    Ok(())
}
