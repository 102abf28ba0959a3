//! What an application asks of an endpoint that is to be made.

use crate::control::{DataPath, Events};
use crate::layout::Geometry;

/// What an endpoint is to have.
///
/// ```
/// use endpoint::{DataPath, EndpointConfig, Geometry};
///
/// // 64 buffers of 9216 octets: SDUs of RFC 2225's 9188 octets fit.
/// let geometry = Geometry { buffers: 64, buffer_octets: 9216, ..Geometry::default() };
/// let config = EndpointConfig { host: "alpha".into(), geometry, path: DataPath::ZeroCopy, ..EndpointConfig::default() };
/// assert_eq!(config.send_buffers, None); // half of the buffers
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointConfig {
    /// The host it belongs to.
    pub host: String,
    /// Rings and buffers.
    pub geometry: Geometry,
    /// Of the buffers, how many are kept for sending; the others are for receiving. `None`: half.
    pub send_buffers: Option<u32>,
    /// Event strategy.
    pub events: Events,
    /// Data path.
    pub path: DataPath,
}
