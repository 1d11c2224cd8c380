//! Chooses the template of a model's prompts.
//!
//! A model may have two: a Go template in a library's layer, and a Jinja template in its file. The rules are Ollama's:
//! the layer has precedence, unless the settings choose the other, or the settings choose none and the file's template
//! has more capabilities. A renderer that the config names has precedence over both, and a parser that it names decides how
//! the answers are read. If a renderer is not built in, the next best source replaces it, and the reason reports that.

use parking_lot::Mutex;
use std::collections::HashSet;

use cairn_gguf::{Gguf, Metadata};
use cairn_prompt::{self as prompt, AnswerFormat, Capabilities, Template};

use crate::library::catalog::Model;
use crate::library::head;
use crate::library::summary::Summary;
use crate::values::excerpt;

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

/// Returns a warning for each name of a renderer or a parser that is not built in.
pub(crate) fn warnings(renderer: &str, parser: &str) -> impl Iterator<Item = String> {
    unavailable(renderer, parser).map(|problem| format!("{problem}; see `cairn show` for the template in use"))
}

/// Returns a text for each name of a renderer or a parser that is not built in.
fn unavailable(renderer: &str, parser: &str) -> impl Iterator<Item = String> {
    let has_renderer = renderer.is_empty() || Template::by_renderer_name(renderer).is_some();
    let has_parser = parser.is_empty() || AnswerFormat::by_parser_name(parser).is_some();
    let text = |kind: &str, name: &str| format!("the {kind} {:?} is not built in", excerpt(name));
    let renderer = (!has_renderer).then(|| text("renderer", renderer));
    renderer.into_iter().chain((!has_parser).then(|| text("parser", parser)))
}

/// Returns the reason why chats need another template; `None` if a config names no renderer, or one that is built in.
pub(crate) fn missing_renderer(name: &str) -> Option<String> {
    let is_missing = !name.is_empty() && Template::by_renderer_name(name).is_none();
    is_missing.then(|| format!("its prompts need the renderer {:?}, which is not built in", excerpt(name)))
}

/// Whether the template of a layer can replace a renderer.
pub(crate) fn replaces_renderer(layer: &str) -> bool {
    let renders = || Template::go(layer).is_ok_and(|template| template.check_renders().is_ok());
    !layer.trim().is_empty() && !is_stub(layer) && renders()
}

/// Returns the renderer of a model. As in Ollama, `gemma4` means the one for the model's size: by a size in its name, else by its
/// number of parameters.
fn renderer_for_size<'a>(renderer: &'a str, model: &str, parameter_size: &str) -> &'a str {
    /// Models of at least this size are large.
    const LARGE_BILLIONS: f64 = 12.0;
    if renderer != "gemma4" {
        return renderer;
    }
    let model = model.to_lowercase();
    let has_any = |sizes: &[&str]| sizes.iter().any(|size| model.contains(size));
    let billions = parameter_size.strip_suffix('B').and_then(|size| size.parse::<f64>().ok());
    let is_large = billions.is_some_and(|billions| billions >= LARGE_BILLIONS);
    let is_large = !has_any(&["e2b", "e4b"]) && (is_large || has_any(&["12b", "26b", "31b"]));
    if is_large { "gemma4-large" } else { "gemma4-small" }
}

/// Whether a layer is the unused template of Ollama's models with a renderer.
fn is_stub(layer: &str) -> bool {
    layer.split_whitespace().eq(["{{", ".Prompt", "}}"]) || layer.trim() == "{{.Prompt}}"
}

/// Chooses the template of a model. `file` is the template of its file.
///
/// # Errors
/// If the only template is invalid, or the renderer is not built in and there is no template.
pub(crate) fn choose(
    model: &Model,
    file: Result<Option<&Template>, &prompt::Error>,
    setting: Option<bool>,
) -> Result<Choice, prompt::Error> {
    let details = &model.summary.details;
    let families = || std::iter::once(&details.family).chain(&details.families);
    TemplateSources {
        renderer: renderer_for_size(&model.renderer, &model.summary.name, &details.parameter_size),
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
        Ok(Choice { reason, .. }) if unavailable(&model.renderer, &model.parser).next().is_some() => {
            tracing::warn!(model = name, reason, "chat template");
        }
        Ok(Choice { reason, .. }) => tracing::info!(model = name, reason, "chat template"),
        Err(error) => tracing::warn!(model = name, %error, "chat template"),
    }
}

