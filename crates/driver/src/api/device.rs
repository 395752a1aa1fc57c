//! Devices.

use std::ffi::{c_char, c_int};

use super::{In, Out, driver, handle, idle};
use crate::abi::{Error, Handle};

api! {
    /// Handle of a device; it equals the ordinal.
    fn cuDeviceGet => (device: Out<c_int>, ordinal: c_int) {
        driver().device(ordinal)?;
        device.put(ordinal)
    }
}

api! {
    /// Number of devices.
    fn cuDeviceGetCount => (count: Out<c_int>) {
        let driver = driver();
        driver.ready()?;
        count.put(c_int::try_from(driver.devices.len()).unwrap_or(c_int::MAX))
    }
}

api! {
    /// Name of a device.
    fn cuDeviceGetName => (name: Out<c_char>, length: c_int, device: c_int) {
        let driver = driver();
        let (_, visible) = driver.device(device)?;
        let room = usize::try_from(length).map_err(|_| Error::INVALID_VALUE)?;
        name.put_text(room, visible.model.name)
    }
}

api! {
    /// UUID of a device: the bytes "warpproof" and its ordinal.
    fn cuDeviceGetUuid | cuDeviceGetUuid_v2 => (uuid: Out<[u8; 16]>, device: c_int) {
        let driver = driver();
        let (index, _) = driver.device(device)?;
        let mut bytes = *b"warpproof\0\0\0\0\0\0\0";
        bytes[15] = u8::try_from(index).unwrap_or(u8::MAX);
        uuid.put(bytes)
    }
}

api! {
    /// LUID of a device, which exists only on Windows.
    fn cuDeviceGetLuid => (_luid: Out<c_char>, _mask: Out<u32>, device: c_int) {
        driver().device(device)?;
        Err(Error::NOT_SUPPORTED)
    }
}

api! {
    /// Total memory in bytes.
    fn cuDeviceTotalMem_v2 => (bytes: Out<usize>, device: c_int) {
        let driver = driver();
        let (_, visible) = driver.device(device)?;
        bytes.put(usize::try_from(visible.memory()).unwrap_or(usize::MAX))
    }
}

api! {
    /// An attribute of a device.
    fn cuDeviceGetAttribute => (value: Out<c_int>, attribute: u32, device: c_int) {
        let driver = driver();
        let (index, visible) = driver.device(device)?;
        let found = visible.attribute(attribute, index).ok_or(Error::INVALID_VALUE)?;
        value.put(c_int::try_from(found).unwrap_or(c_int::MAX))
    }
}

api! {
    /// Compute capability.
    fn cuDeviceComputeCapability => (major: Out<c_int>, minor: Out<c_int>, device: c_int) {
        let driver = driver();
        let (_, visible) = driver.device(device)?;
        let number = |n: u32| c_int::try_from(n).unwrap_or(0);
        major.put(number(visible.model.capability.major))?;
        minor.put(number(visible.model.capability.minor))
    }
}

api! {
    /// Deprecated device properties: fourteen numbers.
    fn cuDeviceGetProperties => (properties: Out<[c_int; 14]>, device: c_int) {
        let driver = driver();
        let (index, visible) = driver.device(device)?;
        let numbers = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
        let values = numbers.map(|n| visible.attribute(n, index).and_then(|v| c_int::try_from(v).ok()).unwrap_or(0));
        properties.put(values)
    }
}

api! {
    /// PCI bus ID of a device.
    fn cuDeviceGetPCIBusId => (id: Out<c_char>, length: c_int, device: c_int) {
        let driver = driver();
        let (index, _) = driver.device(device)?;
        let room = usize::try_from(length).map_err(|_| Error::INVALID_VALUE)?;
        id.put_text(room, &format!("0000:{:02X}:00.0", index + 1))
    }
}

api! {
    /// Device with a given PCI bus ID.
    fn cuDeviceGetByPCIBusId => (device: Out<c_int>, id: In<c_char>) {
        let driver = driver();
        driver.ready()?;
        let id = id.text()?;
        let bus = id.rsplit(':').nth(1).and_then(|bus| usize::from_str_radix(bus, 16).ok());
        let index = bus.and_then(|bus| bus.checked_sub(1)).filter(|index| *index < driver.devices.len());
        let index = index.and_then(|index| c_int::try_from(index).ok()).ok_or(Error::INVALID_DEVICE)?;
        device.put(index)
    }
}

api! {
    /// Every device can access every other one: all share one address space.
    fn cuDeviceCanAccessPeer => (can: Out<c_int>, device: c_int, peer: c_int) {
        let driver = driver();
        driver.device(device)?;
        driver.device(peer)?;
        can.put(c_int::from(device != peer))
    }
}

api! {
    /// Peer-to-peer attributes of two devices: rank, access, atomics.
    fn cuDeviceGetP2PAttribute => (value: Out<c_int>, attribute: u32, source: c_int, target: c_int) {
        let driver = driver();
        driver.device(source)?;
        driver.device(target)?;
        if source == target {
            return Err(Error::INVALID_DEVICE);
        }
        value.put(c_int::from(matches!(attribute, 2 | 3)))
    }
}

api! {
    /// Whether contexts can be restricted to a share of a device.
    fn cuDeviceGetExecAffinitySupport => (supported: Out<c_int>, _kind: u32, device: c_int) {
        driver().device(device)?;
        supported.put(0)
    }
}

api! {
    /// Retains the primary context, creating it if necessary.
    fn cuDevicePrimaryCtxRetain => (context: Out<Handle>, device: c_int) {
        let retained = driver().retain_primary(device)?;
        context.put(handle(retained))
    }
}

api! {
    /// Releases one reference to the primary context.
    fn cuDevicePrimaryCtxRelease | cuDevicePrimaryCtxRelease_v2 => (device: c_int) {
        idle().release_primary(device)
    }
}

api! {
    /// Destroys everything the primary context owns.
    fn cuDevicePrimaryCtxReset | cuDevicePrimaryCtxReset_v2 => (device: c_int) {
        idle().reset_primary(device)
    }
}

api! {
    /// Sets the flags of the primary context.
    fn cuDevicePrimaryCtxSetFlags | cuDevicePrimaryCtxSetFlags_v2 => (device: c_int, flags: u32) {
        let mut driver = driver();
        let (index, _) = driver.device(device)?;
        driver.primaries[index].flags = flags;
        let primary = driver.primaries[index].handle;
        if let Some(context) = primary.and_then(|handle| driver.contexts.get_mut(&handle)) {
            context.flags = flags;
        }
        Ok(())
    }
}

api! {
    /// Whether the primary context is active, and its flags.
    fn cuDevicePrimaryCtxGetState => (device: c_int, flags: Out<u32>, active: Out<c_int>) {
        let driver = driver();
        let (index, _) = driver.device(device)?;
        let primary = driver.primaries[index];
        flags.put(primary.flags)?;
        active.put(c_int::from(primary.retained > 0))
    }
}
