//! Presets: what new chats begin with.

use rusqlite::{OptionalExtension, Row, params};
use serde_json::{Map, Value};

use crate::{Chats, ChatsError};

/// What a chat begins with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preset {
    /// What it is called.
    pub name: String,
    /// The model.
    pub model: Option<String>,
    /// What the model is told first.
    pub system: Option<String>,
    /// Options of each request.
    pub options: Map<String, Value>,
    /// Whether the model thinks.
    pub think: Option<Value>,
}

type Raw = (Preset, String, Option<String>);

impl Chats {
    /// All presets, by name.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn presets(&self) -> Result<Vec<Preset>, ChatsError> {
        self.read(|connection| {
            let sql = "SELECT name, model, system, options, think FROM presets ORDER BY name";
            let rows = connection.prepare_cached(sql)?.query_map([], raw)?.collect::<Result<Vec<_>, _>>()?;
            rows.into_iter().map(read).collect()
        })
    }

    /// The preset of a name.
    ///
    /// # Errors
    /// Where there is none.
    pub fn preset(&self, name: &str) -> Result<Preset, ChatsError> {
        self.read(|connection| {
            let sql = "SELECT name, model, system, options, think FROM presets WHERE name = ?1";
            let found = connection.prepare_cached(sql)?.query_row([name], raw).optional()?;
            found.map(read).unwrap_or_else(|| Err(ChatsError::NoPreset(name.to_owned())))
        })
    }

    /// Keeps a preset, in place of another of its name.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn put_preset(&self, preset: &Preset) -> Result<(), ChatsError> {
        self.write(|connection| {
            let Preset { name, model, system, options, think } = preset;
            let (options, think) = (serde_json::to_string(options)?, think.as_ref().map(Value::to_string));
            let sql =
                "INSERT OR REPLACE INTO presets (name, model, system, options, think) VALUES (?1, ?2, ?3, ?4, ?5)";
            connection.execute(sql, params![name, model, system, options, think])?;
            Ok(())
        })
    }

    /// Deletes a preset.
    ///
    /// # Errors
    /// Where there is none, or it cannot be written.
    pub fn delete_preset(&self, name: &str) -> Result<(), ChatsError> {
        self.write(|connection| match connection.execute("DELETE FROM presets WHERE name = ?1", [name])? {
            0 => Err(ChatsError::NoPreset(name.to_owned())),
            _ => Ok(()),
        })
    }
}

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    let preset = Preset { name: row.get(0)?, model: row.get(1)?, system: row.get(2)?, ..Preset::default() };
    Ok((preset, row.get(3)?, row.get(4)?))
}

fn read((preset, options, think): Raw) -> Result<Preset, ChatsError> {
    let think = think.map(|text| serde_json::from_str(&text)).transpose()?;
    Ok(Preset { options: serde_json::from_str(&options)?, think, ..preset })
}
