//! Chooses the template of a model's prompts.
//!
//! A model may have two: a Go template in a library's layer, and a Jinja template in its file. The rules are Ollama's:
//! the layer has precedence, unless the settings choose the other, or the settings choose none and the file's template
//! has more capabilities. Ollama's built-in renderers, which configs may name, are not available here: the next best source
//! replaces them, and the reason reports it. A parser that a config names decides how the answers are read.

use parking_lot::Mutex;
use std::collections::HashSet;

use cairn_gguf::Gguf;
use cairn_prompt::{self as prompt, AnswerFormat, Capabilities, Template};

use crate::library::catalog::Model;
use crate::library::head;
use crate::library::summary::Summary;

/// The chosen template.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// The template; `None` if the prompt is the plain texts.
    pub(crate) template: Option<Template>,
    /// What the model's answers look like.
    pub(crate) format: AnswerFormat,
    /// The choice and its reason, as a text for users.
    pub(crate) reason: String,
}

/// Inputs of the choice.
struct TemplateSources<'a> {
    renderer: &'a str,
    parser: &'a str,
    /// Whether the model's family uses the harmony format.
    is_harmony: bool,
    /// Tags of reasoning that the model's family writes, whatever its template contains.
    family_tags: Option<(&'static str, &'static str)>,
    /// The Go template of a library's layer.
    layer: Option<&'a str>,
    /// The Jinja template of the model's file.
    file: Result<Option<&'a Template>, &'a prompt::Error>,
    /// `OLLAMA_GO_TEMPLATE`.
    setting: Option<bool>,
}

/// Chooses the template of a model. `file` is the template of its file.
///
/// # Errors
/// If the only template is invalid.
pub(crate) fn choose(
    model: &Model,
    file: Result<Option<&Template>, &prompt::Error>,
    setting: Option<bool>,
) -> Result<Choice, prompt::Error> {
    let details = &model.summary.details;
    let families = || std::iter::once(&details.family).chain(&details.families);
    TemplateSources {
        renderer: &model.renderer,
        parser: &model.parser,
        is_harmony: families().any(|family| matches!(family.as_str(), "gptoss" | "gpt-oss" | "gpt_oss")),
        family_tags: families().find_map(|family| AnswerFormat::thinking_tags_of_family(family)),
        layer: model.template.as_deref(),
        file,
        setting,
    }
    .choose()
}

/// Models whose template was logged. Several models may share one file, which is loaded only for the first of them.
#[derive(Default)]
pub(crate) struct LoggedTemplates(Mutex<HashSet<(String, String)>>);

impl LoggedTemplates {
    /// Marks a model as logged. Returns whether it is new.
    pub(crate) fn is_new(&self, model: &Summary) -> bool {
        let mut logged = self.0.lock();
        logged.insert((model.name.clone(), model.digest.clone()))
    }
}

/// Logs the template of a model that was loaded or used for the first time.
pub(crate) fn log(model: &Model, file: Result<Option<&Template>, &prompt::Error>, setting: Option<bool>) {
    let name = model.summary.name.as_str();
    match choose(model, file, setting) {
        Ok(Choice { reason, .. }) => tracing::info!(model = name, reason, "chat template"),
        Err(error) => tracing::warn!(model = name, %error, "chat template"),
    }
}

/// Checks that the chat template of a file can render a conversation. A file without one passes, and so does that of an
/// embedding model, which is never rendered.
pub(crate) fn check_file(gguf: &Gguf) -> Result<(), prompt::Error> {
    let source = head::chat_template(gguf.metadata());
    if source.is_empty() || cairn_runtime::is_embedding_model(gguf.metadata()) {
        return Ok(());
    }
    Template::jinja(source)?.check_renders()
}

