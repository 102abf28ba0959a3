//! What somebody who looks at `top` has chosen: the view, its order, a filter, a row, a circuit to follow. In: keys. Out:
//! what is to be drawn, and whether to go on. No terminal is touched here.

use clap::ValueEnum;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Characters of a filter at most.
const FILTER: usize = 64;
/// Rows that a page key moves by.
const PAGE: isize = 10;

/// A view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tab {
    /// Rates, queues and drops of links.
    Links,
    /// Rates, alarms and users of circuits.
    Circuits,
    /// Calls of applications, and those through switches.
    Calls,
    /// Endpoints with user and program.
    Endpoints,
    /// Queues in which something waits.
    Queues,
    /// What was dropped, by place and reason.
    Drops,
    /// Alarms, and links that are down.
    Alarms,
}

impl Tab {
    /// All of them, in the order of their digits.
    pub(crate) const ALL: [Tab; 7] =
        [Tab::Links, Tab::Circuits, Tab::Calls, Tab::Endpoints, Tab::Queues, Tab::Drops, Tab::Alarms];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        ["links", "circuits", "calls", "endpoints", "queues", "drops", "alarms"][self as usize]
    }

    fn stepped(self, by: usize) -> Tab {
        Tab::ALL[(self as usize + by) % Tab::ALL.len()]
    }

    /// The order that a view begins with.
    fn first_sort(self) -> Sort {
        let by = |column, descending| Sort { column, descending };
        match self {
            Tab::Links | Tab::Calls | Tab::Alarms => by(0, false),
            Tab::Circuits | Tab::Queues => by(1, true),
            Tab::Endpoints => by(5, true),
            Tab::Drops => by(2, true),
        }
    }
}

/// The order of a view's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sort {
    /// The column, from 0.
    pub(crate) column: usize,
    /// The largest first.
    pub(crate) descending: bool,
}

/// What a key asks for besides what it changes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Go on.
    Continue,
    /// End.
    Quit,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub(crate) struct View {
    tab: Tab,
    sorts: [Sort; 7],
    filter: String,
    is_editing: bool,
    selected: Option<String>,
    follows: Option<String>,
    is_paused: bool,
    shows_help: bool,
}

impl View {
    /// Begins with a view; `follows`: with the hops of a circuit.
    pub(crate) fn new(tab: Tab, follows: Option<String>) -> Self {
        View {
            tab,
            sorts: Tab::ALL.map(Tab::first_sort),
            filter: String::new(),
            is_editing: false,
            selected: None,
            follows,
            is_paused: false,
            shows_help: false,
        }
    }

    /// The same with a filter.
    pub(crate) fn filtered(self, filter: &str) -> Self {
        View { filter: filter.chars().filter(|c| !c.is_control()).take(FILTER).collect(), ..self }
    }

    /// The view.
    pub(crate) fn tab(&self) -> Tab {
        self.tab
    }

    /// Its order.
    pub(crate) fn sort(&self) -> Sort {
        self.sorts[self.tab as usize]
    }

    /// Only rows with this in a column are shown.
    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    /// Whether keys go to the filter.
    pub(crate) fn is_editing(&self) -> bool {
        self.is_editing
    }

    /// The circuit that is followed.
    pub(crate) fn follows(&self) -> Option<&str> {
        self.follows.as_deref()
    }

    /// Whether new samples are not shown.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether the keys are shown instead of a table.
    pub(crate) fn shows_help(&self) -> bool {
        self.shows_help
    }

    /// The place of the row that is chosen among those that are shown: the first if it has gone.
    pub(crate) fn place(&self, keys: &[String]) -> usize {
        keys.iter().position(|key| Some(key) == self.selected.as_ref()).unwrap_or(0)
    }

