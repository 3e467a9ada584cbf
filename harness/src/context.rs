//! The handle of one episode: the only door to a model, and the place where everything that happens is written down.

use futures::future::BoxFuture;
use serde_json::Value;
use tracing::{Instrument as _, debug};

use crate::catalogue::View;
use crate::chat::{ChatReply, ChatRequest, Message, ToolDef};
use crate::clock::Stopwatch;
use crate::conversation::{Sampling, inner_arguments, inner_request};
use crate::episode::{Exposure, Level, RANKED_DEPTH, ScoredTool, SearchRecord, Span, Split, Timing, Turn, TurnTiming};
use crate::gateway::{AskError, Gateway};
use crate::handle::{Ask, HandleReply, HandleRequest};
use crate::ids::ToolId;
use crate::spans;
use crate::strategy::{Retriever, StrategyError};
use crate::tokens;
use crate::toolbox::Toolbox;
use crate::usage::{Usage, UsageSource};

/// The handle that a strategy is given. Labels are not reachable from it.
pub struct EpisodeCx<'e> {
    gateway: &'e Gateway,
    toolbox: &'e Toolbox,
    sampling: &'e Sampling,
    query: &'e str,
    repeat: u32,
    seed: u64,
    pub(crate) record: Record,
}

/// What an episode has recorded so far.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) turns: Vec<Turn>,
    pub(crate) searches: Vec<SearchRecord>,
    pub(crate) exposed: Vec<Exposure>,
    pub(crate) leaks: u32,
    pub(crate) timing: Timing,
}

impl<'e> EpisodeCx<'e> {
    pub(crate) fn new(
        gateway: &'e Gateway,
        toolbox: &'e Toolbox,
        sampling: &'e Sampling,
        query: &'e str,
        repeat: u32,
        seed: u64,
    ) -> Self {
        Self { gateway, toolbox, sampling, query, repeat, seed, record: Record::default() }
    }

    pub fn view(&self) -> &View {
        &self.toolbox.view
    }

    /// The name a model uses for a tool of the view.
    pub fn wire_name(&self, tool: &ToolId) -> &str {
        self.toolbox.wire_name(tool)
    }

