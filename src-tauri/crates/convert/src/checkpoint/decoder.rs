//! Families of decoders, each described by a table: the keys of its config and the names of its tensors.

use cairn_gguf::{Metadata, Pooling};

use super::config::{CONFIG, Config, MAX_LAYERS, MAX_WIDTH};
use super::description::Description;
use super::error::{ConvertError, invalid, unsupported};
use super::family::{Contents, Family, Heads, Layout, ModuleMatrix, Place, Select};
use super::names::TensorName;
use super::{rope, vocabulary};

/// A family of decoders.
pub(super) struct Decoder {
    /// Values of `architectures` in `config.json`.
    pub(super) architectures: &'static [&'static str],
    /// `general.architecture`, and the prefix of keys.
    pub(super) name: &'static str,
    /// Keys beside [`COMMON_KEYS`].
    pub(super) keys: &'static [Key],
    /// Tensors of a layer. The first list with a name determines its place.
    pub(super) layer: &'static [&'static [Row]],
    /// Activations of the MLP, which GGUF does not contain.
    pub(super) activations: &'static [&'static str],
    /// Added to the weights of norms.
    pub(super) norm_shift: f32,
    /// Whether the rows of heads of queries and keys are interleaved in GGUF.
    pub(super) interleaves_heads: bool,
    /// Whether the embedding is the output matrix, whatever the files have.
    pub(super) is_tied: bool,
    /// Whether a blank is added before a text, for vocabularies of SentencePiece.
    pub(super) space_prefix: Option<bool>,
    /// Adds keys that no table describes, and checks that the engine computes what the config declares.
    pub(super) more: fn(&Config, &mut Metadata) -> Result<(), ConvertError>,
}

/// Values of most families.
pub(super) const PLAIN: Decoder = Decoder {
    architectures: &[],
    name: "",
    keys: &[],
    layer: &[ATTENTION, MLP, NORMS],
    activations: &["silu", "swish"],
    norm_shift: 0.0,
    interleaves_heads: false,
    is_tied: false,
    space_prefix: None,
    more: |_, _| Ok(()),
};

/// A key with a value of the config.
pub(super) struct Key {
    /// Without the prefix of the family.
    name: &'static str,
    /// Names in the config; the first one with a value counts.
    config: &'static [&'static str],
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Count(u32),
    OptionalCount(u32),
    OptionalNumber,
}

