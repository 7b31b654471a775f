//! The operator's filter of tools: toolsets and disabled tools.

use super::tools::{self, ToolEntry};

/// Tools that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Toolset {
    /// The kubeconfig.
    Config,
    /// Pods, nodes, resources of any kind, what changed.
    Core,
    /// Events, listed or subscribed to.
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

/// The tools that clients may call; by default all of them.
#[derive(Clone, Debug, Default)]
pub struct ToolFilter {
    toolsets: Option<Vec<Toolset>>,
    disabled: Vec<String>,
}

/// A choice that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidToolFilter {
    /// The setting.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// The values that are valid.
    pub expected: String,
}

// === impl ToolFilter ===

impl ToolFilter {
    /// Includes only the tools of these sets, if any are named, and excludes the
    /// disabled ones. With `others`, disabled names may be those of a project's tools.
    pub fn new(
        toolsets: Option<Vec<String>>,
        disabled: Vec<String>,
        others: bool,
    ) -> Result<Self, InvalidToolFilter> {
        let toolsets = toolsets.map(|names| {
            let each = names.into_iter().map(|name| {
                let known = TOOLSETS.iter().find(|(known, _)| *known == name.trim());
                known.map(|(_, set)| *set).ok_or_else(|| InvalidToolFilter {
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
            return Err(InvalidToolFilter {
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

    /// Whether a built-in tool may be called.
    pub(super) fn includes(&self, entry: &ToolEntry) -> bool {
        let chosen = |sets: &Vec<Toolset>| sets.contains(&toolset(entry.name));
        self.toolsets.as_ref().is_none_or(chosen) && self.allows(entry.name)
    }

    /// Whether a tool of that name may be called, built in or not.
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
        let tool_filter = ToolFilter::new(toolsets.map(words), words(disabled), false).unwrap();
        let entries = tools::TOOLS
            .iter()
            .filter(|entry| tool_filter.includes(entry));
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
        let bad = ToolFilter::new(Some(vec!["helm".to_owned()]), Vec::new(), false).unwrap_err();
        assert_eq!(
            (bad.key, bad.expected.as_str()),
            ("toolsets", "among config, core, events, faults")
        );
        let typo = || vec!["pods_lst".to_owned()];
        let bad = ToolFilter::new(None, typo(), false).unwrap_err();
        assert!(bad.key == "disabled-tools" && bad.expected.contains("pods_list"));
        // A project may have a tool of any name.
        assert!(
            !ToolFilter::new(None, typo(), true)
                .unwrap()
                .allows("pods_lst")
        );
    }
}
