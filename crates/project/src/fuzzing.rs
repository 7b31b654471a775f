//! Entry points for the fuzz targets: the bytes of a file, as any of the formats of a project.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    InputSchema, ItemKind, arguments,
    item::PromptItem,
    meta::{self, PromptMeta, ResourceMeta},
    parse_meta, prompt,
    registration::Registration,
    template::Template,
};

/// What the formats make of a file.
#[derive(Debug, Default)]
pub struct ReadFile {
    /// The items that clients would see.
    pub definitions: Vec<Value>,
    /// Why the others were rejected.
    pub rejections: Vec<String>,
    /// The variables of its template in its own URI.
    pub variables: Option<BTreeMap<String, String>>,
}

/// Reads a file as every kind of meta file and as a registration.
pub fn read_file(bytes: &[u8]) -> ReadFile {
    let mut read = ReadFile::default();
    for kind in [
        ItemKind::Tool,
        ItemKind::Resource,
        ItemKind::ResourceTemplate,
        ItemKind::Prompt,
    ] {
        read.keep(parse_meta(kind, bytes));
    }
    if let Ok(definition) = parse_meta(ItemKind::Tool, bytes) {
        read.arguments(&definition, bytes);
    }
    if let Ok(about) = meta::read::<ResourceMeta>(bytes) {
        read.template(&about);
    }
    if let Ok(about) = meta::read::<PromptMeta>(bytes) {
        read.prompt(&about);
    }
    match Registration::parse(bytes) {
        Ok(registration) => read.registration(registration),
        Err(error) => read.rejections.push(error),
    }
    read
}

// === impl ReadFile ===

impl ReadFile {
    fn registration(&mut self, registration: Registration) {
        let Registration {
            tools,
            resources,
            templates,
            prompts,
            completions: _,
        } = registration;
        for (kind, entries) in [
            (ItemKind::Tool, tools),
            (ItemKind::Resource, resources),
            (ItemKind::ResourceTemplate, templates),
            (ItemKind::Prompt, prompts),
        ] {
            for entry in entries.into_iter().flatten() {
                let bytes = Value::Object(entry).to_string();
                self.keep(parse_meta(kind, bytes.as_bytes()));
            }
        }
    }

    /// Takes the file itself for the arguments of a call of its tool.
    fn arguments(&mut self, definition: &Value, bytes: &[u8]) {
        let schema = InputSchema::compile(&definition["inputSchema"]);
        let file: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let checked = schema.and_then(|schema| schema.check(&file));
        self.rejections.extend(checked.err());
        if let Value::Object(file) = &file {
            self.rejections.extend(arguments::variables(file).err());
        }
    }

    fn template(&mut self, about: &ResourceMeta) {
        let text = about.uri_template.as_deref().unwrap_or_default();
        let uri = about.uri.as_deref().unwrap_or_default();
        let Ok(template) = Template::parse(text) else {
            return;
        };
        match template.variables(uri) {
            Some(Ok(variables)) => self.variables = Some(variables),
            Some(Err(error)) => self.rejections.push(error.to_string()),
            None => {}
        }
    }

    /// Renders its path, which is any text, with each argument set to that text.
    fn prompt(&mut self, about: &PromptMeta) {
        let text = about.path.as_deref().unwrap_or_default();
        if let Err(why) = prompt::Messages::parse(text.as_bytes()) {
            self.rejections.push(why);
        }
        let declared = about.arguments().ok().flatten();
        let item = PromptItem {
            name: "prompt".to_owned(),
            definition: Value::Null,
            messages: vec![Value::from(text)],
            arguments: declared.unwrap_or_else(|| prompt::placeholders(text)),
        };
        let given: Map<_, _> = (item.arguments.iter())
            .map(|one| (one.name.clone(), Value::from(text)))
            .collect();
        if let Err(error) = prompt::render(&item, &given) {
            self.rejections.push(error.to_string());
        }
    }

    fn keep(&mut self, item: Result<Value, String>) {
        match item {
            Ok(definition) => self.definitions.push(definition),
            Err(error) => self.rejections.push(error),
        }
    }
}
