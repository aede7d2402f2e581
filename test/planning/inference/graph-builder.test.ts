/** @file The costs that the builder of operator graphs derives from shapes, by hand. */

import { expect, it } from "vitest";
import { graphBuilder } from "../../../planning/inference/graph-builder.ts";

/** A table of ten rows of four numbers, two of which are read; a product to width three; a map of it with three FLOPs each. */
function built(elementBytes?: number) {
  const build = graphBuilder(elementBytes);
  const words = build.lookUp("words", build.parameter("table", 40), { rows: 2, width: 4 });
  const wide = build.dense("wide", words, { rows: 2, inner: 4, columns: 3, hasBias: true });
  const bent = build.map("bent", { kind: "Gelu", inputs: [wide], elements: 6, flopsEach: 3 });
  build.matmul(
    "mixed",
    { kind: "BatchMatMul", inputs: [wide, bent], elements: 8 },
    { batch: 2, rows: 2, inner: 3, columns: 2 },
  );
  return build.graph("small");
}

it("numbers operations and parameters in the order of the calls", () => {
  const { name, operations, parameters } = built();
  expect(name).toBe("small");
  expect(parameters).toEqual([
    { id: "table", bytes: 160 },
    { id: "wide.w", bytes: 48 },
    { id: "wide.b", bytes: 12 },
  ]);
  expect(operations.map((each) => [each.id, each.kind, each.inputs, each.parameters])).toEqual([
    ["words", "Gather", [], [0]],
    ["wide", "MatMul", [0], [1, 2]],
    ["bent", "Gelu", [1], []],
    ["mixed", "BatchMatMul", [1, 2], []],
  ]);
});

it.each([
  // A look-up touches its rows alone and writes as many bytes.
  { id: "words", outputBytes: 32, flops: 0, movedBytes: 64 },
  { id: "wide", outputBytes: 24, flops: 2 * 2 * 4 * 3, movedBytes: 32 + 48 + 12 + 24 },
  { id: "bent", outputBytes: 24, flops: 18, movedBytes: 24 + 24 },
  { id: "mixed", outputBytes: 32, flops: 2 * 2 * 2 * 3 * 2, movedBytes: 24 + 24 + 32 },
])(
  "$id costs $flops FLOPs and moves $movedBytes bytes; half precision halves the bytes",
  (want) => {
    const find = (elementBytes?: number) =>
      built(elementBytes).operations.find(({ id }) => id === want.id);
    expect(find()).toMatchObject(want);
    expect(find()?.isHalf).toBeUndefined();
    const { flops, outputBytes, movedBytes } = want;
    const half = { flops, outputBytes: outputBytes / 2, movedBytes: movedBytes / 2 };
    expect(find(2)).toMatchObject(half);
    if (want.id !== "words") expect(find(2)?.isHalf).toBe(true);
  },
);

it("only a look-up touches less than its parameters", () => {
  const touched = built().operations.map((each) => each.touchedParameterBytes);
  expect(touched).toEqual([32, undefined, undefined, undefined]);
});
