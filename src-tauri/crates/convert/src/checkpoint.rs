//! Conversion of published checkpoints to GGUF: safetensors files with the descriptions of Hugging Face's libraries
//! (`config.json`, `tokenizer.json`, `tokenizer.model`, `spiece.model`,
//! `tiktoken.model`, `modules.json`).
//!
//! A [`Conversion`] is planned from the heads of the files, which determines the output size. Then it reads, encodes and
//! writes one tensor after the other, a few megabytes of rows at a time. Matrices get the types of a [`FileType`], with the
//! same rules as in [`crate::quantise`]; vectors and small tables stay F32, as llama.cpp expects. Values that are not finite
//! or that the type cannot represent are an error.
//!
//! The vision tower of a checkpoint becomes a file of its own ([`Conversion::tower`]).
//!
//! A new family of decoders is one file in `checkpoint/families/`, with a table of keys and tensors, and one line in
//! [`families::ALL`].

mod adapter;
mod config;
mod decoder;
mod description;
mod encode;
mod error;
mod families;
mod family;
mod files;
mod float8;
mod limited;
mod modules;
mod names;
mod normalizer;
mod plan;
mod pre_tokenizer;
mod rope;
mod safetensors;
mod sentence_piece;
mod special_tokens;
#[cfg(test)]
mod tests;
mod tiktoken;
mod tokenizer;
mod tower;
mod unigram;
mod vocabulary;
mod word_pieces;

use std::cell::RefCell;
use std::io::{self, Write};

use cairn_gguf::{Metadata, Writer};

use self::config::CONFIG;
use self::description::Description;
pub use self::error::ConvertError;
use self::error::{invalid, unsupported};
pub use self::files::CheckpointFile;
use self::modules::{Dense, MAX_DENSE};
use self::plan::{Data, PlannedTensor};
use self::safetensors::{Index, MAX_TENSORS, SourceTensor};
use self::tower::Tower;
pub use self::tower::tower_type;
use crate::FileType;

/// List of the files of a checkpoint in several files.
const INDEX: &str = "model.safetensors.index.json";
/// Names of matrices behind the model, in the order of their application, and keys of the config for their widths.
const DENSE: [(&str, [&str; 2]); MAX_DENSE] =
    [("dense_2", ["dense_2_feat_in", "dense_2_feat_out"]), ("dense_3", ["dense_3_feat_in", "dense_3_feat_out"])];
/// Name of the output matrix in GGUF.
const OUTPUT: &str = "output.weight";
/// `general.quantization_version` of the current block layouts.
const QUANTIZATION_VERSION: u32 = 2;

/// Warning that the audio tower is left out.
const NO_AUDIO: &str = "the audio tower was not converted; the model cannot hear audio input";

/// Why a model with a declared tower has none.
const NO_TOWER: &str = "config.json has a vision_config, but the files have no tensors of a vision tower; a file of weights may be \
                        missing";

/// Progress of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvertProgress {
    /// Bytes of the new file's tensors completed.
    pub done_bytes: u64,
    /// Bytes of all tensors of the new file.
    pub total_bytes: u64,
}

/// Planned conversion of a checkpoint.
pub struct Conversion<'a> {
    files: &'a [CheckpointFile],
    metadata: Metadata,
    tensors: Vec<PlannedTensor>,
    /// Conversion of the vision tower.
    tower: Option<Box<Self>>,
    left_out: Option<String>,
}

