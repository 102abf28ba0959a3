//! Exactly once: a change that a client asks for under an id of its own is made once, however often it is asked for.
//! Who asks again gets the answer of the first time: a client does so whose connection broke before the answer came.
//!
//! A book of bounded size has the answers. Those of changes that were made are kept with the state, in one piece with
//! the change, so that a daemon that is started anew knows both or neither.

use crate::state::stored::{Answered, digest};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Answers in the book; the oldest go first.
pub const MAX_ANSWERS: usize = 256;
/// Answers of one user.
pub const MAX_ANSWERS_OF_A_USER: usize = 64;
/// Octets of an id.
pub const MAX_ID_OCTETS: usize = 64;
/// Longer answers keep this many elements of each list.
const MAX_ANSWER_OCTETS: usize = 4096;
const LIST_ELEMENTS: usize = 8;
/// Texts are cut after so many octets then.
const TEXT_OCTETS: usize = 160;

type Answer = Result<String, String>;

/// Whose id, and the id.
type Key = (u32, String);

#[derive(Debug)]
struct Entry {
    key: Key,
    digest: String,
    /// `None` while it is under way.
    answer: Option<Answer>,
}

/// The book.
#[derive(Debug, Default)]
pub struct Book {
    entries: Mutex<VecDeque<Entry>>,
    settled: Condvar,
}

/// What becomes of a request with an id.
pub enum Begun {
    /// It is to be carried out.
    New(Ticket),
    /// It was carried out before, and this is the answer.
    Known(Answer),
    /// It cannot be.
    Refused(String),
}

/// A request that is being carried out under an id.
#[derive(Debug)]
pub struct Ticket {
    book: Arc<Book>,
    key: Key,
}

