/**
 * @file Gives an order to a fleet or to a job: an update, signed with the user's identity, and the outcome of it.
 *
 * A workflow that asks for proof of orders takes the update at once, has the proof checked in its next turn, and answers a query for the outcome;
 * one that does not answers by the update itself. Whoever gives an order hears whether it was carried out, or that nobody knows; it is given again only where
 * the server has said that nobody took it. Throws BAD_INPUT where the identity cannot be read.
 */

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { WorkflowNotFoundError, type Client, type WorkflowHandle } from "@temporalio/client";
import { defaultPayloadConverter, type UpdateDefinition } from "@temporalio/common";
import { ownIdentity } from "../access/own-identity.ts";
import { FAILURE_CODES } from "../domain/values/codes.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import {
  orderQuery,
  PROOF_HEADER,
  USER,
  type OrderOutcome,
  type Proven,
} from "../protocol/messages.ts";
import { pauseMs } from "./ask-again.ts";
import { asked, mayBeTaken } from "./server-error.ts";
import { signedWord, type WordToSign } from "./signed-word.ts";

const SETTLED_WITHIN_MS = 30_000;
/** A question that a worker took along when it ended is never answered; another one is. */
const QUESTION_WITHIN_MS = 10_000;

export interface OrderCall {
  readonly client: Client;
  readonly workflowId: string;
  /** The addressee in messages, e.g. `job train-7`. */
  readonly subject: string;
  /** Of the update alone. */
  readonly withinMs?: number;
}

/** Throws with the code of the refusal. */
export async function ordered<Answer, Order>(
  { client, workflowId, subject, withinMs }: OrderCall,
  update: UpdateDefinition<Answer | null, Proven<Order>>,
  order: Order,
): Promise<Answer> {
  const workflow = client.workflow.getHandle(workflowId);
  const word = { workflowId, signal: update.name, value: order };
  const updateId = randomUUID();
  const give = (): Promise<Answer | null> =>
    given(
      client,
      subject,
      () => {
        // Signed anew for each try: a workflow hears each signature once.
        const args: Proven<Order> = [order, userProof(word)];
        return workflow.executeUpdate(update, { updateId, args });
      },
      withinMs === undefined ? {} : { withinMs },
    );
  const answer = await give().catch(async (error: unknown) => {
    if (!(await isBegunAnew(error, workflow))) throw error;
    return give();
  });
  // The workflow answers as the update's type promises.
  return answer ?? ((await settled({ client, workflowId, subject }, updateId)) as Answer);
}

const BEGUN_WITHIN_MS = 2_000;
const LOOK_EVERY_MS = 100;

/** Whether the run that was to take the order has ended without it, and another has begun: a fleet that is flooded does so by itself (docs/decisions/0260). */
async function isBegunAnew(error: unknown, workflow: WorkflowHandle): Promise<boolean> {
  if (!(error instanceof OrbweaverError && error.cause instanceof WorkflowNotFoundError))
    return false;
  for (const endAtMs = Date.now() + BEGUN_WITHIN_MS; ; await sleep(LOOK_EVERY_MS)) {
    const status = await workflow.describe().then(
      ({ status: { name } }) => name,
      () => undefined,
    );
    if (status === "RUNNING") return true;
    // A run that nobody has ended by force is not followed by another.
    if (status !== "TERMINATED" || Date.now() > endAtMs) return false;
  }
}

/** What became of an order that the workflow has taken as pending; throws with the code of its refusal. */
export async function settled(
  { client, workflowId, subject }: Omit<OrderCall, "withinMs">,
  updateId: string,
): Promise<unknown> {
  const workflow = client.workflow.getHandle(workflowId);
  const endAtMs = Date.now() + SETTLED_WITHIN_MS;
  for (let tries = 0; Date.now() < endAtMs; tries += 1) {
    const outcome = await outcomeOf({ client, subject }, () =>
      workflow.query(orderQuery, updateId),
    );
    if (outcome?.kind === "refused")
      throw new OrbweaverError(codeNamed(outcome.code), outcome.message);
    if (outcome?.kind === "done") return outcome.answer;
    await sleep(pauseMs(tries));
  }
  throw new OrbweaverError(
    "NO_CONNECTION",
    `${subject} has taken the order, and has not said within ${String(SETTLED_WITHIN_MS / 1_000)} s what became of it. ${isOpen(subject)}`,
  );
}

/** As `asked`, for a call that carries an order: where nobody knows whether it was taken, the error says so. */
export function given<Answer>(
  ...[client, subject, call, options]: Parameters<typeof asked<Answer>>
): Promise<Answer> {
  return asked(client, subject, call, options).catch((error: unknown) => {
    if (!mayBeTaken(error)) throw error;
    const why = error.message.replace(/\.$/, "");
    throw new OrbweaverError("NO_CONNECTION", `${why}. ${isOpen(subject)}`, { cause: error });
  });
}

const isOpen = (subject: string): string =>
  `The order may still be carried out: look at the state of ${subject} before you order again`;

/** Undefined where nobody answers: the order has been taken all the same. */
const outcomeOf = (
  { client, subject }: Pick<OrderCall, "client" | "subject">,
  question: () => Promise<OrderOutcome>,
): Promise<OrderOutcome | undefined> =>
  asked(client, subject, question, { withinMs: QUESTION_WITHIN_MS }).catch((error: unknown) => {
    if (error instanceof OrbweaverError && error.code === "NO_CONNECTION") return undefined;
    throw error;
  });

/** Signed with the user's identity. */
export const userProof = (word: WordToSign): string =>
  signedWord(word, { role: USER, pair: ownIdentity() }, Date.now());

/** A signal without a value, with its proof as a header, which Temporal's client lets interceptors alone set. */
export async function signalProven(
  client: Client,
  { workflowId, signal, proof }: Omit<WordToSign, "value"> & { readonly proof: string },
): Promise<void> {
  await client.workflowService.signalWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId },
    signalName: signal,
    identity: client.options.identity,
    requestId: randomUUID(),
    header: { fields: { [PROOF_HEADER]: defaultPayloadConverter.toPayload(proof) } },
  });
}

const codeNamed = (text: string) => FAILURE_CODES.find((code) => code === text) ?? "NOT_ALLOWED";
