//! Prints the access table of `.github/SECURITY.md`, for `cargo xtask gen`.
#![forbid(unsafe_code)]

fn main() {
    print!("{}", cairn_http::access_table());
}
