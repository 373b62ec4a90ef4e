//! `spec/laws.md` as tests: every closed form with its tolerance. Meant for `cargo test --release`,
//! where all of them take less than a minute; `-- --nocapture` prints what was measured.

mod lab;
mod rates;
