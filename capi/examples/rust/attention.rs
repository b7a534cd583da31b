// attention: masked attention from Rust through the C interface: extern "C", no crates.
//
//     rustc -O attention.rs -L LIBRARY_DIRECTORY -l fovea
//     LD_LIBRARY_PATH=LIBRARY_DIRECTORY ./attention ../data
//
// Runs one layer of a sentence encoder over two padded sentences (../data/README.md), compares with the float64
// reference and tells where three words look. Exits with an error if the result is not what it must be.
//
// SPDX-License-Identifier: Apache-2.0

use std::error::Error;
use std::ffi::{c_void, CStr};
use std::os::raw::c_char;
use std::ptr::null;

type Outcome<T> = Result<T, Box<dyn Error>>;

const F32: i32 = 1;
const I32: i32 = 5;

/// fovea_tensor
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    dtype: i32,
    rank: i32,
    shape: [i64; 6],
    strides: [i64; 6],
}

/// fovea_attention_options
#[repr(C)]
struct AttentionOptions {
    struct_size: usize,
    flags: u32,
    empty_rows: i32,
    scale: f32,
    softcap: f32,
    query_offset: i64,
    window_left: i64,
    window_right: i64,
    valid_lens: *const Tensor,
    mask: *const Tensor,
    bias: *const Tensor,
    alibi_slopes: *const Tensor,
    sinks: *const Tensor,
    log_sum_exp: *const Tensor,
    weights: *const Tensor,
    dropout: f32,
    reserved: i32,
    dropout_seed: u64,
    query_offsets: *const Tensor,
}

extern "C" {
    fn fovea_version() -> *const c_char;
    fn fovea_isa_name(context: *const c_void) -> *const c_char;
    fn fovea_last_error() -> *const c_char;
    fn fovea_tensor_contiguous(data: *mut c_void, dtype: i32, rank: i32, shape: *const i64) -> Tensor;
    fn fovea_sdpa(
        context: *const c_void,
        query: *const Tensor,
        key: *const Tensor,
        value: *const Tensor,
        out: *const Tensor,
        options: *const AttentionOptions,
    ) -> i32;
}

fn text(pointer: *const c_char) -> String {
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

fn view<T>(data: &[T], dtype: i32, shape: &[i64]) -> Tensor {
    unsafe { fovea_tensor_contiguous(data.as_ptr() as *mut c_void, dtype, shape.len() as i32, shape.as_ptr()) }
}

fn view_mut<T>(data: &mut [T], dtype: i32, shape: &[i64]) -> Tensor {
    unsafe { fovea_tensor_contiguous(data.as_mut_ptr() as *mut c_void, dtype, shape.len() as i32, shape.as_ptr()) }
}

/// The elements and the shape of a .npy file of format 1.0, each element made from N little-endian bytes.
fn load<T, const N: usize>(path: String, descr: &str, make: fn([u8; N]) -> T) -> Outcome<(Vec<T>, Vec<i64>)> {
    let bytes = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    if bytes.len() < 10 || &bytes[..8] != b"\x93NUMPY\x01\x00" {
        return Err(format!("{path}: not a .npy file of format 1.0").into());
    }
    let begin = 10 + u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let header = String::from_utf8_lossy(bytes.get(10..begin).ok_or("the header is cut")?).into_owned();
    if !header.contains(&format!("'descr': '{descr}'")) || !header.contains("'fortran_order': False") {
        return Err(format!("{path}: expected {descr} in C order, found {header}").into());
    }
    let tuple = header.split('(').nth(1).and_then(|rest| rest.split(')').next()).ok_or("no shape")?;
    let shape: Vec<i64> = tuple.split(',').filter_map(|size| size.trim().parse().ok()).collect();
    let elements: Vec<T> = bytes[begin..].chunks_exact(N).map(|chunk| make(chunk.try_into().unwrap())).collect();
    if elements.len() as i64 != shape.iter().product::<i64>() {
        return Err(format!("{path}: {} elements do not fill {shape:?}", elements.len()).into());
    }
    Ok((elements, shape))
}

fn main() -> Outcome<()> {
    let folder = std::env::args().nth(1).ok_or("usage: attention DATA_DIRECTORY")?;
    let (query, shape) = load(format!("{folder}/query.npy"), "<f4", f32::from_le_bytes)?;
    let (key, _) = load(format!("{folder}/key.npy"), "<f4", f32::from_le_bytes)?;
    let (value, _) = load(format!("{folder}/value.npy"), "<f4", f32::from_le_bytes)?;
    let (valid_lens, lens_shape) = load(format!("{folder}/valid_lens.npy"), "<i4", i32::from_le_bytes)?;
    let (reference, _) = load(format!("{folder}/out.npy"), "<f8", f64::from_le_bytes)?;
    let tokens = std::fs::read_to_string(format!("{folder}/tokens.txt"))?;
    let (heads, len) = (shape[1] as usize, shape[2] as usize);

    let mut out = vec![0f32; query.len()];
    let mut weights = vec![0f32; shape[0] as usize * heads * len * len];
    let lens_view = view(&valid_lens, I32, &lens_shape);
    let weights_view = view_mut(&mut weights, F32, &[shape[0], shape[1], shape[2], shape[2]]);
    let options = AttentionOptions {
        struct_size: std::mem::size_of::<AttentionOptions>(),
        valid_lens: &lens_view,
        weights: &weights_view,
        ..unsafe { std::mem::zeroed() } // zero is the default of every option
    };
    let (q, k, v) = (view(&query, F32, &shape), view(&key, F32, &shape), view(&value, F32, &shape));
    let o = view_mut(&mut out, F32, &shape);
    if unsafe { fovea_sdpa(null(), &q, &k, &v, &o, &options) } != 0 {
        return Err(text(unsafe { fovea_last_error() }).into());
    }

    let error = out.iter().zip(&reference).map(|(a, b)| (*a as f64 - b).abs()).fold(0.0, f64::max);
    let (version, isa) = unsafe { (text(fovea_version()), text(fovea_isa_name(null()))) };
    println!("fovea {version} ({isa}) from Rust: largest error against float64 {error:.1e}");
    for (sentence, head, query) in [(0, 8, "the"), (1, 9, "happy"), (1, 9, "family")] {
        let words: Vec<&str> = tokens.lines().nth(sentence).ok_or("tokens.txt is short")?.split('\t').collect();
        let i = words.iter().position(|word| *word == query).ok_or("no such word")?;
        let row = &weights[((sentence * heads + head) * len + i) * len..][..words.len()];
        let j = (1..words.len() - 1).max_by(|a, b| row[*a].total_cmp(&row[*b])).ok_or("an empty sentence")?;
        println!("  {query} -> {} {:.0} %", words[j], 100.0 * row[j]);
    }
    if out.iter().any(|x| x.is_nan()) || error > 1e-5 {
        return Err("the output is not the reference".into());
    }
    Ok(())
}
