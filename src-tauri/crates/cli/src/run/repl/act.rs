//! The actions of the chat commands.

use anyhow::Context;
use cairn_wire::ollama::{CreateRequest, GenerateChunk, GenerateRequest, ProgressLine, ShowResponse};
use cairn_wire::ollama::{Message, TagsResponse};
use serde_json::Value;

use super::command::{Part, Set};
use crate::client::is_not_found;
use crate::run::session::Session;
use crate::{model, output, show};

impl Session {
    /// Changes a setting of the session and returns the confirmation.
    pub(super) fn set(&mut self, set: Set) -> String {
        match set {
            Set::Parameter { name, value } => {
                let text = match &value {
                    Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("', '"),
                    value => plain(value),
                };
                let line = format!("Set parameter '{name}' to '{text}'.");
                self.options.insert(name, value);
                line
            }
            Set::System(text) => {
                self.system = Some(text);
                "Set system message.".to_owned()
            }
            Set::KeepHistory(keeps) => {
                self.keeps_history = keeps;
                if keeps { "Set 'history' mode." } else { "Set 'nohistory' mode." }.to_owned()
            }
            Set::Wrap(wraps) => {
                self.wraps = wraps;
                if wraps { "Set 'wordwrap' mode." } else { "Set 'nowordwrap' mode." }.to_owned()
            }
            Set::Verbose(verbose) => {
                self.verbose = verbose;
                if verbose { "Set 'verbose' mode." } else { "Set 'quiet' mode." }.to_owned()
            }
            Set::Think(think) => {
                self.think = Some(think);
                if think.is_on() { "Set 'think' mode." } else { "Set 'nothink' mode." }.to_owned()
            }
            Set::Format(format) => {
                let text = format!("Set format to '{}'.", plain(&format));
                self.format = Some(format);
                text
            }
            Set::NoFormat => {
                self.format = None;
                "Disabled format.".to_owned()
            }
        }
    }

    /// Returns one part of the model's description, with the session's changes.
    pub(super) async fn part(&self, part: Part) -> anyhow::Result<String> {
        let shown = self.shown().await?;
        let some = |text: &str, name: &str| match text.trim_end() {
            "" => format!("No {name} was specified for this model.\n"),
            text => format!("{text}\n"),
        };
        Ok(match part {
            Part::Info => show::text(&shown, false),
            Part::License => some(&shown.license, "license"),
            Part::Modelfile => some(&shown.modelfile, "Modelfile"),
            Part::Template => some(&shown.template, "template"),
            Part::System => match &self.system {
                Some(system) => format!("{system}\n"),
                None => some(&shown.system, "system message"),
            },
            Part::Parameters => {
                let own = self.options.iter().map(|(name, value)| match value {
                    Value::Array(items) => items.iter().map(|item| format!("{name:<30} {item}\n")).collect(),
                    value => format!("{name:<30} {value}\n"),
                });
                let own = own.collect::<String>();
                let own = if own.is_empty() { "No parameters were set in this session.\n".to_owned() } else { own };
                format!("Of the model:\n{}\nOf this session:\n{own}", some(&shown.parameters, "parameters"),)
            }
        })
    }

    /// Loads another model and starts a new chat with it.
    pub(super) async fn load(&mut self, text: &str) -> anyhow::Result<String> {
        let name = model::resolve(&self.client, text).await?;
        let request = GenerateRequest { model: name.clone(), keep_alive: self.keep_alive, ..Default::default() };
        let loaded: anyhow::Result<GenerateChunk> = self.client.post("/api/generate", &request).await;
        match loaded {
            Ok(_) => {}
            Err(error) if is_not_found(&error) => anyhow::bail!("{error}; /list shows the available models"),
            Err(error) => return Err(error),
        }
        self.model = name;
        if self.shown().await?.continues_text {
            output::note(model::NO_TEMPLATE);
        }
        self.messages.clear();
        Ok(format!("Loaded '{}'.", self.model))
    }

    /// Saves the model with the session's settings and messages under a new name.
    pub(super) async fn save(&self, name: &str) -> anyhow::Result<String> {
        let mut messages: Vec<Message> = Vec::new();
        if !self.messages.is_empty() {
            // The messages of the request replace those of the base model.
            messages.extend(self.shown().await?.messages);
            messages.extend(self.messages.iter().cloned());
        }
        let request = CreateRequest {
            model: name.to_owned(),
            from: self.model.clone(),
            system: self.system.clone(),
            parameters: (!self.options.is_empty()).then(|| self.options.clone()),
            messages: (!messages.is_empty()).then_some(messages),
            ..Default::default()
        };
        let mut lines = self.client.stream("/api/create", &request).await?;
        let mut last = String::new();
        while let Some(ProgressLine { status, .. }) = lines.next().await? {
            last = status;
        }
        anyhow::ensure!(last == "success", "the server ended before the model was saved");
        Ok(format!("Created new model '{name}'."))
    }

    /// Returns the names of all models, one per line.
    pub(super) async fn names(&self) -> anyhow::Result<String> {
        let tags: TagsResponse = self.client.get("/api/tags").await?;
        Ok(tags.models.iter().map(|model| format!("{}\n", model.name)).collect())
    }

    async fn shown(&self) -> anyhow::Result<ShowResponse> {
        model::show(&self.client, &self.model).await.context("cannot show the model")
    }
}

/// Formats a value without the quotes of JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
