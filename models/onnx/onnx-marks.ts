/**
 * @file Gives every operator of a model a name that holds its place, so that each event of a profile can be assigned to its operator.
 */

import { assembledBytes, portBytes, renamed } from "./onnx-assembly.ts";
import type { OnnxModel } from "./onnx-model.ts";
import { openOnnx, type OnnxSession, type ProfileEvent } from "./onnx-session.ts";

/** No name that a file gives an operator begins with this. */
const MARK = "orbweaver~";

/** The model under marks; `shown` are values between operators that it gives as outputs, too. */
export const markedModel = (model: OnnxModel, shown: readonly string[]): Uint8Array =>
  assembledBytes(model, {
    name: model.name,
    operators: model.operators.map((operator, index) => renamed(operator, `${MARK}${index}.`)),
    parameters: model.parameters,
    inputs: model.inputs.map(({ bytes }) => bytes),
    outputs: [...model.outputs.map(({ bytes }) => bytes), ...shown.map((name) => portBytes(name))],
  });

/** The place that a marked name says; undefined for what the runtime has named. */
export const indexIn = (name: string): number | undefined => {
  if (!name.startsWith(MARK)) return undefined;
  const index = Number.parseInt(name.slice(MARK.length), 10);
  return Number.isNaN(index) ? undefined : index;
};

/** Text in which every marked name is the operator's own. */
export const unmarked = (text: string, { operators }: OnnxModel): string =>
  text.replaceAll(
    /orbweaver~(\d+)\./g,
    (mark, place) => operators[Number(place)]?.id ?? String(mark),
  );

/** The profile of the runs that `use` makes. */
export async function profiled(
  model: Uint8Array,
  optimise: "as-written" | "all",
  use: (session: OnnxSession) => Promise<void>,
): Promise<readonly ProfileEvent[]> {
  const session = await openOnnx(model, { optimise, isProfiled: true });
  try {
    await use(session);
    return session.profile();
  } finally {
    await session.release();
  }
}
