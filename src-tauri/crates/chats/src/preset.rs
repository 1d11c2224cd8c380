//! Presets: named settings of new chats.

use rusqlite::{OptionalExtension, Row, params};

use crate::{Chats, ChatsError, Preset};

type Raw = (Preset, String, Option<String>);

impl Chats {
    /// Returns all presets by name.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn presets(&self) -> Result<Vec<Preset>, ChatsError> {
        self.read(|connection| {
            let sql = "SELECT name, model, system, options, think FROM presets ORDER BY name";
            let rows = connection.prepare_cached(sql)?.query_map([], raw)?.collect::<Result<Vec<_>, _>>()?;
            rows.into_iter().map(read).collect()
        })
    }

    /// Returns the preset of a name.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn preset(&self, name: &str) -> Result<Preset, ChatsError> {
        self.read(|connection| {
            let sql = "SELECT name, model, system, options, think FROM presets WHERE name = ?1";
            let raw = connection.prepare_cached(sql)?.query_row([name], raw).optional()?;
            raw.map(read).unwrap_or_else(|| Err(ChatsError::PresetNotFound(name.to_owned())))
        })
    }

    /// Creates or replaces a preset.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn put_preset(&self, preset: &Preset) -> Result<(), ChatsError> {
        self.write(|connection| {
            let Preset { name, model, system, options, think } = preset;
            let options = serde_json::to_string(options)?;
            let think = think.as_ref().map(serde_json::to_string).transpose()?;
            let sql =
                "INSERT OR REPLACE INTO presets (name, model, system, options, think) VALUES (?1, ?2, ?3, ?4, ?5)";
            connection.execute(sql, params![name, model, system, options, think])?;
            Ok(())
        })
    }

    /// Deletes a preset.
    ///
    /// # Errors
    /// If it does not exist, or the file cannot be written.
    pub fn delete_preset(&self, name: &str) -> Result<(), ChatsError> {
        self.write(|connection| match connection.execute("DELETE FROM presets WHERE name = ?1", [name])? {
            0 => Err(ChatsError::PresetNotFound(name.to_owned())),
            _ => Ok(()),
        })
    }
}

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    let preset = Preset { name: row.get(0)?, model: row.get(1)?, system: row.get(2)?, ..Preset::default() };
    Ok((preset, row.get(3)?, row.get(4)?))
}

fn read((preset, options, think): Raw) -> Result<Preset, ChatsError> {
    let think = think.and_then(|text| serde_json::from_str(&text).ok());
    Ok(Preset { options: serde_json::from_str(&options)?, think, ..preset })
}
