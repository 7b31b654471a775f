//! Which tools are offered: the operator's choice.

use super::tools::{self, Entry};

/// Tools that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Toolset {
    /// The kubeconfig.
    Config,
    /// Pods, nodes, resources of any kind, what changed.
    Core,
    /// Events, asked for or subscribed to.
    Events,
    /// Faults and their evidence.
    Faults,
}

const TOOLSETS: [(&str, Toolset); 4] = [
    ("config", Toolset::Config),
    ("core", Toolset::Core),
    ("events", Toolset::Events),
    ("faults", Toolset::Faults),
];

/// What a client may call. All there is, unless it says otherwise.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    toolsets: Option<Vec<Toolset>>,
    disabled: Vec<String>,
}

/// A choice that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOffer {
    /// The setting.
    pub key: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it may be.
    pub expected: String,
}

// === impl Offer ===

impl Offer {
    /// Only these sets, if any are named, and without these tools. Names that are not
    /// ours may be `others'`: a project's.
    pub fn new(
        toolsets: Option<Vec<String>>,
        disabled: Vec<String>,
        others: bool,
    ) -> Result<Self, BadOffer> {
        let toolsets = toolsets.map(|names| {
            let each = names.into_iter().map(|name| {
                let known = TOOLSETS.iter().find(|(known, _)| *known == name.trim());
                known.map(|(_, set)| *set).ok_or_else(|| BadOffer {
                    key: "toolsets",
                    value: name,
                    expected: format!("among {}", TOOLSETS.map(|(name, _)| name).join(", ")),
                })
            });
            each.collect::<Result<_, _>>()
        });
        let stranger = |name: &&String| tools::find(name).is_none();
        if let Some(name) = disabled.iter().find(stranger).filter(|_| !others) {
            let names: Vec<_> = tools::TOOLS.iter().map(|entry| entry.name).collect();
            return Err(BadOffer {
                key: "disabled-tools",
                value: name.clone(),
                expected: format!("among {}", names.join(", ")),
            });
        }
        Ok(Self {
            toolsets: toolsets.transpose()?,
            disabled,
        })
    }

    /// Whether one of our own tools may be called.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        let chosen = |sets: &Vec<Toolset>| sets.contains(&toolset(entry.name));
        self.toolsets.as_ref().is_none_or(chosen) && self.allows(entry.name)
    }

    /// Whether a tool of that name, whosever, may be called.
    pub(super) fn allows(&self, name: &str) -> bool {
        !self.disabled.iter().any(|disabled| disabled == name)
    }
}

/// The set of a tool, by its name.
#[cfg(test)]
pub(super) fn toolset_name(tool: &str) -> &'static str {
    let set = toolset(tool);
    let found = TOOLSETS.iter().find(|(_, one)| *one == set);
    found.map_or("", |(name, _)| name)
}

fn toolset(tool: &str) -> Toolset {
    match tool.split('_').next() {
        Some("configuration") => Toolset::Config,
        Some("events") => Toolset::Events,
        Some("faults") => Toolset::Faults,
        _ => Toolset::Core,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(toolsets: Option<&[&str]>, disabled: &[&str]) -> Vec<&'static str> {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        let offer = Offer::new(toolsets.map(words), words(disabled), false).unwrap();
        let entries = tools::TOOLS.iter().filter(|entry| offer.has(entry));
        entries.map(|entry| entry.name).collect()
    }

    #[test]
    fn the_operator_chooses() {
        assert_eq!(offered(None, &[]).len(), tools::TOOLS.len());
        assert_eq!(
            offered(Some(&["config"]), &[]),
            ["configuration_contexts_list"]
        );
        assert_eq!(offered(Some(&["faults"]), &["faults_get"]), ["faults_list"]);
        let core = offered(Some(&["core"]), &["pods_log"]);
        assert!(core.contains(&"pods_list") && !core.contains(&"pods_log"));
        let every = offered(Some(&["config", "core", "events", "faults"]), &[]);
        assert_eq!(every.len(), tools::TOOLS.len());
    }

    #[test]
    fn a_name_that_means_nothing_is_refused() {
        let bad = Offer::new(Some(vec!["helm".to_owned()]), Vec::new(), false).unwrap_err();
        assert_eq!(
            (bad.key, bad.expected.as_str()),
            ("toolsets", "among config, core, events, faults")
        );
        let typo = || vec!["pods_lst".to_owned()];
        let bad = Offer::new(None, typo(), false).unwrap_err();
        assert!(bad.key == "disabled-tools" && bad.expected.contains("pods_list"));
        // A project may have a tool of any name.
        assert!(!Offer::new(None, typo(), true).unwrap().allows("pods_lst"));
    }
}
