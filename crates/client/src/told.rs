//! Which incidents were told: each once, until it is over, also by one process after the other.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

/// Incidents that are remembered. Beyond that all are forgotten: one that is told once more
/// does no harm.
const KNOWN_MAX: usize = 10_000;

/// The words for [`Known`] in a file.
const WORDS: [(&str, Known); 2] = [("told", Known::Told), ("open", Known::OpenBefore)];

/// The incidents that are open, and whether they were told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    known: HashMap<Key, Known>,
    file: Option<PathBuf>,
    /// What there was before is known, from a list or from the file.
    has_begun: bool,
}

/// An incident: ids are derived from causes, so two clusters may have the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) cluster: String,
    pub(crate) id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It was told.
    Told,
    /// It was open before anybody listened, and is told if it changes.
    OpenBefore,
}

/// What a transition of an incident means for those who are told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// It is news.
    Tell,
    /// It was told; this is how it is now.
    Update,
    /// It was told, and is over.
    Over,
    /// It is over, and was never told.
    Nothing,
}

/// The open incidents of a cluster when a subscription begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenList<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) ids: &'a [&'a str],
    /// Whether these are all.
    pub(crate) is_complete: bool,
}

/// The file of told incidents cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot use `{}` for what was told: {error}\nhint: --told names a file in a folder that is there",
    path.display()
)]
pub struct ToldFileError {
    path: PathBuf,
    error: io::Error,
}

// === impl Told ===

impl Told {
    /// Goes on where an earlier process ended. A file that is not there is made: what is open
    /// then counts as known.
    pub(crate) fn from_file(path: &Path) -> Result<Self, ToldFileError> {
        let mut told = Self {
            file: Some(path.to_owned()),
            ..Self::default()
        };
        match fs::read_to_string(path) {
            Ok(text) => {
                told.known = text.lines().filter_map(parse).take(KNOWN_MAX).collect();
                told.has_begun = true;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(told_file_error(path, error)),
        }
        // A folder that cannot be written is said now, and not at the first incident.
        told.save()?;
        Ok(told)
    }

    /// Takes the lists of a new subscription, and returns the incidents that are news: those
    /// that were opened while nobody listened. A list that is cut accuses nobody.
    pub(crate) fn on_open(
        &mut self,
        lists: &[OpenList<'_>],
    ) -> Result<HashSet<Key>, ToldFileError> {
        let mut news = HashSet::new();
        for list in lists {
            let keys = list.ids.iter().map(|&id| Key {
                cluster: list.cluster.to_owned(),
                id: id.to_owned(),
            });
            let keys: HashSet<_> = keys.collect();
            if list.is_complete {
                self.known
                    .retain(|key, _| key.cluster != list.cluster || keys.contains(key));
            }
            for key in keys {
                if self.known.contains_key(&key) {
                    continue;
                }
                let is_news = self.has_begun && list.is_complete;
                let state = if is_news {
                    news.insert(key.clone());
                    Known::Told
                } else {
                    Known::OpenBefore
                };
                self.insert(key, state);
            }
        }
        self.has_begun = true;
        self.save()?;
        Ok(news)
    }

    /// Takes a transition.
    pub(crate) fn on_transition(
        &mut self,
        key: &Key,
        transition: &str,
    ) -> Result<Telling, ToldFileError> {
        let before = self.known.get(key).copied();
        let telling = match (transition, before) {
            ("resolved", Some(Known::Told)) => Telling::Over,
            ("resolved", _) => Telling::Nothing,
            (_, Some(Known::Told)) => Telling::Update,
            (_, _) => Telling::Tell,
        };
        match telling {
            Telling::Tell => self.insert(key.clone(), Known::Told),
            Telling::Over | Telling::Nothing => drop(self.known.remove(key)),
            Telling::Update => return Ok(telling),
        }
        self.save()?;
        Ok(telling)
    }

    fn insert(&mut self, key: Key, state: Known) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(key, state);
    }

    /// Replaces the file in one step, so that whoever reads it finds all of it.
    fn save(&self) -> Result<(), ToldFileError> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        // An empty file says that nothing was open.
        if !self.has_begun {
            return match path.parent() {
                Some(folder) if folder.as_os_str().is_empty() || folder.is_dir() => Ok(()),
                _ => Err(told_file_error(path, io::ErrorKind::NotFound.into())),
            };
        }
        let mut lines: Vec<_> = self.known.iter().map(line).collect();
        lines.sort_unstable();
        let mut part = path.clone().into_os_string();
        part.push(".part");
        fs::write(&part, lines.concat())
            .and_then(|()| fs::rename(&part, path))
            .map_err(|error| told_file_error(path, error))
    }
}

fn told_file_error(path: &Path, error: io::Error) -> ToldFileError {
    ToldFileError {
        path: path.to_owned(),
        error,
    }
}

/// The name of a context may have any character but a line break.
fn line((key, known): (&Key, &Known)) -> String {
    let word = WORDS.iter().find(|(_, one)| one == known);
    let word = word.map_or("told", |(word, _)| word);
    format!("{} {word} {}\n", key.id, key.cluster)
}

fn parse(line: &str) -> Option<(Key, Known)> {
    let mut parts = line.splitn(3, ' ');
    let (id, word, cluster) = (parts.next()?, parts.next()?, parts.next()?);
    let (_, known) = WORDS.iter().find(|(one, _)| *one == word)?;
    let key = Key {
        cluster: cluster.to_owned(),
        id: id.to_owned(),
    };
    Some((key, *known))
}

#[cfg(test)]
mod tests;
