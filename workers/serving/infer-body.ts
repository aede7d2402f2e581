/**
 * @file The bodies of inference requests and answers: bytes to tensors, and tensors to bytes, in the words of the Open Inference Protocol (V2).
 *
 * Requests are untrusted: each problem is a text for the client, and no nesting is followed deeper than the model's input has axes.
 */

import type { SessionPort, TensorValue } from "../../models/onnx/onnx-session.ts";
import type { Tensors } from "./batcher.ts";
import { readTensor, tensorEntry } from "./tensor-json.ts";
import { isFields } from "../../lib/fields.ts";

/** What a request is checked against. */
export interface ModelForm {
  readonly inputs: readonly SessionPort[];
  /** Above 1, all inputs need the same number of rows. */
  readonly maxBatch: number;
}

export type ReadBody =
  | { readonly kind: "read"; readonly inputs: Tensors; readonly id?: string }
  | { readonly kind: "refused"; readonly message: string };

/** An id comes back with the answer, on the event loop. */
const ID_LENGTH = 1_000;

export interface InferAnswer {
  readonly model: string;
  readonly id?: string;
  readonly outputs: Tensors;
}

export function readBody(bytes: Uint8Array, form: ModelForm): ReadBody {
  let body: unknown;
  try {
    body = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8"));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { kind: "refused", message: `the body is not JSON: ${why}` };
  }
  try {
    return readInputs(form, body);
  } catch (error) {
    // A text or a list longer than the language has, for one.
    const why = error instanceof Error ? error.message : String(error);
    return { kind: "refused", message: `the body cannot be read: ${why}` };
  }
}

export function writeAnswer({ model, id, outputs }: InferAnswer): Uint8Array {
  const entries = [...outputs].map(([name, tensor]) => tensorEntry(name, tensor));
  const body = { model_name: model, ...(id !== undefined && { id }), outputs: entries };
  return Buffer.from(`${JSON.stringify(body)}\n`);
}

/** The problem of the request, or its tensors in the order of the model's inputs. */
function readInputs(form: ModelForm, body: unknown): ReadBody {
  const refused = (message: string): ReadBody => ({ kind: "refused", message });
  if (!isFields(body) || !Array.isArray(body["inputs"])) {
    return refused(
      'the body has no list "inputs"; write {"inputs": [{"name", "shape", "datatype", "data"}]}',
    );
  }
  const entries = new Map<string, Readonly<Record<string, unknown>>>();
  for (const entry of body["inputs"]) {
    if (!isFields(entry) || typeof entry["name"] !== "string")
      return refused("an input has no name");
    entries.set(entry["name"], entry);
  }
  const inputs = new Map<string, TensorValue>();
  for (const port of form.inputs) {
    const entry = entries.get(port.name);
    const names = form.inputs.map(({ name }) => name).join(", ");
    if (entry === undefined)
      return refused(`input ${port.name} is missing; the model takes ${names}`);
    const tensor = readTensor(port, entry);
    if (tensor.kind === "refused") return tensor;
    inputs.set(port.name, tensor.tensor);
    entries.delete(port.name);
  }
  const [stray] = entries.keys();
  if (stray !== undefined) return refused(`the model has no input ${stray.slice(0, 100)}`);
  const rows = new Set([...inputs.values()].map(({ shape }) => shape[0] ?? 1));
  if (form.maxBatch > 1 && rows.size > 1) {
    return refused(`the inputs have ${[...rows].join(", ")} rows; all need the same`);
  }
  const { id } = body;
  if (typeof id === "string" && id.length > ID_LENGTH)
    return refused(`the id has ${id.length} characters; at most ${ID_LENGTH} are echoed`);
  return { kind: "read", inputs, ...(typeof id === "string" && { id }) };
}
