/**
 * @file Turns errors of Temporal's client into one `OrbweaverError` with a code, so that callers never handle gRPC.
 *
 * Errors without a code of ours (a bug, a broken payload) pass through unchanged.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { isGrpcServiceError, QueryNotRegisteredError, type Client } from "@temporalio/client";
import {
  ApplicationFailure,
  NamespaceNotFoundError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
} from "@temporalio/common";
import { FAILURE_CODES, type FailureCode } from "../domain/values/codes.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { pauseMs } from "./ask-again.ts";

/** A running worker answers a query or an update within seconds. */
export const ANSWER_WITHIN_MS = 15_000;

const DROPPED = /unexpected workflow task failure/i;

/**
 * Runs `call` with a deadline; `subject` names the addressee in messages, e.g. `job train-7`.
 *
 * The server drops an update with the workflow task that was to take it, as when a run ends while a signal comes in. Nothing of it was accepted,
 * so the next task is asked.
 */
export async function asked<T>(
  client: Client,
  subject: string,
  call: () => Promise<T>,
  { withinMs = ANSWER_WITHIN_MS }: { readonly withinMs?: number } = {},
): Promise<T> {
  const untilMs = Date.now() + withinMs;
  for (let tries = 0; ; tries += 1) {
    try {
      return await client.withDeadline(untilMs, call);
    } catch (error) {
      const againInMs = pauseMs(tries);
      const isPassing = isDropped(error) || isBetweenRuns(error);
      if (!isPassing || Date.now() + againInMs >= untilMs) throw translated(error, subject);
      await sleep(againInMs);
    }
  }
}

/**
 * Whether the server may have taken the call that failed so: it keeps an update that no worker has taken yet, also when its client no longer waits, and its answer may be lost on the way.
 */
export function mayBeTaken(error: unknown): error is Error {
  const code = findGrpc(error)?.code;
  return code !== undefined && UNANSWERED.has(code);
}

const isDropped = (error: unknown): boolean => DROPPED.test(findGrpc(error)?.details ?? "");

/** A workflow that has just continued as new has no task yet, and the server refuses questions to it. */
const isBetweenRuns = (error: unknown): boolean =>
  /workflow task is not scheduled yet/i.test(findGrpc(error)?.details ?? "");

/** Our error for `error`, or `error` itself. */
export function translated(error: unknown, subject: string): unknown {
  if (error instanceof OrbweaverError || error instanceof WorkflowExecutionAlreadyStartedError) {
    return error;
  }
  const failure = findFailure(error);
  if (failure !== undefined) return failure;
  const missing = missingNamespace(error);
  if (missing !== undefined) {
    return new OrbweaverError(
      "NOT_FOUND",
      `the Temporal server has no namespace ${missing}. Name one that exists (--namespace, TEMPORAL_NAMESPACE), or create it: temporal operator namespace create -n ${missing}`,
      { cause: error },
    );
  }
  if (error instanceof WorkflowNotFoundError) {
    return /already completed/i.test(error.message)
      ? new OrbweaverError("NOT_ALLOWED", `${subject} has already ended`, { cause: error })
      : new OrbweaverError(
          "NOT_FOUND",
          `${subject} does not exist, or ended so long ago that it was deleted. Jobs are called by their ids, which \`orbweaver list --all\` shows.`,
          { cause: error },
        );
  }
  if (error instanceof QueryNotRegisteredError) {
    // Temporal throws this for every failed query; only the text tells the cause.
    return /did not register a handler/i.test(error.message)
      ? new OrbweaverError("NOT_FOUND", `${subject} is a workflow of another kind`, {
          cause: error,
        })
      : new OrbweaverError("NOT_ALLOWED", `${subject} cannot answer: ${error.message}`, {
          cause: error,
        });
  }
  const encoding = /^Unknown encoding: (\S+)/.exec(
    error instanceof Error ? error.message : "",
  )?.[1];
  if (encoding !== undefined) {
    return new OrbweaverError(
      "BAD_INPUT",
      `the answer of ${subject} is encoded as ${encoding}, which this client cannot read. Configure the codecs of orbweaver/codec, and the payload codec of the workers (--codec, ORBWEAVER_CODEC).`,
      { cause: error },
    );
  }
  // Only payloads are parsed as JSON during a call.
  if (error instanceof SyntaxError) {
    return new OrbweaverError(
      "BAD_INPUT",
      `the answer of ${subject} cannot be read: ${error.message}. Configure the payload codec of the workers (--codec, ORBWEAVER_CODEC) if they have one.`,
      { cause: error },
    );
  }
  return fromGrpc(error, subject) ?? error;
}

