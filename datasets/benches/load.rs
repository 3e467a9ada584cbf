//! Time from files to a checked dataset: atlas, and synthetic catalogues of 5,000 tools.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use datasets::import::{ImportOptions, find};

fn load(criterion: &mut Criterion) {
    let atlas = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/atlas");
    criterion.bench_function("load atlas", |bencher| {
        bencher.iter(|| datasets::load(black_box(&atlas)).expect("atlas loads"));
    });
    let dir = tempfile::tempdir().expect("a folder for the catalogue");
    let target = dir.path().join("synth");
    let options = ImportOptions { tools: Some(5_000), skills: Some(1_000), ..ImportOptions::default() };
    find("synth").and_then(|synth| synth.generate(&target, &options)).expect("a synthetic catalogue");
    criterion.bench_function("load 5000 tools and 1000 skills", |bencher| {
        bencher.iter(|| datasets::load(black_box(&target)).expect("the catalogue loads"));
    });
}

criterion_group!(benches, load);
criterion_main!(benches);
