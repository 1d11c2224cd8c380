//! Writes a random-weight model: `write_model SHAPE TYPES FILE`, for example `write_model llama1b Q4_K_M out.gguf`.

use std::process::ExitCode;

use cairn_gguf::DType;
use cairn_testkit::{ModelSpec, Types, llama1b_shape, qwen06b_shape, tiny_llama, tiny_qwen3, write_file};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [shape, types, file] = arguments.as_slice() else { return usage() };
    let types = match types.as_str() {
        "Q4_K_M" => Types::Q4KM,
        name => match DType::all().find(|dtype| dtype.name() == name && dtype.is_weight()) {
            Some(dtype) => Types::All(dtype),
            None => return usage(),
        },
    };
    let spec = match shape.as_str() {
        "llama" => ModelSpec { types, ..tiny_llama() },
        "qwen3" => ModelSpec { types, ..tiny_qwen3() },
        // A width that K-quants do not fit.
        "llama896" => ModelSpec { types, width: 896, heads: 14, ffn: 1280, ..tiny_llama() },
        "llama1b" => llama1b_shape(types),
        "qwen06b" => qwen06b_shape(types),
        _ => return usage(),
    };
    match write_file(&spec, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{file}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    let types: Vec<&str> = DType::all().filter(|dtype| dtype.is_weight()).map(DType::name).collect();
    eprintln!("write_model llama|qwen3|llama896|llama1b|qwen06b {}|Q4_K_M FILE", types.join("|"));
    ExitCode::FAILURE
}
