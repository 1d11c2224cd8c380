//! Descriptions of a tower, and the keys and tensors of its new file.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use cairn_gguf::Metadata;

use crate::checkpoint::config::{Config, MAX_WIDTH};
use crate::checkpoint::description::Description;
use crate::checkpoint::error::{ConvertError, unsupported};
use crate::checkpoint::family::{Contents, Layout, Place};

/// More than in any tower, as in `cairn_models`.
const MAX_LAYERS: u32 = 1 << 10;
const MAX_IMAGE_SIZE: u32 = 1 << 13;
/// More pixels of a side of a patch than in any tower: a list has an entry for each column of a projection.
const MAX_PATCH_SIZE: u32 = 1 << 8;

/// Descriptions of a tower.
pub(super) struct TowerConfig<'a> {
    /// The section of the tower.
    pub(super) vision: Config,
    /// The config of the text part.
    pub(super) text: &'a Config,
    /// Settings of pictures.
    pub(super) preprocessor: Config,
    pub(super) description: &'a Description<'a>,
}

impl TowerConfig<'_> {
    /// Returns the number of elements of a head: those of the stream divided by the number of heads.
    pub(super) fn head_dim(&self, &TowerSizes { width, heads, .. }: &TowerSizes) -> Result<u64, ConvertError> {
        if !width.is_multiple_of(heads) {
            return Err(self
                .vision
                .refused("hidden_size", format_args!("is {width}, not a multiple of {heads} heads")));
        }
        match self.vision.optional_count(&["head_dim"], MAX_WIDTH)?.map_or(width / heads, u64::from) {
            head if head == width / heads => Ok(head),
            head => Err(unsupported(format!("a vision tower with head_dim {head} instead of {}", width / heads))),
        }
    }
}

/// A tensor of the new file that a tensor of the checkpoint becomes.
pub(super) struct TowerTensor {
    pub(super) place: Place,
    /// Whether some towers lack it.
    pub(super) is_optional: bool,
    /// Its shape in the checkpoint, if its dimensions do not determine it.
    pub(super) shape: Option<Vec<u64>>,
}

impl TowerTensor {
    /// May be missing.
    pub(super) fn optional(&mut self) -> &mut Self {
        self.is_optional = true;
        self
    }

    /// Takes rows, or elements of a vector, in this order.
    pub(super) fn rows(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) -> &mut Self {
        self.place.layout.rows = Some(ranges.into_iter().collect());
        self
    }

    /// May have any number of rows, or elements of a vector.
    pub(super) fn any_rows(&mut self) -> &mut Self {
        *self.place.dims.last_mut().expect("a tensor has dimensions") = None;
        self
    }

    /// May have any number of columns.
    pub(super) fn any_columns(&mut self) -> &mut Self {
        self.place.dims[0] = None;
        self
    }

    /// Changes the order of elements.
    pub(super) fn layout(&mut self, layout: Layout) -> &mut Self {
        self.place.layout = layout;
        self
    }

    /// Has its dimensions in place of this shape in the checkpoint, rows first.
    pub(super) fn of_shape(&mut self, shape: &[u64]) -> &mut Self {
        self.shape = Some(shape.to_vec());
        self.reshaped()
    }

    /// Has its dimensions in place of those of the checkpoint.
    pub(super) fn reshaped(&mut self) -> &mut Self {
        self.place.is_reshaped = true;
        self
    }
}

/// Keys and tensors of a tower's new file.
pub(super) struct TowerPlan {
    pub(super) metadata: Metadata,
    /// By the name in the checkpoint.
    pub(super) tensors: HashMap<String, Vec<TowerTensor>>,
    /// Names of tensors that the checkpoint must have, and the new file has not.
    pub(super) skipped: HashSet<String>,
}

/// Sizes that all towers have.
pub(super) struct TowerSizes {
    /// Pixels of a side of a picture.
    pub(super) image: u64,
    /// Pixels of a side of a patch.
    pub(super) patch: u64,
    /// Elements of the residual stream.
    pub(super) width: u64,
    /// Elements inside the MLP.
    pub(super) inner: u64,
    pub(super) heads: u64,
    pub(super) layers: u64,
    /// Elements of an output row: the width of the text model.
    pub(super) output: u64,
}

impl TowerPlan {
    pub(super) fn new() -> Self {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", "clip");
        metadata.set("general.type", "mmproj");
        metadata.set("clip.has_vision_encoder", true);
        Self { metadata, tensors: HashMap::new(), skipped: HashSet::new() }
    }

    /// Sets a key of the tower.
    pub(super) fn set(&mut self, key: &str, value: impl Into<cairn_gguf::Value>) {
        self.metadata.set(format!("clip.{key}"), value);
    }

