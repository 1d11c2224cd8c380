//! Vision towers of checkpoints, which become files of their own: `mmproj` files in the layout of llama.cpp's converter
//! (`clip.*` keys, `v.*` and `mm.*` tensors).
//!
//! A [`TowerKind`] lists the tensors that a tower's section of the config declares. They must be there with the shapes that the
//! section determines, except for a few that some models lack. What a kind does not support leaves the tower out of the conversion,
//! with the reason. A damaged tower, or one without its description, is an error of the whole conversion.
//!
//! Settings that change the rows of a picture are read, or must have the value of published models. The limits on
//! the size of a picture (`min_pixels`, `max_pixels`) are not read: the engine has its own, as llama.cpp has.
//!
//! A new kind is one file in `checkpoint/tower/` and one line in [`KINDS`].

mod gemma3;
mod gemma4;
mod llava;
mod pixtral;
mod plan;
mod qwen;

use std::borrow::Cow;
use std::collections::HashSet;

use cairn_gguf::{DType, Metadata};
use serde_json::{Map, Value};

use super::config::{CONFIG, Config, excerpt};
use super::description::Description;
use super::error::{ConvertError, invalid, unsupported};
use super::family::{Family, Place};
use super::files::{self, CheckpointFile};
use super::plan::{Data, PlannedTensor};
use super::safetensors::SourceTensor;
use crate::FileType;
use plan::{TowerConfig, TowerPlan};
pub(super) use qwen::DEEPSTACK;

/// Settings of the pictures of a model.
const PREPROCESSOR: &str = "preprocessor_config.json";
/// The same in the section `image_processor` of a newer file.
const PROCESSOR: &str = "processor_config.json";
/// The section of the config that describes the tower.
pub(super) const SECTION: &str = "vision_config";
/// Beginning of names that newer checkpoints have in addition.
const PREFIX: &str = "model.";
/// Beginning of names of most towers, and the part of names of SigLIP and CLIP behind it. `transformers` 5 omits the part.
const TOWER: &str = "vision_tower.";
const VISION_MODEL: &str = "vision_model.";
/// Beginnings of names of audio towers.
const AUDIO: [&str; 2] = ["audio_tower.", "embed_audio."];

/// A kind of towers.
struct TowerKind {
    /// Values of `architectures` in `config.json`.
    architectures: &'static [&'static str],
    /// Values of `model_type` in the section of the tower. Without one, a tower is of the first kind with its architecture.
    models: &'static [&'static str],
    /// Values of the section's keys that a config may leave out, as in `transformers`.
    defaults: &'static [(&'static str, u32)],
    /// Beginnings of the names of tensors, without [`PREFIX`].
    prefixes: &'static [&'static str],
    /// Whether names in the plan have [`VISION_MODEL`] behind [`TOWER`].
    has_vision_model: bool,
    /// Parts of names of tensors that the forward pass does not need.
    unused: &'static [&'static str],
    /// Types of tensors with a rule of their own, by their names in GGUF.
    types: &'static [(&'static str, DType)],
    /// Adds keys and tensors.
    plan: fn(&TowerConfig<'_>, &mut TowerPlan) -> Result<(), ConvertError>,
}

/// All kinds.
const KINDS: &[&TowerKind] =
    &[&gemma3::GEMMA_3, &gemma4::GEMMA_4, &llava::LLAVA, &pixtral::PIXTRAL, &qwen::QWEN_2_5, &qwen::QWEN_3];

/// A tower in a checkpoint.
pub(super) struct Tower {
    kind: &'static TowerKind,
    plan: TowerPlan,
}

