//! Show: all information about one model.

use std::path::Path;

use cairn_convert::Modelfile;
use cairn_convert::modelfile::{Command, Role};
use cairn_gguf::{Array, Gguf, Metadata, Value as GgufValue};
use cairn_prompt::{Capabilities, Error as TemplateError, Template};
use cairn_runtime::Source;
use serde_json::{Map, Value, json};

use crate::library::catalog::Model;
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::summary::Summary;
use crate::library::summary::{Details, VISION, capabilities, parameter_count};
use crate::library::template::Choice;
use crate::library::{head, pebble, template};
use cairn_prompt::Message;

/// All information about one model. Absent texts are empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Summary of the model.
    pub summary: Summary,
    /// Licences, joined by line breaks.
    pub license: String,
    /// Modelfile that creates this model.
    pub modelfile: String,
    /// Options of the model, one per line.
    pub parameters: String,
    /// The template.
    pub template: String,
    /// Language of the template, and the reason of its choice.
    pub template_reason: String,
    /// Why chats with the model fail because of its template.
    pub template_problem: Option<String>,
    /// Why the model cannot see images although it has a vision tower.
    pub vision_problem: Option<String>,
    /// Whether the model has no chat template: it gets the plain texts and continues them.
    pub continues_text: bool,
    /// System message of the model.
    pub system: String,
    /// Messages that precede every conversation.
    pub messages: Vec<Message>,
    /// Metadata of the file as it is, also of one in Ollama's own layout. Arrays are `null` unless `verbose`.
    pub info: Map<String, Value>,
    /// Tensors of the file.
    pub tensors: Vec<TensorRow>,
}

/// One tensor of a model's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorRow {
    /// Name of the tensor.
    pub name: String,
    /// Type of the tensor, for example `Q4_K`.
    pub kind: String,
    /// Dimensions; the first is the length of a row.
    pub shape: Vec<u64>,
}

impl ModelLibrary {
    /// Returns all information about one model; with `verbose`, the elements of arrays too.
    ///
    /// # Errors
    /// If the model does not exist, or its file cannot be read.
    pub fn show(&self, name: &str, verbose: bool) -> Result<Shown, Error> {
        let model = self.catalog.find(name)?;
        let head = match &model.source {
            Source::File(path) => head::read(path)?,
            Source::Builtin { .. } => pebble::head(),
        };
        let vision = check_vision(&model, &head.gguf);
        let mut shown = shown(model, &head.gguf, self.settings.models.go_template, verbose);
        match vision {
            Ok(true) => shown.summary.capabilities.push(VISION.to_owned()),
            Ok(false) => {}
            Err(reason) => shown.vision_problem = Some(reason),
        }
        Ok(shown)
    }
}

impl ModelLibrary {
    /// Whether the chat template of a model has a place for tools. Reads the head of its file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn can_call_tools(&self, model: &Model) -> Result<bool, Error> {
        let head = match &model.source {
            Source::File(path) => head::read(path)?,
            Source::Builtin { .. } => pebble::head(),
        };
        let loaded = head::as_loaded(&head.gguf);
        let choice = choose_template(model, loaded.metadata(), self.settings.models.go_template);
        // A template that is invalid is an error of the answer.
        Ok(choice.is_ok_and(|choice| choice.capabilities().tools))
    }
}

/// Chooses the template of a model with this metadata.
fn choose_template(model: &Model, metadata: &Metadata, go_template: Option<bool>) -> Result<Choice, TemplateError> {
    let own_template = head::chat_template(metadata);
    let in_file = (!own_template.is_empty()).then(|| Template::jinja(own_template)).transpose();
    template::choose(model, in_file.as_ref().map(Option::as_ref), go_template)
}

/// Whether a model has a vision tower: in its projector or its own file. Returns the reason if the engine cannot compute it.
fn check_vision(model: &Model, gguf: &Gguf) -> Result<bool, String> {
    let projector = model.projectors.first().map(|path| head::read(path)).transpose();
    let projector = projector.map_err(|error| error.to_string())?;
    let checked = cairn_runtime::check_vision(gguf, projector.as_ref().map(|projector| &projector.gguf));
    checked.map_err(|error| error.to_string())
}

fn shown(model: Model, gguf: &Gguf, go_template: Option<bool>, verbose: bool) -> Shown {
    let loaded = head::as_loaded(gguf);
    let metadata = loaded.metadata();
    let own_template = head::chat_template(metadata);
    let choice = choose_template(&model, metadata, go_template);
    let template_problem = template::problem(&choice, metadata);
    let is_text_only = choice.as_ref().is_ok_and(|choice| choice.template.is_none());
    let continues_text = is_text_only && !cairn_runtime::is_embedding_model(metadata);
    let (template, template_reason, shows) = match choice {
        Ok(choice) => {
            let text = choice.template.as_ref().map(|template| template.source().to_owned());
            let shows = choice.capabilities();
            // An unused layer is still shown.
            (text.or_else(|| model.template.clone()).unwrap_or_default(), choice.reason, shows)
        }
        Err(error) => {
            let text = model.template.clone().unwrap_or_else(|| own_template.to_owned());
            (text, error.to_string(), Capabilities::default())
        }
    };
    let mut info = Map::new();
    for (key, value) in
        gguf.metadata().iter().filter(|(key, _)| !matches!(*key, "general.name" | "tokenizer.chat_template"))
    {
        info.insert(key.to_owned(), json_value(value, verbose));
    }
    info.insert("general.parameter_count".to_owned(), json!(parameter_count(gguf)));
    let tensors = gguf.tensors().iter().map(|tensor| TensorRow {
        name: tensor.name.clone(),
        kind: tensor.dtype.to_string(),
        shape: tensor.dims.clone(),
    });
    let mut summary = model.summary.clone();
    let own = Details::of_file(gguf);
    summary.details.context_length = summary.details.context_length.or(own.context_length);
    summary.details.embedding_length = summary.details.embedding_length.or(own.embedding_length);
    for capability in capabilities(metadata, shows) {
        if !summary.capabilities.contains(&capability) {
            summary.capabilities.push(capability);
        }
    }
    Shown {
        modelfile: modelfile(&model),
        parameters: parameters(&model.params),
        system: model.system.unwrap_or_default(),
        messages: model.messages,
        license: model.licenses.join("\n"),
        template,
        template_reason,
        template_problem,
        vision_problem: None,
        continues_text,
        info,
        tensors: tensors.collect(),
        summary,
    }
}

