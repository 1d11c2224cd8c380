//! Weights of 8-bit floats (E4M3: Micikevicius et al., arXiv 2209.05433) with scales: one for a matrix, for each row, or for
//! each block of a matrix.
//!
//! `quantization_config` names the method. Scales are tensors beside the weights, with the name of the weight and an ending.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use serde_json::Value;

use super::config::{CONFIG, Config, excerpt};
use super::error::{ConvertError, invalid, unsupported};
use super::safetensors::{Format, SourceTensor};

/// Upper limit of a matrix's scales: one for each row, or for each block of 128 x 128.
const MAX_SCALE_BYTES: u64 = 64 << 20;
/// Endings of names of scales that the forward pass does not need: those of activations.
const UNUSED: [&str; 6] =
    [".input_scale", ".activation_scale", "_activation_scale", ".k_scale", ".v_scale", ".q_scale"];

/// How the weights of a checkpoint are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// As numbers.
    Plain,
    /// With scales. Their names end in `ending` instead of `weight`. Blocks have this number of rows and columns.
    Scaled { ending: &'static str, block: Option<[u64; 2]> },
    /// Some with 4-bit floats in blocks.
    Mxfp4,
}

/// A tensor of scales.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    pub(super) tensor: SourceTensor,
    pub(super) block: Option<[u64; 2]>,
}

impl Method {
    pub(super) fn read(config: &Config) -> Result<Self, ConvertError> {
        let quantisation = config.value("quantization_config");
        let Some(method) = quantisation["quant_method"].as_str() else { return Ok(Method::Plain) };
        let block = block(&quantisation["weight_block_size"])?;
        match (method, quantisation["format"].as_str()) {
            ("mxfp4", _) => Ok(Method::Mxfp4),
            ("fp8", _) => Ok(Method::Scaled { ending: "weight_scale_inv", block }),
            ("fbgemm_fp8", _) => Ok(Method::Scaled { ending: "weight_scale", block: None }),
            ("compressed-tensors", Some("float-quantized" | "naive-quantized")) => {
                let groups = quantisation["config_groups"].as_object();
                let mut groups = groups.into_iter().flat_map(|groups| groups.values());
                let weights = match (groups.next(), groups.next()) {
                    (Some(group), None) => &group["weights"],
                    _ => return Err(unsupported("a checkpoint with several groups of quantized weights")),
                };
                Ok(Method::Scaled { ending: "weight_scale", block: self::block(&weights["block_structure"])? })
            }
            (method, format) => {
                let format = format.map(|format| format!(" ({format})")).unwrap_or_default();
                Err(unsupported(format!(
                    "quantization by {method:?}{format} (convert the checkpoint that it was made from, or pull a GGUF \
                     version of the model)"
                )))
            }
        }
    }

    /// Returns whether a tensor belongs to the quantisation, and which weight it scales.
    pub(super) fn scaled(self, name: &str) -> Option<Option<String>> {
        let Method::Scaled { ending, .. } = self else { return None };
        if let Some(stem) = name.strip_suffix(ending).filter(|stem| stem.ends_with('.')) {
            return Some(Some(format!("{stem}weight")));
        }
        UNUSED.iter().any(|unused| name.ends_with(unused)).then_some(None)
    }
}

fn block(value: &Value) -> Result<Option<[u64; 2]>, ConvertError> {
    if value.is_null() {
        return Ok(None);
    }
    let sizes: Option<Vec<u64>> = value.as_array().map(|sizes| sizes.iter().filter_map(Value::as_u64).collect());
    match sizes.as_deref() {
        Some(&[rows, columns]) if rows > 0 && columns > 0 => Ok(Some([rows, columns])),
        _ => Err(invalid(CONFIG, format!("the size of blocks is {}, not two counts", excerpt(value)))),
    }
}

/// The scales of a matrix.
#[derive(Debug)]
pub(super) struct Scales {
    values: Vec<f32>,
    /// Rows and columns that share a scale.
    block: [u64; 2],
    /// Scales of a row of blocks.
    columns: u64,
}

impl Scale {
    /// Checks that the scales belong to a matrix. Returns the block and the scales of a row of blocks.
    pub(super) fn shape(&self, rows: u64, columns: u64) -> Result<([u64; 2], u64), String> {
        let SourceTensor { shape, format, bytes, .. } = &self.tensor;
        if !matches!(format, Format::Float(_)) || *bytes > MAX_SCALE_BYTES {
            return Err(format!("its scales are not floats of at most {} MiB", MAX_SCALE_BYTES >> 20));
        }
        match (self.block, &shape[..]) {
            (_, [] | [1] | [1, 1]) => Ok(([rows.max(1), columns.max(1)], 1)),
            (None, &[count] | &[count, 1]) if count == rows => Ok(([1, columns.max(1)], 1)),
            (Some(block), &[down, across])
                if down == rows.div_ceil(block[0]) && across == columns.div_ceil(block[1]) =>
            {
                Ok((block, across))
            }
            (Some(block), shape) => {
                Err(format!("scales of the shape {shape:?} do not fit [{rows}, {columns}] in blocks of {block:?}"))
            }
            (None, shape) => Err(format!("scales of the shape {shape:?} do not fit [{rows}, {columns}]")),
        }
    }