impl TemplateSources<'_> {
    fn choose(&self) -> Result<Choice, prompt::Error> {
        let layer = self.layer.map(Template::go).transpose();
        // An empty template counts as none.
        let file = self.file.map(|file| file.filter(|template| !template.source().is_empty()));
        let (template, mut reason) = match (&layer, file) {
            (Ok(Some(go)), Ok(Some(jinja))) => self.of_two(go, jinja),
            (Ok(Some(go)), Ok(None)) if self.setting != Some(false) => (Some(go), "the library's layer".to_owned()),
            (Ok(Some(_)), Ok(None)) => (None, "OLLAMA_GO_TEMPLATE is off, and the file has none".to_owned()),
            (Ok(Some(go)), Err(error)) => {
                (Some(go), format!("the library's layer, since the file's own fails: {error}"))
            }
            (Ok(None), Ok(Some(jinja))) => (Some(jinja), "the file's own".to_owned()),
            (Err(error), Ok(Some(jinja))) => {
                (Some(jinja), format!("the file's own, since the library's layer fails: {error}"))
            }
            (Ok(None), Ok(None)) => (None, "there is none".to_owned()),
            (Ok(None), Err(error)) => return Err(error.clone()),
            (Err(error), _) => return Err(error.clone()),
        };
        if !self.renderer.is_empty() {
            reason = format!("the renderer {:?} that its config names is not built in; {reason}", self.renderer);
        }
        if !self.parser.is_empty() && AnswerFormat::by_parser_name(self.parser).is_none() {
            reason += &format!("; the parser {:?} that its config names is not built in", self.parser);
        }
        let reason = match template {
            Some(template) => format!("{}: {reason}", template.language()),
            None => format!("none, the texts alone are the prompt: {reason}"),
        };
        // A parser that the config names knows the model better than a template.
        let by_name = || match self.is_harmony {
            true => AnswerFormat::by_parser_name("harmony"),
            false => None,
        };
        let format = AnswerFormat::by_parser_name(self.parser).or_else(by_name);
        let mut format = format.or_else(|| template.map(Template::answer_format)).unwrap_or_default();
        if self.parser.is_empty() && format.thinking.is_none() {
            format.thinking = self.family_tags.map(|(open, close)| (open.to_owned(), close.to_owned()));
        }
        Ok(Choice { template: template.cloned(), format, reason })
    }

    /// Chooses between two valid templates.
    fn of_two<'a>(&self, go: &'a Template, jinja: &'a Template) -> (Option<&'a Template>, String) {
        let (chosen, reason) = if !self.renderer.is_empty() {
            // Layers of such models are often stubs, because Ollama never renders them.
            (jinja, "the file's own replaces it")
        } else if !self.parser.is_empty() {
            (go, "the library's layer, as its parser expects")
        } else if self.speaks_harmony() {
            (go, "the library's layer, in harmony")
        } else if let Some(go_wanted) = self.setting {
            if go_wanted { (go, "OLLAMA_GO_TEMPLATE is on") } else { (jinja, "OLLAMA_GO_TEMPLATE is off") }
        } else if prefers_jinja(jinja.capabilities(), go.capabilities()) {
            (jinja, "the file's own can do more than the library's layer")
        } else {
            (go, "the library's layer")
        };
        (Some(chosen), reason.to_owned())
    }

    fn speaks_harmony(&self) -> bool {
        self.is_harmony && self.layer.is_some_and(|text| text.contains("<|start|>") && text.contains("<|end|>"))
    }
}

/// Whether the file's template has precedence over the library's layer.
fn prefers_jinja(jinja: Capabilities, go: Capabilities) -> bool {
    let list = |of: Capabilities| [of.tools, of.thinking, of.insert];
    let count = |of: Capabilities| list(of).into_iter().filter(|can| *can).count();
    if count(jinja) > count(go) {
        return !go.tool_results || jinja.tool_results;
    }
    list(jinja) == list(go) && jinja.tools && jinja.tool_results && !go.tool_results
}

impl Choice {
    /// Returns the capabilities of the template. A format that the config or the family determines may think although the
    /// template does not reveal it.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let of_template = self.template.as_ref().map(Template::capabilities).unwrap_or_default();
        Capabilities { thinking: of_template.thinking || self.format.thinking.is_some(), ..of_template }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO: &str = "{{ .Prompt }}";
    const GO_TOOLS: &str = "{{ .Tools }}{{ .Prompt }}";
    const GO_ROUND: &str =
        "{{ .Tools }}{{ range .Messages }}{{ .ToolCalls }}{{ if eq .Role \"tool\" }}{{ end }}{{ end }}";
    const HARMONY: &str = "<|start|>{{ .Prompt }}<|end|>";
    const JINJA: &str = "{{ messages[0].content }}";
    const JINJA_TOOLS: &str = "{{ tools }}";
    const JINJA_THINKS: &str = "{{ tools }}<think></think>";
    const JINJA_ROUND: &str = "{{ tools }}{{ tool_calls }}{{ tool_response }}";

