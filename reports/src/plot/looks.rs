//! Colour and marker of each strategy: those of its kind, so that reports can be laid side by side.

use super::canvas::{COLORS, SHAPES};
use crate::summary::StrategySettings;

/// Looks of the kinds there are. Where two share a colour, one ranks and the other does not, so that they meet in no plot.
const KINDS: [(&str, usize); 9] = [
    ("random", 0),
    ("bm25", 1),
    ("oracle", 2),
    ("eager", 3),
    ("bm25-llm", 4),
    ("skill-pick", 5),
    ("dense", 6),
    ("bm25f", 3 + COLORS),
    ("linear-scan", 5 + COLORS),
];

/// The look of each strategy, in their order. The first of a kind has the look of its kind; whatever would clash takes another,
/// of a free colour while there is one.
pub(super) fn looks(strategies: &[StrategySettings]) -> Vec<usize> {
    let mut looks: Vec<Option<usize>> = Vec::new();
    for (index, strategy) in strategies.iter().enumerate() {
        let wanted = of_kind(&strategy.kind);
        let is_first = strategies[..index].iter().all(|earlier| earlier.kind != strategy.kind);
        let own = (is_first && !looks.contains(&Some(wanted))).then_some(wanted);
        looks.push(own);
    }
    for (index, strategy) in strategies.iter().enumerate() {
        if looks[index].is_none() {
            looks[index] = Some(free(of_kind(&strategy.kind), &looks));
        }
    }
    looks.into_iter().flatten().collect()
}

/// A kind of somebody's own has a colour by its name.
fn of_kind(kind: &str) -> usize {
    let known = KINDS.iter().find(|(known, _)| *known == kind);
    known.map_or_else(|| (fnv(kind) % COLORS as u64) as usize, |(_, look)| *look)
}

fn free(wanted: usize, looks: &[Option<usize>]) -> usize {
    let others = || (1..=COLORS * SHAPES).map(move |step| (wanted + step) % (COLORS * SHAPES));
    let new_color = |look: &usize| looks.iter().flatten().all(|taken| taken % COLORS != look % COLORS);
    let new_look = |look: &usize| !looks.contains(&Some(*look));
    others().find(new_color).or_else(|| others().find(new_look)).unwrap_or(wanted)
}

/// The hash of Fowler, Noll and Vo: the same on every machine and in every version.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks_of(kinds: &[&str]) -> Vec<usize> {
        let strategy = |kind: &&str| StrategySettings {
            label: (*kind).to_owned(),
            kind: (*kind).to_owned(),
            version: 1,
            params: "{}".to_owned(),
        };
        looks(&kinds.iter().map(strategy).collect::<Vec<_>>())
    }

    #[test]
    fn a_kind_looks_the_same_in_every_report() {
        assert_eq!(looks_of(&["oracle", "bm25", "bm25-llm"]), [2, 1, 4]);
        assert_eq!(looks_of(&["bm25-llm", "eager", "mine", "oracle"]), [4, 3, 0, 2]);
        assert_eq!(looks_of(&["bridge"]), [4]);
    }

    #[test]
    fn what_would_clash_takes_a_free_colour_and_then_a_free_shape() {
        assert_eq!(looks_of(&["bm25", "bm25", "bm25-llm", "bridge"]), [1, 2, 4, 5]);
        let many = looks_of(&["bm25"; COLORS * SHAPES]);
        let different: std::collections::BTreeSet<_> = many.iter().collect();
        assert_eq!(different.len(), many.len());
        let colors: std::collections::BTreeSet<_> = many[..COLORS].iter().map(|look| look % COLORS).collect();
        assert_eq!(colors.len(), COLORS, "no colour twice before all are used");
        assert_eq!(looks_of(&["bm25"; COLORS * SHAPES + 2]).len(), COLORS * SHAPES + 2);
    }
}
