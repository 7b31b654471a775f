//! Discovery of prompts, in the folder or in a registration: a text, or messages as JSON.

use std::{collections::HashSet, path::PathBuf, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::{
    Pass,
    discover::{Entries, Found, META, META_MAX, is_beside, needs, stem},
};
use crate::{
    item::{ItemKind, PromptItem, Rejection},
    meta::{self, PromptMeta},
    prompt::{self, Messages},
    safety::Entry,
};

/// The size of the text of a prompt, or of its messages.
const TEXT_MAX: u64 = 256 * 1024;
/// The size of an image or a sound in a prompt; it is kept in memory.
const MEDIA_MAX: u64 = 1 << 20;
/// A prompt with this ending has messages of the protocol.
const MESSAGES: &str = ".json";

/// Where a prompt is, and what is known of it before its content.
struct Declaration<'a> {
    origin: &'a str,
    fingerprint: String,
    name: String,
    about: &'a PromptMeta,
    file: &'a Entry,
}

impl Pass<'_> {
    pub(super) fn prompts(&mut self, registered: Option<&Entries>) -> Vec<Arc<PromptItem>> {
        let mut found = Found::new();
        if let Some(entries) = registered {
            for (index, entry) in entries.iter().enumerate() {
                let origin = format!("server.d/register.json prompts[{index}]");
                let made = self.registered_prompt(&origin, entry);
                self.collect(made, origin, &mut found);
            }
        } else {
            let all = self.files_below("prompts");
            let (messages, texts): (Vec<_>, Vec<_>) = all
                .iter()
                .filter(|entry| is_prompt(entry))
                .partition(|entry| entry.name.ends_with(MESSAGES));
            let mut media = HashSet::new();
            for file in &messages {
                media.extend(self.media_of(file));
            }
            let texts = texts.into_iter().filter(|one| !media.contains(&one.path));
            for file in messages.into_iter().chain(texts) {
                let origin = self.checker.display_path(&file.path);
                let about = all.iter().find(|other| is_beside(other, file));
                let made = self.prompt_in(&origin, file, about);
                self.collect(made, origin, &mut found);
            }
        }
        self.finish_list(found, "prompt", |prompt| &prompt.name)
    }

    /// The files that messages show, which are no prompts themselves.
    fn media_of(&mut self, file: &Entry) -> Vec<PathBuf> {
        let Ok(content) = self.files.read(&file.path, &file.meta, TEXT_MAX) else {
            return Vec::new();
        };
        let folder = self.root.join("prompts");
        let messages = Messages::parse(&content.bytes).ok();
        let paths = messages.iter().flat_map(Messages::paths);
        paths.map(|path| folder.join(path)).collect()
    }

    fn prompt_in(
        &mut self,
        origin: &str,
        file: &Entry,
        about: Option<&Entry>,
    ) -> Result<Arc<PromptItem>, Rejection> {
        let about = match about {
            None => None,
            Some(entry) => {
                let shown = self.checker.display_path(&entry.path);
                let content = self
                    .files
                    .read(&entry.path, &entry.meta, META_MAX)
                    .map_err(|error| Rejection::new(&shown, error.to_string()))?;
                let read: PromptMeta =
                    meta::read(&content.bytes).map_err(|why| Rejection::new(&shown, why))?;
                Some((content.digest.clone(), read))
            }
        };
        let (fingerprint, about) = about.unwrap_or_default();
        let name = about.name.clone();
        let name = name.unwrap_or_else(|| stem(&file.name).to_owned());
        self.prompt(Declaration {
            origin,
            fingerprint,
            name,
            about: &about,
            file,
        })
    }

    fn registered_prompt(
        &mut self,
        origin: &str,
        entry: &Map<String, Value>,
    ) -> Result<Arc<PromptItem>, Rejection> {
        let reject = |why: String| Rejection::new(origin, why);
        let value = Value::Object(entry.clone());
        let fingerprint = value.to_string();
        let about: PromptMeta = meta::from_value(value).map_err(reject)?;
        let name = about.name.clone().ok_or_else(|| reject(needs("name")))?;
        let path = about.path.as_deref().ok_or_else(|| reject(needs("path")))?;
        let file = self.checker.resolve(&self.root.join("prompts"), path)?;
        self.prompt(Declaration {
            origin,
            fingerprint,
            name,
            about: &about,
            file: &file,
        })
    }

    fn prompt(&mut self, declared: Declaration<'_>) -> Result<Arc<PromptItem>, Rejection> {
        let Declaration {
            origin,
            fingerprint,
            name,
            about,
            file,
        } = declared;
        let reject = |why: String| Rejection::new(origin, why);
        let content = self
            .files
            .read(&file.path, &file.meta, TEXT_MAX)
            .map_err(|error| reject(error.to_string()))?;
        let mut fingerprint = format!("{fingerprint} {}", content.digest);
        let text = std::str::from_utf8(&content.bytes)
            .map_err(|_| reject("its text is not UTF-8".to_owned()))?;
        let mut messages = if file.name.ends_with(MESSAGES) {
            Messages::parse(&content.bytes).map_err(reject)?
        } else {
            Messages::of_text(text, &about.role().map_err(reject)?)
        };
        let mut media = Vec::new();
        for path in messages.paths() {
            let file = self.checker.resolve(&self.root.join("prompts"), path)?;
            let content = self
                .files
                .read(&file.path, &file.meta, MEDIA_MAX)
                .map_err(|error| reject(format!("`{path}`: {error}")))?;
            fingerprint = format!("{fingerprint} {}", content.digest);
            media.push(content);
        }
        let validate = self.validate;
        let cache = &mut self.caches.prompts;
        let made = cache.get(origin, fingerprint, || {
            meta::plain_name(&name)?;
            let arguments = match about.arguments()? {
                Some(declared) => declared,
                None => prompt::placeholders(text),
            };
            let definition = about.definition(&name, &arguments);
            validate(ItemKind::Prompt, &definition)?;
            messages.fill(media.iter().map(|file| STANDARD.encode(&file.bytes)));
            Ok(PromptItem {
                name,
                definition,
                arguments,
                messages: messages.into_values(),
            })
        });
        made.map_err(reject)
    }
}

/// Whether an entry is a prompt, and not what describes one.
fn is_prompt(entry: &Entry) -> bool {
    !entry.name.ends_with(META) && !entry.name.to_ascii_uppercase().starts_with("README")
}
