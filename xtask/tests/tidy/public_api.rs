//! The public API of `mcp-notify`, written down in `crates/mcp-notify/public-api.txt`: a change of
//! it is seen in the change of that file. A lint (`unreachable_pub`) makes every `pub` item a
//! public one, so that the sources say it all; there is no need of a nightly rustdoc.

use std::{collections::BTreeSet, env, fs};

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Visibility};

use crate::tree::{File, files_named, root};

const SOURCES: &str = "crates/mcp-notify/src";
const WRITTEN: &str = "crates/mcp-notify/public-api.txt";

/// Every public item of a module, one line each.
struct Listing {
    module: String,
    types: BTreeSet<String>,
    lines: Vec<String>,
}

impl Listing {
    fn push(&mut self, attributes: &[Attribute], text: &str) {
        let told = ["cfg", "derive", "non_exhaustive", "must_use", "deprecated"];
        let attributes: String = attributes
            .iter()
            .filter(|one| told.iter().any(|name| one.path().is_ident(name)))
            .map(|one| format!("{} ", words(one)))
            .collect();
        let line = format!("{}: {attributes}{}", self.module, text.trim());
        self.lines.push(line);
    }

    fn items(&mut self, items: &[Item]) {
        for item in items {
            self.item(item);
        }
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Const(one) if is_public(&one.vis) => {
                let text = format!("pub const {}: {}", one.ident, words(&one.ty));
                self.push(&one.attrs, &text);
            }
            Item::Static(one) if is_public(&one.vis) => {
                let text = format!("pub static {}: {}", one.ident, words(&one.ty));
                self.push(&one.attrs, &text);
            }
            Item::Type(one) if is_public(&one.vis) => self.push(&one.attrs, &words_of(item)),
            Item::Use(one) if is_public(&one.vis) => self.push(&one.attrs, &words_of(item)),
            Item::Fn(one) if is_public(&one.vis) => {
                self.push(&one.attrs, &format!("pub {}", words(&one.sig)));
            }
            Item::Struct(one) if is_public(&one.vis) => {
                let generics = words(&one.generics);
                let bounds = words(&one.generics.where_clause);
                let name = format!("pub struct {}{generics} {bounds}", one.ident);
                self.push(&one.attrs, &name);
                self.fields(&format!("{}.", one.ident), &one.fields, true);
            }
            Item::Enum(one) if is_public(&one.vis) => {
                let generics = words(&one.generics);
                self.push(&one.attrs, &format!("pub enum {}{generics}", one.ident));
                for variant in &one.variants {
                    let name = format!("{}::{}", one.ident, variant.ident);
                    self.push(&variant.attrs, &name);
                    self.fields(&format!("{name}."), &variant.fields, false);
                }
            }
            Item::Trait(one) if is_public(&one.vis) => {
                let generics = words(&one.generics);
                let above = words(&one.supertraits);
                let name = format!("pub trait {}{generics}: {above}", one.ident);
                self.push(&one.attrs, &name);
                for member in &one.items {
                    let text = match member {
                        TraitItem::Fn(one) if one.default.is_some() => {
                            format!("{} {{ .. }}", words(&one.sig))
                        }
                        TraitItem::Fn(one) => words(&one.sig),
                        other => words(other),
                    };
                    self.push(&[], &format!("{}::{text}", one.ident));
                }
            }
            Item::Impl(one) if !is_test(&one.attrs) => self.implementation(one),
            Item::Mod(one) if !is_test(&one.attrs) => {
                if is_public(&one.vis) {
                    self.push(&one.attrs, &format!("pub mod {}", one.ident));
                }
                if let Some((_, items)) = &one.content {
                    self.items(items);
                }
            }
            Item::Macro(one)
                if one
                    .attrs
                    .iter()
                    .any(|one| one.path().is_ident("macro_export")) =>
            {
                self.push(&one.attrs, &format!("macro {:?}", one.ident));
            }
            _ => {}
        }
    }

    fn fields(&mut self, owner: &str, fields: &Fields, only_public: bool) {
        for (index, field) in fields.iter().enumerate() {
            if only_public && !is_public(&field.vis) {
                continue;
            }
            let name =
                (field.ident.as_ref()).map_or_else(|| index.to_string(), ToString::to_string);
            self.push(
                &field.attrs,
                &format!("{owner}{name}: {}", words(&field.ty)),
            );
        }
    }

    fn implementation(&mut self, one: &ItemImpl) {
        let generics = words(&one.generics);
        let bounds = words(&one.generics.where_clause);
        let of = words(&one.self_ty);
        if let Some((name, _)) = &one.trait_ {
            if !self.is_of_a_public_type(one) {
                return;
            }
            let text = format!("impl{generics} {} for {of} {bounds}", words(name));
            self.push(&one.attrs, &text);
            return;
        }
        for member in &one.items {
            match member {
                ImplItem::Fn(one) if is_public(&one.vis) => {
                    let text = format!("impl{generics} {of} {bounds}: pub {}", words(&one.sig));
                    self.push(&one.attrs, &text);
                }
                ImplItem::Const(one) if is_public(&one.vis) => {
                    let text = format!("impl{generics} {of}: pub const {}", one.ident);
                    self.push(&one.attrs, &text);
                }
                _ => {}
            }
        }
    }
}