/** The namespace that the server does not know: the client reports it as a class of its own, or in the server's words. */
function missingNamespace(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof NamespaceNotFoundError) return at.namespace;
  }
  const grpc = findGrpc(error);
  if (grpc?.code !== GRPC.NOT_FOUND) return undefined;
  return /namespace (\S+) (?:is )?not found/i.exec(grpc.details)?.[1];
}

/** The first application failure in a chain of causes whose type is a code of ours. */
function findFailure(error: unknown): OrbweaverError | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof ApplicationFailure && isFailureCode(at.type)) {
      return new OrbweaverError(at.type, at.message, { details: at.details?.[0], cause: error });
    }
  }
  return undefined;
}

function isFailureCode(type: string | null | undefined): type is FailureCode {
  const codes: readonly string[] = FAILURE_CODES;
  return typeof type === "string" && codes.includes(type);
}

/** Numbers of gRPC's status codes: https://grpc.io/docs/guides/status-codes/ */
const GRPC = {
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const;

/** With all others the server says that it has refused the call. */
const UNANSWERED: ReadonlySet<number> = new Set([
  GRPC.CANCELLED,
  GRPC.UNKNOWN,
  GRPC.DEADLINE_EXCEEDED,
  GRPC.ABORTED,
  GRPC.INTERNAL,
  GRPC.UNAVAILABLE,
]);

function fromGrpc(error: unknown, subject: string): OrbweaverError | undefined {
  const grpc = findGrpc(error);
  if (grpc === undefined) return undefined;
  const said = grpc.details === "" ? grpc.message : grpc.details;
  switch (grpc.code) {
    case GRPC.NOT_FOUND:
      return new OrbweaverError("NOT_FOUND", `${subject}: ${said}`, { cause: error });
    case GRPC.INVALID_ARGUMENT:
      return new OrbweaverError("BAD_INPUT", `${subject}: ${said}`, { cause: error });
    case GRPC.UNAVAILABLE:
      return noConnection(`the Temporal server does not answer: ${said}`, error);
    case GRPC.UNIMPLEMENTED:
      return noConnection(
        `what answers there is no Temporal server, or one that is too old (${said}). Check the address; the port of Temporal's UI is another one`,
        error,
      );
    case GRPC.PERMISSION_DENIED:
    case GRPC.UNAUTHENTICATED:
      return noConnection(
        `the Temporal server refuses: ${said}. Check namespace and API key`,
        error,
      );
    case GRPC.FAILED_PRECONDITION:
      if (/Workflow Task in failed state/i.test(said) || DROPPED.test(said)) {
        return new OrbweaverError(
          "NOT_ALLOWED",
          `${subject} cannot answer: its workers fail on it and retry. Their log and Temporal's UI show the cause; most often it was written with an encryption key or a codec that they lack.`,
          { cause: error },
        );
      }
      return noWorker(subject, error);
    case GRPC.DEADLINE_EXCEEDED:
    case GRPC.CANCELLED:
      return noWorker(subject, error);
    default:
      return undefined;
  }
}

const noWorker = (subject: string, cause: unknown): OrbweaverError =>
  noConnection(
    `no worker answers for ${subject}. Start one with \`orbweaver up\` or \`orbweaver worker\``,
    cause,
  );

function noConnection(message: string, cause: unknown): OrbweaverError {
  return new OrbweaverError("NO_CONNECTION", message, { cause });
}

function findGrpc(
  error: unknown,
): { readonly code: number; readonly details: string; readonly message: string } | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (isGrpcServiceError(at)) return at;
  }
  return undefined;
}
