//! The command line of `cairn key`.

use cairn_wire::app::KeyScope;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::Json;

#[derive(Debug, Args)]
pub(crate) struct Key {
    #[command(subcommand)]
    pub(crate) verb: KeyVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// Create a key and print it; it is not shown again
    Create {
        /// Name that `list` and the request log show and `revoke` takes
        name: String,
        /// What the key allows; a comma separates several scopes
        #[arg(long = "scope", value_delimiter = ',', default_value = "chat", value_parser = scopes())]
        scopes: Vec<KeyScope>,
        /// As JSON, for scripts
        #[arg(long)]
        json: bool,
    },
    /// List the keys
    List(Json),
    /// Revoke a key immediately
    Revoke {
        /// Name of the key, or the key itself
        name: String,
        /// Print the remaining keys as JSON, for scripts
        #[arg(long)]
        json: bool,
    },
}

/// Parser of a scope. Its help lists all scopes.
fn scopes() -> impl TypedValueParser<Value = KeyScope> {
    let values = KeyScope::ALL.map(|scope| {
        PossibleValue::new(scope.name()).help(match scope {
            KeyScope::Chat => "Generate, and list models",
            KeyScope::Models => "Pull, push, create, copy, delete and list models",
            KeyScope::Metrics => "Read `/metrics`",
            KeyScope::Admin => "Everything, also chats, settings and keys",
        })
    });
    PossibleValuesParser::new(values).try_map(|name: String| name.parse::<KeyScope>())
}