impl Listing {
    fn is_of_a_public_type(&self, one: &ItemImpl) -> bool {
        match &*one.self_ty {
            syn::Type::Path(path) => (path.path.segments.last())
                .is_none_or(|last| self.types.contains(&last.ident.to_string())),
            _ => true,
        }
    }
}

/// The names of all public types.
fn public_types(files: &[syn::File]) -> BTreeSet<String> {
    let items = files.iter().flat_map(|file| &file.items);
    items
        .filter_map(|item| match item {
            Item::Struct(one) if is_public(&one.vis) => Some(one.ident.to_string()),
            Item::Enum(one) if is_public(&one.vis) => Some(one.ident.to_string()),
            _ => None,
        })
        .collect()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|one| words(one) == "#[cfg(test)]")
}

/// An item without its documentation.
fn words_of(item: &Item) -> String {
    let mut item = item.clone();
    match &mut item {
        Item::Use(one) => one.attrs.clear(),
        Item::Type(one) => one.attrs.clear(),
        _ => {}
    }
    words(&item)
}

/// The tokens, spaced as people do.
fn words(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (spaced, tight) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" [", "["),
        ("[ ", "["),
        (" ]", "]"),
        (" ,", ","),
        (" ;", ";"),
        (" :", ":"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        ("& ", "&"),
        (", >", ">"),
        (",)", ")"),
    ] {
        text = text.replace(spaced, tight);
    }
    text
}

fn listed() -> String {
    let mut text = String::new();
    let mut files = files_named(SOURCES, ".rs");
    files.retain(|file| !file.path.ends_with("tests.rs"));
    let parse = |file: &File| {
        syn::parse_file(&file.text).unwrap_or_else(|error| panic!("{}: {error}", file.path))
    };
    let parsed: Vec<_> = files.iter().map(parse).collect();
    let types = public_types(&parsed);
    for (file, parsed) in files.iter().zip(&parsed) {
        let module = file
            .path
            .trim_start_matches(SOURCES)
            .trim_start_matches('/');
        let mut listing = Listing {
            module: module.trim_end_matches(".rs").replace('/', "::"),
            types: types.clone(),
            lines: Vec::new(),
        };
        listing.items(&parsed.items);
        listing.lines.sort();
        for line in listing.lines {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

#[test]
fn the_public_api_of_the_library_is_as_it_was() {
    let listed = listed();
    let path = root().join(WRITTEN);
    if env::var_os("UPDATE_API").is_some() {
        fs::write(&path, &listed).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let new: Vec<_> = listed
        .lines()
        .filter(|line| !written.contains(line))
        .collect();
    let gone: Vec<_> = written
        .lines()
        .filter(|line| !listed.contains(line))
        .collect();
    assert!(
        written == listed,
        "the public API of mcp-notify is another one; if that is meant, say so in CHANGELOG.md, and: \
         UPDATE_API=1 cargo test -p xtask public_api\nnew: {new:#?}\ngone: {gone:#?}"
    );
    for known in [
        "pub struct Session",
        "impl Session : pub fn push(",
        "pub trait NotificationSink",
    ] {
        assert!(listed.contains(known), "the list does not know `{known}`");
    }
}
