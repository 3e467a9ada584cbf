//! The server for code that knows no async.

use std::io;

use tokio::runtime::{Builder, Runtime};

use crate::log::Entry;
use crate::mock::{Mock, Settings};
use crate::script::Script;

/// A [`Mock`] with a thread of its own. Not for use inside of an async runtime.
pub struct BlockingMock {
    // Dropped before the runtime that drives it.
    mock: Mock,
    runtime: Runtime,
}

impl BlockingMock {
    pub fn start(script: Script) -> io::Result<Self> {
        Self::start_with(script, &Settings::default())
    }

    pub fn start_with(script: Script, settings: &Settings) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let mock = runtime.block_on(Mock::start_with(script, settings))?;
        Ok(Self { mock, runtime })
    }

    /// Ends in `/v1`.
    pub fn base_url(&self) -> String {
        self.mock.base_url()
    }

    /// See [`Mock::log`].
    pub fn log(&self) -> Vec<Entry> {
        self.mock.log()
    }

    /// See [`Mock::arrived`].
    pub fn arrived(&self) -> usize {
        self.mock.arrived()
    }

    /// See [`Mock::most_in_flight`].
    pub fn most_in_flight(&self) -> usize {
        self.mock.most_in_flight()
    }

    /// See [`Mock::settled`].
    pub fn settled(&self) {
        self.runtime.block_on(self.mock.settled());
    }

    /// See [`Mock::stop`].
    pub fn stop(self) -> Vec<Entry> {
        let Self { mock, runtime } = self;
        runtime.block_on(mock.stop())
    }
}
