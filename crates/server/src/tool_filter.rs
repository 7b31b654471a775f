//! The operator's filter of tools: toolsets and disabled tools, and those that cannot work
//! with what else is excluded. `doors` has what is off with them.

use super::{
    doors::{self, Door, ReadVerb, Setting, SwitchedOff},
    shared_reads::{NotPerCaller, SharedRead},
    tools::{self, ToolEntry},
};
use kubecrier_k8s::{ClusterIdentity, DeniedKinds, RefusedKind};

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
    /// Tools that other settings leave nothing to give.
    unusable: Vec<(&'static str, Setting)>,
    /// As whom callers act in clusters.
    identity: ClusterIdentity,
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
            unusable: Vec::new(),
            identity: ClusterIdentity::default(),
        })
    }

    /// Excludes the tools that have nothing to give where kinds are denied, or where the
    /// server is confined to some namespaces.
    #[must_use]
    pub fn within(mut self, denied: &DeniedKinds, is_confined: bool) -> Self {
        let without_kinds = doors::without_kinds(denied).into_iter();
        self.unusable
            .extend(without_kinds.map(|tool| (tool, Setting::DeniedKinds)));
        if is_confined {
            let cluster_wide = doors::CLUSTER_WIDE.into_iter();
            self.unusable
                .extend(cluster_wide.map(|tool| (tool, Setting::AllowedNamespaces)));
        }
        self
    }

    /// Where callers act in clusters as themselves, excludes what is read for all of them
    /// together.
    #[must_use]
    pub fn for_identity(mut self, identity: ClusterIdentity) -> Self {
        self.identity = identity;
        self
    }

    /// Whether callers may get what is read for all of them together.
    pub(super) fn check_shared(&self, read: SharedRead) -> Result<(), NotPerCaller> {
        if self.identity.is_impersonate() && !read.is_open_to_callers() {
            let what = read.what().to_owned();
            return Err(NotPerCaller { what });
        }
        Ok(())
    }

    /// Whether logs may be read.
    pub fn shows_logs(&self) -> bool {
        self.check(Door::FaultLogs).is_ok()
    }

    /// Whether the names of contexts may be listed.
    pub fn shows_contexts(&self) -> bool {
        self.check(Door::ContextNames).is_ok()
    }

    /// Whether a built-in tool may be called.
    pub(super) fn includes(&self, entry: &ToolEntry) -> bool {
        self.excluded_by(entry.name).is_none()
    }

    /// Why a tool may not be called, built in or not.
    pub(super) fn check_tool(&self, name: &str) -> Result<(), SwitchedOff> {
        match self.excluded_by(name) {
            None => Ok(()),
            Some(setting) => Err(SwitchedOff {
                what: format!("tool `{name}` is"),
                tool: name.to_owned(),
                setting,
            }),
        }
    }

    /// Whether a door is open: one of the tools that give the same is on.
    pub(super) fn check(&self, door: Door) -> Result<(), SwitchedOff> {
        self.check_any(door.what(), door.tools())
    }

    /// Whether all tools are on that something needs.
    pub(super) fn check_all(&self, what: &str, tools: &[&'static str]) -> Result<(), SwitchedOff> {
        tools
            .iter()
            .try_for_each(|tool| self.check_any(what, &[tool]))
    }

    /// The kinds that generic tools refuse: their own tools are off.
    pub(super) fn refused_kinds(&self, verb: ReadVerb) -> Vec<RefusedKind> {
        doors::refused_kinds(verb, |tool| self.check_any("the kind is", &[tool]).err())
    }

    fn check_any(&self, what: &str, tools: &[&'static str]) -> Result<(), SwitchedOff> {
        let mut excluded = None;
        for tool in tools {
            match self.excluded_by(tool) {
                None => return Ok(()),
                Some(setting) => excluded = excluded.or(Some((*tool, setting))),
            }
        }
        let Some((tool, setting)) = excluded else {
            return Ok(());
        };
        Err(SwitchedOff {
            what: what.to_owned(),
            tool: tool.to_owned(),
            setting,
        })
    }

    /// The setting that excludes a tool. Those of a project belong to no set.
    fn excluded_by(&self, name: &str) -> Option<Setting> {
        // Without incidents there is nothing to wait for.
        if name == tools::FAULTS_WAIT
            && let Some(setting) = self.excluded_by("faults_list")
        {
            return Some(setting);
        }
        let is_left_out = |sets: &Vec<Toolset>| !sets.contains(&toolset(name));
        let is_built_in = tools::find(name).is_some();
        if !self.allows(name) {
            return Some(Setting::DisabledTools);
        }
        if is_built_in && self.toolsets.as_ref().is_some_and(is_left_out) {
            return Some(Setting::Toolsets);
        }
        let mut unusable = self.unusable.iter();
        let found = unusable.find(|(tool, _)| *tool == name);
        let setting = found.map(|(_, setting)| *setting);
        let shared = SharedRead::of_tool(name).filter(|_| is_built_in);
        let is_closed = shared.is_some_and(|read| self.check_shared(read).is_err());
        setting.or(is_closed.then_some(Setting::ClusterIdentity))
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
        assert_eq!(
            offered(Some(&["faults"]), &["faults_get"]),
            ["faults_list", "faults_wait"]
        );
        let core = offered(Some(&["core"]), &["pods_log"]);
        assert!(core.contains(&"pods_list") && !core.contains(&"pods_log"));
        let every = offered(Some(&["config", "core", "events", "faults"]), &[]);
        assert_eq!(every.len(), tools::TOOLS.len());
    }

    fn filter(toolsets: Option<&[&str]>, disabled: &[&str]) -> ToolFilter {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        ToolFilter::new(toolsets.map(words), words(disabled), false).unwrap()
    }

    /// Each door is shut when all tools that give the same are off, whatever setting does it,
    /// and its refusal names the setting.
    #[test]
    fn a_door_is_open_as_long_as_a_tool_gives_the_same() {
        for door in Door::ALL {
            let tools = door.tools();
            assert!(
                tools.iter().all(|tool| tools::find(tool).is_some()),
                "{door:?}"
            );
            assert!(filter(None, &[]).check(door).is_ok());
            let refused = filter(None, tools).check(door).unwrap_err();
            assert_eq!(refused.setting, Setting::DisabledTools, "{door:?}");
            assert!(
                refused.to_string().contains("--disabled-tools"),
                "{refused}"
            );
            for tool in tools {
                let others: Vec<_> = tools.iter().filter(|one| *one != tool).copied().collect();
                assert!(filter(None, &others).check(door).is_ok(), "{door:?}");
            }
            let set = toolset_name(tools[0]);
            assert!(filter(Some(&[set]), &[]).check(door).is_ok(), "{door:?}");
            let other = if set == "config" { "core" } else { "config" };
            let refused = filter(Some(&[other]), &[]).check(door).unwrap_err();
            assert!(refused.to_string().contains("--toolsets"), "{refused}");
        }
    }

    #[test]
    fn tools_that_have_nothing_to_give_are_not_offered() {
        let off = |kinds: &[&str], confined: bool| {
            let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
            let denied = DeniedKinds::new(&kinds).unwrap();
            let filter = filter(None, &[]).within(&denied, confined);
            let off = tools::TOOLS.iter().filter(|entry| !filter.includes(entry));
            off.map(|entry| entry.name).collect::<Vec<_>>()
        };
        assert_eq!(off(&[], false), Vec::<&str>::new());
        assert_eq!(off(&[], true), ["nodes_list", "nodes_top"]);
        assert_eq!(off(&["no"], false), ["nodes_list", "nodes_top"]);
        assert_eq!(off(&["Secret", "ns"], false), ["namespaces_list"]);
        let pods = off(&["po"], false);
        let expected = [
            "faults_get",
            "faults_list",
            "faults_wait",
            "pods_get",
            "pods_list",
            "pods_log",
            "pods_top",
        ];
        assert_eq!(pods, expected);
        let events = off(&["events.events.k8s.io"], false);
        assert!(events.contains(&"events_list") && events.contains(&"faults_get"));
        assert_eq!(off(&["pods.metrics.k8s.io"], false), ["pods_top"]);
    }

    #[test]
    fn a_generic_tool_refuses_what_has_a_tool_of_its_own_that_is_off() {
        let refused = |disabled: &[&str], verb| {
            let refused = filter(None, disabled).refused_kinds(verb);
            let names = refused.iter().map(|one| (one.group, one.plural));
            names.collect::<Vec<_>>()
        };
        assert_eq!(refused(&[], ReadVerb::List), []);
        let events = [("", "events"), ("events.k8s.io", "events")];
        assert_eq!(refused(&["events_list"], ReadVerb::List), events);
        assert_eq!(refused(&["events_list"], ReadVerb::Get), events);
        assert_eq!(refused(&["pods_get"], ReadVerb::List), []);
        assert_eq!(refused(&["pods_get"], ReadVerb::Get), [("", "pods")]);
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
