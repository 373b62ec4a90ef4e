//! Where a key stands in the text of an experiment file.

use pyo3::prelude::*;
use toml_edit::{Document, Item, TableLike};

/// Line and column, from 1, of the last part of `path` that the text has; None if it has none, or is not TOML. A part is
/// a key, dotted or not, or a table of a list: its `name`, or else its number, from 0.
#[pyfunction]
pub fn toml_position(text: &str, path: Vec<String>) -> Option<(usize, usize)> {
    let document = Document::parse(text).ok()?;
    let mut at = None;
    walk(document.as_table(), &path, &mut at);
    at.map(|start: usize| {
        let line = text[..start].rfind('\n').map_or(0, |end| end + 1);
        (text[..line].matches('\n').count() + 1, text[line..start].chars().count() + 1)
    })
}

fn walk(table: &dyn TableLike, path: &[String], at: &mut Option<usize>) {
    let Some((part, rest)) = path.split_first() else { return };
    // A quoted key may have dots, and a bare one with dots is a table in a table.
    let mut ends = part.match_indices('.').map(|(end, _)| end).chain([part.len()]).rev();
    let found = ends.find_map(|end| Some((end, table.get_key_value(&part[..end])?)));
    let Some((end, (key, item))) = found else { return };
    *at = key.span().or(item.span()).map(|span| span.start).or(*at);
    let left = part.get(end + 1..).map(String::from);
    let path: Vec<String> = left.into_iter().chain(rest.iter().cloned()).collect();
    enter(item, &path, at);
}

fn enter(item: &Item, path: &[String], at: &mut Option<usize>) {
    if let Some(table) = item.as_table_like() {
        return walk(table, path, at);
    }
    let (Some(tables), Some((part, rest))) = (item.as_array_of_tables(), path.split_first()) else {
        return;
    };
    let is_named =
        |table: &toml_edit::Table| table.get("name").and_then(Item::as_str) == Some(part);
    let by_name = tables.iter().find(|&table| is_named(table));
    let Some(table) = by_name.or_else(|| tables.get(part.parse().ok()?)) else { return };
    *at = table.span().map(|span| span.start).or(*at);
    walk(table, rest, at);
}
