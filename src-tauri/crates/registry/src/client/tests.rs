//! Tests of the client against correct and misbehaving servers.

mod addresses;
mod blobs;
mod connections;
mod manifests;
mod redirects;
mod refusals;
