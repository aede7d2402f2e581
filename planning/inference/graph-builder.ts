/**
 * @file Builds operator graphs of tensors of one type (FP32 by default), operation by operation, with costs that follow from shapes.
 *
 * The traffic of a kernel is one read of its inputs and parameters and one write of its output. An operation is a kernel after a
 * compiler has fused runs of element-wise work, as in SortingHat's figure 1.
 */

import type {
  OperationNode,
  OperatorGraph,
  ParameterNode,
} from "../../domain/model/operator-graph.ts";

/** The input of a language model: sequences in a batch, tokens in a sequence. */
export interface InputShape {
  readonly batch: number;
  readonly sequence: number;
}

/** Index of an operation. */
export type Ref = number;

export interface GraphBuilder {
  readonly parameter: (id: string, elements: number) => number;
  /** Element-wise work, a change of layout or a reduction: `flopsEach` for each element of the output. */
  readonly map: (id: string, made: Made) => Ref;
  /** `rows × inner` by `inner × columns`, `batch` times. */
  readonly matmul: (id: string, made: Made, size: MatmulSize) => Ref;
  /** A product with its own weight `id.w`, and its own bias `id.b` if it has one. */
  readonly dense: (id: string, input: Ref, size: DenseSize) => Ref;
  /** Reads `rows` rows of `width` from a table: the only operation that touches few of its parameters' bytes. */
  readonly lookUp: (id: string, table: number, size: { rows: number; width: number }) => Ref;
  readonly graph: (name: string) => OperatorGraph;
}

export interface Made {
  readonly kind: string;
  readonly inputs: readonly Ref[];
  readonly parameters?: readonly number[];
  /** Elements of the output. */
  readonly elements: number;
  readonly flopsEach?: number;
}

export interface MatmulSize {
  readonly batch?: number;
  readonly rows: number;
  readonly inner: number;
  readonly columns: number;
}

export interface DenseSize {
  readonly rows: number;
  readonly inner: number;
  readonly columns: number;
  readonly hasBias?: boolean;
}

const FP32_BYTES = 4;

export function graphBuilder(elementBytes = FP32_BYTES): GraphBuilder {
  const parameters: ParameterNode[] = [];
  const operations: OperationNode[] = [];
  const precision: Pick<OperationNode, "isHalf"> = elementBytes === 2 ? { isHalf: true } : {};

  const add = (id: string, made: Made, flops: number): Ref => {
    const { kind, inputs, parameters: read = [], elements } = made;
    const outputBytes = elements * elementBytes;
    const inputBytes = inputs.map((input) => operations[input]?.outputBytes ?? 0);
    const parameterBytes = read.map((index) => parameters[index]?.bytes ?? 0);
    const movedBytes = sum(inputBytes) + sum(parameterBytes) + outputBytes;
    const costs = { outputBytes, flops, movedBytes, ...precision };
    operations.push({ id, kind, inputs, parameters: read, ...costs });
    return operations.length - 1;
  };

  const parameter = (id: string, elements: number): number =>
    parameters.push({ id, bytes: elements * elementBytes }) - 1;
  const matmul: GraphBuilder["matmul"] = (id, made, { batch = 1, rows, inner, columns }) =>
    add(id, made, 2 * batch * rows * inner * columns);

  return {
    parameter,
    matmul,
    dense: (id, input, { rows, inner, columns, hasBias = false }) =>
      matmul(
        id,
        {
          kind: "MatMul",
          inputs: [input],
          parameters: [
            parameter(`${id}.w`, inner * columns),
            ...(hasBias ? [parameter(`${id}.b`, columns)] : []),
          ],
          elements: rows * columns,
        },
        { rows, inner, columns },
      ),
    map: (id, made) => add(id, made, made.elements * (made.flopsEach ?? 1)),
    lookUp: (id, table, { rows, width }) => {
      const outputBytes = rows * width * elementBytes;
      const costs = { outputBytes, flops: 0, movedBytes: 2 * outputBytes };
      const touched = { touchedParameterBytes: outputBytes };
      operations.push({
        id,
        kind: "Gather",
        inputs: [],
        parameters: [table],
        ...costs,
        ...touched,
      });
      return operations.length - 1;
    },
    graph: (name) => ({ name, parameters, operations }),
  };
}

const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);
