//! A device of a desk as the far end of its link.

use crate::desk::device::{Settings, make};
use anyhow::{Context as _, Result};
use control::folder;
use control::kinds::FarEnd;
use net::Carries;
use net::external::External;

/// A device of a desk.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OwnDevice {
    /// Its name.
    pub(super) name: String,
    /// What it is.
    pub(super) settings: Settings,
}

impl FarEnd for OwnDevice {
    fn kind(&self) -> &'static str {
        match self.settings {
            Settings::Camera(_) => "camera",
            Settings::Display(_) => "display",
            Settings::Store(_) => "store",
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn carries(&self) -> Carries {
        Carries::Cells
    }

    fn make(&self) -> Result<Box<dyn External>> {
        let made = || {
            let written = self.settings.written_file();
            written.map_or(Ok(()), |file| folder::check_of(file, "choose another place for the device's file"))?;
            anyhow::Ok(make(&self.settings)?)
        };
        made().with_context(|| format!("device {}", self.name))
    }
}
