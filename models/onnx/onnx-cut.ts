/**
 * @file Cuts an ONNX model into parts: models of their own, whose inputs and outputs are the values that cross between them.
 *
 * A part is a set of operators by their places in the file, and runs as one: it must not need a value that needs one of its own
 * outputs by way of another part. Operators that depend on no input are in no part and repeated where they are needed, as are
 * parameters that several parts read. A model in one part is the file itself. The original's bytes are used throughout. Open dimensions stay open, so parts take
 * the same sizes as the whole; the types of values that cross are onnxruntime's own inference. Cost: one pass, one session.
 */

import { assembledBytes, portBytes } from "./onnx-assembly.ts";
import { markedModel } from "./onnx-marks.ts";
import type { OnnxModel, OnnxPort } from "./onnx-model.ts";
import { constantOperators, readNames } from "./onnx-operator-graph.ts";
import { openOnnx } from "./onnx-session.ts";

export interface OnnxPart {
  /** A model file. */
  readonly bytes: Uint8Array;
  /** What it reads of the request or of other parts, in the order of the file. */
  readonly inputs: readonly string[];
  /** What other parts or the caller need of it. */
  readonly outputs: readonly string[];
}

type CutOnnx =
  | { readonly kind: "cut"; readonly parts: readonly OnnxPart[] }
  | { readonly kind: "refused"; readonly message: string };

/** `parts` are places of operators; every operator that depends on an input is in exactly one. */
export async function cutOnnx(
  model: OnnxModel,
  parts: readonly (readonly number[])[],
): Promise<CutOnnx> {
  const constant = constantOperators(model);
  const trouble = partTrouble(model, { parts, constant });
  if (trouble !== undefined) return { kind: "refused", message: trouble };
  const flows = flowsOf(model, { parts, constant });
  const cycle = cycleTrouble(flows);
  if (cycle !== undefined) return { kind: "refused", message: cycle };
  const [whole] = flows;
  if (whole !== undefined && flows.length === 1 && isWhole(model, whole)) {
    const { inputs, outputs } = whole;
    return { kind: "cut", parts: [{ bytes: model.bytes, inputs, outputs }] };
  }
  const crossing = new Set(flows.flatMap(({ inputs }) => inputs));
  const ports = await portsOf(model, crossing);
  return {
    kind: "cut",
    parts: flows.map(({ operators, inputs, outputs }, index) => {
      const members = [...operators]
        .sort((a, b) => a - b)
        .flatMap((at) => model.operators[at] ?? []);
      const read = new Set([...members.flatMap(readNames), ...outputs]);
      const bytes = assembledBytes(model, {
        name: `${model.name}#${index}`,
        operators: members,
        parameters: model.parameters.filter(({ name }) => read.has(name)),
        inputs: inputs.map((name) => ports.get(name) ?? portBytes(name)),
        outputs: outputs.map((name) => ports.get(name) ?? portBytes(name)),
      });
      return { bytes, inputs, outputs };
    }),
  };
}

interface Cutting {
  readonly parts: readonly (readonly number[])[];
  readonly constant: ReadonlySet<number>;
}

