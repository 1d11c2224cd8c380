//! Tests of constraints through the public API, with a vocabulary of single bytes and with real ones.

mod common;
mod constraints;
mod hostile;
mod refusals;
mod schemas;
mod test_suite;
mod vocabularies;
