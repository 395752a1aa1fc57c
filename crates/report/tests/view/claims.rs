use crate::ladder::ladder;
use warpproof_report::claims::{Claims, Fault, Options};

fn problems(text: &str) -> Vec<String> {
    let claims = Claims::new(&ladder().evidence);
    claims.check("README.md", text, Options::default()).iter().map(ToString::to_string).collect()
}

#[test]
fn what_the_ledger_holds_stands() {
    for text in [
        "n2 takes 10.24 µs, or 10.2 µs, or 10 µs, or 0.01024 ms.",
        "It needs 96 registers and 36 KB (36,864 bytes) of shared memory.",
        "−75.6 % latency (4.10×) against n1",
        "75.6 % less latency",
        "The threshold is 5 %.",
        "The device cannot do it below 2.31 µs (predicted).",
        "from 42.0 µs to 10.24 µs, that is 4.1×",
        "PyTorch SDPA takes 26 µs",
        "sm_89, CUDA 12.4, B=2 H=8 S=256 D=64, m16n8k32",
    ] {
        assert_eq!(problems(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn what_it_does_not_hold_is_named_with_its_place() {
    insta::assert_snapshot!(
        "claims",
        problems(concat!(
            "# Attention\n\nIt takes 656 µs, which is 16× faster than before.\n\n",
            "We use 84 registers.\nOccupancy is 50 % — 10.25 µs.\n\n+75.6 % latency\n\n313 % faster\n",
        ))
        .join("\n")
    );
}

#[test]
fn a_ratio_needs_both_of_its_figures_beside_it() {
    assert_eq!(problems("from 10.24 µs to 9.216 µs: 1.11×").len(), 0);
    // 42.0 and 9.216 are both in the ledger; the text names only one of them.
    assert_eq!(problems("9.216 µs, that is 4.56×").len(), 1);
    assert_eq!(problems("from 42.0 µs to 9.216 µs, that is 4.56×").len(), 0);
    // A number that does not resolve cannot form a ratio either.
    assert_eq!(problems("from 42.1 µs to 9.216 µs, that is 4.57×").len(), 2);
    // Figures of different kinds form no ratio.
    assert_eq!(problems("predicted 2.31 µs, measured 10.24 µs: 4.43×").len(), 1);
    // The other definition of a gain does not resolve.
    assert_eq!(problems("from 42.0 µs to 10.24 µs, +310.2 %").len(), 1);
    // Another paragraph is another text.
    assert_eq!(problems("42.0 µs, 9.216 µs\n\n4.56×").len(), 1);
}

#[test]
fn a_prediction_is_called_one() {
    let claims = Claims::new(&ladder().evidence);
    let found = claims.check("a.md", "n6 takes 4.8 µs.", Options::default());
    assert!(
        matches!(found[..], [ref problem] if matches!(problem.fault, Fault::Predicted(_)) && problem.column == 10)
    );
    assert_eq!(problems("n6 is predicted to take 4.8 µs."), Vec::<String>::new());
}

#[test]
fn lines_are_passed_over_for_a_reason_only() {
    assert_eq!(
        problems("It took 656 µs. <!-- claims: ignore history of another project -->"),
        Vec::<String>::new()
    );
    assert_eq!(problems("<!-- claims: ignore another project -->\nIt took 656 µs."), Vec::<String>::new());
    assert_eq!(problems("<!-- claims: ignore another project -->\n\n656 µs\n656 µs").len(), 2);
    assert_eq!(problems("It took 656 µs. <!-- claims: ignore -->").len(), 2);
}

#[test]
fn code_addresses_and_comments_are_passed_over() {
    let text = "`656 µs` [x](a-656%.md) https://x.invalid/9% <!-- 656 µs\n 7 % -->\n\n```text\n656 µs\n```\n~~~~\n7 %\n~~~\n8 %\n~~~~\n19 %";
    assert_eq!(problems(text).len(), 1, "{:?}", problems(text));
    let claims = Claims::new(&ladder().evidence);
    assert_eq!(claims.check("a.md", text, Options { code: true }).len(), 5);
}

#[test]
fn a_percentage_is_that_of_the_figure_it_names() {
    assert_eq!(problems("It has 75.6 % less latency."), Vec::<String>::new());
    assert_eq!(problems("It is 75.6 % faster."), Vec::<String>::new());
    // The same number in a sentence about something else, or about nothing.
    assert_eq!(problems("75.6 % of all users like it.").len(), 1);
    assert_eq!(problems("The latency is good. It has 75.6 % fewer bank conflicts.").len(), 1);
    // A pure number that is not a share cannot be written as a percentage: max error is 0.0312.
    assert_eq!(problems("The max error is 3.12 %.").len(), 1);
    // The threshold is 5 %; no candidate is that much faster.
    assert_eq!(problems("It is 5 % faster.").len(), 1);
    assert_eq!(problems("The task asks for 5 % less latency."), Vec::<String>::new());
}

#[test]
fn speed_is_measured() {
    let faults = |text: &str| -> Vec<Fault> {
        let claims = Claims::new(&ladder().evidence);
        claims.check("a.md", text, Options::default()).into_iter().map(|problem| problem.fault).collect()
    };
    assert_eq!(faults("The latency is 10.24 µs."), []);
    assert!(matches!(faults("The latency is 2.31 µs.")[..], [Fault::Predicted(_)]));
    assert_eq!(faults("The predicted latency is at least 2.31 µs."), []);
    // A prediction in another sentence does not mark this one.
    assert!(matches!(faults("The model is good. It takes 4.8 µs.")[..], [Fault::Predicted(_)]));
    // Counted figures do not support a speedup.
    assert!(matches!(
        faults("From 36,864 bytes to 128 bytes it is 288× faster.")[..],
        [.., Fault::Unresolved { .. }]
    ));
}

#[test]
fn counted_things_are_those_of_their_name() {
    assert_eq!(problems("96 registers"), Vec::<String>::new());
    // 96 is in the ledger, of registers.
    assert_eq!(problems("96 findings").len(), 1);
    assert_eq!(problems("96 schedules").len(), 1);
}
