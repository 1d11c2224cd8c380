//! What its user chose about the window: `ui.close` and `ui.notify` among the daemon's settings, which are the one truth for the
//! window, the tray and the page. What the daemon said last holds while it does not answer.

use cairn_wire::app::{SettingValue, SettingsChange, SettingsResponse};

/// Where the settings are, in the daemon's interface.
pub(crate) const SETTINGS: &str = "/app/settings";
/// What closing the window does.
const CLOSE: &str = "ui.close";
/// Whether news are told.
const NOTIFY: &str = "ui.notify";

/// All of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choices {
    pub(crate) closing: Closing,
    /// Whether the system tells of a download's end and of trouble with one.
    pub(crate) notify: bool,
}

/// What closing the window does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Its user is asked.
    Ask,
    /// The app stays in the tray.
    Tray,
    /// It quits, and the daemon with it.
    Quit,
}

impl Default for Choices {
    /// As the daemon has it where nobody has chosen.
    fn default() -> Self {
        Self { closing: Closing::Ask, notify: true }
    }
}

impl Choices {
    /// What a table of settings says; what it does not say, or in a word of another version, is as nobody had chosen.
    pub(crate) fn of(table: &SettingsResponse) -> Self {
        let value = |key: &str| table.settings.iter().find(|setting| setting.key == key)?.value.as_ref();
        let closing = match value(CLOSE) {
            Some(SettingValue::Text(word)) => Closing::of(word),
            _ => None,
        };
        let notify = match value(NOTIFY) {
            Some(SettingValue::Bool(on)) => Some(*on),
            _ => None,
        };
        let standard = Self::default();
        Self { closing: closing.unwrap_or(standard.closing), notify: notify.unwrap_or(standard.notify) }
    }
}

impl Closing {
    const ALL: [Self; 3] = [Self::Ask, Self::Tray, Self::Quit];

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|closing| closing.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Tray => "tray",
            Self::Quit => "quit",
        }
    }

    /// What the daemon is asked to write down.
    pub(crate) fn change(self) -> SettingsChange {
        [(CLOSE.to_owned(), Some(SettingValue::Text(self.word().to_owned())))].into()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A table in which these two are so, as the daemon writes it.
    pub(crate) fn table(close: &Value, notify: &Value) -> Value {
        let row = |key: &str, kind: &str, value: &Value| {
            json!({
                "key": key, "group": "ui", "kind": kind, "value": value, "default_about": "", "origin": "file",
                "applies": "now", "restart": false, "about": "",
            })
        };
        let rows =
            [row("ui.theme", "choice", &json!("dark")), row(CLOSE, "choice", close), row(NOTIFY, "bool", notify)];
        json!({"path": "/c/config.toml", "restart": false, "settings": rows})
    }

    #[test]
    fn a_table_says_what_was_chosen() {
        let check = |close: Value, notify: Value, closing: Closing, tells: bool| {
            let table = serde_json::from_value(table(&close, &notify)).expect("this is a table");
            let expected = Choices { closing, notify: tells };
            assert_eq!(Choices::of(&table), expected, "ui.close is {close}, ui.notify is {notify}");
        };
        check(json!("ask"), json!(true), Closing::Ask, true);
        check(json!("tray"), json!(false), Closing::Tray, false);
        check(json!("quit"), json!(true), Closing::Quit, true);
        check(json!("shrink"), json!("yes"), Closing::Ask, true);
        check(Value::Null, Value::Null, Closing::Ask, true);
        assert_eq!(Choices::of(&SettingsResponse::default()), Choices::default(), "a table without either");
    }

    #[test]
    fn a_choice_is_written_as_it_is_read() {
        for closing in Closing::ALL {
            let change = serde_json::to_value(closing.change()).expect("its keys are strings");
            let table = serde_json::from_value(table(&change[CLOSE], &json!(true))).expect("this is a table");
            assert_eq!(Choices::of(&table).closing, closing, "{change}");
        }
    }
}
