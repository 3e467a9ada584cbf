//! Embeddings, if a model for them is named.

use serde_json::json;

use super::facts::Facts;
use super::session::Session;
use super::{Outcome, Probed, Verdict, quoted, refused};
use crate::endpoint::Route;

pub(super) async fn embeddings(session: &Session<'_>, facts: &mut Facts, model: &str) -> Probed {
    let body = json!({"model": model, "input": ["one text", "another text"]});
    let answered = match session.send(Route::Embed, &body).await? {
        Ok(answered) => answered,
        Err(error) => {
            facts.embeds = Some(false);
            return Ok(Outcome::new(Verdict::No, format!("{}: {}", quoted(model), refused(&error))));
        }
    };
    let rows = answered.value["data"].as_array().map_or(&[][..], Vec::as_slice);
    let sizes: Vec<_> = rows.iter().filter_map(|row| Some(row["embedding"].as_array()?.len())).collect();
    let usable = sizes.len() == 2 && sizes[0] > 0 && sizes[0] == sizes[1];
    facts.embeds = Some(usable);
    Ok(if usable {
        Outcome::new(Verdict::Yes, format!("{}: {} dimensions", quoted(model), sizes[0]))
    } else {
        Outcome::new(
            Verdict::No,
            format!("{}: two texts, and {} lists of numbers came back", quoted(model), sizes.len()),
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::testing::{probe, refuses};
    use super::*;
    use crate::endpoint::WireResponse;

    #[tokio::test]
    async fn dimensions_are_counted_and_odd_answers_are_none() {
        let rows = |sizes: &'static [usize]| {
            move |_: &Value| -> WireResponse {
                let rows: Vec<_> = sizes.iter().map(|size| json!({"embedding": vec![0.5; *size]})).collect();
                json!({"data": rows}).into()
            }
        };
        let embed = async |session: &Session<'_>, facts: &mut Facts| embeddings(session, facts, "e").await;
        let mut facts = Facts::default();
        let outcome = probe(rows(&[384, 384]), &mut facts, embed).await;
        assert_eq!((outcome.detail.as_str(), facts.embeds), (r#""e": 384 dimensions"#, Some(true)));
        for sizes in [&[3][..], &[3, 4], &[0, 0]] {
            assert_eq!(probe(rows(sizes), &mut facts, embed).await.verdict, Verdict::No);
        }
        let outcome = probe(|_| refuses(404, "model `e` not found"), &mut facts, embed).await;
        assert_eq!((outcome.verdict, facts.embeds), (Verdict::No, Some(false)));
    }
}
