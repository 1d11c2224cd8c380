//! Which template makes a model's prompts, and why.
//!
//! A model may bring two: a layer in Go's language from its library, and a Jinja template in its own file. The rules are
//! Ollama's: the layer goes first, unless the settings say otherwise, or nobody set anything and the file's template can do
//! more. Renderers and parsers that Ollama has built in, and configs name, are not built in here: the next best source takes
//! their place, and the reason says so.

use parking_lot::Mutex;
use std::collections::HashSet;

use cairn_gguf::Metadata;
use cairn_prompt::{self as prompt, Capabilities, Template};

use crate::library::catalog::Model;
use crate::library::summary::Summary;

/// The template in a model's own file; empty for none.
pub(crate) fn in_file(metadata: &Metadata) -> &str {
    metadata.str("tokenizer.chat_template").ok().flatten().unwrap_or_default()
}

/// What the template in a model's own file shows.
pub(crate) fn of_file(metadata: &Metadata) -> Capabilities {
    Capabilities::of_jinja(in_file(metadata))
}

/// The template that makes a model's prompts.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// Nothing where the texts alone are the prompt.
    pub(crate) template: Option<Template>,
    /// Which one it is and why, for people.
    pub(crate) reason: String,
}

/// What there is to choose from.
struct Offered<'a> {
    renderer: &'a str,
    parser: &'a str,
    /// Whether the model is of a family that speaks harmony.
    harmonic: bool,
    /// The layer of a library.
    layer: Option<&'a str>,
    /// What the model's own file has.
    file: Result<Option<&'a Template>, &'a prompt::Error>,
    /// `OLLAMA_GO_TEMPLATE`.
    setting: Option<bool>,
}

/// Chooses for a model, whose own file has the template `file`.
///
/// # Errors
/// Why the only template cannot be used.
pub(crate) fn choose(
    model: &Model,
    file: Result<Option<&Template>, &prompt::Error>,
    setting: Option<bool>,
) -> Result<Choice, prompt::Error> {
    let details = &model.summary.details;
    let harmony = |family: &String| matches!(family.as_str(), "gptoss" | "gpt-oss" | "gpt_oss");
    Offered {
        renderer: &model.renderer,
        parser: &model.parser,
        harmonic: harmony(&details.family) || details.families.iter().any(harmony),
        layer: model.template.as_deref(),
        file,
        setting,
    }
    .choose()
}

/// Models of which the log has said what makes their prompts. Several may be of one file, which is loaded for the first of them
/// only.
#[derive(Default)]
pub(crate) struct Told(Mutex<HashSet<(String, String)>>);

impl Told {
    /// Whether this is the first time that the model is asked after, as it is now.
    pub(crate) fn is_new(&self, model: &Summary) -> bool {
        let mut told = self.0.lock();
        told.insert((model.name.clone(), model.digest.clone()))
    }
}

/// Says in the log what is chosen for a model that has just been loaded, or is asked for the first time.
pub(crate) fn log(model: &Model, file: Result<Option<&Template>, &prompt::Error>, setting: Option<bool>) {
    let name = model.summary.name.as_str();
    match choose(model, file, setting) {
        Ok(Choice { reason, .. }) => tracing::info!(model = name, reason, "chat template"),
        Err(error) => tracing::warn!(model = name, %error, "chat template"),
    }
}

impl Offered<'_> {
    fn choose(&self) -> Result<Choice, prompt::Error> {
        let layer = self.layer.map(Template::go).transpose();
        // A key without a text is as good as none.
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
        if !self.parser.is_empty() {
            reason += &format!("; the parser {:?} that its config names is not built in", self.parser);
        } else if self.speaks_harmony() {
            reason += "; harmony's channels are not parted yet";
        }
        let reason = match template {
            Some(template) => format!("{}: {reason}", template.language()),
            None => format!("none, the texts alone are the prompt: {reason}"),
        };
        Ok(Choice { template: template.cloned(), reason })
    }

    /// Chooses where both can be used.
    fn of_two<'a>(&self, go: &'a Template, jinja: &'a Template) -> (Option<&'a Template>, String) {
        let (chosen, reason) = if !self.renderer.is_empty() {
            // Layers of such models are often stubs, because Ollama never runs them.
            (jinja, "the file's own stands in")
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
        self.harmonic && self.layer.is_some_and(|text| text.contains("<|start|>") && text.contains("<|end|>"))
    }
}