impl Tower {
    /// Returns the tower of a checkpoint that has tensors of one.
    ///
    /// # Errors
    /// [`ConvertError::Unsupported`] if the tower can only be left out; others if its files are damaged or missing.
    pub(super) fn new(files: &[CheckpointFile], description: &Description<'_>) -> Result<Self, ConvertError> {
        let architecture = description.config.architecture();
        let kinds: Vec<_> = KINDS.iter().filter(|kind| kind.architectures.contains(&architecture)).collect();
        if kinds.is_empty() {
            return Err(unsupported(format!("a vision tower of {architecture}")));
        }
        let section = match description.config.value(SECTION) {
            Value::Object(section) => section,
            Value::Null => {
                let reason = format!("it has no {SECTION}, but the files have tensors of a vision tower");
                return Err(invalid(CONFIG, reason));
            }
            other => {
                return Err(description.config.refused(SECTION, format_args!("is {}, not an object", excerpt(other))));
            }
        };
        let mut vision = Config::of_object(section.clone(), CONFIG, "vision_config.");
        let model = vision.optional_text("model_type")?;
        let kind = kinds.into_iter().find(|kind| model.is_none_or(|model| kind.models.contains(&model)));
        let kind = *kind.ok_or_else(|| {
            let model = cairn_wire::excerpt(model.unwrap_or_default());
            unsupported(format!("a vision tower with the model_type {model:?}"))
        })?;
        for &(key, count) in kind.defaults {
            vision.set_default(key, count);
        }
        let config = TowerConfig { vision, text: &description.config, preprocessor: preprocessor(files)?, description };
        let mut plan = TowerPlan::new();
        (kind.plan)(&config, &mut plan)?;
        Ok(Self { kind, plan })
    }

    /// Whether a tensor of the checkpoint is read for the tower, or is a part of it.
    pub(super) fn contains(&self, name: &str) -> bool {
        let name = self.planned_name(name);
        self.kind.prefixes.iter().any(|prefix| name.starts_with(prefix)) || self.plan.tensors.contains_key(&*name)
    }

    /// Returns the name of a tensor in the plan.
    fn planned_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let name = without_model_prefix(name);
        match name.strip_prefix(TOWER) {
            Some(rest) if self.kind.has_vision_model && !rest.starts_with(VISION_MODEL) => {
                format!("{TOWER}{VISION_MODEL}{rest}").into()
            }
            _ => name.into(),
        }
    }

    /// Returns the metadata of the new file.
    pub(super) fn file_metadata(&self, target: FileType) -> Metadata {
        let mut metadata = self.plan.metadata.clone();
        metadata.set("general.file_type", tower_type(target).number());
        metadata
    }

    /// Returns the tensors of the tower among those of the checkpoint.
    ///
    /// # Errors
    /// One of them has another shape than the config declares.
    pub(super) fn sources(&self, all: &[SourceTensor]) -> Result<Vec<SourceTensor>, ConvertError> {
        let sources: Vec<SourceTensor> = all.iter().filter(|source| self.contains(&source.name)).cloned().collect();
        for source in &sources {
            let mut tensors = self.plan.tensors.get(&*self.planned_name(&source.name)).into_iter().flatten();
            let has_other = |shape: &Vec<u64>| *shape != source.shape;
            if let Some(tensor) = tensors.find(|tensor| tensor.shape.as_ref().is_some_and(has_other)) {
                let reason = format!(
                    "{} needs {:?} by the config",
                    tensor.place.name,
                    tensor.shape.as_deref().unwrap_or_default()
                );
                return Err(ConvertError::Shape { name: source.name.clone(), have: source.shape.clone(), reason });
            }
        }
        Ok(sources)
    }

    /// Checks that the checkpoint has all tensors of the tower: those that were planned, and those that are skipped.
    pub(super) fn check_complete(&self, all: &[SourceTensor], tensors: &[PlannedTensor]) -> Result<(), ConvertError> {
        let found: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let stored: HashSet<Cow<'_, str>> = all.iter().map(|source| self.planned_name(&source.name)).collect();
        let tensors = self.plan.tensors.iter();
        let missing = tensors.filter(|(_, places)| {
            places.iter().any(|place| !place.is_optional && !found.contains(place.place.name.as_str()))
        });
        let skipped = self.plan.skipped.iter().filter(|name| !stored.contains(name.as_str()));
        match missing.map(|(name, _)| name).chain(skipped).min_by_key(|name| natural(name)) {
            Some(name) => Err(ConvertError::MissingTensor { name: name.clone() }),
            None => Ok(()),
        }
    }

    /// Sets the type of each tensor as llama.cpp's converter does, for a model of type `target`.
    pub(super) fn set_types(&self, tensors: &mut [PlannedTensor], target: FileType) {
        let float = tower_type(target).dtype();
        for tensor in tensors.iter_mut().filter(|tensor| matches!(tensor.data, Data::Matrices { .. })) {
            let own = self.kind.types.iter().find(|(name, _)| *name == tensor.name);
            tensor.dtype = match own {
                Some((_, dtype)) => *dtype,
                None if tensor.dims.len() < 2 || tensor.name.starts_with("v.position_embd.") => DType::F32,
                // llama.cpp has no BF16 for convolutions.
                None if is_convolution(&tensor.name) && float == DType::BF16 => DType::F32,
                None => float,
            };
        }
    }
}