/// Checks that the chat template of a file can render a conversation. A file without one passes, and so does that of an
/// embedding model, which is never rendered.
pub(crate) fn check_file(gguf: &Gguf) -> Result<(), prompt::Error> {
    let loaded = head::as_loaded(gguf);
    let source = head::chat_template(loaded.metadata());
    if source.is_empty() || cairn_runtime::is_embedding_model(loaded.metadata()) {
        return Ok(());
    }
    Template::jinja(source)?.check_renders()
}

/// Whether chats can use the template of a file, or need none because the model computes embeddings.
pub(crate) fn is_in_file(gguf: &Gguf) -> bool {
    let loaded = head::as_loaded(gguf);
    let source = head::chat_template(loaded.metadata());
    let renders = || Template::jinja(source).is_ok_and(|template| template.check_renders().is_ok());
    cairn_runtime::is_embedding_model(loaded.metadata()) || (!source.is_empty() && renders())
}

/// Why chats with a model fail because of its template; `None` if they do not, or if the model is an embedding model.
pub(crate) fn problem(choice: &Result<Choice, prompt::Error>, metadata: &Metadata) -> Option<String> {
    if cairn_runtime::is_embedding_model(metadata) {
        return None;
    }
    let rendered = match choice {
        Ok(choice) => choice.template.as_ref().map_or(Ok(()), Template::check_renders),
        Err(error) => Err(error.clone()),
    };
    rendered.err().map(|error| error.to_string())
}

