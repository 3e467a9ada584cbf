//! Published figures, reproduced on public data where it lies on this machine (`TOOLGAUGE_DATA`).

use std::path::PathBuf;

use crate::support::run_ok;

/// The folder of public data. Without one the test is skipped, unless `TOOLGAUGE_REQUIRE_DATA=1` says that it must be there.
#[expect(clippy::disallowed_macros, reason = "a skipped test says so")]
fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("TOOLGAUGE_DATA").map(PathBuf::from).filter(|folder| folder.is_dir());
    let required = std::env::var("TOOLGAUGE_REQUIRE_DATA").is_ok_and(|value| value == "1");
    assert!(folder.is_some() || !required, "TOOLGAUGE_DATA names no folder and TOOLGAUGE_REQUIRE_DATA=1 asks for it");
    if folder.is_none() {
        eprintln!("skipped: TOOLGAUGE_DATA names no folder with public datasets");
    }
    folder
}

/// BM25 with k1 1.2, b 0.75 over name and description, words split at case changes, 53 stop words: R@5 .550 unstemmed and
/// about .625 stemmed over all 21,029 labelled queries of `MetaTool`.
#[test]
fn bm25_on_metatool_agrees_with_the_published_figure() {
    let Some(data) = data() else { return };
    let dir = tempfile::tempdir().unwrap();
    let source = data.join("public/metatool").display().to_string();
    run_ok(dir.path(), &["import", "metatool", &source, "-o", "metatool"]);
    run_ok(dir.path(), &["run", "-d", "metatool", "-s", "bm25,bm25:words.stem=true", "--out", "run"]);
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("run/report/summary.json")).unwrap()).unwrap();
    let recall = |strategy: &str| {
        let rows = summary["sizes"][0]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["strategy"] == strategy).unwrap();
        (row["retrieval"]["means"]["recall@5"].as_f64().unwrap(), row["retrieval"]["n"].as_u64().unwrap())
    };
    let (plain, stemmed) = (recall("bm25"), recall("bm25 words.stem=true"));
    assert!((plain.0 - 0.550).abs() <= 0.005, "unstemmed R@5 {}", plain.0);
    assert!((stemmed.0 - 0.625).abs() <= 0.005, "stemmed R@5 {}", stemmed.0);
    assert_eq!((plain.1, stemmed.1), (21_029, 21_029), "no-tool queries stay outside the mean");
}

/// The library bm25s with its defaults on `ToolRet`'s raw documents, query only: NDCG@10 75.69 (apigen) and 23.77 (gorilla-hf). Its defaults
/// are ours set to k1 1.5, words of two or more word characters, Lucene's stop words, and the raw text alone.
#[test]
fn bm25_on_raw_toolret_agrees_with_bm25s() {
    let Some(data) = data() else { return };
    let dir = tempfile::tempdir().unwrap();
    let bm25s =
        "bm25:k1=1.5:names=false:schema=false:words.unit=word_characters:words.split=false:words.stop_words=lucene";
    for (set, published) in [("toolret_apigen", 0.7569), ("toolret_gorilla_hf", 0.2377)] {
        let source = data.join("public").join(set).display().to_string();
        run_ok(dir.path(), &["import", "toolret", &source, "--raw", "-o", set]);
        run_ok(dir.path(), &["run", "-d", set, "-s", bm25s, "--out", &format!("run-{set}")]);
        let path = dir.path().join(format!("run-{set}/report/summary.json"));
        let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let found = summary["sizes"][0]["rows"][0]["retrieval"]["means"]["ndcg@10"].as_f64().unwrap();
        assert!((found - published).abs() <= 0.005, "{set}: NDCG@10 {found}, published {published}");
    }
}

/// R@5 and NDCG@10 of that BM25 over whole public sets, every nested argument indexed, as they were published with the sets.
#[test]
fn bm25_on_imported_sets_agrees_with_their_published_figures() {
    let Some(data) = data() else { return };
    let dir = tempfile::tempdir().unwrap();
    let sets: [(&str, &str, &[&str], f64, f64); 4] = [
        ("bfcl", "bfcl_pooled", &["--pooled"], 0.793, 0.722),
        ("seal-tools", "seal_tools", &[], 0.830, 0.874),
        ("toolret", "toolret_apigen", &[], 0.798, 0.758),
        ("toolret", "toolret_gorilla_hf", &[], 0.264, 0.212),
    ];
    for (importer, set, options, recall, ndcg) in sets {
        let source = data.join("public").join(set).display().to_string();
        run_ok(dir.path(), &[&["import", importer, &source, "-o", set], options].concat());
        run_ok(dir.path(), &["run", "-d", set, "-s", "bm25", "--out", &format!("run-{set}")]);
        let summary = dir.path().join(format!("run-{set}/report/summary.json"));
        let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(summary).unwrap()).unwrap();
        let means = &summary["sizes"][0]["rows"][0]["retrieval"]["means"];
        for (measure, published) in [("recall@5", recall), ("ndcg@10", ndcg)] {
            let found = means[measure].as_f64().unwrap_or_else(|| panic!("{set}: no {measure} in {means}"));
            assert!((found - published).abs() <= 0.005, "{set}: {measure} {found}, published {published}");
        }
    }
}
