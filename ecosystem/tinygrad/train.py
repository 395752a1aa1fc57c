"""Trains a small network for 50 steps on tinygrad's CUDA backend, and compares each loss with its CPU backend.

The network is a convolution, a normalization and two linear layers, on images of two classes that are made from a seed. Both
backends start from the same weights. Roundings differ, and training carries a difference from step to step; the limit
is a part of a thousand of the loss, and the loss must fall to a half, so that a network that learns nothing fails.
"""
import sys

import numpy as np
from tinygrad import Context, Tensor, TinyJit
from tinygrad.nn.optim import SGD

STEPS = 50
BATCH = 16
LIMIT = 1e-3


def data():
    """Noisy images with a bright upper or lower half, and their labels."""
    generator = np.random.default_rng(7)
    labels = generator.integers(0, 2, (STEPS, BATCH))
    images = generator.normal(0, 1, (STEPS, BATCH, 1, 12, 12)).astype(np.float32)
    for step, batch in enumerate(labels):
        for image, label in enumerate(batch):
            images[step, image, 0, 6 * label : 6 * label + 6] += 0.5
    return images, labels.astype(np.int32)


def weights(device):
    """The same weights on any device."""
    generator = np.random.default_rng(11)
    shapes = [(8, 1, 3, 3), (8,), (8 * 5 * 5, 16), (16,), (16, 2), (2,)]
    made = []
    for shape in shapes:
        fan_in = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
        values = generator.normal(0, fan_in**-0.5, shape) if len(shape) > 1 else np.zeros(shape)
        made.append(Tensor(values.astype(np.float32), device=device))
    return made


def losses(device):
    """The loss of every step."""
    images, labels = data()
    conv, conv_bias, first, first_bias, second, second_bias = parameters = weights(device)
    optimizer = SGD(parameters, lr=0.05, momentum=0.9)

    # After two calls tinygrad replays its kernels as a CUDA graph.
    @TinyJit
    def step(x, y):
        hidden = x.conv2d(conv, conv_bias).relu().max_pool2d().flatten(1)
        hidden = hidden.layernorm().linear(first, first_bias).relu()
        loss = hidden.linear(second, second_bias).sparse_categorical_crossentropy(y)
        optimizer.zero_grad()
        loss.backward()
        return loss.realize(*optimizer.schedule_step())

    found = []
    with Context(TRAINING=1):
        for x, y in zip(images, labels):
            loss = step(Tensor(x, device=device).realize(), Tensor(y, device=device).realize())
            found.append(float(loss.numpy()))
    return found


def main():
    got, want = losses("CUDA"), losses("CPU")
    worst = max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(got, want))
    print(f"{STEPS} steps: loss {got[0]:.4f} to {got[-1]:.4f} on CUDA, {want[0]:.4f} to {want[-1]:.4f} on CPU; "
          f"largest difference {worst:.2e}, at most {LIMIT:.0e}")
    learned = sum(got[-5:]) / 5 < got[0] / 2
    if not learned:
        print("FAILED: the loss did not fall to a half")
    if not worst <= LIMIT:
        print("FAILED: the losses differ")
    return 0 if learned and worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
