//! What commands do: to the session, and through the daemon to the store.

use anyhow::Context;
use cairn_wire::ollama::{CreateRequest, GenerateChunk, GenerateRequest, ProgressLine, ShowRequest, ShowResponse};
use cairn_wire::ollama::{Message, TagsResponse};
use serde_json::Value;

use super::command::{Part, Set};
use crate::run::model;
use crate::run::session::Session;
use crate::{output, show, stop};

impl Session {
    /// Sets something, and says so.
    pub(super) fn set(&mut self, set: Set) -> String {
        match set {
            Set::Parameter { name, value } => {
                let said = match &value {
                    Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("', '"),
                    value => plain(value),
                };
                let line = format!("Set parameter '{name}' to '{said}'.");
                self.options.insert(name, value);
                line
            }
            Set::System(text) => {
                self.system = Some(text);
                "Set system message.".to_owned()
            }
            Set::KeepHistory(keeps) => {
                self.keeps_history = keeps;
                if keeps { "Lines are remembered." } else { "Lines are not remembered." }.to_owned()
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
            Set::NoFormat => "Disabled format.".to_owned(),
        }
    }

    /// A part of what is known of the model, and of what this session has set.
    pub(super) async fn part(&self, part: Part) -> anyhow::Result<String> {
        let shown = self.shown().await?;
        let some = |text: &str, what: &str| match text.trim_end() {
            "" => format!("No {what} was specified for this model.\n"),
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

    /// Goes on with another model.
    pub(super) async fn load(&mut self, text: &str) -> anyhow::Result<String> {
        let named = model::name(&self.client, text).await?;
        let request = GenerateRequest { model: named.name.clone(), keep_alive: self.keep_alive, ..Default::default() };
        let loaded: anyhow::Result<GenerateChunk> = self.client.post("/api/generate", &request).await;
        match loaded {
            Ok(_) => {}
            Err(error) if stop::is_not_found(&error) => anyhow::bail!("{error}; /list shows those there are"),
            Err(error) => return Err(error),
        }
        if named.lacks_template {
            output::note(model::NO_TEMPLATE);
        }
        self.model = named.name;
        self.messages.clear();
        Ok(format!("Loaded '{}'.", self.model))
    }

    /// Saves the model with what this session has set and said.
    pub(super) async fn save(&self, name: &str) -> anyhow::Result<String> {
        let mut messages: Vec<Message> = Vec::new();
        if !self.messages.is_empty() {
            // Messages replace those of the model that it is made of.
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
        anyhow::ensure!(last == "success", "saving broke off");
        Ok(format!("Created new model '{name}'."))
    }

    /// Names of the models that are here.
    pub(super) async fn names(&self) -> anyhow::Result<String> {
        let tags: TagsResponse = self.client.get("/api/tags").await?;
        Ok(tags.models.iter().map(|model| format!("{}\n", model.name)).collect())
    }

    async fn shown(&self) -> anyhow::Result<ShowResponse> {
        let request = ShowRequest { model: self.model.clone(), ..Default::default() };
        self.client.post("/api/show", &request).await.context("the model cannot be shown")
    }
}

/// A value without the quotes of JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
