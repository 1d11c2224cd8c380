//! The embedding and the output matrix, with a relation that gives distinct logits.
//!
//! If they were independent, logits would be Gaussian, and rounding would decide the most likely token at half of the
//! positions. If they were equal, the model would echo its input. So each token `t` has a **successor**, whose row of
//! the output matrix equals the embedding of `t`:
//!
//! * With a separate output matrix, row 0 has the bytes of the last row of the embedding, and each other row those of
//!   the previous row, so each token is followed by the next id. Ids increase because end tokens have the highest ids.
//!   This needs one type for both; with different types, the rows are independent.
//! * Tied, the last norm negates every other group of [`GROUP`] elements, and embedding row `2j + 1` is row `2j` with
//!   the same groups negated, so the two follow each other. With as many groups negated as not, a token's own logit is
//!   that of any other.
//!
//! **Scale.** The embedding's share of the stream before the last norm puts the successor's logit
//! [`SUCCESSOR_DEVIATIONS`] above the mean. The largest of some hundred Gaussian logits is near 3, so the successor is
//! mostly the most likely token. At a few percent of positions the context changes the result.

use std::io::{self, Write};

use cairn_gguf::DType;

use crate::families::ENCODER_DECODERS;
use crate::random::Random;
use crate::spec::ModelSpec;
pub use crate::weights::GROUP;
use crate::weights::{fill, negate_odd_groups, write_matrix};

/// Logit of the successor, in standard deviations of the others.
const SUCCESSOR_DEVIATIONS: f32 = 4.5;

/// Variance that a part of a block (attention or MLP) adds to the stream's elements, measured.
const PART_VARIANCE: f32 = 0.425;

/// Returns the standard deviation of the elements of embedding and output matrix.
pub(crate) fn deviation(spec: &ModelSpec) -> f32 {
    in_stream(spec) * spec.family.residual_scale / (spec.family.embedding_scale)(spec)
}

/// Returns the standard deviation of an embedding's elements in the stream, without scaling of blocks.
fn in_stream(spec: &ModelSpec) -> f32 {
    // The share s of the stream is embedding / sqrt(embedding^2 + blocks^2), and s * sqrt(width) the successor's
    // deviations.
    let squared = SUCCESSOR_DEVIATIONS * SUCCESSOR_DEVIATIONS;
    (parts(spec) as f32 * PART_VARIANCE * squared / (spec.width as f32 - squared)).sqrt()
}

/// Returns the number of parts of all blocks. Those of a decoder with an encoder attend to its rows, too.
fn parts(spec: &ModelSpec) -> u64 {
    let has_encoder = ENCODER_DECODERS.iter().any(|family| family.name == spec.family.name);
    spec.layers * if has_encoder { 3 } else { 2 }
}

/// Returns the token that follows unless the context changes it.
pub fn successor(spec: &ModelSpec, token: u32) -> u32 {
    let last = spec.vocab as u32 - 1;
    match spec.tied {
        true => (token ^ 1).min(last),
        false if token == last => 0,
        false => token + 1,
    }
}

/// Writes a separate output matrix with independent rows.
///
/// # Errors
/// Those of `out`.
pub fn write_output(spec: &ModelSpec, dtype: DType, random: &mut Random, out: &mut dyn Write) -> io::Result<()> {
    write_matrix(dtype, spec.width * spec.vocab, deviation(spec), random, out)
}

/// Writes the embedding for [`write_output`] with the same type and random numbers: the same rows, with the first one
/// last.
///
/// # Errors
/// Those of `out`.
pub fn write_untied(spec: &ModelSpec, dtype: DType, random: &mut Random, out: &mut dyn Write) -> io::Result<()> {
    let mut first = vec![0; dtype.row_bytes(spec.width as usize)];
    fill(dtype, deviation(spec), random, &mut first);
    write_matrix(dtype, spec.width * (spec.vocab - 1), deviation(spec), random, out)?;
    out.write_all(&first)
}

/// Writes an embedding that is also the output matrix: row `2j + 1` is row `2j` with its odd groups negated.
///
/// # Errors
/// Those of `out`.
pub fn write_tied(spec: &ModelSpec, dtype: DType, random: &mut Random, out: &mut dyn Write) -> io::Result<()> {
    let mut row = vec![0; dtype.row_bytes(spec.width as usize)];
    for at in 0..spec.vocab {
        if at.is_multiple_of(2) {
            fill(dtype, deviation(spec), random, &mut row);
        } else {
            negate_odd_groups(dtype, &mut row);
        }
        out.write_all(&row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::tiny_llama;
    use crate::spec::Types;

    /// Returns the rows of a matrix.
    fn rows(
        dtype: DType,
        write: fn(&ModelSpec, DType, &mut Random, &mut dyn Write) -> io::Result<()>,
    ) -> Vec<Vec<f32>> {
        let spec = ModelSpec { vocab: 300, types: Types::All(dtype), ..tiny_llama() };
        let mut bytes = Vec::new();
        write(&spec, dtype, &mut Random::new(5), &mut bytes).expect("a vector takes all bytes");
        let mut values = vec![0.0; (spec.width * spec.vocab) as usize];
        dtype.decode(&bytes, &mut values);
        values.chunks(spec.width as usize).map(<[f32]>::to_vec).collect()
    }

    #[test]
    fn successor_rows_match_in_every_type() {
        for dtype in DType::all().filter(|dtype| dtype.is_weight()) {
            let embedding = rows(dtype, write_untied);
            let output = rows(dtype, write_output);
            assert_eq!(output[1..], embedding[..299], "{dtype}: row t of the embedding is row t + 1 of the output");
            assert_eq!(output[0], embedding[299], "{dtype}: the last row of the embedding is row 0 of the output");

            if matches!(dtype, DType::IQ1_S | DType::IQ1_M) {
                continue;
            }
            let tied = rows(dtype, write_tied);
            let largest = tied[0].iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            for (at, (even, odd)) in tied[0].iter().zip(&tied[1]).enumerate() {
                let expected = if (at / GROUP).is_multiple_of(2) { *even } else { -even };
                // The K-quants' middle is itself rounded.
                assert!((expected - odd).abs() < 2e-3 * largest, "{dtype}, element {at}: {odd}, not {expected}");
            }
            assert_ne!(tied[0], tied[2], "{dtype}: pairs differ");
        }
    }
}
