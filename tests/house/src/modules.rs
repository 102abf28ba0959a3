//! The modules of a crate and who imports from whom, read from its sources. Modules for tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::punctuated::Punctuated;
use syn::visit::Visit;

/// A module's path from the crate's root: empty for the root itself.
pub type Name = Vec<String>;

/// Re-exports are followed so far.
const MAX_REEXPORTS: usize = 16;

/// A crate's modules.
#[derive(Debug, Default)]
pub struct Modules(BTreeMap<Name, Module>);

/// What one module has.
#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    defines: BTreeSet<String>,
    /// Names that `use` brings in, and what they stand for.
    imports: Vec<(String, Vec<String>)>,
    globs: Vec<Vec<String>>,
    /// Paths in its code.
    paths: Vec<Vec<String>>,
}

/// One module imports from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// Who.
    pub from: Name,
    /// From whom.
    pub to: Name,
    /// What it writes.
    pub path: String,
}

impl Modules {
    /// Reads the crate whose root is this file.
    ///
    /// # Panics
    /// A source file cannot be read: a test is to fail then.
    pub fn read(root: &Path) -> Self {
        let mut modules = Modules::default();
        let folder = root.parent().map(Path::to_path_buf).unwrap_or_default();
        let text = std::fs::read_to_string(root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
        modules.add(&[], root, &folder, &text);
        modules
    }

    /// A crate of one text, for tests of this reader.
    pub fn of_text(text: &str) -> Self {
        let mut modules = Modules::default();
        modules.add(&[], Path::new("lib.rs"), Path::new(""), text);
        modules
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    fn add(&mut self, name: &[String], file: &Path, folder: &Path, text: &str) {
        let parsed = syn::parse_file(text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        self.add_items(name, file, folder, &parsed.items);
    }

    fn add_items(&mut self, name: &[String], file: &Path, folder: &Path, items: &[syn::Item]) {
        let mut module = Module { file: file.to_path_buf(), ..Module::default() };
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            if let syn::Item::Mod(inner) = item {
                let inner_name = inner.ident.to_string();
                module.defines.insert(inner_name.clone());
                let child: Name = name.iter().cloned().chain([inner_name.clone()]).collect();
                match &inner.content {
                    Some((_, items)) => self.add_items(&child, file, &folder.join(&inner_name), items),
                    None => {
                        let beside = folder.join(format!("{inner_name}.rs"));
                        let within = folder.join(&inner_name).join("mod.rs");
                        let path = if beside.exists() { beside } else { within };
                        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                        self.add(&child, &path, &folder.join(&inner_name), &text);
                    }
                }
            } else {
                module.read(item);
            }
        }
        self.0.insert(name.to_vec(), module);
    }

    /// All imports between two modules, each pair once.
    pub fn imports(&self) -> Vec<Import> {
        let mut found: BTreeMap<(Name, Name), String> = BTreeMap::new();
        for (from, module) in &self.0 {
            let imported = module.imports.iter().map(|(_, path)| path).chain(&module.globs);
            for path in imported.chain(&module.paths) {
                if let Some(to) = self.resolve(from, path, MAX_REEXPORTS).filter(|to| to != from) {
                    found.entry((from.clone(), to)).or_insert_with(|| path.join("::"));
                }
            }
        }
        found.into_iter().map(|((from, to), path)| Import { from, to, path }).collect()
    }

    /// The module that defines what a path in `from` names; `None` for what is not of this crate.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Name> {
        let mut at = from.to_vec();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            // A module beneath this one; what else begins without a keyword is a name that `use` has brought in, or a crate.
            first => {
                let child: Name = at.iter().cloned().chain([first.to_owned()]).collect();
                if !self.0.contains_key(&child) {
                    return None;
                }
            }
        }
        while let Some(word) = rest.first() {
            let child: Name = at.iter().cloned().chain([word.clone()]).collect();
            if !self.0.contains_key(&child) {
                break;
            }
            (at, rest) = (child, &rest[1..]);
        }
        let module = self.0.get(&at)?;
        let Some(word) = rest.first().filter(|word| !module.defines.contains(*word)) else { return Some(at) };
        // A name that the module has from elsewhere counts as an import from there.
        let elsewhere = depth.checked_sub(1).and_then(|depth| {
            let named = module.imports.iter().find(|(name, _)| name == word).map(|(_, path)| path.clone());
            let globs = module.globs.iter().filter_map(|glob| {
                let of = self.resolve(&at, glob, depth)?;
                self.0
                    .get(&of)
                    .is_some_and(|module| module.has(word))
                    .then(|| ["crate".to_owned()].into_iter().chain(of).chain([word.clone()]).collect::<Vec<_>>())
            });
            let path = named.or_else(|| globs.into_iter().next())?;
            self.resolve(&at, &path, depth)
        });
        elsewhere.or(Some(at))
    }

    /// The file of a module.
    pub fn file(&self, name: &[String]) -> Option<&Path> {
        self.0.get(name).map(|module| module.file.as_path())
    }
}

impl Module {
    fn has(&self, name: &str) -> bool {
        self.defines.contains(name) || self.imports.iter().any(|(imported, _)| imported == name)
    }

