// SPDX-License-Identifier: Apache-2.0
//! A conversation with a language model, SmolLM2-135M-Instruct, on fovea: streamed word by word; Ctrl-C ends an answer.
//!
//!     cargo run --release -- MODEL [--precision highest|medium|int8] [--cache f32|bf16|i8] [--temperature T] [--seed N] [QUESTION]
//!
//! MODEL has model.safetensors and tokenizer.json, as `./dev example smollm2` puts them into build/smollm2/model. With a QUESTION
//! it answers that and ends.
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use fovea::*;
use rand::distr::{weighted::WeightedIndex, Distribution};
use rand::{rngs::StdRng, SeedableRng};
use safetensors::SafeTensors;
use tokenizers::Tokenizer;

type Outcome<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const LAYERS: usize = 30;
const HIDDEN: usize = 576;
const HEADS: usize = 9;
const KV_HEADS: usize = 3;
const DIM: usize = HIDDEN / HEADS;
const KV: usize = KV_HEADS * DIM;
const WIDE: usize = 1536;
const VOCABULARY: usize = 49152;
const EPSILON: f32 = 1e-5;
const BASE: f32 = 100000.0;
const TOKENS: usize = 512; // the most of a step
const POSITIONS: usize = 8192; // what the model was trained for
const END_OF_TURN: u32 = 2;
const SYSTEM: &str =
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n";

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

struct Layer {
    attention_norm: Vec<f32>,
    query: PackedMatrix,
    key: PackedMatrix,
    value: PackedMatrix,
    out: PackedMatrix,
    feed_forward_norm: Vec<f32>,
    gate: PackedMatrix,
    up: PackedMatrix,
    down: PackedMatrix,
}

/// The weights, and the cache with the schedule that reads it.
struct Model {
    context: Context,
    embedding: Vec<f32>,
    layers: Vec<Layer>,
    last_norm: Vec<f32>,
    to_logits: PackedMatrix,
    pool: KvPool,
    schedule: Schedule,
    workspace: Workspace,
}

