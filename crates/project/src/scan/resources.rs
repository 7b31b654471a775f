//! Finding resources and their templates, in the folder or in a registration.

use std::{path::PathBuf, sync::Arc};

use serde_json::Value;

use super::{
    Pass,
    discover::{Entries, Found, META, META_MAX, NOT_EXECUTABLE, is_beside, is_executable, needs},
};
use crate::{
    file_of,
    item::{Backing, Kind, Program, Refusal, ResourceItem, TemplateItem},
    meta::{self, ResourceMeta},
    safety::Entry,
    template::Template,
};

/// What is said of a resource.
struct Said {
    /// Where.
    place: String,
    made_of: String,
    about: ResourceMeta,
    /// The file beside the meta file.
    beside: Option<Entry>,
}

impl Pass<'_> {
    pub(super) fn resources(&mut self, registered: Option<&Entries>) -> Vec<Arc<ResourceItem>> {
        let mut found = Found::new();
        for said in self.said("resources", registered) {
            // Templates lie in the same folder, and are looked at on their own.
            if registered.is_some() || said.about.uri_template.is_none() {
                let place = said.place.clone();
                let made = self.resource(said);
                self.keep(made, place, &mut found);
            }
        }
        self.settle(found, "resource", |resource| &resource.uri)
    }

    pub(super) fn templates(&mut self, registered: Option<&Entries>) -> Vec<Arc<TemplateItem>> {
        let mut found = Found::new();
        // What is wrong with the files was said when the resources were looked for,
        // unless those were registered.
        let before = self.refusals.len();
        let all = self.said("resourceTemplates", registered);
        for refusal in self.refusals.split_off(before) {
            if !self.refusals.contains(&refusal) {
                self.refusals.push(refusal);
            }
        }
        for said in all {
            if registered.is_some() || said.about.uri_template.is_some() {
                let place = said.place.clone();
                let made = self.template(said);
                self.keep(made, place, &mut found);
            }
        }
        self.settle(found, "resource template", |template| &template.name)
    }

    /// What is said of resources, by hand or in the folder.
    fn said(&mut self, key: &str, registered: Option<&Entries>) -> Vec<Said> {
        let mut found = Vec::new();
        if let Some(entries) = registered {
            for (index, entry) in entries.iter().enumerate() {
                let place = format!("server.d/register.json {key}[{index}]");
                let value = Value::Object(entry.clone());
                let made_of = value.to_string();
                match meta::from_value(value) {
                    Ok(about) => found.push(Said {
                        place,
                        made_of,
                        about,
                        beside: None,
                    }),
                    Err(why) => self.refusals.push(Refusal::new(place, why)),
                }
            }
            return found;
        }
        let all = self.all_below("resources");
        for entry in all.iter().filter(|entry| entry.name.ends_with(META)) {
            let place = self.guard.shown(&entry.path);
            let content = match self.files.read(&entry.path, &entry.meta, META_MAX) {
                Ok(content) => content,
                Err(error) => {
                    self.refusals.push(Refusal::new(place, error.to_string()));
                    continue;
                }
            };
            let beside = all.iter().find(|other| is_beside(entry, other)).cloned();
            match meta::read(&content.bytes) {
                Ok(about) => found.push(Said {
                    place,
                    made_of: content.digest.clone(),
                    about,
                    beside,
                }),
                Err(why) => self.refusals.push(Refusal::new(place, why)),
            }
        }
        found
    }

    fn resource(&mut self, said: Said) -> Result<Arc<ResourceItem>, Refusal> {
        let Said {
            place,
            made_of,
            about,
            beside,
        } = said;
        let refuse = |why: String| Refusal::new(&place, why);
        if about.uri.is_some() && about.uri_template.is_some() {
            return Err(refuse("it has both `uri` and `uriTemplate`".to_owned()));
        }
        let uri = match (&about.uri, &beside) {
            (Some(uri), _) => uri.clone(),
            (None, Some(file)) => format!("file://./{}", self.guard.shown(&file.path)),
            (None, None) => return Err(refuse(needs("uri"))),
        };
        meta::address(&uri).map_err(refuse)?;
        self.free_scheme(&uri).map_err(refuse)?;
        let backing = match self.provider(about.provider.as_deref())? {
            Some(program) => Backing::Command(program),
            None => {
                let root = self.root.to_owned();
                let file = if let Some(path) = &about.path {
                    self.guard.resolve(&root.join("resources"), path)?
                } else if let Some(path) = self.path_in(&uri) {
                    self.guard.resolve(&root, &path)?
                } else if let Some(file) = beside {
                    file
                } else {
                    let why =
                        format!("`{uri}` is no file of the project: say `path` or `provider`");
                    return Err(refuse(why));
                };
                if !file.meta.is_file() {
                    return Err(self.guard.refusal(&file.path, "it is not a file"));
                }
                Backing::File(Some(self.guard.shown(&file.path)))
            }
        };
        let made_of = format!("{made_of} {backing:?}");
        let accepts = self.accepts;
        let memory = &mut self.memory.resources;
        let made = memory.get(&place, made_of, || {
            let name = about.name.clone().unwrap_or_else(|| last_part(&uri));
            meta::plain_name(&name)?;
            let definition = about.definition(&name, "uri", &uri);
            accepts(Kind::Resource, &definition)?;
            Ok(ResourceItem {
                uri,
                definition,
                backing,
                mime_type: about.mime_type,
            })
        });
        made.map_err(refuse)
    }

    fn template(&mut self, said: Said) -> Result<Arc<TemplateItem>, Refusal> {
        let Said {
            place,
            made_of,
            about,
            ..
        } = said;
        let refuse = |why: String| Refusal::new(&place, why);
        let (Some(text), None) = (about.uri_template.clone(), &about.uri) else {
            let why = "it must have `uriTemplate`, and no `uri`";
            return Err(refuse(why.to_owned()));
        };
        // A scheme that varies could be anybody's.
        meta::address(text.split('{').next().unwrap_or_default()).map_err(refuse)?;
        self.free_scheme(&text).map_err(refuse)?;
        let backing = match self.provider(about.provider.as_deref())? {
            Some(program) => Backing::Command(program),
            None => match &about.path {
                Some(path) => Backing::File(Some(format!("resources/{path}"))),
                None if text.starts_with("file://") => Backing::File(None),
                None => {
                    let why = "its URIs are no files of the project: say `path` or `provider`";
                    return Err(refuse(why.to_owned()));
                }
            },
        };
        let made_of = format!("{made_of} {backing:?}");
        let accepts = self.accepts;
        let memory = &mut self.memory.templates;
        let made = memory.get(&place, made_of, || {
            let name = about.name.clone().ok_or_else(|| needs("name"))?;
            meta::plain_name(&name)?;
            let template = Template::parse(&text).map_err(|error| error.to_string())?;
            let definition = about.definition(&name, "uriTemplate", &text);
            accepts(Kind::ResourceTemplate, &definition)?;
            Ok(TemplateItem {
                name,
                template,
                definition,
                backing,
                mime_type: about.mime_type,
            })
        });
        made.map_err(refuse)
    }

    /// The executable behind a provider's name; none for plain files.
    fn provider(&mut self, name: Option<&str>) -> Result<Option<Program>, Refusal> {
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
                let found = self.guard.resolve(&base, &file)?;
                if !is_executable(&found) {
                    return Err(self.guard.refusal(&found.path, NOT_EXECUTABLE));
                }
                return self.program(&found, &base).map(Some);
            }
        }
        Err(Refusal::new(
            format!("providers/{name}"),
            "there is no such provider; besides `file`, a provider is an executable in `providers/`",
        ))
    }

    fn free_scheme(&self, uri: &str) -> Result<(), String> {
        let scheme = uri.split(':').next().unwrap_or_default();
        let ours = &self.reserved.schemes;
        if ours.iter().any(|one| one.eq_ignore_ascii_case(scheme)) {
            return Err(format!(
                "shadowed: `{scheme}:` is built in; use another scheme"
            ));
        }
        Ok(())
    }

    /// The file of the project that a URI names.
    fn path_in(&self, uri: &str) -> Option<String> {
        file_of(self.root, uri)
    }
}

fn last_part(uri: &str) -> String {
    let path = PathBuf::from(uri);
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
