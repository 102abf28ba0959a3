//! `[desk.NAME]`: a desk-area network's chips, how they are joined, and the devices at them.

use super::device::OwnDevice;
use crate::Switches;
use crate::desk::device::{CameraSettings, DisplaySettings, MAX_RECORDED_OCTETS, Settings, StoreSettings};
use crate::desk::video::{HEAD_OCTETS, MAX_FRAME_OCTETS};
use crate::desk::{LINKS, Layout, LayoutError, MAX_CHIPS, Shape};
use control::fault::{Fault, Faults, word};
use control::kinds::{Far, LinkEnd, OwnEnd, OwnLink};
use net::topology::{Attachment, LinkDescription, parse_link_rate};
use net::{Carries, LinkConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Devices of one desk at most: as many as chips may be.
const MAX_DEVICES: usize = MAX_CHIPS;

/// `[desk.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Desk {
    /// `chain`, `ring` or `shuffle`.
    pub shape: String,
    /// How many chips. A shuffle has a power of two.
    pub chips: usize,
    /// Chips without power, by their numbers from 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub off: Vec<usize>,
    /// Cameras, displays and stores, by name. Each is at the third port of a chip.
    pub devices: BTreeMap<String, DeskDevice>,
    /// Circuits of low latency pass others wherever cells wait.
    pub bypass: bool,
    /// Connections whose state is on a chip at once; others are fetched.
    pub cached_connections: usize,
}

/// A device of a desk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeskDevice {
    /// `camera`, `display` or `store`.
    pub kind: String,
    /// The chip that it is at.
    pub chip: usize,
    /// Of a camera: width and height, an octet for each point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[u16; 2]>,
    /// Of a camera: frames each second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_per_s: Option<f64>,
    /// Of a camera: a file of frames, one behind the other, instead of a pattern that moves. Of a display: where
    /// frames are stored, as YUV4MPEG2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Of a display: milliseconds from when a frame was taken to when it must have come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<f64>,
    /// Of a store: a file that it sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub play: Option<PathBuf>,
    /// Of a store: a file that it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
    /// Of a display and a store: octets of the file that it writes at most; what is beyond is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_octets: Option<u64>,
    /// Of a store: how fast it sends on each circuit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
}

impl Default for Desk {
    fn default() -> Self {
        let chip = crate::Config::default();
        Desk {
            shape: "chain".into(),
            chips: 4,
            off: Vec::new(),
            devices: BTreeMap::new(),
            bypass: true,
            cached_connections: chip.cache,
        }
    }
}

impl Desk {
    /// What it means.
    ///
    /// # Errors
    /// All that is wrong with it, but for its devices.
    pub fn describe(&self) -> Result<Layout, Faults> {
        let mut faults = Faults::default();
        let shapes = [("chain", Shape::Chain), ("ring", Shape::Ring), ("shuffle", Shape::Shuffle)];
        let shape = word(&mut faults, "shape", &self.shape, &shapes);
        let default = crate::Config::default();
        if !(2..=default.connections).contains(&self.cached_connections) {
            let says = format!("cached_connections = {}: write 2 to {}", self.cached_connections, default.connections);
            faults.add("cached_connections", says);
        }
        let switches = Switches { bypass: self.bypass, ..default.switches };
        let cache = self.cached_connections.clamp(2, default.connections);
        let chip = crate::Config { cache, switches, ..default };
        let layout =
            shape.map(|shape| Layout { shape, chips: self.chips, chip, off: self.off.iter().copied().collect() });
        if let Some(Err(problem)) = layout.as_ref().map(Layout::plan) {
            let key = if matches!(problem, LayoutError::Off { .. }) { "off" } else { "chips" };
            faults.add(key, problem);
        }
        faults.or(layout)
    }

    /// Its devices, each with its link to the desk, in the order of their names; files are in `folder`.
    pub(super) fn devices(&self, desk: &str, folder: &Path, faults: &mut Faults) -> Vec<OwnLink> {
        if self.devices.len() > MAX_DEVICES {
            faults.add("devices", format!("{} devices: {MAX_DEVICES} at most", self.devices.len()));
        }
        let mut taken: BTreeMap<usize, &String> = BTreeMap::new();
        let mut all = Vec::new();
        for (name, device) in self.devices.iter().take(MAX_DEVICES) {
            let mut own = Faults::default();
            if device.chip >= self.chips {
                let last = self.chips.saturating_sub(1);
                own.add("chip", format!("chip = {}: there are chips 0 to {last}", device.chip));
            } else if let Some(other) = taken.insert(device.chip, name) {
                own.add("chip", format!("chip = {}: `{other}` is at its third port", device.chip));
            }
            let settings = device.describe(folder, &mut own);
            let within = own.0.into_iter().map(|Fault { mut at, says }| {
                at.0.splice(0..0, ["devices".into(), name.into()]);
                Fault { at, says }
            });
            faults.0.extend(within);
            let Some(settings) = settings else { continue };
            let ends = [
                Attachment { station: name.clone(), port: None },
                Attachment { station: desk.to_owned(), port: u16::try_from(device.chip).ok() },
            ];
            all.push(OwnLink {
                part: ("devices", name.as_str()).into(),
                description: LinkDescription { ends, config: LinkConfig::default() },
                far: Far::Outside(name.clone(), OwnEnd::new(OwnDevice { name: name.clone(), settings })),
            });
        }
        all
    }

