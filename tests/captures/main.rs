//! Captures as files: their bytes, and what they say about a run. The reader here shares no code with
//! the writer.

mod frames;
mod reader;
mod runs;
