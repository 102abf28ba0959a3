//! The page of the crate `endpoint`: about thirty items, each with an example, and no type of a foreign crate.

use bindings::root;
use std::fs;
use syn::{Attribute, Item, UseTree, Visibility};

/// Crates whose types must not stand where a user sees them.
const FOREIGN: [&str; 3] = ["rustix ::", "serde_json ::", "Errno"];

fn parsed(file: &str) -> syn::File {
    syn::parse_file(&fs::read_to_string(root().join("crates/endpoint/src").join(file)).unwrap()).unwrap()
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    let text = |a: &Attribute| match &a.meta {
        syn::Meta::List(list) => list.path.is_ident("doc") && list.tokens.to_string() == "hidden",
        _ => false,
    };
    attributes.iter().any(text)
}

fn docs(attributes: &[Attribute]) -> String {
    let line = |a: &Attribute| match &a.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value() + "\n"),
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(line).collect()
}

fn names(tree: &UseTree, out: &mut Vec<String>) {
    match tree {
        UseTree::Path(path) => names(&path.tree, out),
        UseTree::Group(group) => group.items.iter().for_each(|tree| names(tree, out)),
        UseTree::Name(name) => out.push(name.ident.to_string()),
        UseTree::Rename(name) => out.push(name.rename.to_string()),
        UseTree::Glob(_) => out.push("*".into()),
    }
}

/// What the crate's root shows: items, and modules.
fn shown() -> (Vec<String>, Vec<String>) {
    let (mut items, mut modules) = (Vec::new(), Vec::new());
    for item in parsed("lib.rs").items {
        match item {
            Item::Use(used) if matches!(used.vis, Visibility::Public(_)) && !is_hidden(&used.attrs) => {
                names(&used.tree, &mut items);
            }
            Item::Mod(module) if matches!(module.vis, Visibility::Public(_)) && !is_hidden(&module.attrs) => {
                modules.push(module.ident.to_string());
            }
            Item::Struct(item) if matches!(item.vis, Visibility::Public(_)) => items.push(item.ident.to_string()),
            _ => {}
        }
    }
    (items, modules)
}

/// All sources of the crate.
fn sources() -> Vec<syn::File> {
    let mut folders = vec![root().join("crates/endpoint/src")];
    let mut out = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                out.push(syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap());
            }
        }
    }
    out
}

#[test]
fn the_crates_root_shows_about_thirty_items_and_two_modules() {
    let (items, modules) = shown();
    assert!((20..=35).contains(&items.len()), "{}: {items:?}", items.len());
    assert_eq!(modules, ["calls", "direct"]);
}

#[test]
fn each_item_that_is_shown_has_an_example() {
    let (items, _) = shown();
    let sources = sources();
    let mut without = Vec::new();
    for name in items.iter().filter(|name| !["CircuitId", "SOCKET_VARIABLE"].contains(&name.as_str())) {
        let has = |item: &Item| match item {
            Item::Struct(item) if item.ident == name => docs(&item.attrs).contains("```"),
            Item::Enum(item) if item.ident == name => docs(&item.attrs).contains("```"),
            Item::Fn(item) if item.sig.ident == name => docs(&item.attrs).contains("```"),
            _ => false,
        };
        if !sources.iter().flat_map(|file| &file.items).any(has) {
            without.push(name);
        }
    }
    assert!(without.is_empty(), "without an example: {without:?}");
}

/// The methods of a type that a user sees, as their signatures are written.
fn methods(of: &str, sources: &[syn::File]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for item in sources.iter().flat_map(|file| &file.items) {
        let Item::Impl(block) = item else { continue };
        let syn::Type::Path(path) = &*block.self_ty else { continue };
        if block.trait_.is_some() || path.path.segments.last().unwrap().ident != of {
            continue;
        }
        for item in &block.items {
            if let syn::ImplItem::Fn(method) = item
                && matches!(method.vis, Visibility::Public(_))
                && !is_hidden(&method.attrs)
            {
                all.push((method.sig.ident.to_string(), signature(&method.sig)));
            }
        }
    }
    all
}

fn signature(signature: &syn::Signature) -> String {
    let mut text = String::new();
    let mut add = |kind: &syn::Type| {
        if let syn::Type::Path(path) = kind {
            let words = path.path.segments.iter().map(|s| s.ident.to_string()).collect::<Vec<_>>().join(" :: ");
            text.push_str(&words);
            text.push(' ');
        }
    };
    let mut kinds: Vec<&syn::Type> = signature
        .inputs
        .iter()
        .filter_map(|input| if let syn::FnArg::Typed(typed) = input { Some(&*typed.ty) } else { None })
        .collect();
    if let syn::ReturnType::Type(_, kind) = &signature.output {
        kinds.push(kind);
    }
    while let Some(kind) = kinds.pop() {
        add(kind);
        match kind {
            syn::Type::Reference(of) => kinds.push(&of.elem),
            syn::Type::Tuple(of) => kinds.extend(&of.elems),
            syn::Type::Path(path) => {
                for segment in &path.path.segments {
                    if let syn::PathArguments::AngleBracketed(inner) = &segment.arguments {
                        kinds.extend(inner.args.iter().filter_map(|argument| {
                            if let syn::GenericArgument::Type(kind) = argument { Some(kind) } else { None }
                        }));
                    }
                }
            }
            _ => {}
        }
    }
    text
}

#[test]
fn no_signature_has_a_type_of_a_foreign_crate() {
    let (items, _) = shown();
    let sources = sources();
    let mut bad = Vec::new();
    let mut seen = 0;
    for of in items.iter().map(String::as_str).chain(["Sender", "Receiver", "Message"]) {
        for (name, text) in methods(of, &sources) {
            seen += 1;
            if FOREIGN.iter().any(|foreign| text.contains(foreign)) || text.split(' ').any(|word| word == "Value") {
                bad.push(format!("{of}::{name}: {text}"));
            }
        }
    }
    assert!(seen > 80, "{seen} methods");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
