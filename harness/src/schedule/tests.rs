//! On a paused clock: hours pass in milliseconds, and every run is the same.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tokio::time::{sleep, timeout};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

const FREE: Limits = Limits {
    concurrency: 64,
    adaptive: true,
    requests_per_minute: None,
    tokens_per_minute: None,
    max_time: None,
    max_downtime: DEFAULT_DOWNTIME,
};

fn answered(latency: Duration) -> Outcome {
    Outcome::Answered { latency, tokens: None }
}

fn trouble(what: &str) -> Trouble {
    Trouble { what: what.to_owned(), ..Trouble::default() }
}

fn down() -> Outcome {
    Outcome::Unavailable(trouble("connect"))
}

fn limited(retry_after: Duration) -> Outcome {
    Outcome::RateLimited(Trouble { retry_after, ..trouble("429") })
}

fn told(scheduler: &Scheduler) -> Vec<Notice> {
    std::iter::from_fn(|| scheduler.untold()).collect()
}

fn limit(scheduler: &Scheduler) -> usize {
    scheduler.state().adaptive.limit()
}

/// Sends requests without end from many callers for `time`; how many were answered.
async fn load<F: Future<Output = Outcome> + Send + 'static>(
    scheduler: &Arc<Scheduler>,
    callers: u64,
    time: Duration,
    serve: impl Fn(u64) -> F + Clone + Send + 'static,
) -> usize {
    let served = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let (scheduler, serve, served) = (scheduler.clone(), serve.clone(), served.clone());
        tasks.spawn(async move {
            for turn in 0.. {
                let request = turn * callers + caller;
                let Ok(permit) = scheduler.admit(request, 1_000).await else { return };
                let outcome = serve(request).await;
                served.fetch_add(usize::from(matches!(outcome, Outcome::Answered { .. })), Ordering::SeqCst);
                permit.done(outcome);
            }
        });
    }
    sleep(time).await;
    tasks.shutdown().await;
    served.load(Ordering::SeqCst)
}

/// A server that refuses what comes on top of `most` requests, at once.
#[derive(Clone)]
struct Places {
    most: usize,
    busy: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

impl Places {
    fn new(places: usize) -> Self {
        Self { most: places, busy: Arc::default(), refused: Arc::default() }
    }

