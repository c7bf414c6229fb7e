//! Devices and their names: `cuda:1` is a type and an id.

use std::fmt;
use std::str::FromStr;

use super::error::DlpackError;
use super::layout::DLDevice;

/// A DLPack device type. Any number may arrive from outside, so this is a number with names, not an enum.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceType(i32);

impl DeviceType {
    /// Host memory.
    pub const CPU: Self = Self(1);
    /// CUDA device memory.
    pub const CUDA: Self = Self(2);
    /// Host memory pinned by CUDA.
    pub const CUDA_HOST: Self = Self(3);
    /// OpenCL; `data` is a `cl_mem`.
    pub const OPENCL: Self = Self(4);
    /// Vulkan.
    pub const VULKAN: Self = Self(7);
    /// Metal.
    pub const METAL: Self = Self(8);
    /// The Verilog simulator.
    pub const VPI: Self = Self(9);
    /// `ROCm` device memory.
    pub const ROCM: Self = Self(10);
    /// Host memory pinned by HIP.
    pub const ROCM_HOST: Self = Self(11);
    /// The number reserved for trying out a device.
    pub const EXT_DEV: Self = Self(12);
    /// CUDA managed memory.
    pub const CUDA_MANAGED: Self = Self(13);
    /// oneAPI unified shared memory.
    pub const ONEAPI: Self = Self(14);
    /// `WebGPU`.
    pub const WEBGPU: Self = Self(15);
    /// Qualcomm Hexagon.
    pub const HEXAGON: Self = Self(16);
    /// Microsoft MAIA.
    pub const MAIA: Self = Self(17);
    /// AWS Trainium.
    pub const TRN: Self = Self(18);
    /// Google TPU.
    pub const TPU: Self = Self(19);
    /// Host memory pinned by a TPU.
    pub const TPU_HOST: Self = Self(20);
    /// Huawei Ascend.
    pub const ASCEND: Self = Self(21);

    /// Every type of DLPack, in the order of their numbers; those behind [`TRN`](Self::TRN) came after version 1.3.
    pub const ALL: [Self; 19] = [
        Self::CPU,
        Self::CUDA,
        Self::CUDA_HOST,
        Self::OPENCL,
        Self::VULKAN,
        Self::METAL,
        Self::VPI,
        Self::ROCM,
        Self::ROCM_HOST,
        Self::EXT_DEV,
        Self::CUDA_MANAGED,
        Self::ONEAPI,
        Self::WEBGPU,
        Self::HEXAGON,
        Self::MAIA,
        Self::TRN,
        Self::TPU,
        Self::TPU_HOST,
        Self::ASCEND,
    ];

    /// The type with this number, known or not.
    #[must_use]
    pub const fn from_raw(raw: i32) -> Self {
        Self(raw)
    }

    /// The number.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// The name, or `None` for a number that DLPack does not define.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::CPU => "cpu",
            Self::CUDA => "cuda",
            Self::CUDA_HOST => "cuda_host",
            Self::OPENCL => "opencl",
            Self::VULKAN => "vulkan",
            Self::METAL => "metal",
            Self::VPI => "vpi",
            Self::ROCM => "rocm",
            Self::ROCM_HOST => "rocm_host",
            Self::EXT_DEV => "ext_dev",
            Self::CUDA_MANAGED => "cuda_managed",
            Self::ONEAPI => "oneapi",
            Self::WEBGPU => "webgpu",
            Self::HEXAGON => "hexagon",
            Self::MAIA => "maia",
            Self::TRN => "trn",
            Self::TPU => "tpu",
            Self::TPU_HOST => "tpu_host",
            Self::ASCEND => "ascend",
            _ => return None,
        })
    }

    /// Whether `data` is certainly an address of this process, so that arithmetic on it means something. Elsewhere it
    /// may be a handle, and only `byte_offset` moves.
    #[must_use]
    pub const fn is_addressed(self) -> bool {
        matches!(
            self,
            Self::CPU
                | Self::CUDA
                | Self::CUDA_HOST
                | Self::ROCM
                | Self::ROCM_HOST
                | Self::CUDA_MANAGED
                | Self::ONEAPI
                | Self::TPU_HOST
        )
    }

    /// All names, for a message.
    pub(crate) fn names() -> String {
        let names = Self::ALL.into_iter().filter_map(Self::name);
        names.collect::<Vec<_>>().join(", ")
    }

    /// A device of this type.
    #[must_use]
    pub const fn device(self, id: i32) -> Device {
        Device { ty: self, id }
    }
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl FromStr for DeviceType {
    type Err = DlpackError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_it = |name: &str| name.eq_ignore_ascii_case(text);
        if let Some(ty) = Self::ALL
            .into_iter()
            .find(|ty| ty.name().is_some_and(is_it))
        {
            return Ok(ty);
        }
        // The number of a type that has a name is accepted as well: it is what other tools print.
        match text.parse() {
            Ok(raw) if raw > 0 && text.starts_with(|first: char| first.is_ascii_digit()) => {
                Ok(Self(raw))
            }
            _ => Err(DlpackError::DeviceTypeText {
                text: text.to_owned(),
            }),
        }
    }
}