    fn read(&mut self, item: &syn::Item) {
        if let syn::Item::Use(used) = item {
            self.add_use(&mut Vec::new(), &used.tree);
            return;
        }
        let ident = match item {
            syn::Item::Const(i) => Some(&i.ident),
            syn::Item::Enum(i) => Some(&i.ident),
            syn::Item::Fn(i) => Some(&i.sig.ident),
            syn::Item::Macro(i) => i.ident.as_ref(),
            syn::Item::Static(i) => Some(&i.ident),
            syn::Item::Struct(i) => Some(&i.ident),
            syn::Item::Trait(i) => Some(&i.ident),
            syn::Item::TraitAlias(i) => Some(&i.ident),
            syn::Item::Type(i) => Some(&i.ident),
            syn::Item::Union(i) => Some(&i.ident),
            _ => None,
        };
        self.defines.extend(ident.map(ToString::to_string));
        Paths(self).visit_item(item);
    }

    fn add_use(&mut self, before: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_use(before, &path.tree);
                before.pop();
            }
            syn::UseTree::Name(name) => self.add_import(before, &name.ident, &name.ident),
            syn::UseTree::Rename(rename) => self.add_import(before, &rename.ident, &rename.rename),
            syn::UseTree::Glob(_) => self.globs.push(before.clone()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(before, tree)),
        }
    }

    fn add_import(&mut self, before: &[String], what: &syn::Ident, called: &syn::Ident) {
        let mut path = before.to_vec();
        if what == "self" {
            let name = if called == "self" { path.last().cloned().unwrap_or_default() } else { called.to_string() };
            self.imports.push((name, path));
        } else {
            path.push(what.to_string());
            self.imports.push((called.to_string(), path));
        }
    }
}

/// Collects the paths in code, in macros' arguments too.
struct Paths<'a>(&'a mut Module);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.0.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, used: &'ast syn::Macro) {
        self.visit_path(&used.path);
        let words = used.tokens.to_string();
        for path in words.replace(" :: ", "::").split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            let path: Vec<String> = path.split("::").filter(|word| !word.is_empty()).map(str::to_owned).collect();
            if path.len() > 1 {
                self.0.paths.push(path);
            }
        }
    }

    fn visit_item_use(&mut self, used: &'ast syn::ItemUse) {
        self.0.add_use(&mut Vec::new(), &used.tree);
    }

    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(i) => &i.attrs,
        syn::Item::Enum(i) => &i.attrs,
        syn::Item::Fn(i) => &i.attrs,
        syn::Item::Impl(i) => &i.attrs,
        syn::Item::Macro(i) => &i.attrs,
        syn::Item::Mod(i) => &i.attrs,
        syn::Item::Static(i) => &i.attrs,
        syn::Item::Struct(i) => &i.attrs,
        syn::Item::Trait(i) => &i.attrs,
        syn::Item::Type(i) => &i.attrs,
        syn::Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// Whether an item is only in builds for tests: those of `test` and of `loom`.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args().is_ok_and(|meta: syn::Meta| !may_be(&meta, true))
    })
}

/// Whether a condition may be `wanted` in a build that is not for tests. Of other conditions than those nothing is known.
fn may_be(condition: &syn::Meta, wanted: bool) -> bool {
    let syn::Meta::List(list) = condition else {
        let for_tests = ["test", "loom"].iter().any(|word| condition.path().is_ident(word));
        return !(wanted && for_tests);
    };
    let parts = Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
    let Ok(parts) = list.parse_args_with(parts) else { return true };
    let mut parts = parts.iter();
    if list.path.is_ident("not") {
        parts.all(|part| may_be(part, !wanted))
    } else if list.path.is_ident(if wanted { "all" } else { "any" }) {
        parts.all(|part| may_be(part, wanted))
    } else {
        parts.any(|part| may_be(part, wanted))
    }
}

/// Sets of modules each of which reaches the others by imports, of more than one module (Tarjan's components).
pub fn cycles(edges: &BTreeMap<Name, BTreeSet<Name>>) -> Vec<Vec<Name>> {
    let reach = |from: &Name| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(at) = open.pop() {
            for next in edges.get(&at).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&Name, BTreeSet<Name>> = edges.keys().map(|name| (name, reach(name))).collect();
    let mut sets: BTreeSet<Vec<Name>> = BTreeSet::new();
    for (name, all) in &reached {
        if all.contains(*name) {
            let back = |other: &&Name| reached.get(*other).is_some_and(|set| set.contains(*name));
            sets.insert(all.iter().filter(back).cloned().collect());
        }
    }
    sets.into_iter().filter(|set| set.len() > 1).collect()
}

/// The folders' view: for each module, the imports between those directly beneath it, each taken with all beneath it. A module
/// and those beneath it are one thing to the outside, so that what passes between them is no import of this view.
pub fn between_siblings(imports: &[Import]) -> BTreeMap<Name, Vec<(Import, Name, Name)>> {
    let mut all: BTreeMap<Name, Vec<(Import, Name, Name)>> = BTreeMap::new();
    for import in imports {
        let shared = import.from.iter().zip(&import.to).take_while(|(a, b)| a == b).count();
        if shared == import.from.len() || shared == import.to.len() {
            continue;
        }
        let side = |name: &Name| name[..=shared].to_vec();
        let parent = import.from[..shared].to_vec();
        all.entry(parent).or_default().push((import.clone(), side(&import.from), side(&import.to)));
    }
    all
}