    /// Reads the scales.
    pub(super) fn read(&self, mut file: &File, rows: u64, columns: u64) -> io::Result<Scales> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        let (block, columns) = self.shape(rows, columns).map_err(invalid)?;
        let Format::Float(dtype) = self.tensor.format else { return Err(invalid("scales are not floats".to_owned())) };
        let mut bytes = vec![0; self.tensor.bytes as usize];
        file.seek(SeekFrom::Start(self.tensor.offset))?;
        file.read_exact(&mut bytes)?;
        let mut values = vec![0.0; bytes.len() / dtype.block_bytes()];
        dtype.decode(&bytes, &mut values);
        Ok(Scales { values, block, columns })
    }
}

impl Scales {
    /// Multiplies the elements of whole rows, of which the first is `row`.
    pub(super) fn apply(&self, first: u64, columns: usize, values: &mut [f32]) {
        let [down, across] = self.block;
        for (row, values) in (first..).zip(values.chunks_mut(columns.max(1))) {
            let start = (row / down * self.columns) as usize;
            let across = usize::try_from(across).unwrap_or(usize::MAX);
            for (values, scale) in values.chunks_mut(across).zip(&self.values[start..]) {
                values.iter_mut().for_each(|value| *value *= scale);
            }
        }
    }
}

/// Decodes E4M3: a sign, four exponent bits and three of the mantissa. There is no infinity.
pub(super) fn decode(bytes: &[u8], values: &mut [f32]) {
    let table: [f32; 256] = std::array::from_fn(|byte| number(byte as u8));
    for (value, &byte) in values.iter_mut().zip(bytes) {
        *value = table[usize::from(byte)];
    }
}

fn number(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let magnitude = match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa / 8.0 * (-6f32).exp2(),
        _ => (1.0 + mantissa / 8.0) * ((exponent - 7) as f32).exp2(),
    };
    if byte >> 7 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_of_eight_bits_are_decoded() {
        let mut values = [0.0; 9];
        decode(&[0x00, 0x01, 0x07, 0x08, 0x38, 0x3f, 0x7e, 0xfe, 0x80], &mut values);
        let expected = [0.0, 2f32.powi(-9), 7.0 * 2f32.powi(-9), 2f32.powi(-6), 1.0, 1.875, 448.0, -448.0, -0.0];
        assert_eq!(values.map(f32::to_bits), expected.map(f32::to_bits));
        assert!(number(0x7f).is_nan() && number(0xff).is_nan(), "all ones are not a number");
    }

    #[test]
    fn scale_applies_to_its_block() {
        let scales = Scales { values: vec![1.0, 10.0, 100.0, 1000.0], block: [2, 3], columns: 2 };
        let mut values = [1.0; 12];
        scales.apply(1, 4, &mut values);
        assert_eq!(values, [1.0, 1.0, 1.0, 10.0, 100.0, 100.0, 100.0, 1000.0, 100.0, 100.0, 100.0, 1000.0]);
    }

    #[test]
    fn method_of_the_config_determines_names_of_scales() {
        let method = |config: Value| {
            let root = json!({"architectures": ["x"], "quantization_config": config});
            Method::read(&Config::new(root).expect("a valid config")).map_err(|error| error.to_string())
        };
        let fp8 = method(json!({"quant_method": "fp8", "weight_block_size": [128, 64]})).expect("it is supported");
        assert_eq!(fp8, Method::Scaled { ending: "weight_scale_inv", block: Some([128, 64]) });
        assert_eq!(fp8.scaled("a.weight_scale_inv"), Some(Some("a.weight".to_owned())));
        assert_eq!(fp8.scaled("a.input_scale"), Some(None), "scales of activations are left out");
        assert_eq!(fp8.scaled("a.weight"), None);
        assert_eq!(method(json!(null)), Ok(Method::Plain));
        assert_eq!(method(json!({"quant_method": "mxfp4"})), Ok(Method::Mxfp4));
        let groups = json!({"group_0": {"weights": {"strategy": "channel"}}});
        let channel =
            json!({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": groups});
        assert_eq!(method(channel), Ok(Method::Scaled { ending: "weight_scale", block: None }));
        for other in ["gptq", "awq", "bitsandbytes"] {
            let error = method(json!({"quant_method": other})).expect_err("it is not supported");
            assert!(error.contains(other), "{error}");
        }
        let error = method(json!({"quant_method": "fp8", "weight_block_size": [0, 1]})).expect_err("no block");
        assert!(error.contains("the size of blocks is [0,1]"), "{error}");
    }
}