/// A tensor of the file, by its name without the ending.
fn floats(file: &SafeTensors, name: &str) -> Outcome<Vec<f32>> {
    let bytes = file.tensor(&format!("{name}.weight"))?.data();
    Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

fn packed(context: &Context, weight: &[f32], inputs: usize, precision: Precision) -> Result<PackedMatrix> {
    let weight = Tensor::new(weight, [weight.len() / inputs, inputs])?;
    PackedMatrix::linear(context, weight, LinearPackOptions::new().precision(precision))
}

impl Layer {
    fn read(file: &SafeTensors, number: usize, context: &Context, precision: Precision) -> Outcome<Self> {
        let named = |name: &str| floats(file, &format!("blk.{number}.{name}"));
        let matrix = |name: &str, inputs| -> Outcome<_> { Ok(packed(context, &named(name)?, inputs, precision)?) };
        Ok(Layer {
            attention_norm: named("attn_norm")?,
            query: matrix("attn_q", HIDDEN)?,
            key: matrix("attn_k", HIDDEN)?,
            value: matrix("attn_v", HIDDEN)?,
            out: matrix("attn_output", HIDDEN)?,
            feed_forward_norm: named("ffn_norm")?,
            gate: matrix("ffn_gate", HIDDEN)?,
            up: matrix("ffn_up", HIDDEN)?,
            down: matrix("ffn_down", WIDE)?,
        })
    }
}

impl Model {
    fn open(folder: &std::path::Path, precision: Precision, cache: Dtype) -> Outcome<Self> {
        let path = folder.join("model.safetensors");
        let file = std::fs::File::open(&path)
            .map_err(|error| format!("{}: {error}; ./dev example smollm2 makes it", path.display()))?;
        let bytes = unsafe { memmap2::Mmap::map(&file)? };
        let file = SafeTensors::deserialize(&bytes)?;
        let context = Context::default();
        let embedding = floats(&file, "token_embd")?;
        let to_logits = packed(&context, &embedding, HIDDEN, precision)?;
        let layers = (0..LAYERS).map(|n| Layer::read(&file, n, &context, precision)).collect::<Outcome<_>>()?;
        let sizes = KvPoolSizes::new().layers(LAYERS as i64).kv_heads(KV_HEADS as i64).head_dim(DIM as i64);
        let sizes = sizes.positions(POSITIONS as i64).sequences(1).key_dtype(cache).value_dtype(cache);
        let pool = KvPool::new(&if matches!(cache, Dtype::I8) { sizes.scale_group(32) } else { sizes })?;
        let mut options = AttentionOptions::new().causal();
        if let (Some(keys), Some(values)) = (pool.key_scales(0), pool.value_scales(0)) {
            options = options.key_scales(keys).value_scales(values);
        }
        let rows = Tensor::shape_only::<f32>([TOKENS, HEADS, DIM])?;
        let limits = ScheduleLimits::new().sequences(1);
        let (keys, values) = (pool.keys(0)?, pool.values(0)?);
        let schedule = Schedule::new(&context, &Score::dot(), &rows, &keys, &values, &rows, options, limits)?;
        Ok(Model {
            context,
            embedding,
            layers,
            last_norm: floats(&file, "output_norm")?,
            to_logits,
            pool,
            schedule,
            workspace: Workspace::new(),
        })
    }

    fn norm(&self, x: &[f32], weight: &[f32]) -> Result<Vec<f32>> {
        let mut out = vec![0.0; x.len()];
        let shape = [x.len() / HIDDEN, HIDDEN];
        let options = RmsNormOptions::new().epsilon(EPSILON).weight(weight);
        self.context.rms_norm(Tensor::new(x, shape)?, TensorMut::new(&mut out, shape)?, options)?;
        Ok(out)
    }

    fn linear(&self, x: &[f32], weight: &PackedMatrix, rows: usize, columns: usize) -> Result<Vec<f32>> {
        let mut out = vec![0.0; rows * columns];
        let (x, to) = (Tensor::new(x, [rows, x.len() / rows])?, TensorMut::new(&mut out, [rows, columns])?);
        self.context.linear(x, weight, to, LinearOptions::new())?;
        Ok(out)
    }

    /// x W is added to the stream.
    fn add(&self, x: &[f32], weight: &PackedMatrix, stream: &mut [f32]) -> Result<()> {
        let rows = stream.len() / HIDDEN;
        let (x, to) = (Tensor::new(x, [rows, x.len() / rows])?, TensorMut::new(stream, [rows, HIDDEN])?);
        self.context.linear_add(x, weight, to, LinearOptions::new())
    }

    /// Turns rows of heads where they stand.
    fn turn(&self, rows: &mut [f32], heads: usize) -> Result<()> {
        let count = rows.len() / (heads * DIM);
        let strides = [DIM as isize, (heads * DIM) as isize, 1];
        let x = TensorMut::strided(rows, 0, [heads, count, DIM], strides)?;
        let options = RotaryOptions::new().interleaved().base(BASE).positions(self.schedule.positions());
        self.context.rotary_in_place(x, options)
    }

    /// The logits of what follows the last of at most TOKENS tokens.
    fn step(&mut self, sequence: &Sequence, tokens: &[u32]) -> Result<Vec<f32>> {
        let rows = tokens.len();
        self.schedule.set(&self.pool.step(&self.context, &[(sequence, rows)])?)?;
        let row = |token: &u32| self.embedding[*token as usize * HIDDEN..][..HIDDEN].iter().copied();
        let mut x: Vec<f32> = tokens.iter().flat_map(row).collect();
        for number in 0..LAYERS {
            self.attend(number, &mut x)?;
            let layer = &self.layers[number];
            let h = self.norm(&x, &layer.feed_forward_norm)?;
            let mut pair = self.linear(&h, &layer.up, rows, WIDE)?;
            let (h, gated) = (Tensor::new(&h, [rows, HIDDEN])?, TensorMut::new(&mut pair, [rows, WIDE])?);
            self.context.linear_multiply(h, &layer.gate, gated, LinearOptions::new().activation(Activation::Silu))?;
            self.add(&pair, &layer.down, &mut x)?;
        }
        self.linear(&self.norm(&x[(rows - 1) * HIDDEN..], &self.last_norm)?, &self.to_logits, 1, VOCABULARY)
    }

    fn attend(&mut self, number: usize, x: &mut [f32]) -> Result<()> {
        let rows = x.len() / HIDDEN;
        let layer = &self.layers[number];
        let h = self.norm(x, &layer.attention_norm)?;
        let mut query = self.linear(&h, &layer.query, rows, HIDDEN)?;
        let mut key = self.linear(&h, &layer.key, rows, KV)?;
        let value = self.linear(&h, &layer.value, rows, KV)?;
        self.turn(&mut query, HEADS)?;
        self.turn(&mut key, KV_HEADS)?;
        let shape = [rows, KV_HEADS, DIM];
        let pages = self.pool.pages(number)?;
        self.schedule.append(Tensor::new(&key, shape)?, Tensor::new(&value, shape)?, pages, AppendOptions::new())?;
        query.resize(TOKENS * HIDDEN, 0.0);
        let (keys, values) = (self.pool.keys(number)?, self.pool.values(number)?);
        let mut attended = vec![0.0f32; TOKENS * HIDDEN];
        let mut buffers = Buffers::new(&query, keys, values, &mut attended);
        if let (Some(keys), Some(values)) = (self.pool.key_scales(number), self.pool.value_scales(number)) {
            buffers = buffers.key_scales(keys).value_scales(values);
        }
        self.schedule.run(buffers, &mut self.workspace)?;
        self.add(&attended[..rows * HIDDEN], &self.layers[number].out, x)
    }
}

struct Chat {
    model: Model,
    tokenizer: Tokenizer,
    temperature: f32,
    random: StdRng,
    sequence: Sequence,
    before: &'static str,
}

impl Chat {
    fn choose(&mut self, logits: &[f32]) -> u32 {
        let likeliest = (0..logits.len()).fold(0, |best, n| if logits[n] > logits[best] { n } else { best });
        if self.temperature <= 0.0 {
            return likeliest as u32;
        }
        let weight = |logit: &f32| f64::from((logit - logits[likeliest]) / self.temperature).exp();
        let sampled = WeightedIndex::new(logits.iter().map(weight)).expect("weights are positive");
        sampled.sample(&mut self.random) as u32
    }

    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let mut logits = Vec::new();
        for some in tokens.chunks(TOKENS) {
            logits = self.model.step(&self.sequence, some)?;
        }
        Ok(logits)
    }

    /// Prints the answer as it comes.
    fn answer(&mut self, question: &str) -> Outcome<()> {
        let text = format!("{}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n", self.before);
        self.before = "\n";
        let asked = self.tokenizer.encode(text, false)?.get_ids().to_vec();
        let mut logits = self.read(&asked)?;
        let (mut made, mut shown) = (Vec::new(), 0);
        while made.len() < 512 && !INTERRUPTED.swap(false, Ordering::Relaxed) {
            let token = self.choose(&logits);
            if token == END_OF_TURN {
                break;
            }
            made.push(token);
            let whole = self.tokenizer.decode(&made, false)?;
            if !whole.ends_with('\u{fffd}') {
                print!("{}", &whole[shown..]); // a letter may take several tokens
                std::io::stdout().flush()?;
                shown = whole.len();
            }
            logits = self.read(&[token])?;
        }
        println!();
        self.read(&[END_OF_TURN]).map(drop).map_err(Into::into)
    }
}

