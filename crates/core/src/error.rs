//! Mistakes of users.

use thiserror::Error;

/// What is wrong with a run, in one sentence.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ScenarioError(pub String);