    /// What is wrong with a link to it.
    pub(super) fn check_link(&self, end: &LinkEnd<'_>, faults: &mut Faults) {
        if let Err(says) = self.check_port(end.port) {
            faults.add(("ends", end.place), says);
        }
        if end.carries != Carries::Cells {
            faults.add("carries", "a link to a desk carries cells: leave `carries` out");
        }
        if end.signalling {
            faults.add("signalling", "a desk does not signal: leave `signalling` out");
        }
    }

    fn check_port(&self, port: Option<u16>) -> Result<(), String> {
        let ends = if self.shape == "chain" { LINKS } else { 0 };
        let ports = self.chips + ends;
        let last = self.chips.saturating_sub(1);
        let says = format!("write a chip's number, 0 to {last}, for its third port");
        let says = match ends {
            0 => says,
            _ => format!("{says}, or {} and {} for the ends of the chain", self.chips, self.chips + 1),
        };
        match port.map(usize::from) {
            None => Err(format!("a link to a desk names a port: {says}")),
            Some(port) if port >= ports => Err(format!("the desk has no port {port}: {says}")),
            Some(port) => match self.devices.iter().find(|(_, device)| device.chip == port) {
                Some((name, _)) => Err(format!("`{name}` is at the third port of chip {port}")),
                None => Ok(()),
            },
        }
    }
}

impl DeskDevice {
    fn describe(&self, folder: &Path, faults: &mut Faults) -> Option<Settings> {
        let kinds = [("camera", 0), ("display", 1), ("store", 2)];
        let kind = word(faults, "kind", &self.kind, &kinds)?;
        let foreign: [(&str, bool, &[i32]); 8] = [
            ("size", self.size.is_some(), &[0]),
            ("frames_per_s", self.frames_per_s.is_some(), &[0]),
            ("file", self.file.is_some(), &[0, 1]),
            ("deadline_ms", self.deadline_ms.is_some(), &[1]),
            ("play", self.play.is_some(), &[2]),
            ("record", self.record.is_some(), &[2]),
            ("max_octets", self.max_octets.is_some(), &[1, 2]),
            ("rate", self.rate.is_some(), &[2]),
        ];
        for (key, given, kinds) in foreign {
            if given && !kinds.contains(&kind) {
                faults.add(key, format!("a {} has no `{key}`: leave it out", self.kind));
            }
        }
        let file = |path: &Option<PathBuf>| path.as_ref().map(|path| folder.join(path));
        match kind {
            0 => self.camera(file(&self.file), faults).map(Settings::Camera),
            1 => self.display(file(&self.file), faults).map(Settings::Display),
            _ => self.store([file(&self.play), file(&self.record)], faults).map(Settings::Store),
        }
    }

    fn camera(&self, file: Option<PathBuf>, faults: &mut Faults) -> Option<CameraSettings> {
        let default = CameraSettings::default();
        let size @ [width, height] = self.size.unwrap_or(default.size);
        let octets = usize::from(width) * usize::from(height);
        if !(1..=MAX_FRAME_OCTETS).contains(&octets) {
            faults.add("size", format!("size = [{width}, {height}]: a frame has 1 to {MAX_FRAME_OCTETS} points"));
            return None;
        }
        let frames_per_s = self.frames_per_s.unwrap_or(default.frames_per_s);
        if !(0.1..=600.0).contains(&frames_per_s) {
            faults.add("frames_per_s", format!("frames_per_s = {frames_per_s}: write 0.1 to 600"));
            return None;
        }
        // Whole lines, as many as an SDU of some kilobytes holds; the SDUs are fewer than a number of two octets
        // counts.
        let most = (wire::aal5::MAX_SDU_OCTETS - HEAD_OCTETS).min(default.part_octets.max(octets / 1024));
        let width = usize::from(width);
        let part_octets = if width <= most { most / width * width } else { most };
        Some(CameraSettings { size, frames_per_s, part_octets, file })
    }

