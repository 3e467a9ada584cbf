//! What a person watches during a run: a bar on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use harness::episode::{Episode, Outcome};
use harness::gateway::Spent;
use harness::metric::score::Score;
use harness::metric::stats::wilson;
use harness::schedule::Notice;
use harness::text::{plain, plural};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::print::say;

/// Plain lines are at least this far apart.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Counts of a run so far.
#[derive(Debug, Default)]
struct Tally {
    ok: u64,
    wrong: u64,
    infra: u64,
    not_runnable: u64,
    ranked: u64,
}

pub struct Progress {
    bar: ProgressBar,
    plain: bool,
    tally: Tally,
    last_line: Option<Instant>,
}

/// What a notice says to somebody who waits, if it says anything.
pub fn words_of(notice: &Notice) -> Option<String> {
    Some(match notice {
        Notice::Paused { pause, error } => {
            format!(
                "paused: the endpoint answers nobody ({}); one request asks again in {:.0} s",
                plain(error),
                pause.as_secs_f64()
            )
        }
        Notice::Resumed { down } => {
            format!("resumed: the endpoint answers again, after {:.0} s", down.as_secs_f64())
        }
        Notice::NoRepetitions { repetitions } => {
            format!("too much fails: after {repetitions} repetitions failed attempts are not repeated any more")
        }
        Notice::InFlight { .. } | Notice::Halted(_) => return None,
    })
}

impl Progress {
    pub fn new(jobs: usize) -> Self {
        let plain = !std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(
            Some(jobs as u64),
            if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(4) },
        );
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg} · {elapsed} elapsed, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, plain, tally: Tally::default(), last_line: None }
    }

    pub fn finished(&mut self, episode: &Episode, score: &Score, spent: Spent) {
        let tally = &mut self.tally;
        match (&episode.outcome, score.success) {
            (Outcome::Failed { .. }, _) => tally.infra += 1,
            (Outcome::NotRunnable { .. }, _) => tally.not_runnable += 1,
            (_, Some(true)) => tally.ok += 1,
            (_, Some(false)) => tally.wrong += 1,
            (_, None) => tally.ranked += 1,
        }
        self.bar.inc(1);
        let line = self.line(spent);
        self.bar.set_message(line.clone());
        if self.plain && self.due(Instant::now()) {
            say!("{}/{} {line}", self.bar.position(), self.bar.length().unwrap_or(0));
        }
    }

    /// Whether the next plain line is due: the first, the last, and one now and then between them.
    fn due(&mut self, now: Instant) -> bool {
        let due = self.last_line.is_none_or(|last| now - last >= LINE_EVERY);
        let done = Some(self.bar.position()) == self.bar.length();
        if due || done {
            self.last_line = Some(now);
        }
        due || done
    }

    /// One line for what somebody who waits should know.
    pub fn notice(&self, notice: &Notice) {
        if let Some(line) = words_of(notice) {
            self.bar.suspend(|| say!("{line}"));
        }
    }

    pub fn close(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, spent: Spent) -> String {
        let Tally { ok, wrong, infra, not_runnable, ranked } = self.tally;
        let judged = ok + wrong;
        let mut parts = Vec::new();
        if judged > 0 {
            let interval = wilson(ok, judged, 0.95);
            parts.push(format!(
                "ok {ok} wrong {wrong} · success {:.0} % [{:.0}, {:.0}]",
                100.0 * ok as f64 / judged as f64,
                100.0 * interval.lower,
                100.0 * interval.upper
            ));
        }
        if ranked > 0 {
            parts.push(format!("ranked {ranked}"));
        }
        if infra > 0 {
            parts.push(format!("infra {infra}"));
        }
        if not_runnable > 0 {
            parts.push(format!("not runnable {not_runnable}"));
        }
        if spent.tokens > 0 {
            parts.push(plural(spent.tokens, "token", "tokens"));
        }
        if let Some(cost) = spent.cost {
            parts.push(format!("${cost:.2}"));
        }
        parts.join(" · ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_a_terminal_a_line_is_due_now_and_then_and_at_the_end() {
        let mut progress = Progress::new(1_000);
        let start = Instant::now();
        let mut due = Vec::new();
        for second in 1..=1_000 {
            progress.bar.inc(1);
            if progress.due(start + Duration::from_secs(second) / 10) {
                due.push(second);
            }
        }
        assert_eq!(due, [1, 101, 201, 301, 401, 501, 601, 701, 801, 901, 1_000]);
    }

    #[test]
    fn the_status_is_one_line() {
        let mut progress = Progress::new(9);
        progress.tally = Tally { ok: 1, wrong: 2, infra: 3, not_runnable: 1, ranked: 2 };
        let line = progress.line(Spent { requests: 9, tokens: 12_345, cost: Some(0.5) });
        assert_eq!(
            line,
            "ok 1 wrong 2 · success 33 % [6, 79] · ranked 2 · infra 3 · not runnable 1 · 12,345 tokens · $0.50"
        );
    }
}
