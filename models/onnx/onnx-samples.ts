/**
 * @file Small ONNX models of the two usual shapes, made on demand: a row of transformer blocks, and a convolutional network of
 * branches.
 *
 * Their weights are random (the same for the same seed) and scaled by the width that they sum over, so that values stay near 1
 * however deep a model is. Batch and, of the transformer, sequence are open. Source of the forms: pre-norm blocks as in GPT-2,
 * four branches a block as in Inception, here each as deep as asked.
 */

import { randomFrom } from "../../lib/random.ts";
import {
  onnxBytes,
  type Dimension,
  type OnnxAttribute,
  type OnnxNode,
  type OnnxTensor,
} from "./onnx-file.ts";

interface TransformerSample {
  readonly blocks?: number;
  readonly width?: number;
  readonly heads?: number;
  readonly seed?: number;
}

/** Input `x` and output `y`, both [batch, sequence, width]. */
export function transformerSample(sample: TransformerSample = {}): Uint8Array {
  const { blocks = 2, width = 64, heads = 4, seed = 1 } = sample;
  const made = sketch(seed);
  const size = width / heads;
  if (!Number.isInteger(size)) {
    throw new RangeError(`a width of ${width} does not divide into ${heads} heads`);
  }
  let x = "x";
  for (let block = 0; block < blocks; block += 1) {
    const inHeads = (of: string): string =>
      made.node("Transpose", [made.reshape(made.dense(of, width, width), [0, 0, heads, size])], {
        perm: [0, 2, 1, 3],
      });
    const normal = made.layerNorm(x, width);
    const [query, key, value] = [inHeads(normal), inHeads(normal), inHeads(normal)];
    const turned = made.node("Transpose", [key], { perm: [0, 1, 3, 2] });
    const scores = made.node("Div", [
      made.node("MatMul", [query, turned]),
      made.constant([], [Math.sqrt(size)]),
    ]);
    const mixed = made.node("MatMul", [made.node("Softmax", [scores], { axis: -1 }), value]);
    const joined = made.reshape(made.node("Transpose", [mixed], { perm: [0, 2, 1, 3] }), [
      0,
      0,
      width,
    ]);
    x = made.node("Add", [x, made.dense(joined, width, width)]);
    const inner = made.gelu(made.dense(made.layerNorm(x, width), width, 4 * width));
    x = made.node("Add", [x, made.dense(inner, 4 * width, width)]);
  }
  return made.bytes(
    "transformer",
    [["x", ["batch", "sequence", width]]],
    [[made.layerNorm(x, width), "y", ["batch", "sequence", width]]],
  );
}

interface BranchySample {
  readonly blocks?: number;
  readonly branches?: number;
  /** Convolutions in a row in each branch. */
  readonly depth?: number;
  /** Channels of each branch. */
  readonly width?: number;
  /** Side of the image in pixels. */
  readonly side?: number;
  readonly classes?: number;
  readonly seed?: number;
}

/** Input `image` [batch, 3, side, side], output `scores` [batch, classes], which sum to 1. */
export function branchySample(sample: BranchySample = {}): Uint8Array {
  const { blocks = 2, branches = 4, depth = 4, width = 16 } = sample;
  const { side = 64, classes = 10, seed = 1 } = sample;
  const made = sketch(seed);
  let channels = 2 * width;
  let x = made.conv("image", { from: 3, to: channels, kernel: 3, stride: 2 });
  for (let block = 0; block < blocks; block += 1) {
    const ends = Array.from({ length: branches }, (_, branch) => {
      let at = made.conv(x, { from: channels, to: width, kernel: 1 });
      // Branches look at windows of different sizes, as Inception's do.
      for (let step = 0; step < depth; step += 1) {
        at = made.conv(at, { from: width, to: width, kernel: branch % 2 === 0 ? 3 : 5 });
      }
      return at;
    });
    channels = branches * width;
    x = made.node("Concat", ends, { axis: 1 });
  }
  const pooled = made.node("Flatten", [made.node("GlobalAveragePool", [x])], { axis: 1 });
  const scores = made.node("Softmax", [made.dense(pooled, channels, classes)], { axis: -1 });
  return made.bytes(
    "branchy",
    [["image", ["batch", 3, side, side]]],
    [[scores, "scores", ["batch", classes]]],
  );
}

type Attributes = Readonly<Record<string, OnnxAttribute>>;

interface Convolution {
  readonly from: number;
  readonly to: number;
  readonly kernel: number;
  readonly stride?: number;
}

/** Operators and weights as they are written down, one after the other. */
function sketch(seed: number) {
  const random = randomFrom(seed, "onnx-samples");
  const nodes: OnnxNode[] = [];
  const constants: OnnxTensor[] = [];
  const constant = (shape: readonly number[], values: readonly number[]): string => {
    const name = `w${constants.length}`;
    constants.push({ name, type: "float32", shape, values });
    return name;
  };
  const weights = (shape: readonly number[], over: number): string => {
    const count = shape.reduce((product, size) => product * size, 1);
    const scale = Math.sqrt(1 / over);
    return constant(
      shape,
      Array.from({ length: count }, () => random.normal() * scale),
    );
  };
  const node = (op: string, inputs: readonly string[], attributes: Attributes = {}): string => {
    const output = `v${nodes.length}`;
    nodes.push({ op, inputs, outputs: [output], attributes: new Map(Object.entries(attributes)) });
    return output;
  };
  return {
    constant,
    node,
    dense: (x: string, from: number, to: number): string =>
      node("Add", [node("MatMul", [x, weights([from, to], from)]), weights([to], 100)]),
    layerNorm: (x: string, width: number): string =>
      node("LayerNormalization", [
        x,
        constant([width], new Array<number>(width).fill(1)),
        weights([width], 100),
      ]),
    /** By the error function, as exporters write it out. */
    gelu(x: string): string {
      const half = node("Mul", [x, constant([], [0.5])]);
      const bell = node("Erf", [node("Div", [x, constant([], [Math.SQRT2])])]);
      return node("Mul", [half, node("Add", [bell, constant([], [1])])]);
    },
    conv(x: string, { from, to, kernel, stride = 1 }: Convolution): string {
      const inputs = [
        x,
        weights([to, from, kernel, kernel], (from * kernel ** 2) / 2),
        weights([to], 100),
      ];
      const pad = (kernel - 1) / 2;
      const sides = { pads: [pad, pad, pad, pad], strides: [stride, stride] };
      return node("Relu", [node("Conv", inputs, { kernel_shape: [kernel, kernel], ...sides })]);
    },
    /** A size of 0 stays as it is. */
    reshape(x: string, sizes: readonly number[]): string {
      const name = `w${constants.length}`;
      constants.push({ name, type: "int64", shape: [sizes.length], values: sizes });
      return node("Reshape", [x, name]);
    },
    bytes(
      name: string,
      inputs: readonly (readonly [name: string, shape: readonly Dimension[]])[],
      outputs: readonly (readonly [of: string, name: string, shape: readonly Dimension[]])[],
    ): Uint8Array {
      for (const [of, output] of outputs) {
        nodes.push({ op: "Identity", inputs: [of], outputs: [output], attributes: new Map() });
      }
      return onnxBytes({
        name,
        nodes,
        constants,
        inputs: inputs.map(([input, shape]) => ({ name: input, type: "float32", shape })),
        outputs: outputs.map(([, output, shape]) => ({ name: output, type: "float32", shape })),
      });
    },
  };
}
