//! The hand-written header and the library agree: each prototype, each code.

use bindings::root;
use std::collections::BTreeMap;
use std::fs;

/// The functions of a header, each with its types: those of what it gives, then of its parameters.
fn declared(header: &str) -> BTreeMap<String, Vec<String>> {
    let mut text = String::new();
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("/*") {
        text.push_str(before);
        rest = after.split_once("*/").unwrap().1;
    }
    text.push_str(rest);
    let code: String = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join(" ");
    let statements = code.split(';').filter(|s| s.contains("cellway_") && s.trim_end().ends_with(')'));
    statements.map(|statement| prototype(statement.rsplit(['{', '}']).next().unwrap())).collect()
}

fn prototype(statement: &str) -> (String, Vec<String>) {
    let (head, parameters) = statement.trim().trim_end_matches(')').split_once('(').unwrap();
    let (name, gives) = named(head);
    let parameters = parameters.split(',').filter(|p| p.trim() != "void").map(|p| named(p).1);
    (name, std::iter::once(gives).chain(parameters).collect())
}

/// A name, and its type without blanks around stars.
fn named(declaration: &str) -> (String, String) {
    let declaration = declaration.trim();
    let at = declaration.rfind(|c: char| !c.is_alphanumeric() && c != '_').unwrap() + 1;
    let kind = declaration[..at].split_whitespace().collect::<Vec<_>>().join(" ");
    (declaration[at..].to_owned(), kind.replace(" *", "*").replace("* ", "*"))
}

/// The functions that the sources export, in C's words.
fn exported() -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(root().join("bindings/c/src")).unwrap() {
        let file = syn::parse_file(&fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap();
        for item in file.items {
            if let syn::Item::Fn(function) = item
                && function.sig.abi.is_some()
            {
                let gives = match &function.sig.output {
                    syn::ReturnType::Default => "void".to_owned(),
                    syn::ReturnType::Type(_, kind) => in_c(kind),
                };
                let parameters = function.sig.inputs.iter().map(|input| match input {
                    syn::FnArg::Typed(typed) => in_c(&typed.ty),
                    syn::FnArg::Receiver(_) => panic!("a method is no function of C"),
                });
                all.insert(function.sig.ident.to_string(), std::iter::once(gives).chain(parameters).collect());
            }
        }
    }
    all
}

fn in_c(kind: &syn::Type) -> String {
    match kind {
        syn::Type::Ptr(pointer) => {
            let constant = if pointer.const_token.is_some() { "const " } else { "" };
            format!("{constant}{}*", in_c(&pointer.elem))
        }
        syn::Type::Path(path) => match path.path.segments.last().unwrap().ident.to_string().as_str() {
            "c_int" => "int",
            "c_char" => "char",
            "c_void" => "void",
            "usize" => "size_t",
            "u32" => "uint32_t",
            "u64" => "uint64_t",
            "Buffer" => "cellway_buffer",
            "Loan" => "cellway_loan",
            "Sdu" => "cellway_sdu",
            "Call" => "cellway_call",
            "EndpointHandle" => "cellway_endpoint",
            "DirectHandle" => "cellway_direct",
            "Session" => "cellway_session",
            "EndpointOptions" => "cellway_endpoint_options",
            "CircuitOptions" => "cellway_circuit_options",
            "DirectOptions" => "cellway_direct_options",
            other => panic!("what is {other} in C?"),
        }
        .to_owned(),
        _ => panic!("a type that C does not have"),
    }
}

fn header() -> String {
    fs::read_to_string(root().join("bindings/c/include/cellway.h")).unwrap()
}

#[test]
fn each_function_has_the_prototype_that_the_header_declares() {
    let (declared, mut exported) = (declared(&header()), exported());
    // Its body is made by a macro.
    exported.insert("cellway_strerror".into(), vec!["const char*".into(), "int".into()]);
    assert!(exported.len() > 40, "{exported:?}");
    for (name, types) in &exported {
        assert_eq!(Some(types), declared.get(name), "{name}");
    }
    for name in declared.keys() {
        assert!(exported.contains_key(name), "{name} is declared, and there is no such function");
    }
}

#[test]
fn a_prototype_that_differs_is_seen() {
    let one = declared("int cellway_x(const void *data, size_t octets);");
    assert_eq!(one["cellway_x"], ["int", "const void*", "size_t"]);
    assert_eq!(declared("char *cellway_y(void);")["cellway_y"], ["char*"]);
}

#[test]
fn each_code_is_the_headers() {
    let source = fs::read_to_string(root().join("bindings/c/src/error.rs")).unwrap();
    let codes = source.split_once("codes! {").unwrap().1.split_once("\n}").unwrap().0;
    let header = header();
    let mut n = 0;
    for line in codes.lines().filter(|line| line.contains(" = ")) {
        let (name, rest) = line.trim().split_once(" = ").unwrap();
        let code = rest.split_once(':').unwrap().0;
        assert!(header.contains(&format!("#define CELLWAY_{name} {code}\n")), "{name} = {code}");
        n += 1;
    }
    assert_eq!(header.matches("#define CELLWAY_").count() - others(&header), n);
}

/// What the header defines besides codes.
fn others(header: &str) -> usize {
    let words = ["SDU_", "PATH_", "EVENTS_", "AAL", "OAM ", "SPIN_", "BOTH_WAYS", "SEND_ONLY", "RECEIVE_ONLY", "H\n"];
    words.iter().map(|word| header.matches(&format!("#define CELLWAY_{word}")).count()).sum()
}
