//! Index and query time of the retrievers at 150, 1,000 and 5,000 tools.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use harness::catalogue::{Actor, Annotations, Catalogue, Tool, View};
use harness::ids::ToolId;
use serde_json::json;
use strategies::retrieve::bm25::{Bm25Retriever, Bm25Settings};

const VERBS: [&str; 8] = ["create", "list", "search", "update", "delete", "send", "archive", "export"];
const OBJECTS: [&str; 9] =
    ["ticket", "invoice", "message", "calendar event", "page", "payment", "employee", "incident", "dashboard"];

/// A catalogue of this size; words repeat as they do in real ones.
fn view(size: usize) -> View {
    let tools: Vec<Tool> = (0..size)
        .map(|n| {
            let (verb, object) = (VERBS[n % VERBS.len()], OBJECTS[(n / VERBS.len()) % OBJECTS.len()]);
            Tool {
                id: ToolId::new("bench", &format!("{verb}_{}_{n}", object.replace(' ', "_"))),
                description: format!("{verb} the {object} of team {n} and return what changed, page by page."),
                input_schema: json!({"type": "object", "properties": {
                    "id": {"type": "string", "description": format!("identifier of the {object}")},
                    "limit": {"type": "integer", "description": "how many to return at most"}}}),
                annotations: Annotations::default(),
                core: false,
                tags: Vec::new(),
            }
        })
        .collect();
    let subset: Vec<_> = tools.iter().map(|tool| tool.id.clone()).collect();
    let catalogue = Catalogue::new(Vec::new(), tools, Vec::new()).expect("the ids are unique");
    View::new(&catalogue, &Actor::all(), &subset, None)
}

fn bm25(criterion: &mut Criterion) {
    let settings = Bm25Settings::default();
    for size in [150, 1_000, 5_000] {
        let view = view(size);
        criterion.bench_with_input(BenchmarkId::new("bm25 index", size), &view, |bencher, view| {
            bencher.iter(|| Bm25Retriever::new(black_box(view), &settings));
        });
        let retriever = Bm25Retriever::new(&view, &settings);
        criterion.bench_with_input(BenchmarkId::new("bm25 query", size), &retriever, |bencher, retriever| {
            bencher.iter(|| retriever.rank(black_box("please archive the old invoices of the payments team"), 50));
        });
    }
}

criterion_group!(benches, bm25);
criterion_main!(benches);