/// A device: type and id, written `cuda:1`; `cuda` alone means id 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a type and an id, as in DLPack")]
pub struct Device {
    /// The type.
    pub ty: DeviceType,
    /// The index among the devices of this type.
    pub id: i32,
}

impl Device {
    /// Host memory, `cpu:0`.
    pub const CPU: Self = DeviceType::CPU.device(0);

    /// A device of a type.
    #[must_use]
    pub const fn new(ty: DeviceType, id: i32) -> Self {
        Self { ty, id }
    }

    /// The C form.
    #[must_use]
    pub const fn to_raw(self) -> DLDevice {
        DLDevice {
            device_type: self.ty.0,
            device_id: self.id,
        }
    }

    /// From the C form, whatever it holds.
    #[must_use]
    pub const fn from_raw(raw: DLDevice) -> Self {
        Self {
            ty: DeviceType(raw.device_type),
            id: raw.device_id,
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_some() {
            return f.pad(&format!("{}:{}", self.ty, self.id));
        }
        write!(f, "{}:{}", self.ty, self.id)
    }
}

impl FromStr for Device {
    type Err = DlpackError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || DlpackError::DeviceText {
            text: text.to_owned(),
        };
        let Some((ty, id)) = text.split_once(':') else {
            return Ok(text.parse::<DeviceType>()?.device(0));
        };
        let ty = ty.parse::<DeviceType>()?;
        if id.is_empty() || !id.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(refused());
        }
        Ok(ty.device(id.parse().map_err(|_unknown| refused())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_type_is_written_and_read_back() {
        for ty in DeviceType::ALL {
            let device = ty.device(3);
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
            assert_eq!(ty.to_string().parse::<Device>().unwrap(), ty.device(0));
        }
        assert_eq!(
            "cuda:1".parse::<Device>().unwrap(),
            Device::new(DeviceType::CUDA, 1)
        );
    }

    #[test]
    fn the_types_that_came_after_version_1_3_have_names() {
        for (raw, name) in [(19, "tpu"), (20, "tpu_host"), (21, "ascend")] {
            assert_eq!(DeviceType::from_raw(raw).name(), Some(name));
            assert_eq!(name.parse::<DeviceType>().unwrap().raw(), raw);
        }
    }

    #[test]
    fn an_unknown_type_is_written_as_its_number() {
        let device = DeviceType::from_raw(99).device(2);
        assert_eq!(device.to_string(), "99:2");
        assert_eq!("99:2".parse::<Device>().unwrap(), device);
    }

    #[test]
    fn a_type_is_read_in_any_case_and_an_unknown_one_is_told_with_the_known_ones() {
        assert_eq!("CPU".parse::<Device>().unwrap(), Device::CPU);
        let told = "gpu:1".parse::<Device>().unwrap_err().to_string();
        assert!(
            told.contains("no device type \"gpu\"; there are cpu, cuda"),
            "{told}"
        );
    }

    #[test]
    fn text_that_names_no_device_is_refused() {
        for text in [
            "",
            ":",
            "gpu",
            "cuda:",
            "cuda:-1",
            "cuda:+1",
            "cuda:1:2",
            " cuda",
            "-1",
            "0",
            "cuda:99999999999",
        ] {
            assert!(text.parse::<Device>().is_err(), "{text:?}");
        }
    }
}