/// A count that every config has.
pub(super) const fn count(name: &'static str, config: &'static [&'static str], max: u32) -> Key {
    Key { name, config, kind: Kind::Count(max) }
}

/// A count.
pub(super) const fn optional_count(name: &'static str, config: &'static [&'static str]) -> Key {
    Key { name, config, kind: Kind::OptionalCount(MAX_WIDTH) }
}

/// A number.
pub(super) const fn number(name: &'static str, config: &'static [&'static str]) -> Key {
    Key { name, config, kind: Kind::OptionalNumber }
}

/// Keys of all families.
const COMMON_KEYS: &[Key] = &[
    count("block_count", &["num_hidden_layers"], MAX_LAYERS),
    count("context_length", &["max_position_embeddings"], u32::MAX),
    count("embedding_length", &["hidden_size"], MAX_WIDTH),
    count("feed_forward_length", &["intermediate_size"], MAX_WIDTH),
    count("attention.head_count", &["num_attention_heads"], MAX_WIDTH),
    optional_count("attention.head_count_kv", &["num_key_value_heads"]),
    number("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
    number("attention.layer_norm_epsilon", &["norm_epsilon", "layer_norm_eps"]),
    optional_count("expert_count", &["num_local_experts", "num_experts"]),
    optional_count("expert_used_count", &["num_experts_per_tok"]),
];

/// Names of the width inside a shared expert.
pub(super) const SHARED_INNER: &[&str] = &["shared_expert_intermediate_size", "shared_intermediate_size"];

/// A dimension that the config determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dim {
    Any,
    Width,
    /// Width inside the MLP.
    Inner,
    /// Twice that: gate and linear part.
    TwoInner,
    /// All heads of queries.
    Query,
    /// All heads of keys, or of values.
    KeyValue,
    /// Queries, keys and values.
    Fused,
    Head,
    Heads,
    Experts,
    /// Width inside an expert.
    ExpertInner,
    /// Width inside a shared expert.
    SharedInner,
}

/// A tensor of a checkpoint and its place in the new file.
pub(super) struct Row {
    /// Name without prefix and ending. `*` is the number of an expert.
    from: &'static str,
    /// Name in GGUF, without prefix and ending.
    to: &'static str,
    /// Dimensions, row length first. A bias has those behind the first one.
    dims: &'static [Dim],
    /// Heads of its rows, if they are interleaved in some families.
    heads: Option<Heads>,
    select: Select,
    /// Whether numbers, in contrast to 4-bit blocks, have rows and columns swapped.
    is_transposed: bool,
}

/// A tensor with its elements in the same order.
pub(super) const fn row(from: &'static str, to: &'static str, dims: &'static [Dim]) -> Row {
    Row { from, to, dims, heads: None, select: Select::All, is_transposed: false }
}

impl Row {
    const fn heads(self, heads: Heads) -> Self {
        Self { heads: Some(heads), ..self }
    }

    /// Takes some rows of each matrix.
    pub(super) const fn select(self, select: Select) -> Self {
        Self { select, ..self }
    }

    /// Swaps rows and columns.
    pub(super) const fn transposed(self) -> Self {
        Self { is_transposed: true, ..self }
    }
}

/// Projections of attention.
pub(super) const ATTENTION: &[Row] = &[
    row("self_attn.q_proj", "attn_q", &[Dim::Width, Dim::Query]).heads(Heads::Query),
    row("self_attn.k_proj", "attn_k", &[Dim::Width, Dim::KeyValue]).heads(Heads::KeyValue),
    row("self_attn.v_proj", "attn_v", &[Dim::Width, Dim::KeyValue]),
    row("self_attn.o_proj", "attn_output", &[Dim::Query, Dim::Width]),
];

/// Gated MLP.
pub(super) const MLP: &[Row] = &[
    row("mlp.gate_proj", "ffn_gate", &[Dim::Width, Dim::Inner]),
    row("mlp.up_proj", "ffn_up", &[Dim::Width, Dim::Inner]),
    row("mlp.down_proj", "ffn_down", &[Dim::Inner, Dim::Width]),
];

/// Norms before attention and MLP.
pub(super) const NORMS: &[Row] =
    &[row("input_layernorm", "attn_norm", &[Dim::Width]), row("post_attention_layernorm", "ffn_norm", &[Dim::Width])];

/// Tensors outside of layers.
const TABLES: &[Row] = &[
    row("embed_tokens", "token_embd", &[Dim::Width, Dim::Any]),
    row("norm", "output_norm", &[Dim::Width]),
    row(OUTPUT, "output", &[Dim::Width, Dim::Any]),
];

const OUTPUT: &str = "lm_head";

/// Parts of names of tensors that the forward pass of the text model does not need: computed ones, and towers of images.
const IGNORED: [&str; 6] = [
    "rotary_emb.inv_freq",
    ".attention.masked_bias",
    ".attention.bias",
    "vision_tower.",
    "multi_modal_projector.",
    "vision_model.",
];

fn is_ignored(name: &str) -> bool {
    IGNORED.iter().any(|part| name.contains(part))
}

/// Sizes in the config.
struct Sizes {
    width: u64,
    inner: u64,
    heads: u64,
    kv_heads: u64,
    head: u64,
    experts: u64,
    expert_inner: u64,
    shared_inner: Option<u64>,
}

impl Sizes {
    fn read(config: &Config) -> Result<Self, ConvertError> {
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
            experts: count(&["num_local_experts", "num_experts"])?.unwrap_or(0),
            expert_inner: count(&["moe_intermediate_size"])?.unwrap_or(inner),
            shared_inner: count(SHARED_INNER)?,
        })
    }

    fn of(&self, dim: Dim) -> Option<u64> {
        let size = match dim {
            Dim::Any => return None,
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
            Dim::SharedInner => return self.shared_inner,
        };
        Some(size)
    }
}

/// Returns the number of elements of a head.
fn head_dim(config: &Config) -> Result<u64, ConvertError> {
    Ok(Sizes::read(config)?.head)
}

/// Returns the number of rotated elements of a head.
pub(super) fn rotated_dims(config: &Config) -> Result<u64, ConvertError> {
    let head = head_dim(config)?;
    let share = match config.value("rope_parameters")["partial_rotary_factor"].as_f64() {
        Some(share) => share as f32,
        None => config.optional_number(&["partial_rotary_factor"])?.unwrap_or(1.0),
    };
    Ok((f64::from(share.clamp(0.0, 1.0)) * head as f64) as u64)
}

impl Decoder {
    fn unknown(&self, name: &str) -> ConvertError {
        ConvertError::UnknownTensor { name: name.to_owned(), family: self.name }
    }

    /// Returns the rows of a tensor: those of the first table with its name.
    fn rows(&self, name: &TensorName) -> Vec<&'static Row> {
        let tables = if name.layer.is_none() { &[TABLES][..] } else { self.layer };
        let rows_of = |table: &&'static [Row]| table.iter().filter(|row| row.from == name.stem).collect::<Vec<_>>();
        tables.iter().map(rows_of).find(|rows| !rows.is_empty()).unwrap_or_default()
    }
}