    async fn serve(self) -> Outcome {
        if self.busy.fetch_add(1, Ordering::SeqCst) >= self.most {
            sleep(SECOND / 20).await;
            self.busy.fetch_sub(1, Ordering::SeqCst);
            self.refused.fetch_add(1, Ordering::SeqCst);
            return limited(Duration::ZERO);
        }
        sleep(SECOND).await;
        self.busy.fetch_sub(1, Ordering::SeqCst);
        answered(SECOND)
    }
}

#[tokio::test(start_paused = true)]
async fn a_hidden_limit_is_found_and_kept_to() {
    for places in [1, 3, 10, 40] {
        let scheduler = Scheduler::new(&FREE);
        let server = Places::new(places);
        let serve = server.clone();
        let found = load(&scheduler, 100, HOUR, move |_| serve.clone().serve()).await;
        let (most, refused) = (3_600 * places, server.refused.load(Ordering::SeqCst));
        assert!(found * 10 >= most * 8, "{places}: {found} of {most}");
        assert!(refused * 20 <= found, "{places}: {refused} refused, {found} answered");
        assert!(limit(&scheduler) <= places + 1, "{places}: {}", limit(&scheduler));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_queues_is_not_swamped() {
    let scheduler = Scheduler::new(&Limits { concurrency: 256, ..FREE });
    // Ten at full speed; whatever is more makes all of them slower in proportion.
    let busy = Arc::new(AtomicUsize::new(0));
    let found = load(&scheduler, 300, HOUR, move |_| {
        let busy = busy.clone();
        async move {
            let among = busy.fetch_add(1, Ordering::SeqCst) + 1;
            let latency = SECOND * u32::try_from(among.max(10)).unwrap() / 10;
            sleep(latency).await;
            busy.fetch_sub(1, Ordering::SeqCst);
            answered(latency)
        }
    })
    .await;
    assert!(found >= 3_600 * 9, "{found}");
    assert!(scheduler.most_in_flight() <= 40, "{}", scheduler.most_in_flight());
}

#[tokio::test(start_paused = true)]
async fn rates_per_minute_hold_within_a_per_cent() {
    for rate in [7, 60, 900] {
        let scheduler = Scheduler::new(&Limits { requests_per_minute: Some(rate), ..FREE });
        let serve = |_| async {
            sleep(SECOND / 4).await;
            answered(SECOND / 4)
        };
        let answers = load(&scheduler, 100, HOUR, serve).await;
        let expected = rate as f64 * 60.0;
        assert!((answers as f64 - expected).abs() <= expected / 100.0 + 1.0, "{rate}: {answers} for {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_per_minute_hold_however_wrong_the_estimates_are() {
    for used in [300, 1_000, 2_500] {
        let scheduler = Scheduler::new(&Limits { tokens_per_minute: Some(90_000), ..FREE });
        let answers = load(&scheduler, 20, HOUR, move |_| async move {
            sleep(SECOND / 2).await;
            Outcome::Answered { latency: SECOND / 2, tokens: Some(used) }
        })
        .await;
        let (tokens, expected) = (answers as f64 * used as f64, 90_000.0 * 60.0);
        assert!((tokens - expected).abs() <= expected / 100.0, "{used}: {tokens} for {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_is_told_to_wait_all_wait() {
    let scheduler = Scheduler::new(&FREE);
    let first = scheduler.admit(1, 0).await.unwrap();
    let second = scheduler.admit(2, 0).await.unwrap();
    assert!(!first.done(limited(30 * SECOND)), "no outage: it may come again after its own wait");
    assert!(!second.done(answered(SECOND)));
    let start = Instant::now();
    scheduler.admit(3, 0).await.unwrap().done(answered(SECOND));
    assert_eq!(start.elapsed(), 30 * SECOND);
    assert_eq!(told(&scheduler), [Notice::InFlight { limit: 2 }]);
}

#[tokio::test(start_paused = true)]
async fn requests_pass_in_the_order_in_which_they_came() {
    let scheduler = Scheduler::new(&Limits { concurrency: 2, tokens_per_minute: Some(6_000), ..FREE });
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    for request in 0..20 {
        let (scheduler, order) = (scheduler.clone(), order.clone());
        tasks.spawn(async move {
            // Large ones are not passed by small ones.
            let permit = scheduler.admit(request, 1 + 400 * (request % 3)).await.unwrap();
            order.lock().unwrap().push(request);
            sleep(SECOND * (1 + request as u32 % 4)).await;
            permit.done(answered(SECOND));
        });
        tokio::task::yield_now().await;
    }
    tasks.join_all().await;
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_for_with_few_requests() {
    let scheduler = Scheduler::new(&FREE);
    let begin = Instant::now();
    let asked = Arc::new(AtomicUsize::new(0));
    let (outage, count) = (100 * SECOND..300 * SECOND, asked.clone());
    let found = load(&scheduler, 30, 400 * SECOND, move |_| {
        let (outage, count) = (outage.clone(), count.clone());
        async move {
            let failed = outage.contains(&begin.elapsed());
            count.fetch_add(usize::from(failed), Ordering::SeqCst);
            sleep(SECOND).await;
            if failed { down() } else { answered(SECOND) }
        }
    })
    .await;
    let asked = asked.load(Ordering::SeqCst);
    assert!((5..=60).contains(&asked), "{asked} requests were sent in 200 s of outage");
    assert!(found > 2_000, "{found}");
    let notices = told(&scheduler);
    let resumed: Vec<_> = notices.iter().filter(|notice| matches!(notice, Notice::Resumed { .. })).collect();
    assert!(matches!(resumed[..], [Notice::Resumed { down }] if *down > 190 * SECOND), "{resumed:?}");
    assert!(notices.iter().any(|notice| matches!(notice, Notice::Paused { error, .. } if error == "connect")));
}

#[tokio::test(start_paused = true)]
async fn a_dead_endpoint_ends_the_run_and_everybody_hears_of_it() {
    for answers_first in [true, false] {
        let scheduler = Scheduler::new(&FREE);
        if answers_first {
            scheduler.admit(u64::MAX, 0).await.unwrap().done(answered(SECOND));
        }
        let start = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for request in 0..50 {
            let scheduler = scheduler.clone();
            tasks.spawn(async move {
                loop {
                    match scheduler.admit(request, 0).await {
                        Ok(permit) => permit.done(down()),
                        Err(why) => return why,
                    };
                }
            });
        }
        let ends = tasks.join_all().await;
        let seconds = if answers_first { DEFAULT_DOWNTIME.as_secs() } else { 5 };
        assert_eq!(start.elapsed(), Duration::from_secs(seconds));
        assert_eq!(ends, vec![Halt::Down { seconds, error: "connect".to_owned() }; 50]);
        let halts = told(&scheduler).into_iter().filter(|notice| matches!(notice, Notice::Halted(_))).count();
        assert_eq!(halts, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn limits_that_leave_no_request_through_are_outages_and_no_failures() {
    // A quota by the minute that is used up, whose server does not say for how long.
    let scheduler = Scheduler::new(&FREE);
    let start = Instant::now();
    let mut attempts = 0;
    loop {
        let permit = scheduler.admit(1, 0).await.unwrap();
        attempts += 1;
        if start.elapsed() > 50 * SECOND {
            permit.done(answered(SECOND));
            break;
        }
        if !permit.done(limited(Duration::ZERO)) {
            assert!(attempts < 4, "before it would be given up");
            sleep(SECOND).await;
        }
    }
    assert!((5..=20).contains(&attempts), "{attempts}");
    assert!(told(&scheduler).iter().any(|notice| matches!(notice, Notice::Resumed { .. })));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_all_waiting_and_not_what_is_out() {
    let limits = Limits { concurrency: 1, max_time: Some(60 * SECOND), ..FREE };
    let scheduler = Scheduler::new(&limits);
    let permit = scheduler.admit(1, 0).await.unwrap();
    let start = Instant::now();
    let waiting: Vec<_> = (2..5)
        .map(|request| {
            tokio::spawn({
                let s = scheduler.clone();
                async move { s.admit(request, 0).await.err() }
            })
        })
        .collect();
    for waiter in waiting {
        assert_eq!(waiter.await.unwrap(), Some(Halt::Cap(LimitKind::Time)));
    }
    assert_eq!(start.elapsed(), 60 * SECOND);
    permit.done(answered(90 * SECOND));
    assert_eq!(scheduler.admit(9, 0).await.err(), Some(Halt::Cap(LimitKind::Time)));
    assert_eq!(told(&scheduler), [Notice::Halted(Halt::Cap(LimitKind::Time))]);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_dropped_leaves_the_place_to_the_next() {
    let scheduler = Scheduler::new(&Limits { concurrency: 1, ..FREE });
    let held = scheduler.admit(1, 0).await.unwrap();
    for _ in 0..3 {
        assert!(timeout(SECOND, scheduler.admit(2, 0)).await.is_err(), "the place is taken");
    }
    let next = tokio::spawn({
        let s = scheduler.clone();
        async move { s.admit(3, 0).await.is_ok() }
    });
    tokio::task::yield_now().await;
    drop(held);
    assert!(next.await.unwrap());
    assert_eq!(scheduler.state().in_flight, 0, "and that permit was dropped as well");
    // The one that asks after an outage is no exception.
    for request in 0..3 {
        scheduler.admit(request, 0).await.unwrap().done(Outcome::Refused);
    }
    for request in 0..3 {
        scheduler.admit(request, 0).await.unwrap().done(down());
    }
    drop(scheduler.admit(5, 0).await.unwrap());
    scheduler.admit(6, 0).await.unwrap().done(answered(SECOND));
    assert!(matches!(told(&scheduler)[..], [Notice::Paused { .. }, Notice::Resumed { .. }]));
}

#[tokio::test(start_paused = true)]
async fn repetitions_are_a_share_of_what_is_served() {
    let scheduler = Scheduler::new(&FREE);
    let granted = || std::iter::from_fn(|| scheduler.repeat().ok()).count() as u64;
    assert_eq!(granted(), REPETITIONS);
    for request in 0..95 {
        scheduler.admit(request, 0).await.unwrap().done(answered(SECOND));
    }
    assert_eq!(granted(), 9);
    assert_eq!(scheduler.repeat().unwrap_err(), "the 109 repetitions that this run may make are used up");
    let notices = told(&scheduler).into_iter().filter(|notice| matches!(notice, Notice::NoRepetitions { .. }));
    assert_eq!(notices.collect::<Vec<_>>(), [Notice::NoRepetitions { repetitions: 100 }], "it is said once");
}

/// What a caller of the property does with its turn.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answer,
    Refuse,
    Limit,
    Hold,
    Fail,
    Drop,
    /// Gives up waiting.
    Leave,
}

fn fate() -> impl Strategy<Value = Fate> {
    use Fate::{Answer, Drop, Fail, Hold, Leave, Limit, Refuse};
    prop::sample::select(vec![Answer, Answer, Answer, Refuse, Limit, Hold, Fail, Drop, Leave])
}

async fn live(scheduler: Arc<Scheduler>, request: u64, fates: Vec<(Fate, u64, u64)>) {
    for (fate, tokens, millis) in fates {
        let time = Duration::from_millis(millis);
        let admitted = if matches!(fate, Fate::Leave) {
            let Ok(admitted) = timeout(time, scheduler.admit(request, tokens)).await else { continue };
            admitted
        } else {
            scheduler.admit(request, tokens).await
        };
        let Ok(permit) = admitted else { return };
        sleep(time).await;
        let outcome = match fate {
            Fate::Answer => Outcome::Answered { latency: time, tokens: Some(tokens * 2) },
            Fate::Refuse => Outcome::Refused,
            Fate::Limit => limited(Duration::ZERO),
            Fate::Hold => limited(time * 20),
            Fate::Fail => down(),
            Fate::Drop | Fate::Leave => continue,
        };
        permit.done(outcome);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_waits_for_ever(
        callers in prop::collection::vec(prop::collection::vec((fate(), 0_u64..3_000, 0_u64..5_000), 1..12), 1..40),
        concurrency in 0_usize..20,
        adaptive in prop::bool::ANY,
        requests_per_minute in prop::option::of(1_u64..2_000),
        tokens_per_minute in prop::option::of(1_000_u64..200_000),
        max_time in prop::option::of(1_u64..5_000),
        patience in prop::sample::select(vec![0_u64, 60, 100_000]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let limits = Limits {
            concurrency,
            adaptive,
            requests_per_minute,
            tokens_per_minute,
            max_time: max_time.map(Duration::from_secs),
            max_downtime: Duration::from_secs(patience),
        };
        let ended = runtime.block_on(async {
            let scheduler = Scheduler::new(&limits);
            let callers = callers.into_iter().enumerate();
            let lives = callers.map(|(request, fates)| tokio::spawn(live(scheduler.clone(), request as u64, fates)));
            let all = futures::future::join_all(lives.collect::<Vec<_>>());
            let finished = timeout(365 * 24 * HOUR, all).await.is_ok_and(|ends| ends.iter().all(Result::is_ok));
            let out = scheduler.state().in_flight;
            (finished, out, scheduler.most_in_flight())
        });
        prop_assert!(ended.0, "somebody still waits after a year");
        prop_assert_eq!(ended.1, 0);
        prop_assert!(ended.2 <= concurrency.max(1) + 1, "{} out at once, one that asks included", ended.2);
    }
}
