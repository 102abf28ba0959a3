//! Each exercise, solved by hand for many seeds: the models' answers are those of somebody with pencil and paper.

use lab::exercises::{COUNT, Class, ClassError, Exercise, draw};

/// Seeds that are tried; exercises that run whole machines get fewer.
const SEEDS: u64 = 40;
const FEW: u64 = 4;

fn exercise(number: u32, seed: u64) -> Exercise {
    draw(number, seed, None).unwrap().unwrap()
}

/// The answers by hand, of what was drawn.
fn by_hand(e: &Exercise) -> Vec<f64> {
    let d = |name| e.drawn(name);
    match e.number {
        1 => ["small", "large"].map(|size| d(size) / (53.0 * ((d(size) + 8.0) / 48.0).ceil()) * 149.76).to_vec(),
        2 => vec![(d("lock_us") - d("copy_us")) * 1e3 / d("ns")],
        // The first burst ends within a slice, the second one takes many.
        3 => vec![1.0, 0.0],
        4 => {
            let most = |names: &[&'static str]| names.iter().map(|name| d(name)).fold(0.0, f64::max);
            vec![424e3 / most(&["cam", "lists"]), 424e3 / most(&["manager", "cam", "lists", "buffer"])]
        }
        5 => {
            let write = |call: f64, octets: f64| call + octets / 64.0 * (1.6 + d("load_us"));
            [1024.0, 65_536.0].map(|n| write(d("call_us"), n) / write(d("call_us") / 2.0, n)).to_vec()
        }
        6 => {
            let bus = |factor: f64| 1.0 / 51.0 + 1.0 / (21.4 * factor);
            vec![(bus(1.0) / bus(1.0 + d("percent") / 100.0) - 1.0) * 100.0, 0.0]
        }
        7 => {
            let burst = 1.6 + d("load_us");
            vec![512.0 / burst, 1024.0 * burst / (409.6 + 1024.0 * burst) * 100.0]
        }
        9 => {
            let (i, p) = (d("interrupt_us") * 1e-6, d("process_us") * 1e-6);
            vec![(1.0 - d("offered") * i) / p, (1.0 / p).min(d("offered"))]
        }
        other => panic!("exercise {other} has no solution by hand"),
    }
}

fn solve(number: u32, seeds: u64) {
    for seed in 1..=seeds {
        let e = exercise(number, seed);
        let (answers, mark) = (by_hand(&e), e.mark(&by_hand(&e)));
        let right: Vec<f64> = e.asked.iter().map(|asked| asked.answer).collect();
        assert_eq!(
            mark.right, mark.of,
            "exercise {number}, seed {seed}: {answers:?} by hand, {right:?}; {:?}",
            e.drawn
        );
        let wrong: Vec<f64> = answers.iter().map(|answer| answer * 1.5 + 0.5).collect();
        assert_eq!(e.mark(&wrong).right, 0, "exercise {number}, seed {seed}: wrong answers count as right");
    }
}

#[test]
fn exercises_of_a_line_of_stages_and_of_events_are_solved_by_hand_for_many_seeds() {
    [1, 2, 4, 9].into_iter().for_each(|number| solve(number, SEEDS));
}

#[test]
fn exercises_of_an_adapter_on_its_bus_are_solved_by_hand_for_many_seeds() {
    [5, 7].into_iter().for_each(|number| solve(number, FEW));
}

#[test]
fn exercises_of_the_loopback_are_solved_by_hand_for_many_seeds() {
    [3, 6].into_iter().for_each(|number| solve(number, FEW));
}

#[test]
fn a_faster_checksum_raises_udp_two_to_five_times_as_much_as_tcp() {
    for seed in 1..=FEW {
        let e = exercise(8, seed);
        let (udp, tcp) = (e.asked[0].answer, e.asked[1].answer);
        assert!(tcp > 0.0 && udp < e.drawn("percent"), "{e:?}");
        assert!((2.0..5.0).contains(&(udp / tcp)), "seed {seed}: {udp} and {tcp} %");
    }
}

#[test]
fn numbers_are_of_the_seed_and_of_the_student_and_the_question_shows_them() {
    for number in [1, 2, 4, 9] {
        assert_eq!(exercise(number, 3), exercise(number, 3));
        let others = [exercise(number, 4), draw(number, 3, Some("Ada")).unwrap().unwrap()];
        assert!(others.iter().all(|other| other.drawn != exercise(number, 3).drawn), "exercise {number}");
    }
    assert_eq!((draw(0, 1, None), draw(COUNT + 1, 1, None)), (Ok(None), Ok(None)));
    let line = exercise(1, 11);
    assert!(line.drawn.iter().all(|(_, octets)| line.question.contains(&octets.to_string())), "{line:?}");
}

fn class(students: usize) -> Class {
    let mut text = String::from("seed = 5\nexercises = [1, 4]\n");
    for n in 0..students {
        let name = format!("student {n}");
        let answers = |number| by_hand(&draw(number, 5, Some(&name)).unwrap().unwrap());
        // Every second one has the first exercise wrong, and has not handed in the other.
        let rest = if n % 2 == 0 {
            format!("1 = {:?}, 4 = {:?}", answers(1), answers(4))
        } else {
            "1 = [1.0, 2.0]".to_owned()
        };
        text.push_str(&format!("[[student]]\nname = \"{name}\"\nanswers = {{ {rest} }}\n"));
    }
    Class::parse(&text).unwrap()
}

#[test]
fn forty_students_have_forty_sheets_and_their_own_marks() {
    let class = class(40);
    let mut drawn = Vec::new();
    for (n, student) in class.students.iter().enumerate() {
        let right: Vec<usize> = class.marks_of(student).unwrap().iter().map(|mark| mark.right).collect();
        assert_eq!(right, if n % 2 == 0 { [2, 2] } else { [0, 0] }, "{}", student.name);
        drawn.push(format!("{:?}", class.exercises_of(student).unwrap()[0].drawn));
    }
    drawn.sort();
    drawn.dedup();
    assert_eq!(drawn.len(), 40, "two students have the same numbers");
}

#[test]
fn a_class_with_an_unknown_exercise_two_of_one_name_or_an_answer_to_nothing_is_refused() {
    let wrong = |text: &str| Class::parse(text).unwrap_err();
    assert_eq!(wrong("seed = 1\nexercises = [99]"), ClassError::Exercise("99".into()));
    let two = "seed = 1\nexercises = [1]\n[[student]]\nname = \"a\"\n[[student]]\nname = \"a\"\n";
    assert_eq!(wrong(two), ClassError::Name("a".into()));
    let other = "seed = 1\nexercises = [1]\n[[student]]\nname = \"a\"\nanswers = { 2 = [1.0] }\n";
    assert!(matches!(wrong(other), ClassError::NotSet { .. }));
    assert!(matches!(wrong("seeds = 1"), ClassError::Shape(_)));
}
