//! Prints the OpenAPI document without the schemas of `wire` types, for `cargo xtask gen`.
#![forbid(unsafe_code)]

fn main() {
    print!("{}", cairn_http::openapi_document());
}
