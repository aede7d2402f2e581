/** @file The messages between the caller, the lanes of a served model and each other; lanes may be threads, so all of it can be cloned. */

import type { MessagePort } from "node:worker_threads";
import type { TensorValue } from "../../models/onnx/onnx-session.ts";

export interface LanePart {
  /** A model file, or the path of one that the host keeps (`kept-weights.ts`). */
  readonly model: Uint8Array | string;
  /** Where the loaded part is written for later services; absent: nowhere. */
  readonly keepAt?: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly PartOutput[];
}

export interface PartOutput {
  readonly name: string;
  /** The other lanes that read the output. */
  readonly lanes: readonly number[];
  /** Whether the output is part of the model's answer. */
  readonly isAnswer: boolean;
}

export interface LaneSetup {
  readonly lane: number;
  /** In the order in which they run. */
  readonly parts: readonly LanePart[];
  /** Threads of onnxruntime in a part; more than 1 only where a lane stands for more than one core. */
  readonly threads: number;
  /** The GPU that runs the parts, by CUDA's count; absent: the lane's own thread. */
  readonly cudaGpu?: number;
  /** Whether the lane may poll its peers for a moment before it sleeps: true where it has a thread of its own. */
  readonly mayPoll: boolean;
  /** The processor that the lane's thread is bound to; absent: any. */
  readonly processor?: number;
  /** To the other lanes. */
  readonly peers: ReadonlyMap<number, MessagePort>;
}

/** From the caller, or from another lane. */
export type LaneMessage =
  | {
      /** Every lane receives one for every request, with the inputs of the model that the lane reads. */
      readonly kind: "begin";
      readonly request: number;
      readonly values: readonly NamedTensor[];
    }
  | { readonly kind: "value"; readonly request: number; readonly value: NamedTensor }
  /** Another lane failed in its part of the request, so the request is lost. */
  | { readonly kind: "drop"; readonly request: number }
  | { readonly kind: "end" };

export type NamedTensor = readonly [name: string, tensor: TensorValue];

/** To the caller. */
export type LaneReport =
  | { readonly kind: "ready" }
  | { readonly kind: "broken"; readonly message: string }
  | { readonly kind: "answer"; readonly request: number; readonly value: NamedTensor }
  | { readonly kind: "failed"; readonly request: number; readonly message: string };

/** The memory of a tensor that fills its buffer; a view into a larger buffer cannot be transferred. */
export function ownMemory({ data }: TensorValue): readonly ArrayBuffer[] {
  const { buffer } = data;
  return buffer instanceof ArrayBuffer && data.byteLength === buffer.byteLength ? [buffer] : [];
}
