//! Warnings of responses: what a request has and the server ignored. Each is named once in an answer.

use cairn_app::inference::Done;

/// Returns the warnings of ignored options.
pub(crate) fn of_options(done: &Done) -> Vec<String> {
    done.ignored_options.iter().map(|name| format!("the option {name:?} is ignored")).collect()
}

/// Returns the warnings of ignored fields.
pub(crate) fn of_fields(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("the field {name:?} is ignored")).collect()
}
