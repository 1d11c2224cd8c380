//! Sizes of a model by its config.

use super::super::config::{CONFIG, Config, MAX_WIDTH, share};
use super::super::error::{ConvertError, invalid};
use super::keys::{EXPERTS, SHARED_INNER};
use super::rows::Dim;

/// Sizes in the config.
pub(super) struct Sizes {
    width: u64,
    inner: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    head: u64,
    pub(super) experts: u64,
    expert_inner: u64,
    shared_inner: Option<u64>,
}

impl Sizes {
    pub(super) fn read(config: &Config) -> Result<Self, ConvertError> {
        let count = |keys: &[&str]| Ok::<_, ConvertError>(config.optional_count(keys, MAX_WIDTH)?.map(u64::from));
        let required = |key: &str| Ok::<_, ConvertError>(u64::from(config.count(key, MAX_WIDTH)?));
        let (width, heads) = (required("hidden_size")?, required("num_attention_heads")?);
        let inner = required("intermediate_size")?;
        let head = match count(&["head_dim"])? {
            Some(head) => head,
            None if width.is_multiple_of(heads) => width / heads,
            None => return Err(invalid(CONFIG, format!("hidden_size {width} is not a multiple of {heads} heads"))),
        };
        Ok(Self {
            width,
            inner,
            heads,
            kv_heads: count(&["num_key_value_heads"])?.unwrap_or(heads),
            head,
            experts: count(EXPERTS)?.unwrap_or(0),
            expert_inner: count(&["moe_intermediate_size"])?.unwrap_or(inner),
            shared_inner: count(SHARED_INNER)?,
        })
    }

    pub(super) fn of(&self, dim: Dim, config: &Config) -> Result<Option<u64>, ConvertError> {
        let size = match dim {
            Dim::Any => return Ok(None),
            Dim::Of(size) => size(config)?,
            Dim::Width => self.width,
            Dim::Inner => self.inner,
            Dim::TwoInner => 2 * self.inner,
            Dim::Query => self.heads * self.head,
            Dim::KeyValue => self.kv_heads * self.head,
            Dim::Fused => (self.heads + 2 * self.kv_heads) * self.head,
            Dim::Head => self.head,
            Dim::Heads => self.heads,
            Dim::Experts => self.experts,
            Dim::ExpertInner => self.expert_inner,
            Dim::SharedInner => return Ok(self.shared_inner),
        };
        Ok(Some(size))
    }
}

/// Returns the number of elements of a head.
pub(in crate::checkpoint) fn head_dim(config: &Config) -> Result<u64, ConvertError> {
    Ok(Sizes::read(config)?.head)
}

/// Returns the number of rotated elements of a head.
pub(in crate::checkpoint) fn rotated_dims(config: &Config) -> Result<u64, ConvertError> {
    let head = head_dim(config)?;
    const KEY: &str = "partial_rotary_factor";
    let values = [&config.value("rope_parameters")[KEY], config.value(KEY)];
    let share = values.into_iter().find(|value| !value.is_null()).map(|value| share(KEY, value)).transpose()?;
    Ok((f64::from(share.unwrap_or(1.0)) * head as f64) as u64)
}
