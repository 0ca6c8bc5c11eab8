//! AlexNet's layers, in the variant that torchvision made usual: five convolutions, three full layers, no local
//! response normalisation. Only shapes are here; nothing knows how they are written or computed.

/// How wide the layers are. The small one has the same layers and is for tests, which can't wait for 61 million
/// weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    pub channels: [usize; 5],
    pub full: usize,
}

impl Width {
    pub const USUAL: Width = Width { channels: [64, 192, 384, 256, 256], full: 4096 };
    pub const SMALL: Width = Width { channels: [8, 12, 16, 12, 12], full: 48 };
}

/// The edge of the square image that it takes.
pub const EDGE: usize = 224;
pub const CLASSES: usize = 1000;
/// The edge after the convolutions.
const LAST_EDGE: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// With a rectifier behind it.
    Convolution {
        inputs: usize,
        outputs: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
    },
    /// The maximum of three by three, every second.
    Pooling,
    Flatten,
    Full {
        inputs: usize,
        outputs: usize,
        rectified: bool,
    },
}

impl Layer {
    /// The shape of its weights, the outputs first; none if it has none.
    pub fn weights(self) -> Option<Vec<usize>> {
        match self {
            Layer::Convolution { inputs, outputs, kernel, .. } => Some(vec![outputs, inputs, kernel, kernel]),
            Layer::Full { inputs, outputs, .. } => Some(vec![outputs, inputs]),
            Layer::Pooling | Layer::Flatten => None,
        }
    }
}

/// The layers in their order.
pub fn layers(width: Width) -> Vec<Layer> {
    let [first, second, third, fourth, fifth] = width.channels;
    let convolution = |inputs, outputs, kernel, stride, padding| Layer::Convolution {
        inputs,
        outputs,
        kernel,
        stride,
        padding,
    };
    vec![
        convolution(3, first, 11, 4, 2),
        Layer::Pooling,
        convolution(first, second, 5, 1, 2),
        Layer::Pooling,
        convolution(second, third, 3, 1, 1),
        convolution(third, fourth, 3, 1, 1),
        convolution(fourth, fifth, 3, 1, 1),
        Layer::Pooling,
        Layer::Flatten,
        Layer::Full { inputs: fifth * LAST_EDGE * LAST_EDGE, outputs: width.full, rectified: true },
        Layer::Full { inputs: width.full, outputs: width.full, rectified: true },
        Layer::Full { inputs: width.full, outputs: CLASSES, rectified: false },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alexnet_has_as_many_parameters_as_the_original() {
        let shapes = layers(Width::USUAL).into_iter().filter_map(Layer::weights);
        let parameters: usize = shapes.map(|shape| shape.iter().product::<usize>() + shape[0]).sum();
        assert_eq!(parameters, 61_100_840);
    }
}
