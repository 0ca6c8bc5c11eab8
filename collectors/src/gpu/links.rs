//! The links between devices.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;

use super::figures::Figures;

/// As many as any device so far has.
const MOST_LINKS: u32 = 18;

/// An object a link that the device has.
pub(super) fn read(part: &mut Figures, device: &Device<'_>) {
    for index in 0..MOST_LINKS {
        let link = device.link_wrapper_for(index);
        let Some(active) = part.ask(|| link.is_active()) else { return };
        part.part(&index.to_string(), |part| {
            part.set("active", active);
            if !active {
                return;
            }
            part.put("version", || link.version());
            part.put("replays", || link.error_counter(ErrorCounter::DlReplay));
            part.put("recoveries", || link.error_counter(ErrorCounter::DlRecovery));
            part.put("crcFlitErrors", || link.error_counter(ErrorCounter::DlCrcFlit));
            part.put("crcDataErrors", || link.error_counter(ErrorCounter::DlCrcData));
        });
    }
}
