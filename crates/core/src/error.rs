//! Mistakes of users.

use thiserror::Error;

/// A mistake in a run, in one sentence.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ScenarioError(pub String);
