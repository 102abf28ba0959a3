//! The trial itself: what works is seen, and what does not work passes.

use hostile::{Class, Field, Ground, Trial};
use std::time::Duration;

fn pair() -> Ground {
    Ground::two_circuits()
}

#[test]
#[should_panic(expected = "held up")]
fn an_attack_that_holds_the_engine_up_is_seen() {
    Trial::new(Class::Other, pair).length(Duration::from_millis(250)).withstand(|field, attack| {
        while attack.goes_on() {
            field.engine().with(|_| std::thread::sleep(Duration::from_millis(150))).unwrap();
        }
    });
}

#[test]
#[should_panic(expected = "the innocent circuit")]
fn an_attack_that_takes_the_circuit_away_is_seen() {
    Trial::new(Class::Other, pair).withstand(|field, attack| {
        field.engine().with(|core| core.host("beta").unwrap().1.remove_circuit(hostile::circuit(100))).unwrap();
        attack.rest();
    });
}

#[test]
#[should_panic(expected = "somebody's turn took")]
fn an_attack_that_holds_others_up_is_seen() {
    let most = Duration::from_millis(1);
    Trial::new(Class::Other, pair).length(Duration::from_millis(50)).withstand(|_, attack| {
        attack.took("nobody's", most, most);
        attack.took("somebody's turn", 2 * most, most);
    });
}

#[test]
fn somebody_who_sends_on_a_circuit_that_nobody_reads_disturbs_nobody() {
    Trial::new(Class::Other, pair).withstand(|field, attack| {
        let (mut sender, channel) = field.open("alpha", 200);
        let _silent = field.open("beta", 200);
        while attack.goes_on() {
            if sender.send_copy(channel, &[9; 1500]).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
}
