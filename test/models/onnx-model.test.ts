/** @file Reading ONNX files: operators, constants, inner graphs; what a damaged or scattered file is told. */

import { describe, expect, it } from "vitest";
import { onnxBytes, type OnnxGraph } from "../../models/onnx-file.ts";
import { readOnnxModel, type OnnxModel } from "../../models/onnx-model.ts";
import { branchySample, transformerSample } from "../../models/onnx-samples.ts";
import {
  bytesField,
  joinBytes,
  textField,
  varintField,
  wireFields,
} from "../../models/protobuf-wire.ts";

const read = (bytes: Uint8Array): OnnxModel => {
  const answer = readOnnxModel(bytes, "m.onnx");
  if (answer.kind === "refused") throw new Error(answer.message);
  return answer.model;
};

const node = (
  op: string,
  inputs: readonly string[],
  outputs: readonly string[],
): OnnxGraph["nodes"][number] => ({ op, inputs, outputs, attributes: new Map() });

const graph = (changes: Partial<OnnxGraph> = {}): OnnxGraph => ({
  name: "g",
  nodes: [node("Relu", ["x"], ["a"]), node("Add", ["a", "w"], ["y"])],
  constants: [{ name: "w", type: "float32", shape: [2], values: [1, 2] }],
  inputs: [{ name: "x", type: "float32", shape: ["n", 2] }],
  outputs: [{ name: "y", type: "float32", shape: ["n", 2] }],
  ...changes,
});

/** A model whose graph has further fields, already encoded. */
const withFields = (bytes: Uint8Array, extra: Uint8Array): Uint8Array =>
  joinBytes(
    wireFields(bytes).map(({ field, bytes: body, raw }) =>
      field === 7 ? bytesField(7, joinBytes([body, extra])) : raw,
    ),
  );

describe("an ONNX model", () => {
  it("is read with its operators, parameters, ports and operator sets", () => {
    const model = read(onnxBytes(graph()));
    expect(model.operators.map(({ op, inputs, outputs }) => [op, inputs, outputs])).toEqual([
      ["Relu", ["x"], ["a"]],
      ["Add", ["a", "w"], ["y"]],
    ]);
    expect(model.parameters).toMatchObject([
      { name: "w", type: "float32", shape: [2], sizeBytes: 8 },
    ]);
    expect(model.inputs).toMatchObject([{ name: "x", type: "float32", shape: ["n", 2] }]);
    expect([...model.opsets]).toEqual([["", 18]]);
  });

  it("has a name for every operator, its own where that is unique", () => {
    const model = read(branchySample());
    expect(new Set(model.operators.map(({ id }) => id)).size).toBe(model.operators.length);
    expect(model.operators[0]?.id).toBe("Conv_0");
  });

  it("keeps attributes that planning looks at", () => {
    const [conv] = read(branchySample({ side: 16 })).operators;
    expect(conv?.attributes.get("kernel_shape")).toEqual([3, 3]);
    const softmax = read(transformerSample()).operators.find(({ op }) => op === "Softmax");
    expect(softmax?.attributes.get("axis")).toBe(-1);
  });

  it("takes a Constant for a parameter and forgets parameters that nothing reads", () => {
    // AttributeProto `value_floats` of a NodeProto.
    const attribute = joinBytes([
      textField(1, "value_floats"),
      bytesField(7, new Uint8Array(Float32Array.of(3, 4).buffer)),
      varintField(20, 6),
    ]);
    const constant = joinBytes([
      textField(2, "c"),
      textField(4, "Constant"),
      bytesField(5, attribute),
    ]);
    const bytes = withFields(onnxBytes(graph({ nodes: [], outputs: [] })), joinBytes([]));
    const whole = withFields(
      bytes,
      joinBytes([
        bytesField(1, constant),
        bytesField(
          1,
          joinBytes([textField(1, "x"), textField(1, "c"), textField(2, "y"), textField(4, "Add")]),
        ),
        bytesField(12, textField(1, "y")),
      ]),
    );
    const model = read(whole);
    expect(model.parameters.map(({ name, shape }) => [name, shape])).toEqual([["c", [2]]]);
    expect(model.operators.map(({ op }) => op)).toEqual(["Add"]);
  });

  it("sees what an inner graph reads from outside", () => {
    const inner = joinBytes([
      bytesField(1, joinBytes([textField(1, "a"), textField(2, "z"), textField(4, "Relu")])),
      bytesField(12, textField(1, "z")),
    ]);
    const branch = joinBytes([
      textField(1, "then_branch"),
      bytesField(6, inner),
      varintField(20, 5),
    ]);
    const choice = joinBytes([
      textField(1, "a"),
      textField(2, "out"),
      textField(4, "If"),
      bytesField(5, branch),
    ]);
    const model = read(withFields(onnxBytes(graph()), bytesField(1, choice)));
    expect(model.operators.at(-1)?.captures).toEqual(["a"]);
  });
});

describe("a file that is no usable model", () => {
  const good = onnxBytes(graph());
  const external = joinBytes([
    varintField(1, 2),
    varintField(2, 1),
    textField(8, "far"),
    varintField(14, 1),
  ]);
  const cases: readonly (readonly [string, Uint8Array, RegExp])[] = [
    ["is empty", new Uint8Array(), /m\.onnx .* holds no graph/],
    ["is text", new TextEncoder().encode("hello, world"), /m\.onnx is no ONNX model/],
    [
      "is cut off",
      good.subarray(0, good.length - 30),
      /m\.onnx is no ONNX model .*needs \d+ bytes/,
    ],
    [
      "keeps parameters elsewhere",
      withFields(good, bytesField(5, external)),
      /far lies in another file/,
    ],
    [
      "reads what nothing makes",
      onnxBytes(graph({ nodes: [node("Relu", ["q"], ["y"])] })),
      /Relu Relu_0 reads q, which nothing before it makes/,
    ],
    [
      "makes a value twice",
      onnxBytes(graph({ nodes: [node("Relu", ["x"], ["y"]), node("Relu", ["x"], ["y"])] })),
      /makes y a second time/,
    ],
    ["makes no output", onnxBytes(graph({ outputs: [] })), /has no output/],
  ];
  it.each(cases)("%s", (_, bytes, want) => {
    const answer = readOnnxModel(bytes, "m.onnx");
    expect(answer.kind === "refused" ? answer.message : "read").toMatch(want);
  });

  it("never throws on damaged bytes", () => {
    for (let at = 0; at < good.length; at += 1) {
      const damaged = good.slice();
      damaged[at] = (damaged[at] ?? 0) ^ 0x55;
      expect(["read", "refused"]).toContain(readOnnxModel(damaged, "m.onnx").kind);
    }
  });
});
