/**
 * @file Whether the input of a workflow has the form that its type reads: whoever reaches the frontend starts one with anything.
 *
 * Without it such a run fails its first task for ever. What an input says is judged elsewhere: by the fleet, by hosts, by the activities that are asked. A job's file is read by its first
 * activity, which says all that is wrong with it.
 */

import { fleetShapeProblem } from "../domain/fleet/fleet-shape.ts";
import { isFields, type Fields } from "../lib/fields.ts";
import { COLLECTIVE_TUNER_WORKFLOW } from "./collective-messages.ts";
import { CRON_WORKFLOW } from "./cron.ts";
import { LINK_MONITOR_WORKFLOW } from "./link-messages.ts";
import { BANDWIDTH_MODEL_WORKFLOW } from "./model-messages.ts";
import {
  FLEET_WORKFLOW,
  LOBBY_WORKFLOW,
  LOG_SESSION_WORKFLOW,
  PRESENCE_WORKFLOW,
  SESSION_WORKFLOW,
  SWEEP_WORKFLOW,
} from "./names.ts";
import { TIMED_DRAIN_WORKFLOW } from "./timed-drain.ts";

interface Form {
  readonly needs: string;
  readonly holds: (value: unknown) => boolean;
}

const TEXT: Form = { needs: "a text", holds: (value) => typeof value === "string" };
const NUMBER: Form = { needs: "a number", holds: (value) => Number.isFinite(value) };
const MAP: Form = { needs: "a map", holds: isFields };
const LIST: Form = { needs: "a list", holds: Array.isArray };
const TEXTS: Form = {
  needs: "a list of texts",
  holds: (value) => Array.isArray(value) && value.every(TEXT.holds),
};
const AGENTS: Form = {
  needs: "a list of agents",
  holds: (value) =>
    Array.isArray(value) &&
    value.every((each) => isFields(each) && isFields(each["agent"]) && TEXTS.holds(each["hosts"])),
};
const LEDGER: Form = {
  needs: "a packed ledger",
  holds: (value) =>
    isFields(value) &&
    NUMBER.holds(value["applyVersion"]) &&
    fleetShapeProblem(value["shape"]) === undefined,
};
const LOBBY: Form = {
  needs: "what a run hands on",
  holds: (value) =>
    isFields(value) &&
    ["queues", "credits", "called", "returned", "unused"].every((name) => LIST.holds(value[name])),
};
/** By continue-as-new alone. */
const HANDED_ON: Form = { needs: "to come from a former run", holds: () => false };

type Forms = Readonly<Record<string, Form>>;
interface Input {
  readonly fields: Forms;
  /** Of those that may be absent. */
  readonly more?: Forms;
}

const INPUTS: ReadonlyMap<string, Input> = new Map<string, Input>([
  [FLEET_WORKFLOW, { fields: { name: TEXT, ledger: LEDGER } }],
  [PRESENCE_WORKFLOW, { fields: { fleet: TEXT, cluster: TEXT }, more: { agents: AGENTS } }],
  [
    LOBBY_WORKFLOW,
    { fields: { fleet: TEXT, tenant: TEXT }, more: { carried: LOBBY, former: TEXTS } },
  ],
  [SWEEP_WORKFLOW, { fields: { fleet: TEXT, jobId: TEXT, lease: TEXT, hosts: TEXTS } }],
  [SESSION_WORKFLOW, { fields: { fleet: TEXT, order: MAP } }],
  [LOG_SESSION_WORKFLOW, { fields: { fleet: TEXT, idleMs: NUMBER } }],
  [LINK_MONITOR_WORKFLOW, { fields: { fleet: TEXT }, more: { memory: HANDED_ON } }],
  [
    BANDWIDTH_MODEL_WORKFLOW,
    { fields: { fleet: TEXT, cluster: TEXT }, more: { memory: HANDED_ON } },
  ],
  [
    COLLECTIVE_TUNER_WORKFLOW,
    { fields: { fleet: TEXT, topology: MAP }, more: { memory: HANDED_ON } },
  ],
  [CRON_WORKFLOW, { fields: { fleet: TEXT, cron: TEXT } }],
  [
    TIMED_DRAIN_WORKFLOW,
    { fields: { fleetWorkflowId: TEXT, host: TEXT, reason: TEXT, proof: TEXT } },
  ],
]);

/** What is wrong with the input of a run that somebody has started; undefined where nothing is, or the type takes any. */
export function inputProblem(type: string, input: unknown): string | undefined {
  const wanted = INPUTS.get(type);
  if (wanted === undefined) return undefined;
  if (!isFields(input)) return `the input of a ${type} is a map; this one is none`;
  const { fields, more = {} } = wanted;
  const wrong = [...Object.entries(fields), ...Object.entries(more).filter(isGiven(input))].find(
    ([name, { holds }]) => !holds(input[name]),
  );
  return wrong && `the input of a ${type} is wrong: \`${wrong[0]}\` needs ${wrong[1].needs}`;
}

const isGiven =
  (input: Fields) =>
  ([name]: readonly [string, Form]): boolean =>
    input[name] !== undefined;
