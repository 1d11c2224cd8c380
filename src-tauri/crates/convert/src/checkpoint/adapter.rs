//! Conversion of a LoRA adapter of PEFT to a GGUF file: `adapter_config.json` and `adapter_model.safetensors`, for a base model in
//! GGUF.
//!
//! A linear module has two matrices, `A` `[rank, columns]` and `B` `[rows, rank]`. Their names and the order of `B`'s rows
//! become those of the base's matrix. The base determines the family, the shapes and the number of heads, so an adapter of
//! another model is refused. The file has one factor for all modules; other factors are multiplied into `B`.

mod config;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use cairn_gguf::{DType, Gguf, Metadata};

use self::config::{AdapterConfig, CONFIG};
use super::error::{ConvertError, adapter_feature, invalid};
use super::family::{Family, Heads, Layout, ModuleMatrix};
use super::files::CheckpointFile;
use super::plan::{Data, Matrix, PlannedTensor};
use super::safetensors::{self, Format, SourceTensor};
use super::{Conversion, families};
use crate::FileType;

/// Name of the file of weights.
const WEIGHTS: &str = "adapter_model.safetensors";
/// Prefix of names, of the two classes around the base model.
const PREFIX: &str = "base_model.model.";

/// Table of the embeddings of tokens. The engine cannot adapt it, because it is no factor of a product.
const EMBEDDING: &str = "token_embd.weight";

/// Matrix of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    A,
    B,
}

/// The matrices of a linear module.
struct Module {
    /// Name in the base model's checkpoint.
    name: String,
    a: Option<SourceTensor>,
    b: Option<SourceTensor>,
}

/// A complete module.
struct Pair<'m> {
    name: &'m str,
    a: &'m SourceTensor,
    b: &'m SourceTensor,
}

/// Checks that the folder of a model has no adapter, which would not change the model.
pub(super) fn check_separate(files: &[CheckpointFile]) -> Result<(), ConvertError> {
    let Some(adapter) = files.iter().find(|file| [CONFIG, WEIGHTS].contains(&file.name.as_str())) else {
        return Ok(());
    };
    let model = files.iter().find(|file| file.name != WEIGHTS && file.name.ends_with(".safetensors"));
    let reason = match model {
        Some(model) => format!(
            "the folder has a model ({}) and an adapter; move {CONFIG} and {WEIGHTS} to another folder, and name that \
             folder with ADAPTER to use both",
            model.name.escape_debug()
        ),
        None => "the folder has an adapter and no model; name it with ADAPTER, and its base model with FROM".to_owned(),
    };
    Err(invalid(&adapter.name, reason))
}

impl<'a> Conversion<'a> {
    /// Plans the conversion of an adapter to a GGUF file for models with the head `base`.
    ///
    /// # Errors
    /// If a file is missing or damaged, the adapter uses an unsupported feature, or it does not fit the base.
    pub fn of_adapter(files: &'a [CheckpointFile], base: &Gguf) -> Result<Self, ConvertError> {
        let config = AdapterConfig::read(files)?;
        let architecture = base.metadata().required_str("general.architecture")?;
        let family = family(architecture)?;
        let file = files.iter().position(|file| file.name == WEIGHTS);
        let file = file.ok_or_else(|| invalid(WEIGHTS, "it is missing; ADAPTER must name the folder with it"))?;
        let refused = |reason: String| invalid(WEIGHTS, reason);
        let sources = safetensors::read(&files[file].file, file).map_err(refused)?;
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", architecture);
        metadata.set("general.type", "adapter");
        metadata.set("general.file_type", FileType::F32.number());
        metadata.set("adapter.type", "lora");
        metadata.set("adapter.lora.alpha", config.alpha);
        let (mut tensors, mut names) = (Vec::new(), HashSet::new());
        for module in modules(sources)? {
            let pair = module.pair()?;
            for matrix in pair.matrices(family, &config)? {
                if !names.insert(matrix.name.clone()) {
                    return Err(refused(format!("{} is changed twice", matrix.name)));
                }
                tensors.extend(pair.plan(&matrix, base, &config)?);
            }
        }
        if tensors.is_empty() {
            return Err(refused("it has no matrices of an adapter".to_owned()));
        }
        Ok(Self { files, metadata, tensors, tower: None, left_out: None })
    }
}

/// Returns the family of a base model.
fn family(architecture: &str) -> Result<&'static dyn Family, ConvertError> {
    let is_supported = |family: &&&'static dyn Family| !family.matrices("model.layers.0.self_attn.o_proj").is_empty();
    let families = || families::ALL.iter().filter(is_supported);
    families().find(|family| family.name() == architecture).copied().ok_or_else(|| {
        let mut supported: Vec<&'static str> = families().map(|family| family.name()).collect();
        supported.dedup();
        ConvertError::AdapterFamily { name: architecture.to_owned(), supported }
    })
}

/// Groups the tensors of an adapter by module, in the order of the file.
fn modules(sources: Vec<SourceTensor>) -> Result<Vec<Module>, ConvertError> {
    let (mut modules, mut index): (Vec<Module>, HashMap<String, usize>) = Default::default();
    for source in sources {
        let (name, half) = parse(&source.name)?;
        let at = *index.entry(name.to_owned()).or_insert_with(|| {
            modules.push(Module { name: name.to_owned(), a: None, b: None });
            modules.len() - 1
        });
        let slot = if half == Half::A { &mut modules[at].a } else { &mut modules[at].b };
        if let Some(first) = slot.replace(source.clone()) {
            let [first, second] = [&first, &source].map(|tensor| tensor.name.escape_debug().to_string());
            return Err(invalid(WEIGHTS, format!("the tensors `{first}` and `{second}` are of the same matrix")));
        }
    }
    Ok(modules)
}

