//! Journeys, one module each, in one binary: they link once and share what they start.
#![forbid(unsafe_code)]

mod cairn;
mod clients;
mod crashes;
mod first_words;
mod house;
mod imports;
mod layers;
mod mirror;
mod parity;
mod pebble;
mod pulls;
mod repl;
mod scripts;
