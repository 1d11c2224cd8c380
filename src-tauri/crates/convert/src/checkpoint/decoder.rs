//! Families of decoders, and of encoders of the same form, each described by a table: the keys of its config and the names of
//! its tensors.

mod keys;
mod rows;
mod sizes;

use cairn_gguf::{Metadata, Pooling};

use super::config::{CONFIG, Config, MAX_LAYERS, MAX_WIDTH, TIED};
use super::description::Description;
use super::error::{ConvertError, invalid, unsupported};
use super::family::{Contents, Family, Heads, Layout, ModuleMatrix, Place};
use super::names::TensorName;
use super::{rope, vocabulary, word_pieces};

use self::keys::{COMMON_KEYS, Kind};
pub(super) use self::keys::{Key, SHARED_INNER, flag, number, optional_count, whole};
pub(super) use self::rows::{ATTENTION, Dim, MLP, NORMS, OUTPUT, Order, Row, TABLES, row};
use self::sizes::Sizes;
pub(super) use self::sizes::{head_dim, rotated_dims};

/// A family of decoders, or of encoders.
pub(super) struct Decoder {
    /// Values of `architectures` in `config.json`.
    pub(super) architectures: &'static [&'static str],
    /// `general.architecture`, and the prefix of keys.
    pub(super) name: &'static str,
    /// Keys beside [`COMMON_KEYS`].
    pub(super) keys: &'static [Key],
    /// Tensors outside of layers.
    pub(super) tables: &'static [Row],
    /// Tensors of a layer. The first list with a name determines its place.
    pub(super) layer: &'static [&'static [Row]],
    /// Whether layers behind the last one predict further tokens, which the engine does not compute.
    pub(super) has_predicting_layers: bool,
    /// Activations of the MLP, which GGUF does not contain.
    pub(super) activations: &'static [&'static str],
    /// Added to the weights of norms.
    pub(super) norm_shift: f32,
    /// Whether the rows of heads of queries and keys are interleaved in GGUF.
    pub(super) interleaves_heads: bool,
    /// Whether a model computes vectors of texts and no text.
    pub(super) is_encoder: bool,
    /// Whether matrices behind the pooling are part of a file.
    pub(super) has_dense: bool,
    /// Whether the vocabulary is WordPiece.
    pub(super) has_word_pieces: bool,
    /// Whether the embedding is the output matrix, whatever the files have.
    pub(super) is_tied: bool,
    /// Whether a blank is added before a text, for vocabularies of SentencePiece.
    pub(super) space_prefix: Option<bool>,
    /// Whether a checkpoint of one of the architectures is of this family.
    pub(super) applies: fn(&Config) -> bool,
    /// Gives values of a config their usual names, and adds those that the family derives from others.
    pub(super) prepare: fn(&mut Config) -> Result<(), ConvertError>,
    /// Adds keys that no table describes, and checks that the engine computes what the config declares.
    pub(super) more: fn(&Config, &mut Metadata) -> Result<(), ConvertError>,
}

/// Values of most families.
pub(super) const PLAIN: Decoder = Decoder {
    architectures: &[],
    name: "",
    keys: &[],
    tables: TABLES,
    layer: &[ATTENTION, MLP, NORMS],
    has_predicting_layers: false,
    activations: &["silu", "swish"],
    norm_shift: 0.0,
    interleaves_heads: false,
    is_encoder: false,
    has_dense: false,
    has_word_pieces: false,
    is_tied: false,
    space_prefix: None,
    applies: |_| true,
    prepare: |_| Ok(()),
    more: |_, _| Ok(()),
};

/// Parts of names of computed tensors, which the forward pass does not need.
const COMPUTED: [&str; 5] =
    ["rotary_emb.inv_freq", "rotary_embed.inv_freq", ".attention.masked_bias", ".attention.bias", ".attn.masked_bias"];
/// Names of buffers of GPT-2 beside its tensors.
const MASK: &str = ".attn.bias";
/// Beginnings of names of layers that predict further tokens.
const PREDICTING: [&str; 2] = ["mtp.", "model.mtp_"];
/// Parts of names of towers of images and sound.
const TOWERS: [&str; 7] = [
    "vision_tower.",
    "multi_modal_projector.",
    "mm_projector.",
    "vision_model.",
    "audio_tower.",
    "embed_vision.",
    "embed_audio.",
];
/// Beginnings of names of towers of images.
const TOWER_PREFIXES: [&str; 4] = ["visual.", "model.visual.", "image_newline", "model.image_newline"];

