//! Descriptions of a tower, and the keys and tensors of its new file.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use cairn_gguf::Metadata;
use serde_json::Value;

use crate::checkpoint::config::{Config, MAX_WIDTH, ROTATION_KINDS, ROTATIONS, excerpt, positive};
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
    /// Returns the number of patches of a side of a square picture.
    pub(super) fn side(&self, &TowerSizes { image, patch, .. }: &TowerSizes) -> Result<u64, ConvertError> {
        if image.is_multiple_of(patch) {
            return Ok(image / patch);
        }
        Err(self.vision.refused("image_size", format_args!("is {image}, not a multiple of patch_size {patch}")))
    }

    /// Returns the number of layers before the features of pictures. The key `vision_feature_layer` counts them, from the end if it is
    /// negative.
    pub(super) fn feature_layers(&self, default: i64, layers: u64) -> Result<u64, ConvertError> {
        const KEY: &str = "vision_feature_layer";
        let layer = match self.text.value(KEY) {
            Value::Array(list) if list.len() > 1 => {
                return Err(unsupported(format!("a vision tower with several layers in {KEY}")));
            }
            Value::Array(list) if list.len() == 1 => &list[0],
            value => value,
        };
        let refused = |reason: String| self.text.refused(KEY, reason);
        let layer = match layer.as_i64() {
            Some(layer) => layer,
            None if layer.is_null() => default,
            None => return Err(refused(format!("is {}, not the number of a layer", excerpt(layer)))),
        };
        // The first of the outputs is in front of all layers.
        let last = if layer < 0 { layer.saturating_add(layers as i64 + 1) } else { layer };
        match u64::try_from(last) {
            Ok(last) if (1..=layers).contains(&last) => Ok(last),
            _ => Err(refused(format!("is {layer}, but the vision tower has {layers} layers"))),
        }
    }

    /// Returns the base of the rotation by row and column.
    pub(super) fn rope_base(&self) -> Result<Option<f32>, ConvertError> {
        for name in ROTATIONS {
            let rope = self.vision.value(name);
            if !rope.is_null() && !rope.is_object() {
                return Err(self.vision.refused(name, format_args!("is {}, not an object", excerpt(rope))));
            }
            let kind = ROTATION_KINDS.map(|key| &rope[key]).into_iter().find(|kind| !kind.is_null());
            if let Some(kind) = kind.filter(|kind| *kind != "default" && *kind != "axial") {
                return Err(unsupported(format!("a vision tower with {name} of the kind {}", excerpt(kind))));
            }
        }
        match &self.vision.value(ROTATIONS[0])["rope_theta"] {
            Value::Null => self.vision.optional_number(&["rope_theta"]),
            base => positive("vision_config.rope_parameters.rope_theta", base).map(Some),
        }
    }

    /// Checks that a setting of pictures has one of these sizes, if it has a value: a number, or an object with the sizes of sides.
    pub(super) fn check_picture(&self, key: &str, usual: &[u64]) -> Result<(), ConvertError> {
        let is_usual = |size: &Value| size.as_u64().is_some_and(|size| usual.contains(&size));
        let found = self.preprocessor.value(key);
        let is_valid = match found {
            Value::Null => true,
            Value::Object(sides) => sides.values().all(|side| side.is_null() || is_usual(side)),
            size => is_usual(size),
        };
        if is_valid {
            return Ok(());
        }
        Err(unsupported(format!("a vision tower with {key} {} of images instead of {}", excerpt(found), usual[0])))
    }

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

/// Checks that a setting has one of these values, if it has one. Others are not computed, and would change the rows.
pub(super) fn check_text(config: &Config, key: &str, usual: &[&str]) -> Result<(), ConvertError> {
    match config.optional_text(key)? {
        Some(found) if !usual.contains(&found) => Err(unsupported(format!(
            "a vision tower with {key} {:?} instead of {:?}",
            cairn_wire::excerpt(found),
            usual[0]
        ))),
        _ => Ok(()),
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
    /// Marks the tensor as one that may be missing.
    pub(super) fn optional(&mut self) -> &mut Self {
        self.is_optional = true;
        self
    }

    /// Reads these rows, or elements of a vector, in this order.
    pub(super) fn rows(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) -> &mut Self {
        self.place.layout.rows = Some(ranges.into_iter().collect());
        self
    }

    /// Accepts any number of rows, or elements of a vector.
    pub(super) fn any_rows(&mut self) -> &mut Self {
        *self.place.dims.last_mut().expect("a tensor has dimensions") = None;
        self
    }

    /// Accepts any number of columns.
    pub(super) fn any_columns(&mut self) -> &mut Self {
        self.place.dims[0] = None;
        self
    }

    /// Changes the order of elements.
    pub(super) fn layout(&mut self, layout: Layout) -> &mut Self {
        self.place.layout = layout;
        self
    }

    /// Reads the tensor with this shape, rows first, and writes it with its own dimensions.
    pub(super) fn of_shape(&mut self, shape: &[u64]) -> &mut Self {
        self.shape = Some(shape.to_vec());
        self.reshaped()
    }

    /// Reads the tensor with any shape, and writes it with its own dimensions.
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
    /// Names of tensors that the config switches off.
    pub(super) ignored: HashSet<String>,
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
        Self { metadata, tensors: HashMap::new(), skipped: HashSet::new(), ignored: HashSet::new() }
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
        self.add_colors(&config.preprocessor)?;
        let [image, patch, width, inner, heads, layers, output] = counts.map(|(_, count)| u64::from(count));
        Ok(TowerSizes { image, patch, width, inner, heads, layers, output })
    }

    /// Adds the mean and the deviation of colors.
    fn add_colors(&mut self, pictures: &Config) -> Result<(), ConvertError> {
        let factor = pictures.optional_number(&["rescale_factor"])?;
        if let Some(factor) = factor.filter(|factor| (factor * 255.0 - 1.0).abs() > 1e-3) {
            return Err(unsupported(format!("a vision tower with rescale_factor {factor} instead of 1/255")));
        }
        if pictures.flag("do_rescale")? == Some(false) {
            return Err(unsupported("a vision tower with do_rescale false"));
        }
        let is_normalised = pictures.flag("do_normalize")? != Some(false);
        for (key, without) in [("image_mean", 0f32), ("image_std", 1.0)] {
            let colors = if is_normalised { pictures.numbers::<3>(key)? } else { [without; 3] };
            if key == "image_std"
                && let Some(deviation) = colors.iter().find(|deviation| !(1.0 / **deviation).is_normal())
            {
                return Err(pictures
                    .refused(key, format_args!("has the deviation {deviation}, which nothing can be divided by")));
            }
            self.set(&format!("vision.{key}"), colors.to_vec());
        }
        Ok(())
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

    /// Adds two linear modules with any number of elements between them. Without biases, those of the files are not used.
    pub(super) fn add_projector(&mut self, [first, second]: [&str; 2], [width, output]: [u64; 2], has_biases: bool) {
        let from = |nth: u32, part: &str| format!("multi_modal_projector.linear_{nth}.{part}");
        self.add(from(1, "weight"), format!("{first}.weight"), &[width, 0]).any_rows();
        self.add(from(2, "weight"), format!("{second}.weight"), &[0, output]).any_columns();
        if has_biases {
            self.add(from(1, "bias"), format!("{first}.bias"), &[0]).any_rows();
            self.add(from(2, "bias"), format!("{second}.bias"), &[output]);
        } else {
            self.ignored.extend([1, 2].map(|nth| from(nth, "bias")));
        }
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