impl Family for Tower {
    fn architectures(&self) -> &'static [&'static str] {
        self.kind.architectures
    }

    fn name(&self) -> &'static str {
        "clip"
    }

    fn metadata(&self, _: &Description<'_>) -> Result<Metadata, ConvertError> {
        Ok(self.plan.metadata.clone())
    }

    fn places(&self, full_name: &str, _: &Description<'_>) -> Result<Vec<Place>, ConvertError> {
        let name = &*self.planned_name(full_name);
        if let Some(tensors) = self.plan.tensors.get(name) {
            return Ok(tensors.iter().map(|tensor| tensor.place.clone()).collect());
        }
        let is_unused = self.kind.unused.iter().any(|part| name.contains(part));
        if is_unused || self.plan.skipped.contains(name) || self.plan.ignored.contains(name) {
            return Ok(Vec::new());
        }
        Err(unsupported(format!("the tensor `{}` of the vision tower", full_name.escape_debug())))
    }
}

/// Returns a name without the prefix of newer checkpoints.
fn without_model_prefix(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// Returns a name as it is ordered: by the numbers in it, not by their digits.
fn natural(name: &str) -> Vec<(u64, &str)> {
    name.split('.').map(|part| (part.parse().unwrap_or(0), part)).collect()
}

/// Whether a tensor is of an audio tower.
pub(super) fn is_of_audio(name: &str) -> bool {
    AUDIO.iter().any(|prefix| without_model_prefix(name).starts_with(prefix))
}

/// Returns the file type of the vision tower of a model: a tower is small, and has no blocks.
pub fn tower_type(target: FileType) -> FileType {
    if target.is_float() { target } else { FileType::F16 }
}

fn is_convolution(name: &str) -> bool {
    [".patch_embd.weight", ".patch_merger.weight"].iter().any(|part| name.contains(part))
}

/// Reads the settings of pictures.
fn preprocessor(files: &[CheckpointFile]) -> Result<Config, ConvertError> {
    let object = |value: Option<Value>, name: &str| match value {
        Some(Value::Object(settings)) => Ok(Some(settings)),
        None | Some(Value::Null) => Ok(None),
        Some(other) => Err(invalid(name, format!("the settings of images are {}, not an object", excerpt(&other)))),
    };
    let mut own = object(files::json(files, PREPROCESSOR)?, PREPROCESSOR)?;
    let of_processor =
        files::json(files, PROCESSOR)?.and_then(|mut value| value.get_mut("image_processor").map(Value::take));
    if let Some(settings) = object(of_processor, PROCESSOR)? {
        own.get_or_insert_with(Map::new).extend(settings);
    }
    let settings = own.ok_or(ConvertError::Missing { name: PREPROCESSOR })?;
    Ok(Config::of_object(settings, PREPROCESSOR, ""))
}
