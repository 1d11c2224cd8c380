//! The client against servers that behave, and servers that do not.

mod addresses;
mod blobs;
mod manifests;
mod redirects;
mod refusals;
mod ways;
