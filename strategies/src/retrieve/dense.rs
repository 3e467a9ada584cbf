//! `dense`: cosine similarity of embeddings.
//!
//! Whatever makes vectors is an [`Embedder`]. The built-in one has no network: static token vectors (wordllama's
//! `l2_supercat_256`, MIT), a text being the mean of its tokens. `scripts/embeddings.py` fetches them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::{env, fs};

use futures::future::BoxFuture;
use half::f16;
use harness::catalogue::{Tool, View};
use harness::episode::ScoredTool;
use harness::ids::{Digest, ToolId};
use harness::strategy::{Retriever, StrategyError};
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use tokenizers::Tokenizer;

use super::words::{name_words, schema_text};
use super::{RetrieverSettings, best};

/// Turns texts into vectors of one length, one per text.
pub trait Embedder: Send + Sync {
    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, StrategyError>>;
}

/// Settings of `dense`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DenseSettings {
    pub model: Model,
    /// Embed names and descriptions of the arguments too.
    pub schema: bool,
}

/// Embedding models known by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Model {
    /// 32,000 token vectors of 256 numbers, English for the most part.
    #[default]
    #[serde(rename = "l2-supercat-256")]
    L2Supercat256,
}

impl Model {
    fn embedder(self) -> Result<Arc<dyn Embedder>, StrategyError> {
        match self {
            Self::L2Supercat256 => Ok(StaticVectors::l2_supercat()?),
        }
    }
}

impl RetrieverSettings for DenseSettings {
    const KIND: &'static str = "dense";
    const VERSION: u32 = 1;

    fn retriever<'a>(&'a self, view: &'a View) -> BoxFuture<'a, Result<Arc<dyn Retriever>, StrategyError>> {
        Box::pin(async move {
            let embedder = self.model.embedder()?;
            let texts: Vec<String> = view.tools().iter().map(|tool| self.text(tool)).collect();
            let vectors = embedder.embed(&texts).await?.into_iter().map(unit).collect();
            let tools = view.tools().iter().map(|tool| tool.id.clone()).collect();
            Ok(Arc::new(Dense { embedder, vectors, tools }) as Arc<dyn Retriever>)
        })
    }
}

impl DenseSettings {
    /// The words of the name, then the description: vectors of `camelCase` mean little.
    fn text(self, tool: &Tool) -> String {
        let mut text = format!("{} {}", name_words(tool.name()), tool.description);
        if self.schema {
            text.push_str(&schema_text(&tool.input_schema));
        }
        text
    }
}

struct Dense {
    embedder: Arc<dyn Embedder>,
    /// Of length 1 or 0.
    vectors: Vec<Vec<f32>>,
    tools: Vec<ToolId>,
}

impl Retriever for Dense {
    fn name(&self) -> &'static str {
        DenseSettings::KIND
    }

    fn search<'a>(&'a self, text: &'a str, k: usize) -> BoxFuture<'a, Result<Vec<ScoredTool>, StrategyError>> {
        Box::pin(async move {
            let query = self.embedder.embed(&[text.to_owned()]).await?.into_iter().next().map(unit).unwrap_or_default();
            let cosine = |vector: &Vec<f32>| f64::from(vector.iter().zip(&query).map(|(a, b)| a * b).sum::<f32>());
            let scores = self.vectors.iter().map(cosine).enumerate().filter(|(_, score)| *score > 0.0).collect();
            Ok(best(scores, &self.tools, k))
        })
    }
}

/// A vector of length 1 in the same direction; zero stays zero.
fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        for x in &mut vector {
            *x /= length;
        }
    }
    vector
}

/// A vector per token, nothing else.
struct StaticVectors {
    tokenizer: Tokenizer,
    /// Rows of `dimensions` half floats, little-endian.
    rows: Vec<u8>,
    dimensions: usize,
}

const WEIGHTS: &str = "l2_supercat_256.safetensors";
const TOKENIZER: &str = "l2_supercat_tokenizer_config.json";
/// BLAKE3 of both files: results name the model, so it has to be that one.
const WEIGHTS_DIGEST: &str = "b339f9710085af8eb72d393b6a3625983bca9a23ce19194ce1298eae2a4c021b";
const TOKENIZER_DIGEST: &str = "3642b1549c23f1ce58322e77edadadb5b02e299ec286b1cbf57568451b19f89a";