    /// Adds the keys that all towers have. Each size has the names of its key in the config.
    pub(super) fn add_keys(
        &mut self,
        config: &TowerConfig<'_>,
        [layers, heads]: [&str; 2],
        [width, inner]: [&str; 2],
        default_image: Option<u32>,
    ) -> Result<TowerSizes, ConvertError> {
        let vision = &config.vision;
        let image = match (vision.optional_count(&["image_size"], MAX_IMAGE_SIZE)?, default_image) {
            (Some(image), _) | (None, Some(image)) => image,
            (None, None) => vision.count("image_size", MAX_IMAGE_SIZE)?,
        };
        let counts = [
            ("image_size", image),
            ("patch_size", vision.count("patch_size", MAX_PATCH_SIZE)?),
            ("embedding_length", vision.count(width, MAX_WIDTH)?),
            ("feed_forward_length", vision.count(inner, MAX_WIDTH)?),
            ("attention.head_count", vision.count(heads, MAX_WIDTH)?),
            ("block_count", vision.count(layers, MAX_LAYERS)?),
            ("projection_dim", config.text.count("hidden_size", MAX_WIDTH)?),
        ];
        for (key, count) in counts {
            self.set(&format!("vision.{key}"), count);
        }
        for key in ["image_mean", "image_std"] {
            self.set(&format!("vision.{key}"), config.preprocessor.numbers::<3>(key)?.to_vec());
        }
        let [image, patch, width, inner, heads, layers, output] = counts.map(|(_, count)| u64::from(count));
        Ok(TowerSizes { image, patch, width, inner, heads, layers, output })
    }

    /// Adds a tensor by its names, with its dimensions in the new file, row length first.
    pub(super) fn add(&mut self, from: impl Into<String>, to: impl Into<String>, dims: &[u64]) -> &mut TowerTensor {
        let place = Place {
            name: to.into(),
            expert: None,
            experts: 0,
            contents: Contents::Numbers,
            layout: Layout::PLAIN,
            dims: dims.iter().map(|&dim| Some(dim)).collect(),
            is_reshaped: false,
            is_shared: false,
        };
        let tensors = self.tensors.entry(from.into()).or_default();
        tensors.push(TowerTensor { place, is_optional: false, shape: None });
        tensors.last_mut().expect("a tensor was added")
    }

    /// Adds the projection of patches, a convolution.
    pub(super) fn add_patches(&mut self, from: &str, &TowerSizes { patch, width, .. }: &TowerSizes) {
        self.add(format!("{from}.weight"), "v.patch_embd.weight", &[patch, patch, 3, width])
            .of_shape(&[width, 3, patch, patch]);
    }

    /// Adds the weight and the bias of a module with vectors: a norm.
    pub(super) fn add_norm(&mut self, from: &str, to: &str, width: u64) {
        self.add(format!("{from}.weight"), format!("{to}.weight"), &[width]);
        self.add(format!("{from}.bias"), format!("{to}.bias"), &[width]);
    }

    /// Adds the weight and the bias of a linear module.
    pub(super) fn add_linear(&mut self, from: &str, to: &str, [columns, rows]: [u64; 2]) {
        self.add(format!("{from}.weight"), format!("{to}.weight"), &[columns, rows]);
        self.add(format!("{from}.bias"), format!("{to}.bias"), &[rows]);
    }

    /// Skips the blocks of SigLIP and of CLIP with these numbers. The number of layers determines those of others, so they must be there.
    pub(super) fn skip_encoder(&mut self, prefix: &str, widths: [u64; 2], layers: Range<u64>) {
        let mut blocks = Self::new();
        blocks.add_encoder(prefix, widths, layers);
        self.skipped.extend(blocks.tensors.into_keys());
    }

    /// Adds the blocks of SigLIP and of CLIP with these numbers.
    pub(super) fn add_encoder(&mut self, prefix: &str, [width, inner]: [u64; 2], layers: Range<u64>) {
        for layer in layers {
            let from = |part: &str| format!("{prefix}.{layer}.{part}");
            let to = |part: &str| format!("v.blk.{layer}.{part}");
            for (norm, name) in [("layer_norm1", "ln1"), ("layer_norm2", "ln2")] {
                self.add_norm(&from(norm), &to(name), width);
            }
            for (part, name, shape) in [
                ("self_attn.q_proj", "attn_q", [width, width]),
                ("self_attn.k_proj", "attn_k", [width, width]),
                ("self_attn.v_proj", "attn_v", [width, width]),
                ("self_attn.out_proj", "attn_out", [width, width]),
                ("mlp.fc1", "ffn_up", [width, inner]),
                ("mlp.fc2", "ffn_down", [inner, width]),
            ] {
                self.add_linear(&from(part), &to(name), shape);
            }
        }
    }
}
