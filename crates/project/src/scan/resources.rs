//! Discovery of resources and templates, in the folder or in a registration.

use std::{path::PathBuf, sync::Arc};

use serde_json::Value;

use super::{
    Pass,
    discover::{Entries, Found, META, META_MAX, is_beside, needs},
};
use crate::{
    arguments,
    executable::NOT_EXECUTABLE,
    file_of,
    item::{ContentSource, ItemKind, Program, Rejection, ResourceItem, TemplateItem},
    meta::{self, ResourceMeta},
    safety::{Entry, PathChecker},
    template::{self, Template},
};

/// Declares a resource or a template, in a meta file or a registration.
struct Declaration {
    origin: String,
    fingerprint: String,
    about: ResourceMeta,
    /// The file beside the meta file.
    beside: Option<Entry>,
}

impl Pass<'_> {
    pub(super) fn resources(&mut self, registered: Option<&Entries>) -> Vec<Arc<ResourceItem>> {
        let mut found = Found::new();
        for declared in self.declarations("resources", registered) {
            // Templates are in the same folder, and have a list of their own.
            if registered.is_some() || declared.about.uri_template.is_none() {
                let origin = declared.origin.clone();
                let made = self.resource(declared);
                self.collect(made, origin, &mut found);
            }
        }
        self.finish_list(found, "resource", |resource| &resource.uri)
    }

    pub(super) fn templates(&mut self, registered: Option<&Entries>) -> Vec<Arc<TemplateItem>> {
        let mut found = Found::new();
        // The discovery of resources has rejected the same files before, unless resources
        // are registered.
        let before = self.rejections.len();
        let all = self.declarations("resourceTemplates", registered);
        for rejection in self.rejections.split_off(before) {
            if !self.rejections.contains(&rejection) {
                self.rejections.push(rejection);
            }
        }
        for declared in all {
            if registered.is_some() || declared.about.uri_template.is_some() {
                let origin = declared.origin.clone();
                let made = self.template(declared);
                self.collect(made, origin, &mut found);
            }
        }
        self.finish_list(found, "resource template", |template| &template.name)
    }

    /// The declarations of resources and templates, registered or in the folder.
    fn declarations(&mut self, key: &str, registered: Option<&Entries>) -> Vec<Declaration> {
        let mut found = Vec::new();
        if let Some(entries) = registered {
            for (index, entry) in entries.iter().enumerate() {
                let origin = format!("server.d/register.json {key}[{index}]");
                let value = Value::Object(entry.clone());
                let fingerprint = value.to_string();
                match meta::from_value(value) {
                    Ok(about) => found.push(Declaration {
                        origin,
                        fingerprint,
                        about,
                        beside: None,
                    }),
                    Err(why) => self.rejections.push(Rejection::new(origin, why)),
                }
            }
            return found;
        }
        let all = self.files_below("resources");
        for entry in all.iter().filter(|entry| entry.name.ends_with(META)) {
            let origin = self.checker.display_path(&entry.path);
            let content = match self.files.read(&entry.path, &entry.meta, META_MAX) {
                Ok(content) => content,
                Err(error) => {
                    self.rejections
                        .push(Rejection::new(origin, error.to_string()));
                    continue;
                }
            };
            let beside = all.iter().find(|other| is_beside(entry, other)).cloned();
            match meta::read(&content.bytes) {
                Ok(about) => found.push(Declaration {
                    origin,
                    fingerprint: content.digest.clone(),
                    about,
                    beside,
                }),
                Err(why) => self.rejections.push(Rejection::new(origin, why)),
            }
        }
        found
    }

    fn resource(&mut self, declared: Declaration) -> Result<Arc<ResourceItem>, Rejection> {
        let Declaration {
            origin,
            fingerprint,
            about,
            beside,
        } = declared;
        let reject = |why: String| Rejection::new(&origin, why);
        if about.uri.is_some() && about.uri_template.is_some() {
            return Err(reject("it has both `uri` and `uriTemplate`".to_owned()));
        }
        let uri = match (&about.uri, &beside) {
            (Some(uri), _) => uri.clone(),
            (None, Some(file)) => format!("file://./{}", self.checker.display_path(&file.path)),
            (None, None) => return Err(reject(needs("uri"))),
        };
        meta::check_uri(&uri).map_err(reject)?;
        self.check_scheme(&uri).map_err(reject)?;
        let provider = about.provider.as_deref().or_else(|| self.inferred(&about));
        let backing = match self.provider(provider)? {
            Some(program) => ContentSource::Command(program),
            None => {
                let root = self.root.to_owned();
                let file = if let Some(path) = &about.path {
                    template::check_path(path).map_err(reject)?;
                    self.checker.resolve(&root.join("resources"), path)?
                } else if let Some(path) = file_of(self.root, &uri) {
                    template::check_path(&path).map_err(reject)?;
                    self.checker.resolve(&root, &path)?
                } else if let Some(file) = beside {
                    file
                } else {
                    let why =
                        format!("`{uri}` is no file of the project: say `path` or `provider`");
                    return Err(reject(why));
                };
                if !file.meta.is_file() {
                    return Err(self.checker.rejection(&file.path, "it is not a file"));
                }
                ContentSource::File(Some(self.checker.display_path(&file.path)))
            }
        };
        let fingerprint = format!("{fingerprint} {backing:?}");
        let validate = self.validate;
        let cache = &mut self.caches.resources;
        let made = cache.get(&origin, fingerprint, || {
            let name = about.name.clone().unwrap_or_else(|| last_segment(&uri));
            meta::plain_name(&name)?;
            let definition = about.definition(&name, "uri", &uri);
            validate(ItemKind::Resource, &definition)?;
            Ok(ResourceItem {
                uri,
                definition,
                backing,
                mime_type: about.mime_type,
            })
        });
        made.map_err(reject)
    }

    fn template(&mut self, declared: Declaration) -> Result<Arc<TemplateItem>, Rejection> {
        let Declaration {
            origin,
            fingerprint,
            about,
            ..
        } = declared;
        let reject = |why: String| Rejection::new(&origin, why);
        let (Some(text), None) = (about.uri_template.clone(), &about.uri) else {
            let why = "it must have `uriTemplate`, and no `uri`";
            return Err(reject(why.to_owned()));
        };
        // A scheme with a variable could match a built-in one.
        meta::check_uri(text.split('{').next().unwrap_or_default()).map_err(reject)?;
        self.check_scheme(&text).map_err(reject)?;
        let provider = about.provider.as_deref().or_else(|| self.inferred(&about));
        let backing = match self.provider(provider)? {
            Some(program) => ContentSource::Command(program),
            None => match &about.path {
                Some(path) => {
                    template::check_path(path).map_err(reject)?;
                    ContentSource::File(Some(format!("resources/{path}")))
                }
                None if text.starts_with("file://") => ContentSource::File(None),
                None => {
                    let why = "its URIs are no files of the project: say `path` or `provider`";
                    return Err(reject(why.to_owned()));
                }
            },
        };
        let fingerprint = format!("{fingerprint} {backing:?}");
        let validate = self.validate;
        let cache = &mut self.caches.templates;
        let made = cache.get(&origin, fingerprint, || {
            let name = about.name.clone().ok_or_else(|| needs("name"))?;
            meta::plain_name(&name)?;
            let template = Template::parse(&text).map_err(|error| error.to_string())?;
            if matches!(backing, ContentSource::Command(_)) {
                arguments::check_clashes(template.names())?;
            }
            let definition = about.definition(&name, "uriTemplate", &text);
            validate(ItemKind::ResourceTemplate, &definition)?;
            Ok(TemplateItem {
                name,
                template,
                definition,
                backing,
                mime_type: about.mime_type,
            })
        });
        made.map_err(reject)
    }

    /// The executable of a provider; `None` for plain files.
    fn provider(&mut self, name: Option<&str>) -> Result<Option<Program>, Rejection> {
        let Some(name) = name.filter(|name| *name != "file") else {
            return Ok(None);
        };
        for folder in ["providers", "resources"] {
            let base = self.root.join(folder);
            if !base.exists() {
                continue;
            }
            for file in [name.to_owned(), format!("{name}.sh")] {
                let path = base.join(&file);
                if !path.is_file() {
                    continue;
                }
                let found = self.checker.resolve(&base, &file)?;
                if !self.is_runnable(&found) {
                    return Err(self.checker.rejection(&found.path, NOT_EXECUTABLE));
                }
                return self.program(&found, &base).map(Some);
            }
        }
        match self.mcp_bash_provider(name)? {
            Some(program) => Ok(Some(program)),
            None => Err(Rejection::new(
                format!("providers/{name}"),
                "there is no such provider; besides `file`, a provider is an executable in \
                 `providers/`, or one of mcp-bash where `--tool-env MCP_SDK` passes it on",
            )),
        }
    }

    /// The provider that mcp-bash takes for a scheme where none is named.
    fn inferred(&self, about: &ResourceMeta) -> Option<&'static str> {
        self.mcp_bash.filter(|_| about.path.is_none())?;
        let uri = about.uri.as_ref().or(about.uri_template.as_ref())?;
        match uri.split_once("://")?.0 {
            "git+https" => Some("git"),
            "https" => Some("https"),
            _ => None,
        }
    }

    /// A provider of an installed mcp-bash, such as `echo` and `git`. It is checked as files of
    /// the project are, below the folder of the installation.
    fn mcp_bash_provider(&mut self, name: &str) -> Result<Option<Program>, Rejection> {
        let Some(home) = self.mcp_bash.filter(|_| !name.contains('/')) else {
            return Ok(None);
        };
        let (folder, file) = (home.join("providers"), format!("{name}.sh"));
        let named = |rejection: Rejection| {
            let path = format!("mcp-bash/{}", rejection.path);
            Rejection::new(path, rejection.reason)
        };
        let checker = PathChecker::new(home).map_err(named)?;
        if checker.check(&folder.join(&file)).map_err(named)?.is_none() {
            return Ok(None);
        }
        let found = checker.resolve(&folder, &file).map_err(named)?;
        if !self.is_runnable(&found) {
            return Err(named(checker.rejection(&found.path, NOT_EXECUTABLE)));
        }
        let program = self.program(&found, &folder)?;
        Ok(Some(Program {
            root: home.to_owned(),
            file: format!("mcp-bash/providers/{file}"),
            ..program
        }))
    }

    fn check_scheme(&self, uri: &str) -> Result<(), String> {
        let scheme = uri.split(':').next().unwrap_or_default();
        let reserved = &self.reserved.schemes;
        if reserved.iter().any(|one| one.eq_ignore_ascii_case(scheme)) {
            return Err(format!(
                "shadowed: `{scheme}:` is built in; use another scheme"
            ));
        }
        Ok(())
    }
}

fn last_segment(uri: &str) -> String {
    let path = PathBuf::from(uri);
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
