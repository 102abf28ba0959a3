//! ATM over TCP by TLS between running programs: two of ours, and OpenSSL's `s_client` and `s_server` with the frames in
//! the test's hands.

use interop::frames::{self, free_port};
use interop::peer::Peer;
use interop::up::Up;
use interop::{have, pattern};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::CircuitId;

const WAIT: Duration = Duration::from_secs(30);

/// A folder of PEM files: an authority `ca.pem`, and for `alpha`, `beta`, `gate` (of that authority) and `stranger` (of another)
/// `NAME.pem` and `NAME.key`.
fn certificates() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let authority = |name: &str| {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let (known, unknown) = (authority("the authority"), authority("another authority"));
    std::fs::write(folder.path().join("ca.pem"), known.pem()).unwrap();
    for (name, issuer) in [("alpha", &known), ("beta", &known), ("gate", &known), ("stranger", &unknown)] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([format!("{name}.example"), "127.0.0.1".into()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, issuer).unwrap();
        std::fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    folder
}

/// A network of one host with one circuit to outside, by TLS.
fn network(host: &str, atmtcp: &str, pem: &Path) -> String {
    let pem = pem.display();
    format!(
        "[host.{host}]\n[outside.far]\n[[link]]\nends = [\"{host}\", \"far\"]\natmtcp = \"{atmtcp}\"\n\
         tls = {{ certificate = \"{pem}/{host}.pem\", key = \"{pem}/{host}.key\", trust = \"{pem}/ca.pem\" }}\n\
         [[circuit]]\nends = [\"{host} 0.100\", \"far 0.100\"]\n"
    )
}

fn link_state(up: &Up) -> String {
    String::from_utf8_lossy(&up.run("link list").stdout).into_owned()
}

fn until_state(up: &Up, what: &str) {
    let deadline = Instant::now() + WAIT;
    while !link_state(up).contains(what) {
        assert!(Instant::now() < deadline, "never {what:?}:\n{}", link_state(up));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A file from a host of one network to a host of another, on 0.100 of both, whole and unchanged.
fn send_file((near, from): (&Up, &str), (far, to): (&Up, &str)) {
    let file = pattern(3_000_000);
    std::fs::write(near.path("file"), &file).unwrap();
    let mut receiver = far.start_command(&format!("receive {to} 0.100 got --reliable"));
    far.wait_for_endpoints(1, WAIT);
    let sent = near.run(&format!("send {from} 0.100 file --reliable"));
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let (status, said) = receiver.wait(WAIT).unwrap();
    assert!(status.success(), "{said:?}");
    assert!(std::fs::read(far.path("got")).unwrap() == file, "the file arrived changed");
}

#[test]
fn a_link_by_url_with_certificates_carries_a_file_and_a_stranger_gets_no_link() {
    let pem = certificates();
    let port = free_port();
    let near = Up::new(&network("alpha", &format!("listen 127.0.0.1:{port}"), pem.path()));
    let far = Up::new("[host.beta]\n");
    let add = |who: &str| {
        let folder = pem.path().display();
        let files = format!("--certificate {folder}/{who}.pem --key {folder}/{who}.key --trust {folder}/ca.pem");
        let added = far.run(&format!("link add atmtcp-tls://127.0.0.1:{port} {files}"));
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        String::from_utf8(added.stdout).unwrap()
    };
    // The only host of its network is where the link leads from.
    let outside = format!("connect-127-0-0-1-{port}");
    let said = add("stranger");
    assert!(said.contains("beta:0") && said.contains(&outside), "{said}");
    until_state(&far, "add it to the peer's `trust`");
    until_state(&near, "`trust` does not have");
    let name = said.trim().strip_prefix("added ").unwrap().to_owned();
    let removed = far.command("link remove").arg(&name).output().unwrap();
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));

    add("beta");
    until_state(&near, "by TLS");
    let ends = ["beta 0.100".to_owned(), format!("{outside} 0.100")];
    let added = far.command("circuit add").args(&ends).output().unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    send_file((&far, "beta"), (&near, "alpha"));
}

#[test]
fn a_relay_that_is_connected_to_and_connects_by_tls_carries_a_file_and_a_stranger_gets_no_link() {
    let pem = certificates();
    let port = free_port();
    let far = Up::new(&network("beta", &format!("listen 127.0.0.1:{port}"), pem.path()));
    let mut relay = Command::new(interop::program::cellway().unwrap());
    relay.current_dir(pem.path()).args([
        "relay",
        "atmtcp-tls-listen://127.0.0.1:0",
        &format!("atmtcp-tls://127.0.0.1:{port}"),
    ]);
    relay.args(["--certificate", "gate.pem", "--key", "gate.key", "--trust", "ca.pem"]);
    let mut relay = Peer::start(&mut relay).unwrap();
    let line = relay.wait_for("link 0: listening on ", WAIT).unwrap();
    let gate = line.rsplit_once(':').unwrap().1.to_owned();
    until_state(&far, "by TLS");

    let stranger = Up::new(&network("stranger", &format!("connect 127.0.0.1:{gate}"), pem.path()));
    until_state(&stranger, "add it to the peer's `trust`");
    relay.wait_for("`trust` does not have", WAIT).unwrap();
    drop(stranger);

    let near = Up::new(&network("alpha", &format!("connect 127.0.0.1:{gate}"), pem.path()));
    until_state(&near, "by TLS");
    send_file((&near, "alpha"), (&far, "beta"));

    assert!(Command::new("kill").args(["-INT", &relay.id().to_string()]).status().unwrap().success());
    let (status, said) = relay.wait(WAIT).unwrap();
    let rows = said.iter().filter(|line| line.contains(" by TLS ") && line.contains("connected to")).count();
    assert!(status.success() && rows >= 2, "{said:?}");
}

/// OpenSSL, with the octets inside TLS at its standard input and output.
struct OpenSsl(Child);

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl OpenSsl {
    fn start(words: &str, pem: &Path) -> Self {
        let mut command = Command::new(interop::find("openssl").unwrap());
        command.args(words.split(' ')).current_dir(pem).stderr(Stdio::null());
        OpenSsl(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn send(&mut self, circuit: CircuitId, octets: &[u8]) {
        let stdin = self.0.stdin.as_mut().unwrap();
        frames::send(stdin, circuit, octets);
        stdin.flush().unwrap();
    }

    /// The next frame of a circuit; control texts are passed over.
    fn receive(&mut self) -> (CircuitId, Vec<u8>) {
        let stdout = self.0.stdout.as_mut().unwrap();
        loop {
            let (circuit, octets) = frames::receive(stdout);
            if circuit != CircuitId::default() {
                return (circuit, octets);
            }
        }
    }
}

/// SDUs both ways between `cellway` and a peer.
fn exchange(up: &Up, peer: &mut OpenSsl) {
    let circuit: CircuitId = "0.100".parse().unwrap();
    for octets in [1, 48, 9180, 65_535] {
        let sdu = pattern(octets);
        // The sender of the SDU before may not be forgotten yet, and an endpoint is there before its circuit is open.
        up.wait_for_endpoints(0, WAIT);
        let mut receiver: Peer = up.start_command("receive alpha 0.100 got --count 1");
        up.wait_for_endpoints(1, WAIT);
        peer.send(circuit, &sdu);
        let (status, said) = receiver.wait(WAIT).unwrap();
        assert!(status.success(), "{said:?}");
        assert!(std::fs::read(up.path("got")).unwrap() == sdu, "{octets} octets from OpenSSL");
        std::fs::write(up.path("file"), &sdu).unwrap();
        let sent = up.run("send alpha 0.100 file --pdu 65535");
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        assert!(peer.receive() == (circuit, sdu), "{octets} octets to OpenSSL");
    }
}

#[test]
fn openssl_s_client_carries_frames_and_without_a_certificate_of_the_authority_none() {
    if !have(&[("openssl", "openssl")]) {
        return;
    }
    let pem = certificates();
    let port = free_port();
    let up = Up::new(&network("alpha", &format!("listen 127.0.0.1:{port}"), pem.path()));
    let client = format!("s_client -connect 127.0.0.1:{port} -CAfile ca.pem -verify_return_error -quiet -nocommands");
    for (identity, reason) in
        [("", "shows no certificate"), (" -cert stranger.pem -key stranger.key", "`trust` does not have")]
    {
        let mut refused = OpenSsl::start(&format!("{client}{identity}"), pem.path());
        until_state(&up, reason);
        let mut nothing = Vec::new();
        refused.0.stdout.as_mut().unwrap().read_to_end(&mut nothing).unwrap();
        assert!(nothing.is_empty());
    }
    let mut peer = OpenSsl::start(&format!("{client} -cert beta.pem -key beta.key"), pem.path());
    until_state(&up, "by TLS");
    exchange(&up, &mut peer);
}

#[test]
fn openssl_s_server_is_connected_to_and_carries_frames() {
    if !have(&[("openssl", "openssl")]) {
        return;
    }
    let pem = certificates();
    let port = free_port();
    let server = format!("s_server -accept 127.0.0.1:{port} -CAfile ca.pem -Verify 1 -verify_return_error -quiet");
    let mut peer = OpenSsl::start(&format!("{server} -cert beta.pem -key beta.key"), pem.path());
    let up = Up::new(&network("alpha", &format!("connect 127.0.0.1:{port}"), pem.path()));
    until_state(&up, "by TLS");
    exchange(&up, &mut peer);
}

#[test]
fn a_description_with_files_that_make_no_tls_is_refused_with_its_line() {
    let pem = certificates();
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("net.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let program = interop::program::cellway().unwrap();
        let output = Command::new(program).args(["config", "check"]).arg(&file).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let good = network("alpha", "connect 127.0.0.1:1", pem.path());
    let (ok, said) = check(&good);
    assert!(ok, "{said}");
    for (from, to, says) in [
        ("alpha.key", "beta.key", "the certificate and its key"),
        ("alpha.pem", "none.pem", "none.pem"),
        ("alpha.key\"", "alpha.pem\"", "no private key"),
    ] {
        let (ok, said) = check(&good.replace(from, to));
        assert!(!ok && said.contains("net.toml:6") && said.contains(says), "{said}");
    }
}
