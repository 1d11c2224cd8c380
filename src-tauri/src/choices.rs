//! The daemon's settings for the window: `ui.close` and `ui.notify`. The window, the tray and the page all use them.
//! While the daemon does not answer, the last values apply.

use cairn_wire::app::{SettingValue, SettingsChange, SettingsResponse};

/// Path of the settings in the daemon's API.
pub(crate) const SETTINGS: &str = "/app/settings";
/// Key of the action when the window closes.
const CLOSE: &str = "ui.close";
/// Key of the switch for notifications.
const NOTIFY: &str = "ui.notify";

/// Settings for the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowSettings {
    pub(crate) close_action: CloseAction,
    /// Whether completed and failed downloads are shown as notifications.
    pub(crate) notify: bool,
}

/// Action when the window closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseAction {
    /// Ask the user.
    Ask,
    /// Keep the app in the tray.
    Tray,
    /// Quit the app and shut the daemon down.
    Quit,
}

impl Default for WindowSettings {
    /// The daemon's defaults.
    fn default() -> Self {
        Self { close_action: CloseAction::Ask, notify: true }
    }
}

impl WindowSettings {
    /// Reads the values from a settings table. Missing and unknown values become the defaults.
    pub(crate) fn of(table: &SettingsResponse) -> Self {
        let value = |key: &str| table.settings.iter().find(|setting| setting.key == key)?.value.as_ref();
        let close_action = match value(CLOSE) {
            Some(SettingValue::Text(word)) => CloseAction::of(word),
            _ => None,
        };
        let notify = match value(NOTIFY) {
            Some(SettingValue::Bool(on)) => Some(*on),
            _ => None,
        };
        let default = Self::default();
        Self { close_action: close_action.unwrap_or(default.close_action), notify: notify.unwrap_or(default.notify) }
    }
}

impl CloseAction {
    const ALL: [Self; 3] = [Self::Ask, Self::Tray, Self::Quit];

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|close_action| close_action.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Tray => "tray",
            Self::Quit => "quit",
        }
    }

    /// Returns the settings change that stores this action.
    pub(crate) fn change(self) -> SettingsChange {
        [(CLOSE.to_owned(), Some(SettingValue::Text(self.word().to_owned())))].into()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A settings table of the daemon with these two values.
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
    fn settings_table_sets_action_and_notifications() {
        let check = |close: Value, notify: Value, close_action: CloseAction, notifies: bool| {
            let table = serde_json::from_value(table(&close, &notify)).expect("this is a table");
            let expected = WindowSettings { close_action, notify: notifies };
            assert_eq!(WindowSettings::of(&table), expected, "ui.close is {close}, ui.notify is {notify}");
        };
        check(json!("ask"), json!(true), CloseAction::Ask, true);
        check(json!("tray"), json!(false), CloseAction::Tray, false);
        check(json!("quit"), json!(true), CloseAction::Quit, true);
        check(json!("shrink"), json!("yes"), CloseAction::Ask, true);
        check(Value::Null, Value::Null, CloseAction::Ask, true);
        assert_eq!(
            WindowSettings::of(&SettingsResponse::default()),
            WindowSettings::default(),
            "a table without either"
        );
    }

    #[test]
    fn close_action_round_trips_through_settings() {
        for close_action in CloseAction::ALL {
            let change = serde_json::to_value(close_action.change()).expect("its keys are strings");
            let table = serde_json::from_value(table(&change[CLOSE], &json!(true))).expect("this is a table");
            assert_eq!(WindowSettings::of(&table).close_action, close_action, "{change}");
        }
    }
}
