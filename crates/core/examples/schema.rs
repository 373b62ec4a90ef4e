//! Writes the JSON Schema of a run's description to standard output.

fn main() {
    println!("{:#}", l4slab_core::scenario::schema::run());
}