    /// The seed of this episode's random choices: a function of the job alone.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Performs a request given as data.
    pub fn request<'a>(
        &'a mut self,
        request: HandleRequest,
        retrievers: &'a [&'a dyn Retriever],
    ) -> BoxFuture<'a, Result<HandleReply, StrategyError>> {
        Box::pin(async move {
            match request {
                HandleRequest::Chat { label, messages, ask } => {
                    let (text, arguments) = self.chat(&label, &messages, &ask).await?;
                    Ok(HandleReply::Chat { text, arguments })
                }
                HandleRequest::Embed { texts } => Ok(HandleReply::Embed { vectors: self.embed(&texts).await? }),
                HandleRequest::Search { retriever, text, k, by_model } => {
                    let named = retrievers.iter().find(|known| known.name() == retriever);
                    let known =
                        named.ok_or_else(|| StrategyError::Contract(format!("no retriever is named {retriever:?}")))?;
                    Ok(HandleReply::Search { ranked: self.search(*known, &text, k, by_model).await? })
                }
                HandleRequest::Expose { tools, level } => {
                    self.expose(&tools, level)?;
                    Ok(HandleReply::Exposed)
                }
            }
        })
    }

    /// One inner generation on the strategy's own messages; the text, and the arguments if a function was asked for.
    pub async fn chat(
        &mut self,
        label: &str,
        messages: &[Message],
        ask: &Ask,
    ) -> Result<(String, Option<Value>), StrategyError> {
        for message in messages {
            self.count_leaks(&message.text());
        }
        if let Ask::Function { function } = ask {
            self.count_leaks_in_tool(function);
        }
        let protocol = self.gateway.profile().protocol;
        let request = inner_request(self.gateway.profile(), self.sampling, messages, ask);
        let definitions_tokens = request.tools.iter().map(tokens::count_json).sum();
        let conversation_tokens = request.messages.iter().map(tokens::count_json).sum();
        let split = Split { definitions_tokens, results_tokens: 0, conversation_tokens };
        let reply = self.generate(Span::Inner, label, &request, split).await?;
        Ok((reply.text.clone(), inner_arguments(protocol, &reply)))
    }

    /// Vectors of the texts, from the endpoint's embedding model.
    pub async fn embed(&mut self, texts: &[String]) -> Result<Vec<Vec<f32>>, StrategyError> {
        let profile = self.gateway.profile();
        let model = profile.embed_model.as_ref().unwrap_or(&profile.model);
        let request = spans::embed(model, self.gateway.server());
        let answer = self.gateway.embed(texts).instrument(request.clone()).await;
        let answer = answer.inspect_err(|error| spans::unanswered(&request, error))?;
        spans::answered(&request, &answer);
        self.record.timing.endpoint_ms += answer.latency_ms;
        self.record.timing.backoff_ms += answer.backoff_ms;
        self.record.timing.queue_ms += answer.queue_ms;
        Ok(answer.reply)
    }

    /// Searches and records the search.
    pub async fn search(
        &mut self,
        retriever: &dyn Retriever,
        text: &str,
        k: usize,
        by_model: bool,
    ) -> Result<Vec<ScoredTool>, StrategyError> {
        let watch = Stopwatch::start();
        let found = retriever.search(text, k.max(RANKED_DEPTH)).await?;
        let elapsed_ms = watch.elapsed_ms();
        debug!(retriever = retriever.name(), k, by_model, elapsed_ms, "searched");
        self.record.timing.retrieval_ms += elapsed_ms;
        self.record.searches.push(SearchRecord {
            retriever: retriever.name().to_owned(),
            text: text.to_owned(),
            by_model,
            ranked: found.iter().take(RANKED_DEPTH).cloned().collect(),
        });
        Ok(found.into_iter().take(k).collect())
    }

    /// Records that tools became visible from the next outer turn on. Only tools of the view can be.
    pub fn expose(&mut self, tools: &[ToolId], level: Level) -> Result<(), StrategyError> {
        let turn = self.record.turns.iter().filter(|turn| turn.span == Span::Outer).count() as u32;
        for tool in tools {
            if !self.toolbox.view.contains(tool) {
                return Err(StrategyError::Contract(format!("{tool} is outside the view and cannot be shown")));
            }
            if !self.record.exposed.iter().any(|known| known.tool == *tool && known.level >= level) {
                self.record.exposed.push(Exposure { tool: tool.clone(), level, turn });
            }
        }
        Ok(())
    }

    pub(crate) fn is_defined(&self, tool: &ToolId) -> bool {
        self.record.exposed.iter().any(|known| known.tool == *tool && known.level == Level::Defined)
    }

    /// Counts names of tools outside the view in words that the strategy wrote.
    pub(crate) fn count_leaks(&mut self, text: &str) {
        self.record.leaks += self.toolbox.leaks_in(text, self.query) as u32;
    }

    /// The same in a tool of the strategy itself, its parameters included.
    pub(crate) fn count_leaks_in_tool(&mut self, tool: &ToolDef) {
        self.count_leaks(&format!("{} {}", tool.description, tool.parameters));
    }

    /// Sends a request and records the generation. `split` is the estimate of its prompt.
    pub(crate) async fn generate(
        &mut self,
        span: Span,
        label: &str,
        request: &ChatRequest,
        split: Split,
    ) -> Result<ChatReply, AskError> {
        let turn = spans::turn(span, label, request, self.gateway.server());
        let answer = self.gateway.chat(request, split.total(), self.repeat).instrument(turn.clone()).await;
        let answer = answer.inspect_err(|error| spans::unanswered(&turn, error))?;
        spans::generated(&turn, &answer);
        let reply = answer.reply;
        let calls: u64 =
            reply.calls.iter().map(|call| tokens::count(&call.name) + tokens::count(&call.arguments)).sum();
        let estimated_output_tokens = tokens::count(&reply.text) + calls;
        let estimate =
            Usage { input_tokens: split.total(), output_tokens: estimated_output_tokens, ..Usage::default() };
        self.record.timing.endpoint_ms += answer.latency_ms;
        self.record.timing.backoff_ms += answer.backoff_ms;
        self.record.timing.queue_ms += answer.queue_ms;
        self.record.turns.push(Turn {
            span,
            label: label.to_owned(),
            key: answer.key,
            calls: Vec::new(),
            usage: reply.usage.unwrap_or(estimate),
            source: if reply.usage.is_some() { UsageSource::Reported } else { UsageSource::Estimated },
            split,
            estimated_output_tokens,
            attempts: answer.attempts,
            finish_reason: reply.finish_reason.clone(),
            text_chars: reply.text.chars().count() as u32,
            timing: TurnTiming {
                latency_ms: answer.latency_ms,
                backoff_ms: answer.backoff_ms,
                queue_ms: answer.queue_ms,
                stored: answer.stored,
            },
        });
        Ok(reply)
    }
}