impl TemplateSources<'_> {
    fn choose(&self) -> Result<Choice, prompt::Error> {
        let (template, reason) = match Template::by_renderer_name(self.renderer) {
            Some(template) => (Some(template), format!("the renderer {:?}", self.renderer)),
            None => self.of_texts()?,
        };
        let reasons = unavailable(self.renderer, self.parser).chain([reason]).collect::<Vec<_>>().join("; ");
        let reason = match &template {
            Some(template) => format!("{}: {reasons}", template.language()),
            None => format!("none, the texts alone are the prompt: {reasons}"),
        };
        // A parser that the config names knows the model better than a template. Renderers have the names of their parsers.
        let harmony = self.is_harmony.then_some("harmony");
        let names = [self.parser, self.renderer].into_iter().chain(harmony);
        let format = names.into_iter().find_map(AnswerFormat::by_parser_name);
        let mut format = format.or_else(|| template.as_ref().map(Template::answer_format)).unwrap_or_default();
        if self.parser.is_empty() && format.thinking.is_none() {
            format.thinking = self.family_tags.map(|(open, close)| (open.to_owned(), close.to_owned()));
        }
        Ok(Choice { template, format, reason })
    }

    /// Chooses between the layer and the file's template. Returns the template and the reason.
    fn of_texts(&self) -> Result<(Option<Template>, String), prompt::Error> {
        let layer = self.layer.filter(|text| self.renderer.is_empty() || !is_stub(text)).map(Template::go).transpose();
        // An empty template counts as none.
        let file = self.file.map(|file| file.filter(|template| !template.source().is_empty()));
        let (template, reason) = match (&layer, file) {
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
        if template.is_none() && !self.renderer.is_empty() {
            return Err(prompt::Error::UnknownRenderer { name: excerpt(self.renderer).into_owned() });
        }
        Ok((template.cloned(), reason))
    }

    /// Chooses between two valid templates.
    fn of_two<'a>(&self, go: &'a Template, jinja: &'a Template) -> (Option<&'a Template>, String) {
        let (chosen, reason) = if !self.renderer.is_empty() {
            // Ollama never renders the layers of such models.
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
    /// Returns the capabilities of the template. The format, which the config or the family may determine, decides whether
    /// the model thinks.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let of_template = self.template.as_ref().map(Template::capabilities).unwrap_or_default();
        Capabilities { thinking: self.format.thinking.is_some(), ..of_template }
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
    fn renderer_has_precedence_over_templates() {
        let olmo3 = TemplateSources { renderer: "olmo3", ..NOTHING };
        check("", "", olmo3, "Jinja: the renderer \"olmo3\"");
        let olmo3 = TemplateSources { renderer: "olmo3", setting: Some(true), ..NOTHING };
        check(GO_ROUND, JINJA_ROUND, olmo3, "Jinja: the renderer \"olmo3\"");
        let olmo3 = TemplateSources { renderer: "olmo3", parser: "p", ..NOTHING };
        check("{{ if }}", "{% if %}", olmo3, "Jinja: the parser \"p\" is not built in; the renderer \"olmo3\"");
    }

    #[test]
    fn renderer_and_parser_decide_the_capabilities() {
        let check = |renderer: &'static str, parser: &'static str, tools: bool, thinking: bool| {
            let choice = TemplateSources { renderer, parser, layer: Some(GO), ..NOTHING }.choose().expect("built in");
            let shows = choice.capabilities();
            assert_eq!((shows.tools, shows.thinking), (tools, thinking), "{renderer} and {parser}");
        };
        check("functiongemma", "functiongemma", true, false);
        check("olmo3", "olmo3", true, false);
        check("olmo3.1", "olmo3", true, false);
        check("olmo3-think", "olmo3-think", false, true);
        check("olmo3-32b-think", "", false, true);
        check("gemma4-large", "gemma4", true, true);
        check("gemma4-small", "", true, true);
        check("gemma4-small", "gemma4-no-thinking", true, false);
        check("lfm2", "lfm2-thinking", true, true);
        check("qwen3-coder", "qwen3-coder", true, false);
        check("qwen3-vl-instruct", "", true, false);
        check("qwen3-vl-thinking", "qwen3-vl-thinking", true, true);
        check("qwen3-vl-thinking", "qwen3-vl-instruct", true, false);
    }

    #[test]
    fn size_of_a_model_decides_the_renderer_of_gemma4() {
        let check = |model: &str, size: &str, wanted: &str| {
            assert_eq!(renderer_for_size("gemma4", model, size), wanted, "{model}, {size}");
        };
        check("gemma4:latest", "8.0B", "gemma4-small");
        check("gemma4:E4B", "31.3B", "gemma4-small");
        check("gemma4:12b-it-q4_K_M", "11.9B", "gemma4-large");
        check("mine:latest", "12B", "gemma4-large");
        check("mine:latest", "270M", "gemma4-small");
        check("mine:latest", "", "gemma4-small");
        assert_eq!(renderer_for_size("gemma4-small", "gemma4:31b", "31.3B"), "gemma4-small", "another name");
    }

    #[test]
    fn only_a_template_that_renders_replaces_a_renderer() {
        assert_eq!(missing_renderer("olmo3"), None, "built in");
        assert_eq!(missing_renderer(""), None, "none");
        assert!(missing_renderer("future").is_some_and(|reason| reason.contains("the renderer \"future\"")));
        assert!(replaces_renderer(GO_TOOLS));
        for layer in ["", " ", GO, "{{.Prompt}}\n", "{{ if }}", "{{ template \"x\" . }}"] {
            assert!(!replaces_renderer(layer), "{layer:?}");
        }
    }

    #[test]
    fn missing_renderer_or_parser_is_reported_with_its_replacement() {
        let renderer = TemplateSources { renderer: "r", parser: "p", ..NOTHING };
        let missing = "the renderer \"r\" is not built in; the parser \"p\" is not built in";
        check(GO_TOOLS, JINJA, renderer, &format!("Jinja: {missing}; the file's own replaces it"));
        let renderer = || TemplateSources { renderer: "r", ..NOTHING };
        check(GO_TOOLS, "", renderer(), "Go: the renderer \"r\" is not built in; the library's layer");
        check(GO, JINJA, renderer(), "Jinja: the renderer \"r\" is not built in; the file's own");
        let parser = TemplateSources { parser: "p", ..NOTHING };
        check(GO, JINJA, parser, "Go: the parser \"p\" is not built in; the library's layer, as its parser expects");
        assert_eq!(unavailable("olmo3", "qwen3.5").count(), 0, "a renderer, and the parser of another family");
        let long = "x".repeat(1000);
        assert_eq!(unavailable(&long, "").next().map(|text| text.len()), Some(134), "the name is cut");
    }

    #[test]
    fn missing_renderer_without_replacement_is_refused() {
        let expected = "! the renderer \"r\" is not built in, and no other template can be used";
        for layer in ["", GO, " {{.Prompt}}\n"] {
            check(layer, "", TemplateSources { renderer: "r", ..NOTHING }, expected);
        }
        check(GO_TOOLS, "", TemplateSources { renderer: "r", setting: Some(false), ..NOTHING }, expected);
    }

    #[test]
    fn family_determines_the_harmony_format() {
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