interface Flow {
  /** With the constant ones that it needs. */
  readonly operators: ReadonlySet<number>;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** Whether the model as it is asks for the same inputs and gives the same outputs. */
function isWhole(model: OnnxModel, { inputs, outputs }: Flow): boolean {
  const isSame = (names: readonly string[], ports: readonly OnnxPort[]): boolean =>
    names.length === ports.length && ports.every(({ name }) => names.includes(name));
  return isSame(inputs, model.inputs) && isSame(outputs, model.outputs);
}

function partTrouble(model: OnnxModel, { parts, constant }: Cutting): string | undefined {
  const partOf = new Map<number, number>();
  for (const [part, places] of parts.entries()) {
    if (places.length === 0) return `part ${part} holds no operator`;
    for (const place of places) {
      const operator = model.operators[place];
      if (operator === undefined) {
        return `part ${part} names operator ${place}, and the model has ${model.operators.length}`;
      }
      const other = partOf.get(place);
      if (other !== undefined) {
        return `operator ${place} (${operator.op} ${operator.id}) is in part ${other} and in part ${part}`;
      }
      partOf.set(place, part);
    }
  }
  const left = model.operators.findIndex((_, place) => !partOf.has(place) && !constant.has(place));
  const operator = model.operators[left];
  return operator && `operator ${left} (${operator.op} ${operator.id}) is in no part`;
}

function flowsOf(model: OnnxModel, { parts, constant }: Cutting): readonly Flow[] {
  const makerOf = new Map(
    model.operators.flatMap(({ outputs }, place) => outputs.map((name) => [name, place] as const)),
  );
  const requested = new Set(model.inputs.map(({ name }) => name));
  const answered = model.outputs.map(({ name }) => name);
  const members = parts.map((places) => withConstants(model, places, { constant, makerOf }));
  const inputs = members.map((operators) => {
    const read = new Set([...operators].flatMap((place) => readNames(model.operators[place])));
    return [...read].filter((name) => {
      const maker = makerOf.get(name);
      return maker === undefined ? requested.has(name) : !operators.has(maker);
    });
  });
  const wanted = new Set([...inputs.flat(), ...answered]);
  return parts.map((places, part) => {
    const makes = new Set(places.flatMap((place) => model.operators[place]?.outputs ?? []));
    const outputs = [...makes].filter((name) => name !== "" && wanted.has(name));
    // An answer that depends on no request is given by the first part.
    const fixed =
      part > 0 ? [] : answered.filter((name) => isFixed(name, { makerOf, constant, requested }));
    const operators = withConstants(
      model,
      [...(members[part] ?? []), ...fixed.flatMap((name) => makerOf.get(name) ?? [])],
      { constant, makerOf },
    );
    return { operators, inputs: inputs[part] ?? [], outputs: [...outputs, ...fixed] };
  });
}

interface Making {
  readonly constant: ReadonlySet<number>;
  readonly makerOf: ReadonlyMap<string, number>;
}

const isFixed = (
  name: string,
  { makerOf, constant, requested }: Making & { readonly requested: ReadonlySet<string> },
): boolean => {
  const maker = makerOf.get(name);
  return maker === undefined ? !requested.has(name) : constant.has(maker);
};

function withConstants(
  model: OnnxModel,
  places: readonly number[],
  { constant, makerOf }: Making,
): ReadonlySet<number> {
  const all = new Set(places);
  // A set is walked through in the order of insertion, what is added on the way included.
  for (const place of all) {
    for (const name of readNames(model.operators[place])) {
      const maker = makerOf.get(name);
      if (maker !== undefined && constant.has(maker)) all.add(maker);
    }
  }
  return all;
}

/** Parts run whole, so two parts that wait for each other would never finish. */
function cycleTrouble(flows: readonly Flow[]): string | undefined {
  const partOf = new Map(flows.flatMap(({ outputs }, part) => outputs.map((name) => [name, part])));
  const readers: number[][] = flows.map(() => []);
  const waiting = flows.map(({ inputs }, part) => {
    const makers = new Set(inputs.flatMap((name) => partOf.get(name) ?? []));
    for (const maker of makers) readers[maker]?.push(part);
    return makers.size;
  });
  const free = waiting.flatMap((count, part) => (count === 0 ? [part] : []));
  for (const part of free) {
    for (const reader of readers[part] ?? []) {
      waiting[reader] = (waiting[reader] ?? 0) - 1;
      if (waiting[reader] === 0) free.push(reader);
    }
  }
  const stuck = waiting.findIndex((count) => count > 0);
  if (stuck < 0) return undefined;
  return `part ${stuck} waits for a part that waits for it. Cut where values cross, so that every part can run whole.`;
}

/** ValueInfoProtos of values that cross: as the file has them, else as onnxruntime infers them. */
async function portsOf(
  model: OnnxModel,
  crossing: ReadonlySet<string>,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const ports = new Map<string, Uint8Array>();
  for (const { name, type, bytes } of model.noted.values()) {
    if (type !== undefined && type !== "undefined") ports.set(name, bytes);
  }
  const unknown = [...crossing].filter((name) => !ports.has(name));
  if (unknown.length === 0) return ports;
  const session = await openOnnx(markedModel(model, unknown), { optimise: "as-written" });
  try {
    for (const { name, type, shape } of session.outputs) {
      if (!ports.has(name)) ports.set(name, portBytes(name, type, shape));
    }
  } finally {
    await session.release();
  }
  return ports;
}
