//! State space models of the second generation, in the names that several families have. Checkpoints have the
//! logarithms of rates of decay.

use cairn_gguf::Metadata;

use super::super::config::{CONFIG, Config, MAX_WIDTH};
use super::super::decoder::{Dim, Row, row};
use super::super::error::{ConvertError, invalid};

/// Returns the rows of a layer: their names begin with the same part.
macro_rules! rows {
    ($part:literal) => {
        &[
            row(concat!($part, ".in_proj"), "ssm_in", &[Dim::Width, Dim::Of(projected)]),
            row(concat!($part, ".conv1d"), "ssm_conv1d", &[Dim::Of(kernel), Dim::Of(mixed)]).reshaped(),
            row(concat!($part, ".dt"), "ssm_dt", &[Dim::Of(heads)]),
            row(concat!($part, ".A_log"), "ssm_a", &[Dim::Of(one), Dim::Of(heads)]).bare().reshaped().logarithm(),
            row(concat!($part, ".D"), "ssm_d", &[Dim::Of(one), Dim::Of(heads)]).bare().reshaped(),
            row(concat!($part, ".norm"), "ssm_norm", &[Dim::Of(of_group), Dim::Of(groups)]).reshaped(),
            row(concat!($part, ".out_proj"), "ssm_out", &[Dim::Of(inner), Dim::Width]),
        ]
    };
}

/// Of Granite.
pub(super) const MAMBA: &[Row] = rows!("mamba");
/// Of Nemotron.
pub(super) const MIXER: &[Row] = rows!("mixer");

/// Names of the sizes in the config of Nemotron, and those of Granite, which are used here.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("conv_kernel", "mamba_d_conv"),
    ("ssm_state_size", "mamba_d_state"),
    ("n_groups", "mamba_n_groups"),
    ("mamba_num_heads", "mamba_n_heads"),
    ("mamba_head_dim", "mamba_d_head"),
];

/// Adds the sizes.
pub(super) fn add_keys(config: &Config, architecture: &str, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let mut set = |key: &str, value: u64| {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        metadata.set(format!("{architecture}.ssm.{key}"), value);
    };
    set("conv_kernel", kernel(config)?);
    set("state_size", state(config)?);
    set("group_count", groups(config)?);
    set("inner_size", inner(config)?);
    set("time_step_rank", heads(config)?);
    Ok(())
}

fn size(config: &Config, key: &str) -> Result<u64, ConvertError> {
    config.count(key, MAX_WIDTH).map(u64::from)
}

fn one(_: &Config) -> Result<u64, ConvertError> {
    Ok(1)
}

fn kernel(config: &Config) -> Result<u64, ConvertError> {
    size(config, "mamba_d_conv")
}

fn state(config: &Config) -> Result<u64, ConvertError> {
    size(config, "mamba_d_state")
}

fn groups(config: &Config) -> Result<u64, ConvertError> {
    size(config, "mamba_n_groups")
}

fn heads(config: &Config) -> Result<u64, ConvertError> {
    size(config, "mamba_n_heads")
}

fn inner(config: &Config) -> Result<u64, ConvertError> {
    Ok(heads(config)? * size(config, "mamba_d_head")?)
}

/// Elements of a group's part of the output.
fn of_group(config: &Config) -> Result<u64, ConvertError> {
    let (inner, groups) = (inner(config)?, groups(config)?);
    match inner.is_multiple_of(groups) {
        true => Ok(inner / groups),
        false => Err(invalid(CONFIG, format!("{groups} groups do not divide {inner} elements of state space models"))),
    }
}

/// Elements of the input of the convolution.
fn mixed(config: &Config) -> Result<u64, ConvertError> {
    Ok(inner(config)? + 2 * groups(config)? * state(config)?)
}

fn projected(config: &Config) -> Result<u64, ConvertError> {
    Ok(inner(config)? + mixed(config)? + heads(config)?)
}
