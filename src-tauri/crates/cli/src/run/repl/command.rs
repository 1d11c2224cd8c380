//! Parses a line of the chat: a prompt for the model, or one of `ollama`'s commands.

use cairn_wire::{Options, Think};
use serde_json::Value;

use super::QUOTES;
use crate::run::{format, parse_think};

/// A parsed line.
#[derive(Debug, PartialEq)]
pub(super) enum Command {
    Nothing,
    Leave,
    Help(Topic),
    Clear,
    List,
    Load(String),
    Save(String),
    Set(Set),
    Show(Part),
    /// An invalid command, with the message for the user.
    Invalid(String),
    Prompt(String),
}

/// Topic of a help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    All,
    Set,
    Show,
    Shortcuts,
}

/// A change of the session's settings.
#[derive(Debug, PartialEq)]
pub(super) enum Set {
    Parameter { name: String, value: Value },
    System(String),
    KeepHistory(bool),
    Wrap(bool),
    Verbose(bool),
    Think(Think),
    Format(Value),
    NoFormat,
}

/// Part of a model's description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Info,
    License,
    Modelfile,
    Parameters,
    System,
    Template,
}

/// Parses a line, or the lines of a text in quotes.
pub(super) fn parse(text: &str) -> Command {
    let trimmed = text.trim();
    if trimmed.starts_with(QUOTES) {
        let prompt = unquoted(trimmed);
        return if prompt.trim().is_empty() { Command::Nothing } else { Command::Prompt(prompt) };
    }
    let (command, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
    let rest = rest.trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    match (command, words.as_slice()) {
        ("", _) => Command::Nothing,
        ("/bye" | "/exit", _) => Command::Leave,
        ("/?" | "/help", []) => Command::Help(Topic::All),
        ("/?" | "/help", [topic, ..]) => match topic.trim_start_matches('/') {
            "set" => Command::Help(Topic::Set),
            "show" => Command::Help(Topic::Show),
            "shortcut" | "shortcuts" => Command::Help(Topic::Shortcuts),
            _ => Command::Help(Topic::All),
        },
        ("/clear", _) => Command::Clear,
        ("/list", _) => Command::List,
        ("/load", [model]) => Command::Load((*model).to_owned()),
        ("/load", _) => invalid("Usage: /load MODEL"),
        ("/save", [name]) => Command::Save((*name).to_owned()),
        ("/save", _) => invalid("Usage: /save NAME"),
        ("/set", _) => set(rest, &words),
        ("/show", _) => show(&words),
        // A word with a second slash is a path, not a command.
        (command, _) if command.starts_with('/') && !command[1..].contains('/') => {
            invalid(format!("Unknown command '{command}'. Type /? for help."))
        }
        _ => Command::Prompt(text.to_owned()),
    }
}

/// Whether the text opens a quotation without closing it.
pub(super) fn is_open(text: &str) -> bool {
    let text = text.trim_start();
    let quoted = match text.strip_prefix("/set") {
        Some(rest) => rest.trim_start().strip_prefix("system").map(str::trim_start),
        None => Some(text),
    };
    let inside = quoted.and_then(|quoted| quoted.strip_prefix(QUOTES));
    inside.is_some_and(|inside| !inside.trim_end().ends_with(QUOTES))
}

fn invalid(text: impl Into<String>) -> Command {
    Command::Invalid(text.into())
}

/// Removes the quotes around a text, and the line breaks next to them.
fn unquoted(text: &str) -> String {
    let text = text.trim();
    if let Some(quoted) = text.strip_prefix(QUOTES) {
        return quoted.strip_suffix(QUOTES).unwrap_or(quoted).trim_matches('\n').to_owned();
    }
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    quoted.unwrap_or(text).to_owned()
}

fn set(rest: &str, words: &[&str]) -> Command {
    let set = match words {
        ["parameter", name, values @ ..] if !values.is_empty() => match parameter(name, values) {
            Ok(value) => Set::Parameter { name: (*name).to_owned(), value },
            Err(message) => return invalid(message),
        },
        ["parameter", ..] => return invalid(format!("Usage: /set parameter NAME VALUE. {}", parameter_names())),
        ["system", _, ..] => {
            let text = unquoted(rest.trim_start().strip_prefix("system").unwrap_or_default());
            if text.trim().is_empty() {
                return invalid("Usage: /set system TEXT");
            }
            Set::System(text)
        }
        ["system"] => return invalid("Usage: /set system TEXT"),
        ["history"] => Set::KeepHistory(true),
        ["nohistory"] => Set::KeepHistory(false),
        ["wordwrap"] => Set::Wrap(true),
        ["nowordwrap"] => Set::Wrap(false),
        ["verbose"] => Set::Verbose(true),
        ["quiet"] => Set::Verbose(false),
        ["format", _, ..] => match format::parse(&unquoted(rest.strip_prefix("format").unwrap_or_default())) {
            Ok(format) => Set::Format(format),
            Err(error) => return invalid(crate::one_line(&error)),
        },
        ["format"] => return invalid("Usage: /set format json, or a JSON Schema, or the path of a file with one"),
        ["noformat"] => Set::NoFormat,
        ["think"] => Set::Think(Think::Switch(true)),
        ["think", how] => match parse_think(how) {
            Ok(think) => Set::Think(think),
            Err(_) => return invalid(format!("Thinking cannot be '{how}': use high, medium, low, max or nothing.")),
        },
        ["nothink"] => Set::Think(Think::Switch(false)),
        [] => return Command::Help(Topic::Set),
        [other, ..] => return invalid(format!("Unknown setting '{other}'. Type /? set for a list.")),
    };
    Command::Set(set)
}

fn show(words: &[&str]) -> Command {
    Command::Show(match words {
        ["info"] => Part::Info,
        ["license"] => Part::License,
        ["modelfile"] => Part::Modelfile,
        ["parameters"] => Part::Parameters,
        ["system"] => Part::System,
        ["template"] => Part::Template,
        [] => return Command::Help(Topic::Show),
        [other, ..] => return invalid(format!("Unknown part '{other}'. Type /? show for a list.")),
    })
}

/// Parses the value of a parameter according to its type.
fn parameter(name: &str, values: &[&str]) -> Result<Value, String> {
    use cairn_wire::OptionKind::{Array, Boolean, Float32, Integer, String as Text};
    let Some((_, kind)) = Options::KNOWN.iter().find(|(known, _)| *known == name) else {
        return Err(format!("Unknown parameter '{name}'. {}", parameter_names()));
    };
    let one = || match values {
        [value] => Ok(unquoted(value)),
        _ => Err(format!("Parameter '{name}' takes one value.")),
    };
    match kind {
        Array => Ok(values.iter().map(|value| Value::from(unquoted(value))).collect()),
        Text => one().map(Value::from),
        Integer => {
            let text = one()?;
            let number =
                text.parse::<i64>().map_err(|_| format!("Parameter '{name}' must be a whole number, not '{text}'."))?;
            match Options::least(name) {
                Some(least) if number < least => {
                    Err(format!("Parameter '{name}' must be {least} or more, not {number}."))
                }
                _ => Ok(number.into()),
            }
        }
        Float32 => {
            let text = one()?;
            let number = text.parse::<f64>().ok().filter(|number| (*number as f32).is_finite());
            number.map(Value::from).ok_or_else(|| format!("Parameter '{name}' must be a number, not '{text}'."))
        }
        Boolean => {
            let text = one()?;
            text.parse::<bool>()
                .map(Value::from)
                .map_err(|_| format!("Parameter '{name}' must be true or false, not '{text}'."))
        }
    }
}

fn parameter_names() -> String {
    let names: Vec<&str> = Options::KNOWN.iter().map(|(name, _)| *name).collect();
    format!("Parameters: {}.", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, expected: Command) {
        assert_eq!(parse(text), expected, "{text:?}");
    }

    fn parameter(name: &str, value: Value) -> Command {
        Command::Set(Set::Parameter { name: name.to_owned(), value })
    }

    #[test]
    fn chat_lines_are_commands_or_prompts() {
        check("  ", Command::Nothing);
        check("/bye", Command::Leave);
        check(" /? ", Command::Help(Topic::All));
        check("/? shortcuts", Command::Help(Topic::Shortcuts));
        check("/help /set", Command::Help(Topic::Set));
        check("/set", Command::Help(Topic::Set));
        check("/show", Command::Help(Topic::Show));
        check("/show  template", Command::Show(Part::Template));
        check("/load  me/model:7b", Command::Load("me/model:7b".to_owned()));
        check("/save mine", Command::Save("mine".to_owned()));
        check("/tmp/x is a path", Command::Prompt("/tmp/x is a path".to_owned()));
        check("why?", Command::Prompt("why?".to_owned()));
        check("\"\"\"one\ntwo\"\"\"", Command::Prompt("one\ntwo".to_owned()));
        check("\"\"\"\none\n\"\"\"", Command::Prompt("one".to_owned()));
        check("\"\"\" \"\"\"", Command::Nothing);
    }

    #[test]
    fn set_command_parses_value_types() {
        check("/set parameter num_ctx 8192", parameter("num_ctx", json!(8192)));
        check("/set parameter temperature 0.5", parameter("temperature", json!(0.5)));
        check("/set parameter seed -1", parameter("seed", json!(-1)));
        check("/set parameter use_mmap false", parameter("use_mmap", json!(false)));
        check("/set parameter stop <|a|> \"<|b|>\"", parameter("stop", json!(["<|a|>", "<|b|>"])));
        check("/set system Be  brief.", Command::Set(Set::System("Be  brief.".to_owned())));
        check("/set system \"\"\"Be\nbrief.\"\"\"", Command::Set(Set::System("Be\nbrief.".to_owned())));
        check("/set verbose", Command::Set(Set::Verbose(true)));
        check("/set nohistory", Command::Set(Set::KeepHistory(false)));
        check("/set format json", Command::Set(Set::Format(json!("json"))));
        check(r#"/set format {"type": "object"}"#, Command::Set(Set::Format(json!({"type": "object"}))));
        check("/set noformat", Command::Set(Set::NoFormat));
        check("/set think", Command::Set(Set::Think(Think::Switch(true))));
        check("/set nothink", Command::Set(Set::Think(Think::Switch(false))));
        assert!(matches!(parse("/set think low"), Command::Set(Set::Think(Think::Level(_)))), "a level");
    }

    #[test]
    fn invalid_commands_have_helpful_messages() {
        let check = |text: &str, part: &str| match parse(text) {
            Command::Invalid(message) => assert!(message.contains(part), "{text:?} has the message {message:?}"),
            other => panic!("{text:?} is {other:?}"),
        };
        check("/sing", "Unknown command '/sing'. Type /? for help.");
        check("/load", "Usage: /load MODEL");
        check("/save a b", "Usage: /save NAME");
        check("/set colour red", "Unknown setting 'colour'");
        check("/show everything", "Unknown part 'everything'");
        check("/set parameter warmth 1", "Unknown parameter 'warmth'. Parameters: num_keep, seed");
        check("/set parameter num_ctx big", "must be a whole number, not 'big'");
        check("/set parameter num_ctx 1 2", "takes one value");
        check("/set parameter num_ctx -5", "Parameter 'num_ctx' must be 0 or more, not -5.");
        check("/set parameter top_p inf", "must be a number, not 'inf'");
        check("/set parameter use_mmap maybe", "must be true or false");
        check("/set parameter", "Parameters:");
        check("/set system", "Usage: /set system TEXT");
        check("/set format", "Usage: /set format json");
        check("/set format xml", "the format must be json");
        check("/set think hard", "cannot be 'hard'");
    }

    #[test]
    fn multiline_quote_is_open_until_closed() {
        let check = |text: &str, open: bool| assert_eq!(is_open(text), open, "{text:?}");
        check("one line", false);
        check("\"\"\"", true);
        check("\"\"\"one", true);
        check("\"\"\"one\ntwo\"\"\"", false);
        check("\"\"\"one\"\"\"", false);
        check("/set system \"\"\"one", true);
        check("/set system \"\"\"one\ntwo\"\"\"", false);
        check("/set system one", false);
    }
}