impl Book {
    /// With the answers that an earlier daemon kept.
    pub fn of(answered: &[Answered]) -> Arc<Self> {
        let entry = |a: &Answered| Entry {
            key: (a.user, a.id.clone()),
            digest: a.digest.clone(),
            answer: Some(Ok(a.answer.clone())),
        };
        Arc::new(Book { entries: Mutex::new(answered.iter().map(entry).collect()), settled: Condvar::new() })
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request, or waits for `patience` for the same one that is under way.
    pub fn begin(self: &Arc<Self>, user: u32, id: &str, request: &[u8], patience: Duration) -> Begun {
        if id.is_empty() || id.len() > MAX_ID_OCTETS || !id.bytes().all(|octet| octet.is_ascii_graphic()) {
            return Begun::Refused(format!(
                "an id is 1 to {MAX_ID_OCTETS} printable characters of ASCII without spaces"
            ));
        }
        let (key, digest) = ((user, id.to_owned()), digest(request));
        let is_under_way = |entries: &mut VecDeque<Entry>| {
            entries.iter().any(|entry| entry.key == key && entry.digest == digest && entry.answer.is_none())
        };
        let waited = self.settled.wait_timeout_while(self.entries(), patience, is_under_way);
        let mut entries = waited.unwrap_or_else(PoisonError::into_inner).0;
        match entries.iter().find(|entry| entry.key == key) {
            Some(entry) if entry.digest != digest => {
                Begun::Refused(format!("the id `{id}` was given to another request: choose a new one for each"))
            }
            Some(Entry { answer: Some(answer), .. }) => Begun::Known(answer.clone()),
            Some(_) => Begun::Refused(format!("the request of id `{id}` is still under way: ask again")),
            None => self.first(&mut entries, key, digest),
        }
    }

    fn first(self: &Arc<Self>, entries: &mut VecDeque<Entry>, key: Key, digest: String) -> Begun {
        if !make_room(entries, key.0) {
            return Begun::Refused("too many requests with ids are under way: ask again".to_owned());
        }
        entries.push_back(Entry { key: key.clone(), digest, answer: None });
        Begun::New(Ticket { book: self.clone(), key })
    }

    /// The answers of changes that were made, for the state.
    pub fn kept(&self) -> Vec<Answered> {
        let kept = |entry: &Entry| match &entry.answer {
            Some(Ok(answer)) => {
                let ((user, id), digest) = (entry.key.clone(), entry.digest.clone());
                Some(Answered { user, id, digest, answer: answer.clone() })
            }
            _ => None,
        };
        self.entries().iter().filter_map(kept).collect()
    }
}

/// Forgets old answers until there is room for one more of a user's; false if all that there is is under way.
fn make_room(entries: &mut VecDeque<Entry>, user: u32) -> bool {
    let own = |entry: &Entry| entry.key.0 == user;
    let oldest = |entries: &VecDeque<Entry>, of: &dyn Fn(&Entry) -> bool| {
        entries.iter().position(|entry| entry.answer.is_some() && of(entry))
    };
    while entries.iter().filter(|entry| own(entry)).count() >= MAX_ANSWERS_OF_A_USER {
        let Some(at) = oldest(entries, &own) else { return false };
        entries.remove(at);
    }
    while entries.len() >= MAX_ANSWERS {
        let Some(at) = oldest(entries, &|_| true) else { return false };
        entries.remove(at);
    }
    true
}

impl Ticket {
    /// It was carried out, with this answer. Only the first answer counts.
    pub fn settle(&self, answer: Answer) {
        let mut entries = self.book.entries();
        let own = entries.iter_mut().find(|entry| entry.key == self.key);
        if let Some(entry) = own.filter(|entry| entry.answer.is_none()) {
            entry.answer = Some(answer.map(shortened));
        }
        drop(entries);
        self.book.settled.notify_all();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Whoever carried it out has given up in the middle: nothing was done under this id.
        self.book.entries().retain(|entry| entry.key != self.key || entry.answer.is_some());
        self.book.settled.notify_all();
    }
}

/// An answer of bounded length: long lists and texts are cut, numbers stay.
fn shortened(answer: String) -> String {
    if answer.len() <= MAX_ANSWER_OCTETS {
        return answer;
    }
    let Ok(mut value) = serde_json::from_str(&answer) else { return answer };
    shorten(&mut value);
    value.to_string()
}

fn shorten(value: &mut Value) {
    match value {
        Value::Array(all) => {
            all.truncate(LIST_ELEMENTS);
            all.iter_mut().for_each(shorten);
        }
        Value::Object(members) => members.values_mut().for_each(shorten),
        Value::String(text) if text.len() > TEXT_OCTETS => {
            let cut = text.floor_char_boundary(TEXT_OCTETS);
            text.truncate(cut);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: Duration = Duration::ZERO;

    fn new(book: &Arc<Book>, user: u32, id: &str) -> Ticket {
        match book.begin(user, id, id.as_bytes(), NOW) {
            Begun::New(ticket) => ticket,
            _ => panic!("{id} is not new"),
        }
    }

    fn known(book: &Arc<Book>, user: u32, id: &str) -> Option<Answer> {
        match book.begin(user, id, id.as_bytes(), NOW) {
            Begun::Known(answer) => Some(answer),
            _ => None,
        }
    }

    fn refused(begun: Begun) -> String {
        match begun {
            Begun::Refused(why) => why,
            _ => panic!("it is not refused"),
        }
    }

    #[test]
    fn a_repeated_id_has_the_first_answer_and_stands_for_one_request_of_one_user() {
        let book = Book::of(&[]);
        let ticket = new(&book, 7, "a");
        assert!(refused(book.begin(7, "a", b"a", NOW)).contains("under way"));
        ticket.settle(Ok("first".to_owned()));
        ticket.settle(Ok("second".to_owned()));
        drop(ticket);
        assert_eq!(known(&book, 7, "a"), Some(Ok("first".to_owned())));
        assert!(refused(book.begin(7, "a", b"another", NOW)).contains("another request"));
        new(&book, 8, "a").settle(Err("no such link".to_owned()));
        assert_eq!(known(&book, 8, "a"), Some(Err("no such link".to_owned())));
        for id in ["", "a b", "\u{e9}", &"x".repeat(MAX_ID_OCTETS + 1)] {
            assert!(refused(book.begin(7, id, b"", NOW)).contains("printable"), "{id}");
        }
        // What was given up in the middle may be asked for again.
        drop(new(&book, 7, "b"));
        new(&book, 7, "b").settle(Ok("done".to_owned()));
        // Only what was done outlives the daemon.
        let ids: Vec<(u32, String)> = book.kept().into_iter().map(|kept| (kept.user, kept.id)).collect();
        assert_eq!(ids, [(7, "a".to_owned()), (7, "b".to_owned())]);
        let again = Book::of(&book.kept());
        assert_eq!((known(&again, 7, "a"), known(&again, 8, "a")), (Some(Ok("first".to_owned())), None));
    }

    #[test]
    fn who_asks_again_meanwhile_waits_for_the_answer() {
        let book = Book::of(&[]);
        let ticket = new(&book, 7, "a");
        let of_thread = book.clone();
        let waits = std::thread::spawn(move || match of_thread.begin(7, "a", b"a", Duration::from_secs(60)) {
            Begun::Known(answer) => answer,
            _ => panic!("it is not known"),
        });
        ticket.settle(Ok("done".to_owned()));
        assert_eq!(waits.join().unwrap(), Ok("done".to_owned()));
    }

    #[test]
    fn the_book_is_bounded_and_one_user_does_not_displace_the_others_answers() {
        let book = Book::of(&[]);
        new(&book, 1, "precious").settle(Ok("kept".to_owned()));
        for n in 0..10 * MAX_ANSWERS {
            new(&book, 2, &n.to_string()).settle(Ok("x".to_owned()));
        }
        assert_eq!(book.kept().len(), 1 + MAX_ANSWERS_OF_A_USER);
        assert!(known(&book, 1, "precious").is_some() && known(&book, 2, "2559").is_some());
        for user in 3..20 {
            (0..MAX_ANSWERS_OF_A_USER).for_each(|n| new(&book, user, &n.to_string()).settle(Ok("x".to_owned())));
        }
        assert_eq!(book.kept().len(), MAX_ANSWERS);
        // Those that are under way stay.
        let all: Vec<Ticket> = (0..MAX_ANSWERS_OF_A_USER).map(|n| new(&book, 50, &n.to_string())).collect();
        assert!(refused(book.begin(50, "more", b"", NOW)).contains("too many"));
        drop(all);
        new(&book, 50, "more");
    }

    #[test]
    fn a_long_answer_is_kept_in_short_with_its_numbers() {
        let changes: Vec<String> = (0..10_000).map(|n| format!("+ circuit {n}")).collect();
        let long = json!({ "revision": 7, "added": 10_000, "changes": changes, "why": "x".repeat(9000) }).to_string();
        let book = Book::of(&[]);
        new(&book, 7, "a").settle(Ok(long));
        let kept: Value = serde_json::from_str(&known(&book, 7, "a").unwrap().unwrap()).unwrap();
        assert_eq!((kept["revision"].as_u64(), kept["added"].as_u64()), (Some(7), Some(10_000)));
        assert!(kept.to_string().len() < MAX_ANSWER_OCTETS && kept["changes"][0] == "+ circuit 0", "{kept}");
    }
}
