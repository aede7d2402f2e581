/** @file The ONNX files: every field where the format has it, read back by an independent protobuf reader. */

import protobuf from "protobufjs";
import { describe, expect, test } from "vitest";
import { OPSET } from "../../../models/onnx/onnx-file.ts";
import { inferenceGraph, trainingGraph } from "../../../models/bandwidth/surrogate-graphs.ts";
import { parameterCount, transformerShape } from "../../../models/bandwidth/transformer.ts";

/** The part of onnx.proto that our files use; numbers as the ONNX project publishes them. */
const SCHEMA = protobuf.parse(
  `
  syntax = "proto2";
  message AttributeProto { optional string name = 1; optional int64 i = 3; repeated int64 ints = 8; optional int32 type = 20; }
  message NodeProto { repeated string input = 1; repeated string output = 2; optional string name = 3; optional string op_type = 4; repeated AttributeProto attribute = 5; }
  message TensorProto { repeated int64 dims = 1; optional int32 data_type = 2; optional string name = 8; optional bytes raw_data = 9; }
  message Dimension { optional int64 dim_value = 1; optional string dim_param = 2; }
  message TensorShapeProto { repeated Dimension dim = 1; }
  message TensorType { optional int32 elem_type = 1; optional TensorShapeProto shape = 2; }
  message TypeProto { optional TensorType tensor_type = 1; }
  message ValueInfoProto { optional string name = 1; optional TypeProto type = 2; }
  message GraphProto { repeated NodeProto node = 1; optional string name = 2; repeated TensorProto initializer = 5; repeated ValueInfoProto input = 11; repeated ValueInfoProto output = 12; }
  message OperatorSetIdProto { optional string domain = 1; optional int64 version = 2; }
  message ModelProto { optional int64 ir_version = 1; optional string producer_name = 2; optional GraphProto graph = 7; repeated OperatorSetIdProto opset_import = 8; }
`,
  { keepCase: true },
).root;

interface ReadNode {
  readonly input: readonly string[];
  readonly output: readonly string[];
  readonly name: string;
  readonly op_type: string;
}

interface ReadModel {
  readonly ir_version: number;
  readonly opset_import: readonly { readonly version: number }[];
  readonly graph: {
    readonly node: readonly ReadNode[];
    readonly initializer: readonly {
      readonly name: string;
      readonly dims: readonly number[];
      readonly data_type: number;
      readonly raw_data: Uint8Array;
    }[];
    readonly input: readonly { readonly name: string }[];
    readonly output: readonly { readonly name: string }[];
  };
}

function read(bytes: Uint8Array): ReadModel {
  const type = SCHEMA.lookupType("ModelProto");
  // The schema above is this interface.
  return type.toObject(type.decode(bytes), { longs: Number, arrays: true }) as ReadModel;
}

const SHAPE = transformerShape(5);

describe.each([
  { name: "inference", bytes: inferenceGraph(SHAPE), inputs: 4, outputs: 1 },
  { name: "training step", bytes: trainingGraph(SHAPE), inputs: 15, outputs: 5 },
])("the $name file", ({ bytes, inputs, outputs }) => {
  const model = read(bytes);
  const { node, initializer, input, output } = model.graph;

  test("names its format and operator set", () => {
    expect(model.ir_version).toBe(8);
    expect(model.opset_import.map(({ version }) => version)).toEqual([OPSET]);
    expect(input.length).toBe(inputs);
    expect(output.length).toBe(outputs);
  });

  test("makes every value once, before it is used", () => {
    const known = new Set([...input, ...initializer].map(({ name }) => name));
    expect(known.size).toBe(input.length + initializer.length);
    for (const { input: used, output: made, op_type: op } of node) {
      for (const name of used) expect(known, `${op} reads ${name}`).toContain(name);
      for (const name of made) {
        expect(known).not.toContain(name);
        known.add(name);
      }
    }
    for (const { name } of output) expect(known).toContain(name);
    expect(new Set(node.map(({ name }) => name)).size).toBe(node.length);
  });

  test("has constants of the size that their shape says", () => {
    for (const { dims, data_type: type, raw_data: raw } of initializer) {
      const count = dims.reduce((size, by) => size * by, 1);
      expect(raw.length).toBe(count * (type === 1 ? 4 : 8));
    }
  });

  test("is the same to the last byte when it is built again", () => {
    const again = inputs === 4 ? inferenceGraph(SHAPE) : trainingGraph(SHAPE);
    expect(again).toEqual(bytes);
    expect(parameterCount(SHAPE)).toBeGreaterThan(80_000);
  });
});