    /// A key was pressed; `keys` of the rows that are shown, in their order, and how many columns they have.
    pub(crate) fn handle_key(&mut self, key: KeyEvent, keys: &[String], columns: usize) -> Wish {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c')) {
            return Wish::Quit;
        }
        if self.is_editing {
            self.edit(key.code);
            return Wish::Continue;
        }
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('?' | 'h') => self.shows_help = !self.shows_help,
            KeyCode::Esc if self.shows_help => self.shows_help = false,
            KeyCode::Esc if self.follows.is_some() => self.follows = None,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('/') => self.is_editing = true,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Enter => self.follow(keys),
            KeyCode::Char(digit @ '1'..='7') => self.show(Tab::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab | KeyCode::Right => self.show(self.tab.stepped(1)),
            KeyCode::BackTab | KeyCode::Left => self.show(self.tab.stepped(Tab::ALL.len() - 1)),
            KeyCode::Char('s' | '>') => self.sort_by(columns, 1),
            KeyCode::Char('S' | '<') => self.sort_by(columns, columns.saturating_sub(1)),
            KeyCode::Char('r') => self.sorts[self.tab as usize].descending ^= true,
            _ => self.step(key.code, keys),
        }
        Wish::Continue
    }

    fn show(&mut self, tab: Tab) {
        (self.tab, self.follows, self.selected, self.shows_help) = (tab, None, None, false);
    }

    fn edit(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_editing = false,
            KeyCode::Esc => (self.is_editing, self.filter) = (false, String::new()),
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Char(c) if self.filter.chars().count() < FILTER && !c.is_control() => self.filter.push(c),
            _ => {}
        }
    }

    /// Follows the circuit that is chosen.
    fn follow(&mut self, keys: &[String]) {
        if self.tab == Tab::Circuits && self.follows.is_none() {
            self.follows = keys.get(self.place(keys)).cloned();
        }
    }

    fn sort_by(&mut self, columns: usize, step: usize) {
        let sort = &mut self.sorts[self.tab as usize];
        sort.column = (sort.column + step) % columns.max(1);
        // Names begin with the first, figures with the largest.
        sort.descending = sort.column > 0;
    }

    fn step(&mut self, key: KeyCode, keys: &[String]) {
        let by = match key {
            KeyCode::Up | KeyCode::Char('k') => -1,
            KeyCode::Down | KeyCode::Char('j') => 1,
            KeyCode::PageUp => -PAGE,
            KeyCode::PageDown => PAGE,
            KeyCode::Home | KeyCode::Char('g') => isize::MIN,
            KeyCode::End | KeyCode::Char('G') => isize::MAX,
            _ => return,
        };
        let to = self.place(keys).saturating_add_signed(by).min(keys.len().saturating_sub(1));
        self.selected = keys.get(to).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(view: &mut View, keys: &[KeyCode], rows: &[&str]) -> Wish {
        let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        let press = |code: &KeyCode| view.handle_key(KeyEvent::new(*code, KeyModifiers::NONE), &rows, 4);
        keys.iter().map(press).last().unwrap()
    }

    #[test]
    fn digits_and_tab_choose_views_and_q_and_ctrl_c_end() {
        let mut view = View::new(Tab::Links, None);
        press(&mut view, &[KeyCode::Char('6')], &[]);
        assert_eq!(view.tab(), Tab::Drops);
        press(&mut view, &[KeyCode::Tab, KeyCode::Tab], &[]);
        assert_eq!(view.tab(), Tab::Links, "after the last comes the first");
        press(&mut view, &[KeyCode::BackTab], &[]);
        assert_eq!(view.tab(), Tab::Alarms);
        assert_eq!(press(&mut view, &[KeyCode::Char('q')], &[]), Wish::Quit);
        press(&mut view, &[KeyCode::Char('/')], &[]);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.handle_key(interrupt, &[], 4), Wish::Quit, "while a filter is written, too");
    }

    #[test]
    fn a_filter_takes_all_keys_until_enter_and_escape_clears_it() {
        let mut view = View::new(Tab::Links, None);
        press(&mut view, &[KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Char('1'), KeyCode::Backspace], &[]);
        assert!(view.is_editing() && view.filter() == "q" && view.tab() == Tab::Links);
        press(&mut view, &[KeyCode::Enter, KeyCode::Char('2')], &[]);
        assert!(!view.is_editing() && view.filter() == "q" && view.tab() == Tab::Circuits);
        press(&mut view, &[KeyCode::Esc], &[]);
        assert_eq!(view.filter(), "");
        press(&mut view, &[KeyCode::Char('/')], &[]);
        press(&mut view, &[KeyCode::Char('x'); 100], &[]);
        assert_eq!(view.filter().len(), FILTER, "it has a bound");
    }

    #[test]
    fn the_chosen_row_stays_chosen_when_rows_change_places() {
        let mut view = View::new(Tab::Circuits, None);
        press(&mut view, &[KeyCode::Down, KeyCode::Down], &["a", "b", "c"]);
        let keys = |all: &[&str]| all.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        assert_eq!(view.place(&keys(&["c", "a", "b"])), 0);
        assert_eq!(view.place(&keys(&["a", "b"])), 0, "it has gone");
        press(&mut view, &[KeyCode::End], &["a", "b", "c"]);
        press(&mut view, &[KeyCode::PageUp], &["a", "b", "c"]);
        assert_eq!(view.place(&keys(&["a", "b", "c"])), 0);
        press(&mut view, &[KeyCode::Down, KeyCode::Enter], &["a", "b", "c"]);
        assert_eq!(view.follows(), Some("b"));
        press(&mut view, &[KeyCode::Esc], &["a", "b", "c"]);
        assert_eq!(view.follows(), None);
    }

    #[test]
    fn columns_are_sorted_by_in_turn_and_the_order_turns() {
        let mut view = View::new(Tab::Links, None);
        assert_eq!(view.sort(), Sort { column: 0, descending: false });
        press(&mut view, &[KeyCode::Char('s')], &[]);
        assert_eq!(view.sort(), Sort { column: 1, descending: true });
        press(&mut view, &[KeyCode::Char('r')], &[]);
        assert_eq!(view.sort(), Sort { column: 1, descending: false });
        press(&mut view, &[KeyCode::Char('<'), KeyCode::Char('<')], &[]);
        assert_eq!(view.sort().column, 3, "before the first comes the last");
        press(&mut view, &[KeyCode::Char('2'), KeyCode::Char('1')], &[]);
        assert_eq!(view.sort().column, 3, "each view keeps its order");
    }
}