impl StaticVectors {
    /// Read once per process.
    fn l2_supercat() -> Result<Arc<Self>, StrategyError> {
        static LOADED: OnceLock<Arc<StaticVectors>> = OnceLock::new();
        if let Some(loaded) = LOADED.get() {
            return Ok(loaded.clone());
        }
        let folder = folder("l2-supercat-256");
        let weights = read(&folder.join(WEIGHTS), WEIGHTS_DIGEST)?;
        let tokenizer = read(&folder.join(TOKENIZER), TOKENIZER_DIGEST)?;
        Ok(LOADED.get_or_init(|| Arc::new(Self::new(&weights, &tokenizer).expect("the digests are right"))).clone())
    }

    fn new(weights: &[u8], tokenizer: &[u8]) -> Result<Self, String> {
        let tensors = SafeTensors::deserialize(weights).map_err(|error| error.to_string())?;
        let tensor = tensors.tensor("embedding.weight").map_err(|error| error.to_string())?;
        let (Dtype::F16, &[_, dimensions]) = (tensor.dtype(), tensor.shape()) else {
            return Err("expected a table of half floats".to_owned());
        };
        let tokenizer = Tokenizer::from_bytes(tokenizer).map_err(|error| error.to_string())?;
        Ok(Self { tokenizer, rows: tensor.data().to_vec(), dimensions })
    }

    /// The mean of the vectors of the tokens; zero for a text without tokens.
    fn mean(&self, text: &str) -> Result<Vec<f32>, StrategyError> {
        let tokens = self.tokenizer.encode_fast(text, false);
        let tokens = tokens.map_err(|error| StrategyError::Unavailable(format!("a text has no tokens: {error}")))?;
        let mut mean = vec![0.0; self.dimensions];
        let width = self.dimensions * 2;
        for &token in tokens.get_ids() {
            let row = self.rows.chunks_exact(width).nth(token as usize).unwrap_or_default();
            for (sum, half) in mean.iter_mut().zip(row.chunks_exact(2)) {
                *sum += f16::from_le_bytes([half[0], half[1]]).to_f32();
            }
        }
        let count = tokens.get_ids().len().max(1) as f32;
        for sum in &mut mean {
            *sum /= count;
        }
        Ok(mean)
    }
}

impl Embedder for StaticVectors {
    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, StrategyError>> {
        Box::pin(std::future::ready(texts.iter().map(|text| self.mean(text)).collect()))
    }
}

/// Where `scripts/embeddings.py` puts a model.
fn folder(model: &str) -> PathBuf {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = || {
        let caches = set("XDG_CACHE_HOME").or_else(|| Some(env::home_dir()?.join(".cache")));
        caches.unwrap_or_default().join("toolgauge")
    };
    set("TOOLGAUGE_CACHE").unwrap_or_else(user).join("embeddings").join(model)
}

fn read(path: &Path, digest: &str) -> Result<Vec<u8>, StrategyError> {
    let hint = "`python3 scripts/embeddings.py` fetches it";
    let unavailable = |reason: String| StrategyError::Unavailable(format!("{}: {reason}; {hint}", path.display()));
    let bytes = fs::read(path).map_err(|error| unavailable(error.to_string()))?;
    let found = Digest::of(&bytes);
    if found.as_str() == digest {
        Ok(bytes)
    } else {
        Err(unavailable(format!("its digest is {found}, expected {digest}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{names, view};

    /// Vectors along two axes: mail and desk.
    struct Axes;

    impl Embedder for Axes {
        fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, StrategyError>> {
            let count = |text: &str, word| text.matches(word).count() as f32;
            let vectors = texts.iter().map(|text| vec![count(text, "mail"), count(text, "desk")]);
            Box::pin(std::future::ready(Ok(vectors.collect())))
        }
    }

    #[tokio::test]
    async fn the_nearest_direction_comes_first_and_nothing_in_common_is_no_result() {
        let view = view(None);
        let texts: Vec<_> = view.tools().iter().map(|tool| tool.name().to_owned()).collect();
        let vectors = Axes.embed(&texts).await.unwrap().into_iter().map(unit).collect();
        let tools = view.tools().iter().map(|tool| tool.id.clone()).collect();
        let dense = Dense { embedder: Arc::new(Axes), vectors, tools };
        let found = dense.search("mail mail mail desk", 10).await.unwrap();
        assert_eq!(names(&found), ["mail_archive", "mail_search", "mail_send", "desk_close", "desk_search"]);
        assert!((found[0].score - 3.0 / 10f64.sqrt()).abs() < 1e-6);
        assert!(dense.search("nothing", 10).await.unwrap().is_empty(), "zero has no direction");
    }

    #[test]
    fn a_missing_model_says_how_to_get_it() {
        let error = read(Path::new("/nowhere/at/all"), "digest").unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all") && error.contains("scripts/embeddings.py"), "{error}");
    }
}
