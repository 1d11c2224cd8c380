//! End-to-end tests of the `cairn` program, in one binary so that they link once.
#![forbid(unsafe_code)]

mod agents;
mod apis;
mod areas;
mod behaviours;
mod cache;
mod cairn;
mod chats;
mod checkpoints;
mod clients;
mod connections;
mod crashes;
mod creates;
mod diagnostics;
mod documents;
mod embeddings;
mod encoder_decoder;
mod first_words;
mod formats;
mod hostile;
mod house;
mod imports;
mod kept;
mod keys;
mod layers;
mod libraries;
mod logins;
mod mirror;
mod nearby;
#[cfg(target_os = "linux")]
mod openapi;
mod overflow;
mod packages;
mod parity;
mod pebble;
mod pictures;
#[cfg(target_os = "linux")]
mod process;
mod pulls;
mod pushes;
mod quantise;
mod remotes;
mod repl;
#[cfg(target_os = "linux")]
mod requests;
mod run_inputs;
mod scans;
mod scripts;
mod searches;
mod secrets;
mod settings;
mod shapes;
#[cfg(target_os = "linux")]
mod small_disk;
#[cfg(target_os = "linux")]
mod soak;
#[cfg(target_os = "linux")]
mod storm;
mod structured;
mod templates;
mod terminal;
mod ui;
mod vision_checkpoints;
