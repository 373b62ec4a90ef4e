//! The JSON Schema of a run's description, from its types. Python's and TypeScript's types follow from the schema.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{Keys, Run};
use crate::traffic::{cbr, endpoint, media, page, responsiveness, tcp, udp_prague, video, web};

/// The schema of descriptions as they are written: a key that is always there is required.
pub fn run() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<Run>().to_value()
}

/// A flow group of any kind.
pub struct Flow;

impl JsonSchema for Flow {
    fn schema_name() -> Cow<'static, str> {
        "Flow".into()
    }

    fn json_schema(all: &mut SchemaGenerator) -> Schema {
        let kinds = [
            kind::<tcp::Spec>(all, "TcpFlow", "tcp"),
            kind::<web::Spec>(all, "WebFlow", "web"),
            kind::<video::Spec>(all, "VideoFlow", "video"),
            kind::<cbr::Spec>(all, "CbrFlow", "cbr"),
            kind::<media::Spec>(all, "MediaFlow", "media"),
            kind::<udp_prague::Spec>(all, "UdpPragueFlow", "udp-prague"),
            kind::<page::Spec>(all, "PageFlow", "page"),
            kind::<responsiveness::Spec>(all, "ResponsivenessFlow", "responsiveness"),
            kind::<Program>(all, "ProgramFlow", "program"),
            kind::<endpoint::Spec>(all, "EndpointFlow", "endpoint"),
        ];
        json_schema!({ "anyOf": kinds })
    }
}

/// The keys of every flow and those of one kind, in a definition of their own.
fn kind<T: JsonSchema>(all: &mut SchemaGenerator, name: &str, kind: &str) -> Value {
    let mut flow = T::json_schema(all).to_value();
    let common = Keys::json_schema(all).to_value();
    for (key, schema) in common["properties"].as_object().into_iter().flatten() {
        flow["properties"][key] = schema.clone();
    }
    flow["properties"]["kind"] = json!({ "const": kind });
    let mut required = vec![json!("kind")];
    required.extend(common["required"].as_array().into_iter().flatten().cloned());
    required.extend(flow["required"].as_array().into_iter().flatten().cloned());
    flow["required"] = required.into();
    all.definitions_mut().insert(name.to_owned(), flow);
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Programs of the machine that the engine `linux` starts; the core does not run them.
#[allow(dead_code)]
#[derive(JsonSchema)]
struct Program {
    server: String,
    client: String,
    /// Which of them sends what is measured.
    sender: Sending,
    cc: Option<String>,
    ecn: Option<crate::ecn::EcnSupport>,
    #[schemars(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    /// Where it is a packaged stack, in whose commands `{stack}` is the folder of its build.
    #[schemars(skip_serializing_if = "Option::is_none")]
    stack: Option<Stack>,
    /// 16 hex digits of the contents, by the word of a command or the value of `env` that names a file.
    files: BTreeMap<String, String>,
}

/// A packaged transport stack: its name, the build with the digest of its recipe, and its controller.
#[allow(dead_code)]
#[derive(JsonSchema)]
struct Stack {
    name: String,
    build: String,
    cc: String,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum Sending {
    Client,
    Server,
}