fn is_of_tower(name: &str) -> bool {
    TOWERS.iter().any(|part| name.contains(part)) || TOWER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn is_ignored(name: &str) -> bool {
    COMPUTED.iter().any(|part| name.contains(part))
        || PREDICTING.iter().any(|prefix| name.starts_with(prefix))
        || name.ends_with(MASK)
        || is_of_tower(name)
}

impl Decoder {
    fn unknown(&self, name: &str) -> ConvertError {
        ConvertError::UnknownTensor { name: name.to_owned(), family: self.name }
    }

    /// Returns the rows of a tensor: those of the first table with its name.
    fn rows(&self, name: &TensorName) -> Vec<&'static Row> {
        let tables = if name.layer.is_none() { std::slice::from_ref(&self.tables) } else { self.layer };
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
        let is_adaptable = |name: &TensorName| !(self.is_encoder || self.is_tied && name.stem == OUTPUT);
        let Some(name) = name.filter(is_adaptable) else { return Vec::new() };
        let matrix = |row: &Row| ModuleMatrix {
            name: format!("{}{}.weight", name.prefix(), row.to),
            select: row.select,
            heads: row.heads.filter(|_| self.interleaves_heads),
        };
        // An adapter has no parts of a matrix in another order.
        self.rows(&name).into_iter().filter(|row| row.order.is_none()).map(matrix).collect()
    }

    fn applies(&self, config: &Config) -> bool {
        (self.applies)(config)
    }

    fn has_dense(&self) -> bool {
        self.has_dense
    }

    fn prepare(&self, config: &mut Config) -> Result<(), ConvertError> {
        (self.prepare)(config)
    }

    fn metadata(&self, description: &Description<'_>) -> Result<Metadata, ConvertError> {
        let config = &description.config;
        if self.is_tied && config.flag(TIED)? == Some(false) {
            return Err(unsupported(format!("{} with tie_word_embeddings false", self.name)));
        }
        let mut metadata = description.general(self.name);
        description.add_sampling(&mut metadata)?;
        for key in ["hidden_activation", "hidden_act", "activation_function", "mlp_hidden_act"] {
            if let Some(activation) = config.optional_text(key)? {
                if !self.activations.contains(&activation) {
                    return Err(unsupported(format!(
                        "{} with the activation {:?}",
                        self.name,
                        cairn_wire::excerpt(activation)
                    )));
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
                Kind::OptionalWhole => {
                    config.whole(keys[0], MAX_WIDTH)?.map(|count| metadata.set(name, count));
                }
                Kind::OptionalNumber => {
                    config.optional_number(keys)?.map(|number| metadata.set(name, number));
                }
                Kind::OptionalFlag => {
                    config.flag(keys[0])?.map(|flag| metadata.set(name, flag));
                }
            }
        }
        if let Some(dim) = config.optional_count(&["head_dim"], MAX_WIDTH)? {
            for part in ["key", "value"] {
                metadata.set(format!("{}.attention.{part}_length", self.name), dim);
            }
        }
        rope::add(config, self.name, &mut metadata)?;
        if self.is_encoder || description.has_modules() {
            let pooling = description.modules(self.has_dense)?.pooling;
            metadata.set(format!("{}.{}", self.name, Pooling::KEY), pooling);
        }
        (self.more)(config, &mut metadata)?;
        if self.has_word_pieces {
            word_pieces::add(description, &mut metadata)?;
        } else {
            vocabulary::add(description, self.space_prefix, &mut metadata)?;
        }
        Ok(metadata)
    }

    fn is_left_out(&self, name: &str) -> bool {
        is_of_tower(name)
    }

    fn needs_output(&self, description: &Description<'_>) -> Result<bool, ConvertError> {
        // An embedding model has no output matrix.
        let is_embedding = self.is_encoder || description.has_modules();
        Ok(!is_embedding && description.config.flag(TIED)? == Some(false))
    }

    fn places(&self, full_name: &str, description: &Description<'_>) -> Result<Vec<Place>, ConvertError> {
        if is_ignored(full_name) {
            return Ok(Vec::new());
        }
        let config = &description.config;
        let sizes = Sizes::read(config)?;
        let is_layer = |layer: u32| config.count("num_hidden_layers", MAX_LAYERS).is_ok_and(|layers| layer < layers);
        let name = TensorName::parse(full_name).ok_or_else(|| self.unknown(full_name))?;
        if !name.layer.is_none_or(is_layer) {
            return if self.has_predicting_layers { Ok(Vec::new()) } else { Err(self.unknown(full_name)) };
        }
        if self.is_tied && name.stem == OUTPUT {
            return Ok(Vec::new());
        }
        let rows = self.rows(&name);
        if rows.is_empty() {
            return Err(self.unknown(full_name));
        }
        let prefix = name.prefix();
        let TensorName { ending, contents, expert, .. } = name;
        let place = |row: &Row| -> Result<Place, ConvertError> {
            let is_norm = row.to.ends_with("norm") && !row.is_unshifted;
            let heads = row.heads.filter(|_| self.interleaves_heads).map(|heads| match heads {
                Heads::Query => sizes.heads,
                Heads::KeyValue => sizes.kv_heads,
            });
            let order = row.order.map(|order| order(config)).transpose()?.unwrap_or_default();
            let experts = match row.stacked {
                Some(count) => count(config)?,
                None => sizes.experts,
            };
            let layout = Layout {
                split: order.split.max(1),
                rows: order.rows.map(Into::into),
                columns: order.columns.map(Into::into),
                is_logarithm: row.is_logarithm,
                select: row.select,
                heads,
                is_transposed: row.is_transposed && contents == Contents::Numbers && ending == "weight",
                shift: if is_norm { self.norm_shift } else { 0.0 },
                factor: 1.0,
            };
            // A bias has an element for each row.
            let dims = if ending == "bias" && row.dims.len() > 1 { &row.dims[1..] } else { row.dims };
            Ok(Place {
                name: if row.is_bare { format!("{prefix}{}", row.to) } else { format!("{prefix}{}.{ending}", row.to) },
                expert,
                experts: u32::try_from(experts).unwrap_or(u32::MAX),
                contents,
                layout,
                dims: dims.iter().map(|&dim| sizes.of(dim, config)).collect::<Result<_, _>>()?,
                is_reshaped: row.is_reshaped,
                is_shared: false,
            })
        };
        rows.into_iter().map(place).collect()
    }

    fn computed(&self, description: &Description<'_>) -> Result<Vec<(&'static str, Vec<f32>)>, ConvertError> {
        rope::factors(&description.config, rotated_dims(&description.config)?)
    }
}
