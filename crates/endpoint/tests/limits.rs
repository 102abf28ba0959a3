//! A service that does not answer: every request of the library has an end.

use endpoint::client::set_request_limit;
use endpoint::control::{Request, Response};
use endpoint::seqpacket::Packets;
use endpoint::{Connection, Endpoint, EndpointConfig, Error};
use serde_json::json;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);

fn silent<T>(result: Result<T, Error>) -> Duration {
    match result {
        Err(Error::NoAnswer { waited, .. }) => waited,
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("an answer"),
    }
}

#[test]
fn a_service_that_does_not_answer_is_given_up_when_the_limit_has_passed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = Packets::listen(&path).unwrap();
    assert!(silent(Connection::open_within(&path, LIMIT)) >= LIMIT);
    assert!(silent(Endpoint::create_within(&path, &EndpointConfig::default(), LIMIT)) >= LIMIT);
    // So many wait that there is no room for one more.
    let mut waiting = Vec::new();
    while let Some(packets) = Packets::try_connect(&path).unwrap() {
        waiting.push(packets);
    }
    assert!(silent(Connection::open_within(&path, LIMIT)) >= LIMIT);
    drop((listener, waiting));
    assert!(matches!(Connection::open_within(&path, LIMIT), Err(Error::NoService { .. })));
}

#[test]
fn after_a_request_without_an_answer_the_connection_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = Packets::listen(&path).unwrap();
    let (ended, ends) = channel();
    // It greets, and then says nothing until its client has ended the connection.
    let service = std::thread::spawn(move || {
        let client = loop {
            if let Some(client) = Packets::accept(&listener).unwrap() {
                break client;
            }
            std::thread::yield_now();
        };
        let mut asked = 0;
        loop {
            match client.receive::<Request>() {
                Ok(Some((Request::Hello { .. }, _))) => {
                    let version = endpoint::negotiate::VERSION;
                    client.send(&Response::Welcome { version, features: Vec::new() }, &[]).unwrap();
                }
                Ok(Some(_)) => asked += 1,
                Ok(None) => std::thread::yield_now(),
                Err(_) => break ended.send(asked).unwrap(),
            }
        }
    });
    let connection = Connection::open_within(&path, LONG).unwrap();
    set_request_limit(LIMIT);
    assert!(silent(connection.manage(json!("status"))) >= LIMIT);
    // A late answer is not taken for that of another request: none is sent any more.
    assert_eq!(silent(connection.manage(json!("status"))), Duration::ZERO);
    assert_eq!(ends.recv().unwrap(), 1);
    service.join().unwrap();
}

#[test]
fn a_path_that_no_socket_can_have_says_the_limit() {
    let path = PathBuf::from(format!("/tmp/{}", "x".repeat(120)));
    let e = Connection::open_within(&path, LONG).unwrap_err().to_string();
    assert!(e.contains("125 octets") && e.contains("107"), "{e}");
}
