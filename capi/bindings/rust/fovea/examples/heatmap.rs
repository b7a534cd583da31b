//! Where each word of a sentence looks: one head of a real sentence encoder, drawn with characters.
//!
//!     cargo run --example heatmap
//!
//! Runs the layer over two padded sentences and compares with the float64 reference that lies beside the numbers
//! (capi/examples/data/README.md). Exits with an error if the result is not what it must be.
use fovea::{AttentionOptions, Context, Tensor, TensorMut};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The elements and the shape of a .npy file of format 1.0, each element made from N little-endian bytes.
fn load<T, const N: usize>(name: &str, descr: &str, make: fn([u8; N]) -> T) -> Outcome<(Vec<T>, Vec<usize>)> {
    let bytes = std::fs::read(data(name)).map_err(|error| format!("{name}: {error}"))?;
    if bytes.len() < 10 || &bytes[..8] != b"\x93NUMPY\x01\x00" {
        return Err(format!("{name}: not a .npy file of format 1.0").into());
    }
    let begin = 10 + u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let header = String::from_utf8_lossy(bytes.get(10..begin).ok_or("the header is cut")?).into_owned();
    if !header.contains(&format!("'descr': '{descr}'")) || !header.contains("'fortran_order': False") {
        return Err(format!("{name}: expected {descr} in C order, found {header}").into());
    }
    let tuple = header.split('(').nth(1).and_then(|rest| rest.split(')').next()).ok_or("no shape")?;
    let shape = tuple.split(',').filter_map(|size| size.trim().parse().ok()).collect();
    Ok((bytes[begin..].chunks_exact(N).map(|chunk| make(chunk.try_into().unwrap())).collect(), shape))
}

fn data(name: &str) -> String {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/data");
    format!("{}/{name}", std::env::var("FOVEA_EXAMPLE_DATA").unwrap_or_else(|_| here.into()))
}

fn main() -> Outcome<()> {
    let (query, shape) = load("query.npy", "<f4", f32::from_le_bytes)?;
    let (key, _) = load("key.npy", "<f4", f32::from_le_bytes)?;
    let (value, _) = load("value.npy", "<f4", f32::from_le_bytes)?;
    let (valid_lens, _) = load("valid_lens.npy", "<i4", i32::from_le_bytes)?;
    let (reference, _) = load("out.npy", "<f8", f64::from_le_bytes)?;
    let tokens = std::fs::read_to_string(data("tokens.txt"))?;
    let (heads, len) = (shape[1], shape[2]);

    let mut out = vec![0.0f32; query.len()];
    let mut weights = vec![0.0f32; shape[0] * heads * len * len];
    let weights_view = TensorMut::new(&mut weights, [shape[0], heads, len, len])?;
    Context::default().sdpa(
        Tensor::new(&query, &shape)?,
        Tensor::new(&key, &shape)?,
        Tensor::new(&value, &shape)?,
        TensorMut::new(&mut out, &shape)?,
        AttentionOptions::new().valid_lens(&valid_lens).weights(weights_view),
    )?;

    let (sentence, head) = (1, 9);
    let words: Vec<&str> = tokens.lines().nth(sentence).ok_or("tokens.txt is short")?.split('\t').collect();
    println!("head {head}: how much the word on the left attends to each of the words above");
    for letter in 0..words.iter().map(|word| word.len()).max().unwrap_or(0) {
        let column: String = words.iter().map(|word| format!(" {}", word.chars().nth(letter).unwrap_or(' '))).collect();
        println!("{:>12} {column}", "");
    }
    for (i, word) in words.iter().enumerate() {
        let row = &weights[((sentence * heads + head) * len + i) * len..][..words.len()];
        let shades: String = row.iter().map(|weight| shade(*weight)).flat_map(|shade| [shade, shade]).collect();
        println!("{word:>12}  {shades}");
    }

    let error = out.iter().zip(&reference).map(|(a, b)| (*a as f64 - b).abs()).fold(0.0, f64::max);
    println!(
        "fovea {} ({}): largest error against float64 {error:.1e}",
        fovea::version(),
        Context::default().isa_name()
    );
    if out.iter().any(|x| x.is_nan()) || error > 1e-5 {
        return Err("the output is not the reference".into());
    }
    Ok(())
}

fn shade(weight: f32) -> char {
    match (weight * 100.0) as u32 {
        0..=4 => '·',
        5..=14 => '░',
        15..=34 => '▒',
        35..=64 => '▓',
        _ => '█',
    }
}
