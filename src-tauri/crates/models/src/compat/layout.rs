//! A layout as data: its architectures, the markers of its files, and the steps of the translation.

use cairn_gguf::{Gguf, Metadata, Tensor};

use super::step::{Head, Step, full_key, starts_with};
use crate::error::LoadError;

/// Prefixes of the tensors of a vision tower and its projector.
pub(super) const VISION: &[&str] = &["v.", "mm."];

/// Mean and deviation of the colors of CLIP (arXiv 2103.00020).
pub(super) const CLIP_COLORS: [&[f32]; 2] =
    [&[0.481_454_66, 0.457_827_5, 0.408_210_73], &[0.268_629_54, 0.261_302_6, 0.275_777_1]];

/// Layout of the files of some models.
pub(super) struct Layout {
    /// Name of the models, for errors.
    pub(super) model: &'static str,
    /// Values of `general.architecture` in such files.
    pub(super) architectures: &'static [&'static str],
    /// Any of them is enough.
    pub(super) markers: &'static [Marker],
    /// Changes of the head, in order.
    pub(super) steps: &'static [Step],
    /// Changes that make the head of the vision tower in the same file, in order. Empty if the engine has no such tower.
    pub(super) tower: &'static [Step],
}

/// Property of files of a layout.
pub(super) enum Marker {
    /// The architecture is enough.
    Architecture,
    /// The file has a key; without the prefix of the architecture.
    Key(&'static str),
    /// The file lacks a key; without the prefix of the architecture.
    NoKey(&'static str),
    /// The file has a tensor.
    Tensor(&'static str),
    /// The file has a tensor with one of these prefixes.
    TensorPrefix(&'static [&'static str]),
    /// The file has a tensor with a name that ends so.
    TensorSuffix(&'static str),
    /// The file has two tensors with other numbers of rows.
    OtherRows(&'static str, &'static str),
    /// Another condition.
    Check(fn(&Metadata) -> bool),
}

impl Layout {
    /// Returns whether a file has this layout.
    pub(super) fn matches(&self, gguf: &Gguf) -> bool {
        let Ok(Some(architecture)) = gguf.metadata().str("general.architecture") else { return false };
        self.architectures.contains(&architecture) && self.markers.iter().any(|marker| marker.is_in(gguf, architecture))
    }

    /// Translates the head of a file.
    pub(super) fn translate(&self, metadata: &mut Metadata, tensors: &mut Vec<Tensor>) -> Result<(), LoadError> {
        let mut head = Head::new(metadata, tensors)?;
        self.steps.iter().try_for_each(|step| step.apply(&mut head))
    }

    /// Translates the head of a file to that of its vision tower.
    pub(super) fn translate_tower(&self, metadata: &mut Metadata, tensors: &mut Vec<Tensor>) -> Result<(), LoadError> {
        let mut head = Head::new(metadata, tensors)?;
        self.tower.iter().try_for_each(|step| step.apply(&mut head))
    }
}

impl Marker {
    fn is_in(&self, gguf: &Gguf, architecture: &str) -> bool {
        let has = |key: &str| gguf.metadata().get(&full_key(architecture, key)).is_some();
        match self {
            Self::Architecture => true,
            Self::Key(key) => has(key),
            Self::NoKey(key) => !has(key),
            Self::Tensor(name) => gguf.tensor(name).is_some(),
            Self::TensorPrefix(prefixes) => gguf.tensors().iter().any(|tensor| starts_with(&tensor.name, prefixes)),
            Self::TensorSuffix(suffix) => gguf.tensors().iter().any(|tensor| tensor.name.ends_with(suffix)),
            Self::OtherRows(first, second) => {
                let rows = |name: &str| gguf.tensor(name).and_then(|tensor| tensor.dims.get(1));
                rows(first).zip(rows(second)).is_some_and(|(first, second)| first != second)
            }
            Self::Check(check) => check(gguf.metadata()),
        }
    }
}
