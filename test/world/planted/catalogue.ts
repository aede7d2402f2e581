/**
 * @file Bugs that tests plant into a world, each as a change around a machine, in what is carried over, or in a rule of the model's agents.
 *
 * Each says what is wrong in the words of a review. None of them is in the product.
 */

import { AGENT_RULES } from "../../../world/hosts/agent-rules.ts";
import { commands, entries, type PlantedBug } from "./planted-bug.ts";
import { PLANTED_DRAINS } from "./drain-catalogue.ts";
import { PLANTED_HOSTILE } from "./hostile-catalogue.ts";
import { PLANTED_LATE } from "./late-catalogue.ts";
import { PLANTED_WIDE } from "./wide-catalogue.ts";

export const PLANTED: readonly PlantedBug[] = [
  {
    name: "the token is not checked",
    seenAt: 4,
    climate: "wide",
    planted: { agent: { refusalOf: () => undefined } },
  },
  {
    name: "a higher token does not stop what a lower one runs",
    seenAt: 5,
    climate: "hostile",
    planted: { agent: { isInTheWay: () => false } },
  },
  {
    name: "an order to stop does not revoke its token",
    seenAt: 4,
    climate: "wide",
    planted: { agent: { revoke: () => undefined } },
  },
  {
    name: "an order to stop answers before anything has stopped",
    seenAt: 1,
    planted: { agent: { stopWaits: false } },
  },
  {
    name: "a host never fences itself",
    seenAt: 94,
    planted: { agent: { isCutOff: ({ terms }, { wallMs }) => wallMs < 0 && terms.fenceMs > 0 } },
  },
  {
    name: "a host fences itself too late",
    seenAt: 94,
    planted: {
      agent: {
        isCutOff: ({ terms, atSinceBootMs }, { sinceBootMs }) =>
          sinceBootMs - atSinceBootMs > terms.fenceMs * 4,
      },
    },
  },
  {
    name: "adopt forgets the boot id",
    seenAt: 2,
    planted: { agent: { mayRun: ({ phase }) => phase === "started" } },
  },
  {
    name: "a restarted agent starts again instead of taking over",
    seenAt: 2,
    planted: { agent: { takesOver: ({ phase }) => phase === "over" } },
  },
  {
    name: "a host starts its part before the others are prepared",
    seenAt: 1,
    planted: { agent: { isGangReady: () => true } },
  },
  {
    name: "what the state folder does not know is left running",
    seenAt: 14,
    planted: { agent: { endsStrays: false } },
  },
  {
    name: "a host that has lost its tokens begins at nothing",
    seenAt: 93,
    climate: "harsh",
    planted: { agent: { heals: false } },
  },
  {
    name: "the barrier takes beats of any token",
    seenAt: 56,
    climate: "wide",
    planted: {
      agent: {
        isGangReady: ({ gang, host }, beats) =>
          gang.every((part) => part.host === host || beats.some((beat) => beat.host === part.host)),
      },
    },
  },
  {
    name: "a job ends without giving its lease back",
    seenAt: 2,
    planted: {
      job: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          commands<ReturnType<typeof machine.step>["commands"][number]>((command) =>
            command.kind === "tell" && command.entry.kind === "end"
              ? [{ ...command, entry: { ...command.entry, seq: 0 } }]
              : [command],
          )(machine.step(state, event, nowMs)),
      }),
    },
  },
  {
    name: "a job calls hosts free that have not confirmed",
    seenAt: 40,
    planted: {
      job: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          commands<ReturnType<typeof machine.step>["commands"][number]>((command) =>
            command.kind === "tell" && command.entry.kind === "end"
              ? [{ ...command, entry: { ...command.entry, unconfirmedHosts: [] } }]
              : [command],
          )(machine.step(state, event, nowMs)),
      }),
    },
  },
  {
    name: "a grant for an older request starts a run",
    seenAt: 30,
    climate: "harsh",
    planted: {
      job: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "grant" && typeof event.offer === "object" && event.offer !== null
            ? machine.step(state, { ...event, offer: { ...event.offer, seq: state.seq } }, nowMs)
            : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "a held job is asked for all the same",
    seenAt: 7,
    planted: {
      job: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "hold" ? { state, commands: [] } : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "a release is lost",
    seenAt: 2,
    planted: {
      job: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "release" ? { state, commands: [] } : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "a call from the lobby is not answered",
    seenAt: 2,
    planted: {
      job: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "call-in" ? { state, commands: [] } : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "a lobby credit is lost with its job",
    seenAt: 2,
    climate: "hostile",
    planted: {
      lobby: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "called"
            ? machine.step(state, { ...event, gone: [] }, nowMs)
            : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "a lobby does not hear of those who leave",
    seenAt: 5,
    climate: "hostile",
    planted: {
      lobby: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "leave" ? { state, commands: [] } : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "continue-as-new forgets the waiting requests' ledger part",
    seenAt: 1,
    planted: {
      carried: (input) => ({ ...input, ledger: { ...input.ledger, requests: [] } as never }),
    },
  },
  {
    name: "a fleet drops the silence of hosts",
    seenAt: 6,
    planted: {
      fleet: entries((entry) =>
        (entry as { readonly kind?: string }).kind === "silence" ? [] : [entry],
      ),
    },
  },
  {
    name: "a delivery that gave up counts as delivered",
    seenAt: 34,
    climate: "hostile",
    planted: {
      fleet: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "delivered"
            ? machine.step(
                state,
                {
                  ...event,
                  report: {
                    ...event.report,
                    accepted: [...event.report.accepted, ...event.report.gone],
                    gone: [],
                  },
                },
                nowMs,
              )
            : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "audits find nobody closed",
    seenAt: 1,
    planted: {
      fleet: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "audited"
            ? machine.step(state, { ...event, report: { closed: [] } }, nowMs)
            : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "a fleet frees leases whose hosts have not confirmed",
    seenAt: 40,
    planted: {
      fleet: (machine) => ({
        ...machine,
        step: (state, event, nowMs) => {
          const step = machine.step(state, event, nowMs);
          const { leases } = step.state.ledger;
          const kept = new Map([...leases].filter(([, { state: how }]) => how !== "vacating"));
          if (kept.size === leases.size) return step;
          return {
            ...step,
            state: { ...step.state, ledger: { ...step.state.ledger, leases: kept } },
          };
        },
      }),
    },
  },
  {
    name: "a fleet begins again at the first token after a loss",
    seenAt: 18,
    climate: "wide",
    planted: {
      fleet: (machine) => ({
        ...machine,
        step: (state, event, nowMs) => {
          const step = machine.step(state, event, nowMs);
          const { ledger } = step.state;
          if (ledger.recovery === undefined || ledger.nextToken < 1_000) return step;
          return { ...step, state: { ...step.state, ledger: { ...ledger, nextToken: 1 } } };
        },
      }),
    },
  },
  {
    name: "a presence does not tell of a silence",
    seenAt: 21,
    planted: {
      presence: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "contact-over"
            ? { state, commands: [] }
            : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "a sweep tells that hosts have confirmed that did not answer",
    seenAt: 4,
    climate: "harsh",
    planted: {
      sweep: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "stopped"
            ? machine.step(state, { ...event, isConfirmed: true }, nowMs)
            : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "a machine counts in a variable of its own",
    seenAt: 4,
    planted: {
      job: (machine) => {
        let count = 0;
        return {
          ...machine,
          step: (state, event, nowMs) => {
            count += 1;
            return commands<ReturnType<typeof machine.step>["commands"][number]>((command) =>
              command.kind === "tell"
                ? [{ ...command, id: command.id + (count > 400 ? 1 : 0) }]
                : [command],
            )(machine.step(state, event, nowMs));
          },
        };
      },
    },
  },
  {
    name: "an agent that was frozen starts what was given up meanwhile",
    seenAt: 31,
    climate: "hostile",
    planted: { agent: { isJustBack: () => false } },
  },
  {
    name: "a host raises no token when it starts a run",
    seenAt: 4,
    climate: "harsh",
    planted: { agent: { raise: () => undefined } },
  },
  {
    name: "an agent lets a revoked token start, and refuses higher ones alone",
    seenAt: 4,
    climate: "wide",
    planted: {
      agent: {
        refusalOf: ({ seen, revoked: _revoked }, token, mask) =>
          AGENT_RULES.refusalOf({ seen, revoked: new Set() }, token, mask),
      },
    },
  },
  ...PLANTED_WIDE,
  ...PLANTED_DRAINS,
  ...PLANTED_HOSTILE,
  ...PLANTED_LATE,
];