/// Splits the name of a tensor into that of its module and its half.
fn parse(full_name: &str) -> Result<(&str, Half), ConvertError> {
    let name = full_name.strip_prefix(PREFIX).unwrap_or(full_name);
    let refused = |what: &str| adapter_feature(format!("{what} (tensor `{}`)", full_name.escape_debug()));
    if name.contains(".lora_magnitude_vector") {
        return Err(refused("DoRA"));
    }
    if name.contains(".lora_embedding_") {
        return Err(refused("changed embeddings of tokens"));
    }
    for (infix, half) in [(".lora_A", Half::A), (".lora_B", Half::B)] {
        let Some((module, ending)) = name.split_once(infix) else { continue };
        // Some versions add the adapter's name.
        let is_weight = ending.strip_suffix(".weight").is_some_and(|name| name.matches('.').count() <= 1);
        return if is_weight { Ok((module, half)) } else { Err(refused("another tensor than two matrices")) };
    }
    Err(refused("whole tensors of the base"))
}

impl Module {
    fn pair(&self) -> Result<Pair<'_>, ConvertError> {
        let name = &self.name;
        match (&self.a, &self.b) {
            (Some(a), Some(b)) => Ok(Pair { name, a, b }),
            (a, _) => {
                let missing = if a.is_some() { "lora_B" } else { "lora_A" };
                Err(invalid(WEIGHTS, format!("the module `{}` has no {missing}", name.escape_debug())))
            }
        }
    }
}

impl Pair<'_> {
    /// Returns the matrices that the module became in the base's file.
    fn matrices(&self, family: &dyn Family, config: &AdapterConfig) -> Result<Vec<ModuleMatrix>, ConvertError> {
        let matrices = family.matrices(self.name);
        if matrices.is_empty() {
            let reason = format!("the module `{}` is not part of a {} model", self.name.escape_debug(), family.name());
            return Err(ConvertError::AdapterBase { reason, base: config.base.clone() });
        }
        if matrices.iter().any(|matrix| matrix.name == EMBEDDING) {
            let module = self.name.escape_debug();
            return Err(adapter_feature(format!("changed embeddings of tokens (module `{module}`)")));
        }
        Ok(matrices)
    }

    /// Plans the two tensors of a matrix.
    fn plan(
        &self,
        matrix: &ModuleMatrix,
        base: &Gguf,
        config: &AdapterConfig,
    ) -> Result<[PlannedTensor; 2], ConvertError> {
        let ModuleMatrix { name, select, heads } = matrix;
        let refused = |reason: String| ConvertError::AdapterBase { reason, base: config.base.clone() };
        let found = base.tensor(name).ok_or_else(|| {
            refused(format!("the base has no matrix `{name}` for the module `{}`", self.name.escape_debug()))
        })?;
        let &[columns, rows] = &found.dims[..] else {
            return Err(adapter_feature(format!("changes of `{name}`, which is not one matrix,")));
        };
        let rank = config.rank(self.name);
        let factor = config.factor(self.name);
        if self.a.shape != [rank, columns] {
            return Err(refused(shape(
                self.a,
                &format!("[{rank}, {columns}] of the rank and the columns of `{name}`"),
            )));
        }
        let selects_all = match self.b.shape[..] {
            [all, inner] => inner == rank && select.count(all) == Some(rows),
            _ => false,
        };
        if !selects_all {
            return Err(refused(shape(self.b, &format!("[{rows}, {rank}] of the rows of `{name}` and the rank"))));
        }
        if let Some(tensor) = [self.a, self.b].into_iter().find(|tensor| !matches!(tensor.format, Format::Float(_))) {
            let name = tensor.name.escape_debug();
            return Err(invalid(WEIGHTS, format!("tensor `{name}` must have the type F32, F16 or BF16")));
        }
        let heads = heads.map(|kind| head_count(base.metadata(), kind)).transpose()?;
        if let Some(heads) = heads.filter(|&heads| heads == 0 || !rows.is_multiple_of(2 * heads)) {
            return Err(refused(format!("the {rows} rows of `{name}` cannot be divided into halves of {heads} heads")));
        }
        let planned = |ending: &str, tensor: &SourceTensor, dims: [u64; 2], layout: Layout| PlannedTensor {
            name: format!("{name}.{ending}"),
            dtype: DType::F32,
            dims: dims.to_vec(),
            data: Data::Matrices { matrices: vec![matrix_of(tensor)], layout },
            copies: Vec::new(),
        };
        let rows_layout = Layout { select: *select, heads, factor, ..Layout::PLAIN };
        Ok([
            planned("lora_a", self.a, [columns, rank], Layout::PLAIN),
            planned("lora_b", self.b, [rank, rows], rows_layout),
        ])
    }
}

fn matrix_of(tensor: &SourceTensor) -> Matrix {
    Matrix::plain(tensor, tensor.shape[0], tensor.shape[1])
}

fn shape(tensor: &SourceTensor, need: &str) -> String {
    format!("tensor `{}` has the shape {:?} instead of {need}", tensor.name.escape_debug(), tensor.shape)
}

/// Returns the number of heads of the base.
fn head_count(metadata: &Metadata, kind: Heads) -> Result<u64, ConvertError> {
    let architecture = metadata.required_str("general.architecture")?;
    let key = format!("{architecture}.attention.head_count");
    let count = match kind {
        Heads::KeyValue => metadata.u32(&format!("{key}_kv"))?,
        Heads::Query => None,
    };
    match count {
        Some(count) => Ok(u64::from(count)),
        None => Ok(u64::from(metadata.required_u32(&key)?)),
    }
}
