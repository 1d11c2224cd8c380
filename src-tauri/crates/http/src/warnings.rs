//! Warnings of responses: what a request has and the server ignored. Each is named once in an answer.

use cairn_app::inference::Finish;

/// Returns the warnings of ignored options.
pub(crate) fn of_options(finish: &Finish) -> Vec<String> {
    finish.ignored_options.iter().map(|name| format!("the option {name:?} is ignored")).collect()
}

/// Returns the warnings of ignored tools, by their types.
pub(crate) fn of_tools(kinds: &[String]) -> Vec<String> {
    let warning = |kind| format!("the tool {kind:?} is ignored, because this server runs no tools");
    kinds.iter().map(warning).collect()
}

/// Returns the warnings of ignored fields.
pub(crate) fn of_fields(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("the field {name:?} is ignored")).collect()
}
