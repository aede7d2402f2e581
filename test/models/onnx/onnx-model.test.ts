/** @file Reading ONNX files: operators, constants, inner graphs; what a damaged or scattered file is told. */

import { describe, expect, it } from "vitest";
import { onnxBytes, type OnnxGraph } from "../../../models/onnx/onnx-file.ts";
import { readOnnxModel, type OnnxModel } from "../../../models/onnx/onnx-model.ts";
import { renamed } from "../../../models/onnx/onnx-assembly.ts";
import { branchySample, transformerSample } from "../../../models/onnx/onnx-samples.ts";
import {
  ATTRIBUTE,
  GRAPH,
  GRAPH_FIELD,
  MODEL,
  NODE,
  TENSOR,
  VALUE_INFO,
} from "../../../models/onnx/onnx-messages.ts";
import { fieldsBut } from "../../../models/onnx/protobuf-message.ts";

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
const withFields = (bytes: Uint8Array, extra: Uint8Array): Uint8Array => {
  const graph = Buffer.concat([...MODEL.decode(bytes).graph, extra]);
  return Buffer.concat([...fieldsBut(bytes, GRAPH_FIELD), MODEL.encode({ graph: [graph] })]);
};

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
    const values = ATTRIBUTE.encode({ name: "value_floats", floats: [3, 4], type: 6 });
    const constant = NODE.encode({ outputs: ["c"], op: "Constant", attributes: [values] });
    const add = NODE.encode({ inputs: ["x", "c"], outputs: ["y"], op: "Add" });
    const whole = withFields(
      onnxBytes(graph({ nodes: [], outputs: [] })),
      GRAPH.encode({ nodes: [constant, add], outputs: [VALUE_INFO.encode({ name: "y" })] }),
    );
    const model = read(whole);
    expect(model.parameters.map(({ name, shape }) => [name, shape])).toEqual([["c", [2]]]);
    expect(model.operators.map(({ op }) => op)).toEqual(["Add"]);
  });

  it("sees what an inner graph reads from outside", () => {
    const inner = GRAPH.encode({
      nodes: [NODE.encode({ inputs: ["a"], outputs: ["z"], op: "Relu" })],
      outputs: [VALUE_INFO.encode({ name: "z" })],
    });
    const branch = ATTRIBUTE.encode({ name: "then_branch", graph: inner, type: 5 });
    const choice = NODE.encode({ inputs: ["a"], outputs: ["out"], op: "If", attributes: [branch] });
    const model = read(withFields(onnxBytes(graph()), GRAPH.encode({ nodes: [choice] })));
    expect(model.operators.at(-1)?.captures).toEqual(["a"]);
  });
});

describe("the bytes of a model", () => {
  it("are not copied: operators and parameters are views of the file", () => {
    const bytes = onnxBytes(graph());
    const { operators, parameters } = read(bytes);
    for (const part of [...operators, ...parameters]) expect(part.bytes.buffer).toBe(bytes.buffer);
  });

  it("keep fields that nobody here knows, under a new name too", () => {
    const unknown = Buffer.of(0x92, 0x06, 1, 77);
    const known = NODE.encode({ inputs: ["x"], outputs: ["y"], name: "old", op: "Relu" });
    const bytes = withFields(
      onnxBytes(graph({ nodes: [] })),
      GRAPH.encode({ nodes: [Buffer.concat([known, unknown])] }),
    );
    const [operator] = read(bytes).operators;
    if (operator === undefined) throw new Error("there is no operator");
    const { bytes: written } = renamed(operator, "new");
    expect(NODE.decode(written).name).toBe("new");
    expect(Buffer.from(written).includes(unknown)).toBe(true);
  });
});

describe("a file that is no usable model", () => {
  const good = onnxBytes(graph());
  const external = TENSOR.encode({ dims: [2], type: 1, name: "far", location: 1 });
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
      withFields(good, GRAPH.encode({ initializers: [external] })),
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