    fn display(&self, file: Option<PathBuf>, faults: &mut Faults) -> Option<DisplaySettings> {
        let default = DisplaySettings::default();
        let given = self.deadline_ms.unwrap_or(default.deadline.as_secs_f64() * 1e3);
        if !(0.001..=60_000.0).contains(&given) {
            faults.add("deadline_ms", format!("deadline_ms = {given}: write 0.001 to 60000"));
            return None;
        }
        Some(DisplaySettings { deadline: Duration::from_secs_f64(given / 1e3), file, max_octets: self.max_octets() })
    }

    fn store(&self, [play, record]: [Option<PathBuf>; 2], faults: &mut Faults) -> Option<StoreSettings> {
        if play.is_none() && record.is_none() {
            faults.add("kind", "a store has a file to send, or one to write: add `play` or `record`");
            return None;
        }
        let text = self.rate.as_deref().unwrap_or("20 Mbit/s");
        let rate = faults.take("rate", parse_link_rate(text)).flatten();
        if rate.is_none() && text == "unlimited" {
            faults.add("rate", "a store sends at a rate: write 20 Mbit/s, for example");
        }
        Some(StoreSettings { play, record, rate: rate?, max_octets: self.max_octets() })
    }

    fn max_octets(&self) -> u64 {
        self.max_octets.unwrap_or(MAX_RECORDED_OCTETS)
    }
}

#[cfg(test)]
mod tests {
    use crate::kind::DeskKind;
    use control::config::{Config, Shell, parse_with};
    use control::diagnostic::Diagnostics;
    use control::kinds::Kinds;

    const GOOD: &str = "[desk.den]\nchips = 4\n[desk.den.devices]\n\
        eye = { kind = \"camera\", chip = 1, size = [320, 240] }\n\
        wall = { kind = \"display\", chip = 3, deadline_ms = 20 }\n\
        [host.laptop]\n[switch.s1]\n\
        [[link]]\nends = [\"laptop\", \"den:0\"]\n\
        [[link]]\nends = [\"den:5\", \"s1:0\"]\n\
        [[circuit]]\nends = [\"eye 0.100\", \"wall 0.100\", \"laptop 0.100\"]\n\
        category = \"cbr\"\npcr = \"20 Mbit/s\"\n";

    fn parse(text: &str, name: &str) -> Result<Config, Diagnostics> {
        parse_with(&Kinds::none().with::<DeskKind>(), text, name)
    }

    #[test]
    fn devices_have_a_link_each_and_circuits_between_them_a_way() {
        let config = parse(GOOD, "x").unwrap();
        assert_eq!((config.description.links.len(), config.shells.len()), (4, 2));
        assert!(config.shells.values().all(|shell| matches!(shell, Shell::Own(_))));
        assert_eq!(config.layouts["den"].get::<DeskKind>().unwrap().ports(), 6);
        control::description::rehearse(&config).unwrap();
    }

    #[test]
    fn what_is_wrong_is_told_at_its_place() {
        for (from, to, says) in [
            ("chips = 4", "chips = 400", "400 chips: write 1 to 256"),
            ("chips = 4", "chips = 4\nshape = \"star\"", "write chain, ring or shuffle"),
            ("chips = 4", "chips = 6\nshape = \"shuffle\"", "6 chips: a perfect shuffle has"),
            ("chips = 4", "chips = 4\noff = [4]", "chip 4 is off: there are chips 0 to 3"),
            ("chip = 3", "chip = 4", "net.toml:5:35: chip = 4: there are chips 0 to 3"),
            ("chip = 3", "chip = 1", "`eye` is at its third port"),
            ("\"display\"", "\"radio\"", "write camera, display or store"),
            ("deadline_ms = 20", "rate = \"20 Mbit/s\"", "a display has no `rate`"),
            ("deadline_ms = 20", "deadline_ms = 0", "write 0.001 to 60000"),
            ("size = [320, 240]", "max_octets = 1000", "a camera has no `max_octets`"),
            ("size = [320, 240]", "size = [0, 240]", "a frame has 1 to"),
            ("size = [320, 240]", "frames_per_s = 0", "write 0.1 to 600"),
            ("\"display\", chip = 3, deadline_ms = 20", "\"store\", chip = 3", "add `play` or `record`"),
            ("den:0", "den:3", "`wall` is at the third port of chip 3"),
            ("den:5", "den:6", "the desk has no port 6"),
            ("den:5", "den", "a link to a desk names a port"),
            ("\"s1:0\"]", "\"s1:0\"]\ncarries = \"frames\"", "a link to a desk carries cells"),
            ("[host.laptop]", "[host.eye]\n[host.laptop]", "another station is called `eye`"),
            ("[switch.s1]", "[switch.s1]\n[switch.den]", "two stations are called `den`"),
        ] {
            let e = format!("{:#}", parse(&GOOD.replacen(from, to, 1), "net.toml").unwrap_err());
            assert!(e.contains(says), "{to}: {e}");
        }
    }
}