    const NOTHING: TemplateSources<'_> = TemplateSources {
        renderer: "",
        parser: "",
        is_harmony: false,
        family_tags: None,
        layer: None,
        file: Ok(None),
        setting: None,
    };

    fn check(layer: &str, file: &str, sources: TemplateSources<'_>, wanted: &str) {
        let file = (!file.is_empty()).then(|| Template::jinja(file)).transpose();
        let layer = (!layer.is_empty()).then_some(layer);
        let sources = TemplateSources { layer, file: file.as_ref().map(Option::as_ref), ..sources };
        let reason = sources.choose().map_or_else(|error| format!("! {error}"), |choice| choice.reason);
        assert!(reason.starts_with(wanted), "{layer:?} and {file:?}: {reason}, not {wanted}");
    }

    #[test]
    fn choice_uses_the_only_template() {
        check("", "", NOTHING, "none, the texts alone are the prompt: there is none");
        check("", JINJA, NOTHING, "Jinja: the file's own");
        check(GO, "", NOTHING, "Go: the library's layer");
        check(
            GO,
            "",
            TemplateSources { setting: Some(false), ..NOTHING },
            "none, the texts alone are the prompt: OLLAMA_GO",
        );
    }

    #[test]
    fn layer_has_precedence_over_the_file() {
        check(GO, JINJA, NOTHING, "Go: the library's layer");
        check(GO_TOOLS, JINJA_TOOLS, NOTHING, "Go: the library's layer");
        check(GO, JINJA, TemplateSources { setting: Some(false), ..NOTHING }, "Jinja: OLLAMA_GO_TEMPLATE is off");
    }

    #[test]
    fn file_with_more_capabilities_has_precedence() {
        check(GO, JINJA_TOOLS, NOTHING, "Jinja: the file's own can do more");
        check(GO_TOOLS, JINJA_ROUND, NOTHING, "Jinja: the file's own can do more");
        check(GO_ROUND, JINJA_THINKS, NOTHING, "Go: the library's layer");
        check(GO_ROUND, JINJA_ROUND, NOTHING, "Go: the library's layer");
        check(GO, JINJA_TOOLS, TemplateSources { setting: Some(true), ..NOTHING }, "Go: OLLAMA_GO_TEMPLATE is on");
    }

    #[test]
    fn reason_names_missing_renderers_and_parsers() {
        let renderer = TemplateSources { renderer: "r", parser: "p", ..NOTHING };
        let wanted = "Jinja: the renderer \"r\" that its config names is not built in; the file's own replaces it; the parser \"p\"";
        check(GO, JINJA, renderer, wanted);
        check(
            GO,
            JINJA,
            TemplateSources { parser: "p", ..NOTHING },
            "Go: the library's layer, as its parser expects; the parser",
        );
        check(GO, "", TemplateSources { renderer: "r", ..NOTHING }, "Go: the renderer \"r\"");
        check(
            HARMONY,
            JINJA_THINKS,
            TemplateSources { is_harmony: true, ..NOTHING },
            "Go: the library's layer, in harmony",
        );
        check(HARMONY, JINJA_THINKS, NOTHING, "Jinja: the file's own can do more");
    }

    #[test]
    fn family_and_parser_reveal_thinking() {
        let tags = |sources: TemplateSources<'_>| {
            let choice = TemplateSources { layer: Some(GO), ..sources }.choose().expect("the template is valid");
            let thinks = choice.capabilities().thinking;
            let open = choice.format.thinking.map(|(open, _)| open);
            assert_eq!(thinks, open.is_some(), "tags imply the capability");
            open
        };
        let gemma4 = AnswerFormat::thinking_tags_of_family("gemma4");
        let seed = AnswerFormat::thinking_tags_of_family("seed_oss");
        assert_eq!(tags(NOTHING), None, "an ordinary model");
        assert_eq!(tags(TemplateSources { family_tags: gemma4, ..NOTHING }).as_deref(), Some("<|channel>thought"));
        assert_eq!(tags(TemplateSources { family_tags: seed, ..NOTHING }).as_deref(), Some("<seed:think>"));
        let harmony = tags(TemplateSources { is_harmony: true, ..NOTHING });
        assert_eq!(harmony.as_deref(), Some("<|channel|>analysis<|message|>"));
        let parser = TemplateSources { parser: "gemma4-no-thinking", family_tags: gemma4, ..NOTHING };
        assert_eq!(tags(parser), None, "the parser of the config has precedence");
    }

    #[test]
    fn invalid_template_is_replaced_by_the_other() {
        check("{{ if }}", JINJA, NOTHING, "Jinja: the file's own, since the library's layer fails");
        check(GO, "{% if %}", NOTHING, "Go: the library's layer, since the file's own fails");
        check("{{ if }}", "", NOTHING, "! the chat template is not valid: line 1");
        check("", "{% if %}", NOTHING, "! the chat template is not valid");
        check("{{ if }}", "{% if %}", NOTHING, "! the chat template is not valid: line 1");
    }
}