/// Formats options as lines: the name, padded to 30 columns, and the value as Go writes it.
fn parameters(params: &Map<String, Value>) -> String {
    let mut lines = Vec::new();
    for (name, value) in params {
        match value {
            Value::Array(items) => lines.extend(items.iter().map(|item| format!("{name:<30} {item}"))),
            value => lines.push(format!("{name:<30} {value}")),
        }
    }
    lines.join("\n")
}

/// Returns a Modelfile that creates this model, with a comment on its use.
fn modelfile(model: &Model) -> String {
    let path = |path: &Path| path.display().to_string();
    let from = match &model.source {
        Source::File(file) => path(file),
        Source::Builtin { .. } => pebble::NAME.to_owned(),
    };
    let mut commands = vec![Command::From(from)];
    commands.extend(model.adapters.iter().map(|adapter| Command::Adapter(path(&adapter.path))));
    commands.extend(model.projectors.iter().map(|projector| Command::From(path(projector))));
    let some = |text: &str, command: fn(String) -> Command| (!text.is_empty()).then(|| command(text.to_owned()));
    let texts = [
        // Without the template in the file: the file contains it, in another language than a Modelfile's.
        some(model.template.as_deref().unwrap_or_default(), Command::Template),
        some(model.system.as_deref().unwrap_or_default(), Command::System),
        some(&model.renderer, Command::Renderer),
        some(&model.parser, Command::Parser),
        some(&model.requires, Command::Requires),
    ];
    commands.extend(texts.into_iter().flatten());
    for (name, value) in &model.params {
        let values = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        commands.extend(values.iter().map(|value| Command::Parameter {
            name: name.clone(),
            value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        }));
    }
    commands.extend(model.licenses.iter().map(|text| Command::License(text.clone())));
    for message in &model.messages {
        // A Modelfile has no other roles.
        let role = Role::ALL.into_iter().find(|(_, name)| *name == message.role);
        commands.extend(role.map(|(role, _)| Command::Message { role, content: message.content.clone() }));
    }
    let name = &model.summary.name;
    format!(
        "# Modelfile generated by \"cairn show\"\n# To build a new Modelfile based on this, replace FROM with:\n# FROM \
         {name}\n\n{}",
        Modelfile { commands }
    )
}

fn json_value(value: &GgufValue, verbose: bool) -> Value {
    match value {
        GgufValue::U8(x) => json!(x),
        GgufValue::I8(x) => json!(x),
        GgufValue::U16(x) => json!(x),
        GgufValue::I16(x) => json!(x),
        GgufValue::U32(x) => json!(x),
        GgufValue::I32(x) => json!(x),
        GgufValue::F32(x) => float(*x),
        GgufValue::Bool(x) => json!(x),
        GgufValue::String(x) => json!(x),
        GgufValue::U64(x) => json!(x),
        GgufValue::I64(x) => json!(x),
        GgufValue::F64(x) => json!(x),
        GgufValue::Array(array) if verbose => json_array(array),
        GgufValue::Array(_) => Value::Null,
    }
}

fn json_array(array: &Array) -> Value {
    match array {
        Array::U8(x) => json!(x),
        Array::I8(x) => json!(x),
        Array::U16(x) => json!(x),
        Array::I16(x) => json!(x),
        Array::U32(x) => json!(x),
        Array::I32(x) => json!(x),
        Array::F32(x) => x.iter().map(|x| float(*x)).collect(),
        Array::Bool(x) => json!(x),
        Array::String(x) => x.iter().collect(),
        Array::U64(x) => json!(x),
        Array::I64(x) => json!(x),
        Array::F64(x) => json!(x),
        Array::Array(arrays) => arrays.iter().map(json_array).collect(),
    }
}

/// Returns the shortest decimal of a float: `0.00001`, not the digits of its double.
fn float(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, |value| json!(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_formatted_as_lines() {
        let params = json!({"stop": ["<|a|>", "b\""], "temperature": 0.7, "num_ctx": 4096});
        let expected = "stop                           \"<|a|>\"\nstop                           \"b\\\"\"\n\
                        temperature                    0.7\nnum_ctx                        4096";
        assert_eq!(parameters(params.as_object().unwrap()), expected, "padded to 30, strings quoted");
    }

    #[test]
    fn arrays_are_null_unless_verbose() {
        let array = GgufValue::from(vec![1_u32, 2]);
        assert_eq!(json_value(&array, false), Value::Null, "a vocabulary is too long");
        assert_eq!(json_value(&array, true), json!([1, 2]), "verbose");
        assert_eq!(json_value(&GgufValue::F32(1e-5), false).to_string(), "0.00001", "the float's own digits");
    }
}