impl<'a> Conversion<'a> {
    /// Plans the conversion of a checkpoint to a file of type `target`. 4-bit blocks of the checkpoint stay as they are.
    ///
    /// # Errors
    /// If a file is damaged, a description is missing or invalid, or the family is not supported. A vision tower that is not
    /// supported is no error: see [`Self::left_out`].
    pub fn new(files: &'a [CheckpointFile], target: FileType) -> Result<Self, ConvertError> {
        adapter::check_separate(files)?;
        let mut description = Description::read(files)?;
        let architecture = description.config.architecture();
        let is_of = |family: &&&dyn family::Family| {
            family.architectures().contains(&architecture) && family.applies(&description.config)
        };
        let found = families::ALL.iter().find(is_of);
        let family = *found.ok_or_else(|| {
            let all = families::ALL.iter().flat_map(|family| family.architectures());
            let mut supported: Vec<&'static str> = all.copied().collect();
            supported.dedup();
            ConvertError::Architecture { name: cairn_wire::excerpt(architecture).into_owned(), supported }
        })?;
        let dense = if family.has_dense() { description.modules(true)?.dense } else { Vec::new() };
        for ((_, keys), dense) in DENSE.iter().zip(&dense) {
            for (key, count) in keys.iter().zip([dense.inputs, dense.outputs]) {
                description.config.set(key, count);
            }
        }
        family.prepare(&mut description.config)?;
        let mut metadata = family.metadata(&description)?;
        let sources = sources(files, &description, &dense)?;
        let (tower, left_out) = Self::plan_tower(files, family, &sources, &description, target)?;
        let mut tensors = plan::plan(files, sources, family, &description)?;
        let has = |name: &str| tensors.iter().any(|tensor| tensor.name == name);
        if let Some((_, dense)) = DENSE.iter().zip(&dense).find(|((name, _), _)| !has(&format!("{name}.weight"))) {
            return Err(invalid(&dense.weights, "it has no tensor `linear.weight`"));
        }
        if family.needs_output(&description)? && !has(OUTPUT) {
            let reason = "tie_word_embeddings is false, but the files have no output matrix (lm_head); a file of weights \
                          may be missing";
            return Err(invalid(CONFIG, reason));
        }
        plan::set_types(&mut tensors, &metadata, target)?;
        let has_blocks = tensors.iter().any(|tensor| matches!(tensor.data, Data::Blocks { .. }));
        let file_type = if has_blocks && target.is_float() { FileType::MXFP4_MOE } else { target };
        metadata.set("general.quantization_version", QUANTIZATION_VERSION);
        metadata.set("general.file_type", file_type.number());
        Ok(Self { files, metadata, tensors, tower: tower.map(Box::new), left_out })
    }

    /// Plans the file of the vision tower, if there is one. Returns the parts that are left out, too, and the reason.
    fn plan_tower(
        files: &'a [CheckpointFile],
        family: &dyn family::Family,
        sources: &[SourceTensor],
        description: &Description<'_>,
        target: FileType,
    ) -> Result<(Option<Self>, Option<String>), ConvertError> {
        let is_audio = |source: &&SourceTensor| tower::is_of_audio(&source.name);
        let left_out = sources.iter().filter(|source| family.is_left_out(&source.name));
        let has_audio = left_out.clone().any(|source| is_audio(&source));
        let no_audio = has_audio.then(|| NO_AUDIO.to_owned());
        if left_out.clone().all(|source| is_audio(&source)) {
            // A file of weights may be missing, which only an index of the files would show.
            let is_declared = description.config.value(tower::SECTION).is_object();
            return Ok((None, if is_declared { Some(text_only(NO_TOWER)) } else { no_audio }));
        }
        let plan = || -> Result<Self, ConvertError> {
            let tower = Tower::new(files, description)?;
            if let Some(other) = left_out.clone().find(|source| !is_audio(source) && !tower.contains(&source.name)) {
                let what = format!("the tensor `{}` beside those of the vision tower", other.name.escape_debug());
                return Err(unsupported(what));
            }
            let mut tensors = plan::plan(files, tower.sources(sources)?, &tower, description)?;
            tower.check_complete(sources, &tensors)?;
            tower.set_types(&mut tensors, target);
            let mut metadata = tower.file_metadata(target);
            metadata.set("general.quantization_version", QUANTIZATION_VERSION);
            Ok(Self { files, metadata, tensors, tower: None, left_out: None })
        };
        match plan() {
            Ok(tower) => Ok((Some(tower), no_audio)),
            Err(error @ ConvertError::Unsupported { .. }) => Ok((None, Some(text_only(&error.to_string())))),
            Err(error) => Err(error),
        }
    }

    /// Returns the conversion of the vision tower to a file of its own.
    pub fn tower(&self) -> Option<&Self> {
        self.tower.as_deref()
    }