/// Whether a file's own template is to go before a library's layer.
fn prefers_jinja(jinja: Capabilities, go: Capabilities) -> bool {
    let list = |of: Capabilities| [of.tools, of.thinking, of.insert];
    let count = |of: Capabilities| list(of).into_iter().filter(|can| *can).count();
    if count(jinja) > count(go) {
        return !go.tool_results || jinja.tool_results;
    }
    list(jinja) == list(go) && jinja.tools && jinja.tool_results && !go.tool_results
}

impl Choice {
    /// What the template shows that the model can do.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.template.as_ref().map(Template::capabilities).unwrap_or_default()
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

    const NOTHING: Offered<'_> =
        Offered { renderer: "", parser: "", harmonic: false, layer: None, file: Ok(None), setting: None };

    fn check(layer: &str, file: &str, offered: Offered<'_>, wanted: &str) {
        let file = (!file.is_empty()).then(|| Template::jinja(file)).transpose();
        let layer = (!layer.is_empty()).then_some(layer);
        let offered = Offered { layer, file: file.as_ref().map(Option::as_ref), ..offered };
        let said = offered.choose().map_or_else(|error| format!("! {error}"), |choice| choice.reason);
        assert!(said.starts_with(wanted), "{layer:?} and {file:?}: {said}, not {wanted}");
    }

    #[test]
    fn the_only_one_is_used() {
        check("", "", NOTHING, "none, the texts alone are the prompt: there is none");
        check("", JINJA, NOTHING, "Jinja: the file's own");
        check(GO, "", NOTHING, "Go: the library's layer");
        check(GO, "", Offered { setting: Some(false), ..NOTHING }, "none, the texts alone are the prompt: OLLAMA_GO");
    }

    #[test]
    fn the_layer_goes_before_the_file() {
        check(GO, JINJA, NOTHING, "Go: the library's layer");
        check(GO_TOOLS, JINJA_TOOLS, NOTHING, "Go: the library's layer");
        check(GO, JINJA, Offered { setting: Some(false), ..NOTHING }, "Jinja: OLLAMA_GO_TEMPLATE is off");
    }

    #[test]
    fn a_file_that_can_more_goes_before_the_layer() {
        check(GO, JINJA_TOOLS, NOTHING, "Jinja: the file's own can do more");
        check(GO_TOOLS, JINJA_ROUND, NOTHING, "Jinja: the file's own can do more");
        check(GO_ROUND, JINJA_THINKS, NOTHING, "Go: the library's layer");
        check(GO_ROUND, JINJA_ROUND, NOTHING, "Go: the library's layer");
        check(GO, JINJA_TOOLS, Offered { setting: Some(true), ..NOTHING }, "Go: OLLAMA_GO_TEMPLATE is on");
    }

    #[test]
    fn what_is_not_built_in_is_said() {
        let renderer = Offered { renderer: "r", parser: "p", ..NOTHING };
        let wanted = "Jinja: the renderer \"r\" that its config names is not built in; the file's own stands in; the parser \"p\"";
        check(GO, JINJA, renderer, wanted);
        check(
            GO,
            JINJA,
            Offered { parser: "p", ..NOTHING },
            "Go: the library's layer, as its parser expects; the parser",
        );
        check(GO, "", Offered { renderer: "r", ..NOTHING }, "Go: the renderer \"r\"");
        check(
            HARMONY,
            JINJA_THINKS,
            Offered { harmonic: true, ..NOTHING },
            "Go: the library's layer, in harmony; harmony's",
        );
        check(HARMONY, JINJA_THINKS, NOTHING, "Jinja: the file's own can do more");
    }

    #[test]
    fn a_broken_one_gives_way() {
        check("{{ if }}", JINJA, NOTHING, "Jinja: the file's own, since the library's layer fails");
        check(GO, "{% if %}", NOTHING, "Go: the library's layer, since the file's own fails");
        check("{{ if }}", "", NOTHING, "! the chat template is not valid: line 1");
        check("", "{% if %}", NOTHING, "! the chat template is not valid");
        check("{{ if }}", "{% if %}", NOTHING, "! the chat template is not valid: line 1");
    }
}
