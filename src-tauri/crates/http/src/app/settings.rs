//! `/app/settings`: the table of settings and changes to it.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::settings::{self as app, Applies, Kind, Origin, SettingRow, SettingTable, SettingsError, Value};
use cairn_wire::app::{
    Setting, SettingApplies, SettingKind, SettingOrigin, SettingValue, SettingsChange, SettingsRefused,
    SettingsResponse, WrongSetting,
};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking, json, last_line, setting_error};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/settings", get(settings).patch(change))
}

async fn settings(State(server): State<Server>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let table = blocking(move || app.settings().table()).await?;
    Ok(json(StatusCode::OK, &response(table)))
}

async fn change(State(server): State<Server>, Body(request): Body<SettingsChange>) -> Result<Response, ApiError> {
    let change: BTreeMap<String, Option<Value>> =
        request.into_iter().map(|(key, value)| (key, value.map(from_wire))).collect();
    let app = server.app().clone();
    match blocking(move || app.settings().change(&change)).await? {
        Ok(table) => Ok(json(StatusCode::OK, &response(table))),
        Err(SettingsError::Wrong(wrong)) => Ok(rejection(wrong)),
        Err(error) => Err(error.into()),
    }
}

/// Returns a response with the error of each invalid setting.
fn rejection(wrong: Vec<app::WrongSetting>) -> Response {
    let rows = wrong.iter().map(|row| WrongSetting { key: row.key.clone(), error: setting_error(&row.problem) });
    let rows = rows.collect();
    let error = last_line(&SettingsError::Wrong(wrong).into());
    json(StatusCode::BAD_REQUEST, &SettingsRefused { error, wrong: rows })
}

fn response(table: SettingTable) -> SettingsResponse {
    SettingsResponse {
        path: table.path.display().to_string(),
        problem: table.problem,
        restart: table.rows.iter().any(|row| row.restart),
        settings: table.rows.into_iter().map(setting).collect(),
    }
}

fn setting(setting: SettingRow) -> Setting {
    let SettingRow { row, value, default, origin, restart } = setting;
    let key = row.key.unwrap_or_default();
    let flag = row.variable.map(|_| format!("--set {key}"));
    Setting {
        key: key.to_owned(),
        group: row.group().to_owned(),
        kind: match row.kind {
            Kind::Bool => SettingKind::Bool,
            Kind::Number => SettingKind::Number,
            Kind::Bytes(_) => SettingKind::Bytes,
            Kind::Text => SettingKind::Text,
            Kind::Path => SettingKind::Path,
            Kind::Choice(_) => SettingKind::Choice,
        },
        value: value.map(to_wire),
        default: default.map(to_wire),
        default_about: row.default.to_owned(),
        origin: match origin {
            Origin::Default => SettingOrigin::Default,
            Origin::File => SettingOrigin::File,
            Origin::Environment(_) => SettingOrigin::Environment,
            Origin::Flag => SettingOrigin::Flag,
        },
        origin_name: match origin {
            Origin::Environment(variable) => Some(variable.to_owned()),
            Origin::Flag => flag.clone(),
            Origin::Default | Origin::File => None,
        },
        env: row.variable.map(str::to_owned),
        flag,
        choices: match row.kind {
            Kind::Choice(words) => Some(words.iter().map(|word| (*word).to_owned()).collect()),
            _ => None,
        },
        unit: row.unit.map(str::to_owned),
        applies: match row.applies {
            Applies::Now => SettingApplies::Now,
            Applies::NextLoad => SettingApplies::NextLoad,
            Applies::Restart => SettingApplies::Restart,
        },
        restart,
        about: row.about.to_owned(),
    }
}

fn to_wire(value: Value) -> SettingValue {
    match value {
        Value::Bool(on) => SettingValue::Bool(on),
        Value::Number(number) => SettingValue::Number(number),
        Value::Text(text) => SettingValue::Text(text),
    }
}

fn from_wire(value: SettingValue) -> Value {
    match value {
        SettingValue::Bool(on) => Value::Bool(on),
        SettingValue::Number(number) => Value::Number(number),
        SettingValue::Text(text) => Value::Text(text),
    }
}
