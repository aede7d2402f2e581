/**
 * @file Rows times a matrix plus a bias: in plain arrays, and in WebAssembly SIMD, about ten times as fast.
 *
 * The WebAssembly module is one function, assembled here instruction by instruction: for each row, blocks of 16 columns are held in four
 * vectors while the row's inputs are met one by one. Every row is computed alone and in one order, in float32 without fused
 * operations, so the same row gives the same bits in any batch and on any machine. The plain kernel sums in float64; it is
 * the oracle, and takes the matrices whose width is no multiple of 16.
 */

/** The part of the engine's WebAssembly that is used; the compiler's library without a browser does not know it. */
declare const WebAssembly: {
  readonly Memory: new (size: { readonly initial: number }) => WasmMemory;
  readonly Module: new (bytes: Uint8Array<ArrayBuffer>) => object;
  readonly Instance: new (
    module: object,
    imports: Readonly<Record<string, Readonly<Record<string, WasmMemory>>>>,
  ) => { readonly exports: Readonly<Record<string, unknown>> };
};

interface WasmMemory {
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}

interface Dense {
  /** [from, to] */
  readonly weight: Float32Array;
  readonly bias: Float32Array;
}

/** [rows, from] → [rows, to]. */
export type DenseLayer = (input: Float32Array, rows: number) => Float32Array;

/** Makes a layer of a matrix; the matrix is copied. */
export type DenseKernel = (dense: Dense) => DenseLayer;

export const plainKernel: DenseKernel = ({ weight, bias }) => {
  const to = bias.length;
  const from = weight.length / to;
  const sums = new Float64Array(to);
  return (input, rows) => {
    const output = new Float32Array(rows * to);
    for (let row = 0; row < rows; row += 1) {
      sums.set(bias);
      for (let source = 0; source < from; source += 1) {
        const factor = input[row * from + source] ?? 0;
        const base = source * to;
        for (let target = 0; target < to; target += 1) {
          sums[target] = (sums[target] ?? 0) + factor * (weight[base + target] ?? 0);
        }
      }
      output.set(sums, row * to);
    }
    return output;
  };
};

const PAGE = 65_536;
const BLOCK = 16;

/** One memory for all matrices of a model; they lie at its start, what a call needs behind them. */
export function simdKernel(): DenseKernel {
  const memory = new WebAssembly.Memory({ initial: 16 });
  const module = new WebAssembly.Module(denseModule());
  const { exports } = new WebAssembly.Instance(module, { m: { m: memory } });
  // The one export of the module below.
  const run = exports["d"] as (...figures: number[]) => void;
  let used = 0;
  const reserve = (bytes: number): void => {
    const missing = bytes - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / PAGE));
  };
  const floats = (at: number, count: number): Float32Array =>
    new Float32Array(memory.buffer, at, count);
  const stored = (values: Float32Array): number => {
    const at = used;
    used += Math.ceil(values.length / 4) * BLOCK;
    reserve(used);
    floats(at, values.length).set(values);
    return at;
  };
  return (dense) => {
    const to = dense.bias.length;
    if (to % BLOCK !== 0) return plainKernel(dense);
    const from = dense.weight.length / to;
    const weightAt = stored(dense.weight);
    const biasAt = stored(dense.bias);
    return (input, rows) => {
      if (rows === 0) return new Float32Array(0);
      const outputAt = used + Math.ceil((rows * from) / 4) * BLOCK;
      reserve(outputAt + rows * to * 4);
      floats(used, rows * from).set(input);
      run(used, rows, from, weightAt, to * 4, biasAt, outputAt);
      return floats(outputAt, rows * to).slice();
    };
  };
}

/**
 * (input, rows, from, weight, toBytes, bias, output), all i32, over the imported memory:
 *
 *     do { column = 0
 *       do { sums = bias[column…]; x = input; w = weight + column; left = from
 *         do { sums += splat(*x) * w[…]; x += 4; w += toBytes } while (--left)
 *         output[column…] = sums; column += 64 } while (column < toBytes)
 *       output += toBytes; input = x } while (--rows)
 */
function denseModule(): Uint8Array<ArrayBuffer> {
  const [input, rows, from, weight, toBytes, bias, output] = [0, 1, 2, 3, 4, 5, 6];
  const [column, x, w, left, firstSum, factor] = [7, 8, 9, 10, 11, 15];
  const get = (local: number): number[] => [0x20, local];
  const set = (local: number): number[] => [0x21, local];
  const add = [0x6a];
  const number = (value: number): number[] => [0x41, ...signed(value)];
  const grow = (local: number, by: number[]): number[] => [
    ...get(local),
    ...by,
    ...add,
    ...set(local),
  ];
  const lanes = [0, 1, 2, 3];
  /** Operand alignment is a hint: 2 = four bytes. */
  const load = (offset: number): number[] => [0xfd, 0x00, 2, offset];
  const store = (offset: number): number[] => [0xfd, 0x0b, 2, offset];
  const loop = (body: number[], again: number[]): number[] => [
    0x03,
    0x40,
    ...body,
    ...again,
    0x0d,
    0,
    0x0b,
  ];
  const countDown = (local: number): number[] => [
    ...get(local),
    ...number(-1),
    ...add,
    0x22,
    local,
  ];

  const inner = loop(
    [
      ...[...get(x), 0xfd, 0x09, 2, 0, ...set(factor)],
      ...lanes.flatMap((lane) => [
        ...get(firstSum + lane),
        ...[...get(factor), ...get(w), ...load(16 * lane), 0xfd, 0xe6, 0x01],
        ...[0xfd, 0xe4, 0x01, ...set(firstSum + lane)],
      ]),
      ...grow(x, number(4)),
      ...grow(w, get(toBytes)),
    ],
    countDown(left),
  );
  const columns = loop(
    [
      ...lanes.flatMap((lane) => [
        ...[...get(bias), ...get(column), ...add, ...load(16 * lane), ...set(firstSum + lane)],
      ]),
      ...[...get(input), ...set(x)],
      ...[...get(weight), ...get(column), ...add, ...set(w)],
      ...[...get(from), ...set(left)],
      ...inner,
      ...lanes.flatMap((lane) => [
        ...[...get(output), ...get(column), ...add, ...get(firstSum + lane), ...store(16 * lane)],
      ]),
      ...grow(column, number(64)),
    ],
    [...get(column), ...get(toBytes), 0x49],
  );
  const body = [
    ...loop(
      [
        ...[...number(0), ...set(column)],
        ...columns,
        ...grow(output, get(toBytes)),
        ...[...get(x), ...set(input)],
      ],
      countDown(rows),
    ),
    0x0b,
  ];
  const I32 = 0x7f;
  const V128 = 0x7b;
  const code = [2, 4, I32, 5, V128, ...body];
  const section = (id: number, content: number[]): number[] => [
    id,
    ...unsigned(content.length),
    ...content,
  ];
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 7, ...new Array<number>(7).fill(I32), 0]),
    ...section(2, [1, 1, 0x6d, 1, 0x6d, 2, 0, 0]),
    ...section(3, [1, 0]),
    ...section(7, [1, 1, 0x64, 0, 0]),
    ...section(10, [1, ...unsigned(code.length), ...code]),
  ]);
}

/** LEB128. */
function unsigned(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...unsigned(value >>> 7)];
}

function signed(value: number): number[] {
  return value >= -64 && value < 64 ? [value & 127] : [(value & 127) | 128, ...signed(value >> 7)];
}