    /// Returns the parts of the checkpoint that the new files lack, and the reason, for people.
    pub fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    /// Returns the head of the new file, which is everything before the weights, and the size of the file.
    ///
    /// # Errors
    /// If a tensor cannot be written to a file.
    pub fn head(&self) -> Result<(Vec<u8>, u64), ConvertError> {
        Ok(self.writer(|_, _| Ok(()))?.head())
    }

    /// Writes the new file. `on_progress` is called every few megabytes.
    ///
    /// # Errors
    /// I/O errors of the files and of `out`. A [`ConvertError`] is the source of an [`io::Error`] of the kind
    /// `InvalidData`.
    pub fn write_to(&self, out: &mut impl Write, on_progress: &mut dyn FnMut(ConvertProgress)) -> io::Result<()> {
        let bytes = |tensor: &PlannedTensor| {
            let elements: u64 = tensor.dims.iter().product();
            elements / tensor.dtype.block() as u64 * tensor.dtype.block_bytes() as u64
        };
        let total_bytes = self.tensors.iter().map(bytes).sum();
        let state = RefCell::new((ConvertProgress { done_bytes: 0, total_bytes }, on_progress));
        let writer = self.writer(|tensor, out| {
            encode::write(self.files, tensor, out, &mut |bytes| {
                let (progress, on_progress) = &mut *state.borrow_mut();
                progress.done_bytes += bytes;
                on_progress(*progress);
            })
        });
        writer.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?.write_to(out)
    }

    /// Returns the writer of the new file. `fill` writes each tensor.
    fn writer<'f>(
        &'f self,
        fill: impl Fn(&PlannedTensor, &mut dyn Write) -> io::Result<()> + Copy + 'f,
    ) -> Result<Writer<'f>, ConvertError> {
        let mut writer = Writer::default();
        for (key, value) in self.metadata.iter() {
            writer.set(key, value.clone());
        }
        for tensor in &self.tensors {
            writer.tensor_from(tensor.name.clone(), tensor.dtype, &tensor.dims, move |out| fill(tensor, out))?;
        }
        Ok(writer)
    }
}

/// Returns the warning that a vision tower is left out.
pub fn text_only(reason: &str) -> String {
    format!(
        "only the text part of the folder was converted: {reason}. To use images, create the model from GGUF files: the model \
         and its projector (mmproj)"
    )
}

/// Reads the tensors of all files, or of those in the index if there is one. Those of matrices behind the model get their names.
fn sources(
    files: &[CheckpointFile],
    description: &Description<'_>,
    dense: &[Dense],
) -> Result<Vec<SourceTensor>, ConvertError> {
    let index: Option<Index> = description.parsed(INDEX)?;
    let mut listed = match &index {
        Some(index) => Some(index.files().map_err(|reason| invalid(INDEX, reason))?),
        None => None,
    };
    let has_weights = |file: &CheckpointFile| file.name.to_ascii_lowercase().ends_with(".safetensors");
    let mut sources = Vec::new();
    for (position, file) in files.iter().enumerate().filter(|(_, file)| has_weights(file)) {
        let matrix = dense.iter().position(|dense| dense.weights == file.name);
        let is_listed = listed.as_mut().is_none_or(|listed| listed.remove(file.name.as_str()));
        if matrix.is_none() && !is_listed {
            continue;
        }
        let tensors = safetensors::read(&file.file, position).map_err(|reason| invalid(&file.name, reason))?;
        match (matrix, &index) {
            (Some(matrix), _) => sources.extend(tensors.into_iter().map(|tensor| tensor.with_prefix(DENSE[matrix].0))),
            (None, Some(index)) => {
                let names = index.tensors_of(&file.name);
                safetensors::check_names(&tensors, names).map_err(|reason| invalid(&file.name, reason))?;
                sources.extend(tensors);
            }
            (None, None) => sources.extend(tensors),
        }
        // The same file may be there thousands of times.
        if sources.len() > MAX_TENSORS {
            return Err(invalid(&file.name, format!("the files have more than {MAX_TENSORS} tensors together")));
        }
    }
    match listed.and_then(|listed| listed.into_iter().next()) {
        Some(missing) => Err(invalid(INDEX, format!("the file {missing:?} that it names is missing"))),
        None => Ok(sources),
    }
}
