//! What holds for every run.

use harness::ids::JobKey;
use harness::run::plan::Job;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use reports::{Row, Share, summarise};

use crate::fixture::{Run, nothing_happened, run};

/// Every rate of a row, in a fixed order.
fn rates(row: &Row) -> Vec<(String, f64)> {
    let share = |name: &str, share: Option<Share>| share.and_then(|share| Some((name.to_owned(), share.rate()?)));
    let mut rates: Vec<(String, f64)> = [
        share("exposed", row.exposed),
        share("coverage", row.coverage_success),
        row.success.map(|success| ("success".to_owned(), success.rate)),
    ]
    .into_iter()
    .flatten()
    .collect();
    rates.extend(row.retrieval.iter().flat_map(|retrieval| retrieval.means.clone()));
    rates.extend(row.success_by_kind.iter().filter_map(|(kind, value)| share(kind.as_str(), Some(*value))));
    rates.extend(row.recall_by_kind.iter().map(|(kind, mean)| (format!("recall {}", kind.as_str()), mean.mean)));
    rates
}

fn rows(run: &Run) -> Vec<Row> {
    summarise(&run.input()).sizes.into_iter().flat_map(|size| size.rows).collect()
}

/// A run in which other things went wrong: per score a number that says what.
fn spoiled(faults: &[u8]) -> Run {
    let mut run = run();
    for (score, fault) in run.scores.iter_mut().zip(faults) {
        match fault {
            0 => {
                "failed(connect)".clone_into(&mut score.outcome);
                score.infra_failure = true;
            }
            1 => {
                "not_runnable(context)".clone_into(&mut score.outcome);
                score.not_runnable = true;
                nothing_happened(score);
            }
            2 => "limit(tokens)".clone_into(&mut score.outcome),
            _ => {}
        }
    }
    let mut fault = faults.iter().rev();
    run.scores.retain(|_| fault.next() != Some(&3));
    run
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, cases: 24, ..Default::default() })]

    #[test]
    fn rates_are_shares(faults in prop::collection::vec(0_u8..8, 600)) {
        let run = spoiled(&faults);
        for row in rows(&run) {
            for (name, rate) in rates(&row) {
                prop_assert!((0.0..=1.0).contains(&rate), "{} {name}: {rate}", row.strategy);
            }
            let counted: u64 = row.outcomes.values().sum::<u64>() + row.missing;
            prop_assert_eq!(counted, row.planned);
        }
    }

    #[test]
    fn a_missing_episode_never_raises_a_rate(
        faults in prop::collection::vec(0_u8..8, 600),
        job in 0_usize..576,
        known in any::<bool>(),
    ) {
        let mut run = spoiled(&faults);
        let before = rows(&run);
        let like = run.plan[job].clone();
        let query = if known { like.query.clone() } else { harness::ids::QueryId::new("never asked") };
        run.plan.push(Job { key: JobKey::of_json(&"a missing one"), repeat: 1, query, ..like });
        for (before, after) in before.iter().zip(rows(&run)) {
            let after = rates(&after);
            for (name, rate) in rates(before) {
                let now = after.iter().find(|(known, _)| *known == name).map(|(_, rate)| *rate);
                prop_assert!(now.is_some_and(|now| now <= rate + 1e-12), "{} {name}: {now:?}, before {rate}", before.strategy);
            }
        }
    }
}
