//! Timed waits of tests: a thread sleeps, and then the test takes for granted that something has happened. A test waits for a
//! condition instead, and looks again and again until a bound has passed.

use syn::visit::{self, Visit};

/// Calls that only let time pass.
const SLEEPS: [&str; 3] = ["sleep", "park_timeout", "nanosleep"];
/// A loop that names one of these ends at a bound, or with what it accompanies.
const BOUNDS: [&str; 5] = ["elapsed", "now", "goes_on", "is_finished", "load"];
/// Functions that look at a condition until a bound has passed.
const UNTIL: [&str; 3] = ["until", "within", "wait_until"];

/// The functions of a source that have a timed wait, each as often as it has one.
///
/// # Panics
/// If it is no Rust.
pub fn timed_waits(source: &str) -> Vec<String> {
    let file = syn::parse_file(source).unwrap_or_else(|e| panic!("{e}"));
    let mut waits = Waits::default();
    waits.visit_file(&file);
    waits.found
}

#[derive(Default)]
struct Waits {
    functions: Vec<String>,
    /// Loops and calls around that have a bound.
    bounded: usize,
    found: Vec<String>,
}

impl Waits {
    fn in_function(&mut self, name: &syn::Ident, block: &syn::Block) {
        self.functions.push(name.to_string());
        let around = std::mem::take(&mut self.bounded);
        self.visit_block(block);
        self.bounded = around;
        self.functions.pop();
    }

    fn in_loop(&mut self, names: Names, inside: impl FnOnce(&mut Self)) {
        let has_bound = names.0.iter().any(|name| BOUNDS.contains(&name.as_str()));
        self.within(has_bound, inside);
    }

    fn within(&mut self, has_bound: bool, inside: impl FnOnce(&mut Self)) {
        self.bounded += usize::from(has_bound);
        inside(self);
        self.bounded -= usize::from(has_bound);
    }
}

impl<'a> Visit<'a> for Waits {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.in_function(&item.sig.ident, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.in_function(&item.sig.ident, &item.block);
    }

    fn visit_expr_while(&mut self, it: &'a syn::ExprWhile) {
        self.in_loop(names(|names| names.visit_expr_while(it)), |waits| visit::visit_expr_while(waits, it));
    }

    fn visit_expr_loop(&mut self, it: &'a syn::ExprLoop) {
        self.in_loop(names(|names| names.visit_expr_loop(it)), |waits| visit::visit_expr_loop(waits, it));
    }

    fn visit_expr_for_loop(&mut self, it: &'a syn::ExprForLoop) {
        self.in_loop(names(|names| names.visit_expr_for_loop(it)), |waits| visit::visit_expr_for_loop(waits, it));
    }

    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        let path = if let syn::Expr::Path(path) = &*call.func { path.path.segments.last() } else { None };
        let name = path.map(|last| last.ident.to_string()).unwrap_or_default();
        if SLEEPS.contains(&name.as_str()) && self.bounded == 0 {
            self.found.push(self.functions.last().cloned().unwrap_or_default());
        }
        self.within(UNTIL.contains(&name.as_str()), |waits| visit::visit_expr_call(waits, call));
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        let has_bound = UNTIL.contains(&call.method.to_string().as_str());
        self.within(has_bound, |waits| visit::visit_expr_method_call(waits, call));
    }
}

/// All names in a piece of code, those in the arguments of macros too.
#[derive(Default)]
struct Names(Vec<String>);

fn names(visit: impl FnOnce(&mut Names)) -> Names {
    let mut names = Names::default();
    visit(&mut names);
    names
}

impl<'a> Visit<'a> for Names {
    fn visit_ident(&mut self, ident: &'a syn::Ident) {
        self.0.push(ident.to_string());
    }

    fn visit_macro(&mut self, it: &'a syn::Macro) {
        let text = it.tokens.to_string();
        self.0.extend(text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_timed_wait_is_named_with_its_function() {
        let source = "fn planted() { go(); std::thread::sleep(Duration::from_millis(50)); assert!(done()); }
            impl A { fn other(&self) { for _ in 0..3 { thread::sleep(D); } } }";
        assert_eq!(timed_waits(source), ["planted", "other"]);
    }

    #[test]
    fn a_condition_that_is_looked_at_until_a_bound_is_none() {
        let bounded = "fn a() { while !done() { assert!(begin.elapsed() < LIMIT); sleep(D); } }
            fn b() { loop { if done() || Instant::now() > end { break; } sleep(D); } }
            fn c() { until(\"it is done\", || { sleep(D); done() }); }
            fn d() { while attack.goes_on() { send(); sleep(D); } }";
        assert_eq!(timed_waits(bounded), [""; 0]);
        assert_eq!(timed_waits("fn a() { while !done() { sleep(D); } }"), ["a"], "it has no bound");
        let behind = "fn a() { while !done() { assert!(begin.elapsed() < LIMIT); } sleep(D); }";
        assert_eq!(timed_waits(behind), ["a"], "it is behind the loop");
        let inside = "fn a() { while begin.elapsed() < LIMIT { fn b() { sleep(D); } } }";
        assert_eq!(timed_waits(inside), ["b"], "a function of its own");
    }
}
