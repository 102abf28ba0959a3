//! The Python module: its own tests with and without a daemon, its echo, its types, its schema.

use bindings::{Daemon, has_python, programs, python_package, root, run};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// python3 that imports the package of a folder.
fn python(folder: &Path) -> Command {
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", folder).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(folder);
    python
}

/// Runs a file of the package's tests; what it skipped is told.
fn unittest(mut python: Command, file: &str) {
    let path = root().join("bindings/python/tests").join(file);
    let output = python.arg("-W").arg("error").arg(path.canonicalize().unwrap()).arg("-v").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("\nOK"), "{said}");
    let skipped = said.lines().filter(|line| line.contains("... skipped")).count();
    if skipped > 0 {
        println!("skipped: {skipped} tests of {file}: numpy or scapy is not installed (pip install numpy scapy)");
    }
}

#[test]
fn the_module_does_what_needs_no_service() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    python_package(folder.path()).unwrap();
    unittest(python(folder.path()), "test_direct.py");
}

#[test]
fn the_module_does_what_needs_a_service() {
    if !has_python() {
        return;
    }
    let daemon = Daemon::start().unwrap();
    python_package(daemon.folder()).unwrap();
    let mut python = python(daemon.folder());
    python.env("CELLWAY_SOCKET", daemon.socket()).env("CELLWAY_PROGRAM", programs().unwrap().join("cellway"));
    unittest(python, "test_service.py");
}

#[test]
fn the_echo_in_python_sends_back_what_comes() {
    if !has_python() {
        return;
    }
    let daemon = Daemon::start().unwrap();
    python_package(daemon.folder()).unwrap();
    let echo = root().join("bindings/python/examples/echo.py").canonicalize().unwrap();
    daemon.echoes(python(daemon.folder()).arg(echo)).unwrap();
}

#[test]
fn the_types_name_all_that_the_module_has_and_nothing_else() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    python_package(folder.path()).unwrap();
    let program = r#"
import ast, cellway._cellway as module
names = lambda of: {name for name in dir(of) if not name.startswith("_")}
tree = ast.parse(open("cellway/_cellway.pyi").read())
typed, members = {"__version__"}, {}
for node in tree.body:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        typed.add(node.name)
    if isinstance(node, ast.ClassDef):
        rows = [row for row in node.body if isinstance(row, ast.FunctionDef)]
        members[node.name] = {row.name for row in rows if not row.name.startswith("_")}
assert typed - {"__version__"} == names(module), typed ^ names(module)
for name, rows in members.items():
    kind = getattr(module, name)
    if not issubclass(kind, Exception):
        assert rows == names(kind), (name, rows ^ names(kind))
print("done")
"#;
    assert_eq!(run(python(folder.path()).args(["-c", program])).unwrap(), "done\n");
}

#[test]
fn the_client_has_the_requests_and_types_of_the_schema() {
    if !has_python() {
        return;
    }
    let schema = Command::new(programs().unwrap().join("cellway")).arg("schema").output().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("schema"), schema.stdout).unwrap();
    let mut generator = Command::new(root().join("bindings/python/generate-schema"));
    generator.stdin(Stdio::from(fs::File::open(folder.path().join("schema")).unwrap()));
    let output = generator.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made = String::from_utf8(output.stdout).unwrap();
    let kept = fs::read_to_string(root().join("bindings/python/cellway/_schema.py")).unwrap();
    let cure = "cellway schema | bindings/python/generate-schema > bindings/python/cellway/_schema.py";
    assert!(made == kept, "the schema has changed: {cure}");
}