fn main() -> Outcome<()> {
    let (mut precision, mut cache, mut temperature, mut seed) = (Precision::Medium, Dtype::Bf16, 0.0, 1);
    let mut plain = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--precision" => {
                precision = match value()?.as_str() {
                    "highest" => Precision::Highest,
                    "medium" => Precision::Medium,
                    "int8" => Precision::Int8,
                    other => return Err(format!("--precision {other}, expected highest, medium or int8").into()),
                }
            }
            "--cache" => {
                cache = match value()?.as_str() {
                    "f32" => Dtype::F32,
                    "bf16" => Dtype::Bf16,
                    "i8" => Dtype::I8,
                    other => return Err(format!("--cache {other}, expected f32, bf16 or i8").into()),
                }
            }
            "--temperature" => temperature = value()?.parse()?,
            "--seed" => seed = value()?.parse()?,
            _ => plain.push(argument),
        }
    }
    let folder = PathBuf::from(plain.first().ok_or("expected MODEL, a folder that ./dev example smollm2 makes")?);
    let model = Model::open(&folder, precision, cache)?;
    let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json"))?;
    let (sequence, random) = (model.pool.open()?, StdRng::seed_from_u64(seed));
    let mut chat = Chat { model, tokenizer, temperature, random, sequence, before: SYSTEM };
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed))?;
    if let Some(question) = plain.get(1) {
        return chat.answer(question);
    }
    loop {
        print!("you: ");
        std::io::stdout().flush()?;
        let mut question = String::new();
        if std::io::stdin().read_line(&mut question)? == 0 {
            return Ok(());
        }
        chat.answer(question.trim_end())?;
    }
}
