//! The models that this daemon serves: local ones, and those of remotes.

use std::collections::HashMap;
use std::time::SystemTime;

use cairn_upstream::{CallError, Health, ListedModel, Target, Upstream};
use serde_json::Map;

use super::error::Error;
use super::handle::Remotes;
use super::index::canonical;
use crate::library::{Details, Summary};
use crate::values::{ShowResponse, Timestamp};

/// Origin of a model of a remote.
const ORIGIN: &str = "remote";

/// A model in the list of all models.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedModel {
    /// Summary of the model.
    pub summary: Summary,
    /// Names of the remotes that have the model; empty for a local one.
    pub remotes: Vec<String>,
}

impl Remotes {
    /// Lists all models: local ones first, then those of remotes that are available. Blocks.
    ///
    /// # Errors
    /// If no library can be read.
    pub fn served(&self) -> Result<Vec<ServedModel>, Error> {
        let mut models = self.local()?;
        let mut places: HashMap<String, usize> =
            models.iter().enumerate().map(|(at, model)| (canonical(&model.summary.name), at)).collect();
        for upstream in self.upstreams().into_iter().filter(|upstream| upstream.health() == Health::Up) {
            for listed in upstream.models().iter() {
                let at = *places.entry(canonical(&listed.name)).or_insert_with(|| {
                    models.push(ServedModel { summary: summary(listed), remotes: Vec::new() });
                    models.len() - 1
                });
                let model = &mut models[at];
                let is_local = model.summary.origin != Some(ORIGIN);
                if is_local || model.remotes.iter().any(|name| name == upstream.name()) {
                    continue;
                }
                // Servers of OpenAI's API report little. The first server that reports more describes the model.
                if model.summary.size_bytes == 0 && listed.size_bytes > 0 {
                    model.summary = Summary { name: model.summary.name.clone(), ..summary(listed) };
                }
                model.remotes.push(upstream.name().to_owned());
            }
        }
        Ok(models)
    }

    /// Lists local models, for another daemon. It would otherwise list models of this daemon's remotes, and remotes could form a
    /// loop. Blocks.
    ///
    /// # Errors
    /// If no library can be read.
    pub fn local(&self) -> Result<Vec<ServedModel>, Error> {
        let listed = self.0.library.list()?.into_iter();
        Ok(listed.map(|summary| ServedModel { summary, remotes: Vec::new() }).collect())
    }

    /// Describes a model of a remote, as its server does; `None` if no remote has it.
    ///
    /// # Errors
    /// If none of its servers describes it.
    pub async fn show(&self, name: &str) -> Result<Option<ShowResponse>, CallError> {
        self.settled().await;
        let mut last = None;
        for Target { upstream, model } in self.find(name).unwrap_or_default() {
            let remote = upstream.name().to_owned();
            match upstream.show(&model).await {
                Ok(shown) => {
                    let shown = shown.unwrap_or_else(|| listed_only(&upstream, &model));
                    return Ok(Some(ShowResponse { origin: Some(ORIGIN.to_owned()), ..shown }));
                }
                Err(failure) => last = Some(CallError::Failed { remote, failure }),
            }
        }
        last.map_or(Ok(None), Err)
    }
}

/// The description of a model of a server that has only a list.
fn listed_only(upstream: &Upstream, model: &str) -> ShowResponse {
    let models = upstream.models();
    let listed = models.iter().find(|listed| listed.name == model).cloned().unwrap_or_default();
    ShowResponse {
        license: String::new(),
        modelfile: String::new(),
        parameters: String::new(),
        template: String::new(),
        template_reason: String::new(),
        template_problem: None,
        vision_problem: None,
        continues_text: false,
        system: String::new(),
        details: listed.details,
        messages: Vec::new(),
        model_info: Map::new(),
        tensors: Vec::new(),
        capabilities: listed.capabilities,
        modified_at: listed.modified_at.unwrap_or(Timestamp(SystemTime::UNIX_EPOCH)),
        origin: None,
    }
}

fn summary(model: &ListedModel) -> Summary {
    let details = &model.details;
    Summary {
        name: model.name.clone(),
        digest: model.digest.clone(),
        size_bytes: model.size_bytes,
        modified_at: model.modified_at.map_or(SystemTime::UNIX_EPOCH, |at| at.0),
        details: Details {
            format: details.format.clone(),
            family: details.family.clone(),
            families: details.families.clone().unwrap_or_default(),
            parameter_size: details.parameter_size.clone(),
            quantization: details.quantization_level.clone(),
            context_length: details.context_length,
            embedding_length: details.embedding_length,
        },
        capabilities: model.capabilities.clone(),
        origin: Some(ORIGIN),
    }
}