impl Family for Decoder {
    fn architectures(&self) -> &'static [&'static str] {
        self.architectures
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn matrices(&self, module: &str) -> Vec<ModuleMatrix> {
        let name = TensorName::parse(&format!("{module}.weight")).filter(|_| !is_ignored(module));
        let Some(name) = name.filter(|name| !self.is_tied || name.stem != OUTPUT) else { return Vec::new() };
        let matrix = |row: &Row| ModuleMatrix {
            name: format!("{}{}.weight", name.prefix(), row.to),
            select: row.select,
            heads: row.heads.filter(|_| self.interleaves_heads),
        };
        self.rows(&name).into_iter().map(matrix).collect()
    }

    fn metadata(&self, description: &Description<'_>) -> Result<Metadata, ConvertError> {
        let config = &description.config;
        let mut metadata = description.general(self.name);
        description.add_sampling(&mut metadata)?;
        for key in ["hidden_activation", "hidden_act"] {
            if let Some(activation) = config.optional_text(key)? {
                if !self.activations.contains(&activation) {
                    return Err(unsupported(format!("{} with the activation {activation:?}", self.name)));
                }
                break;
            }
        }
        for Key { name, config: keys, kind } in COMMON_KEYS.iter().chain(self.keys) {
            let name = format!("{}.{name}", self.name);
            match *kind {
                Kind::Count(max) => {
                    let count = config.optional_count(keys, max)?;
                    let count = count.ok_or_else(|| invalid(CONFIG, format!("{} is null, not a count", keys[0])))?;
                    metadata.set(name, count);
                }
                Kind::OptionalCount(max) => {
                    config.optional_count(keys, max)?.map(|count| metadata.set(name, count));
                }
                Kind::OptionalNumber => {
                    config.optional_number(keys)?.map(|number| metadata.set(name, number));
                }
            }
        }
        if let Some(dim) = config.optional_count(&["head_dim"], MAX_WIDTH)? {
            for part in ["key", "value"] {
                metadata.set(format!("{}.attention.{part}_length", self.name), dim);
            }
        }
        rope::add(config, self.name, &mut metadata)?;
        if description.has_modules() {
            metadata.set(format!("{}.{}", self.name, Pooling::KEY), description.pooling()?);
        }
        (self.more)(config, &mut metadata)?;
        vocabulary::add(description, self.space_prefix, &mut metadata)?;
        Ok(metadata)
    }

    fn places(&self, full_name: &str, description: &Description<'_>) -> Result<Vec<Place>, ConvertError> {
        if is_ignored(full_name) {
            return Ok(Vec::new());
        }
        let config = &description.config;
        let sizes = Sizes::read(config)?;
        let is_layer = |layer: u32| config.count("num_hidden_layers", MAX_LAYERS).is_ok_and(|layers| layer < layers);
        let name = TensorName::parse(full_name).filter(|name| name.layer.is_none_or(is_layer));
        let name = name.ok_or_else(|| self.unknown(full_name))?;
        if self.is_tied && name.stem == OUTPUT {
            return Ok(Vec::new());
        }
        let rows = self.rows(&name);
        if rows.is_empty() {
            return Err(self.unknown(full_name));
        }
        let prefix = name.prefix();
        let TensorName { ending, contents, expert, .. } = name;
        let place = |row: &Row| {
            let is_norm = row.to.ends_with("norm");
            let heads = row.heads.filter(|_| self.interleaves_heads).map(|heads| match heads {
                Heads::Query => sizes.heads,
                Heads::KeyValue => sizes.kv_heads,
            });
            let layout = Layout {
                select: row.select,
                heads,
                is_transposed: row.is_transposed && contents == Contents::Numbers && ending == "weight",
                shift: if is_norm { self.norm_shift } else { 0.0 },
                factor: 1.0,
            };
            // A bias has an element for each row.
            let dims = if ending == "bias" && row.dims.len() > 1 { &row.dims[1..] } else { row.dims };
            Place {
                name: format!("{prefix}{}.{ending}", row.to),
                expert,
                experts: u32::try_from(sizes.experts).unwrap_or(u32::MAX),
                contents,
                layout,
                dims: dims.iter().map(|&dim| sizes.of(dim)).collect(),
            }
        };
        Ok(rows.into_iter().map(place).collect())
    }

    fn computed(&self, description: &Description<'_>) -> Result<Vec<(&'static str, Vec<f32>)>, ConvertError> {
        rope::factors(&description.config, rotated_dims(&description.config)?)
    }
}
