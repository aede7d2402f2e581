/**
 * @file What the link monitor asks of agents and of the jobs' workers. Types only.
 *
 * A probe is two short activities: the agent of one site opens a door (a listener of a few seconds, guarded by a token), the agent of the other goes
 * through it. What went wrong before anybody knocked says nothing of the link: only a knock that finds no answer does.
 */

import type { HostId } from "../domain/values/ids.ts";

/** On the agents' order queues. */
export interface LinkActivities {
  listenForProbe(order: ListenOrder): Promise<ProbeListener>;
  connectProbe(order: ConnectOrder): Promise<ProbeReport>;
}

/** On the jobs' queue. */
export interface LinkEndsActivities {
  /** Who could take part in a probe, by site; null when there is no fleet. */
  linkEnds(fleetWorkflowId: string): Promise<readonly LinkEnds[] | null>;
}

/** Every site of the fleet is named, also one where nobody answers. */
export interface LinkEnds {
  readonly site: string;
  /** One agent each, few of many. */
  readonly ends: readonly LinkEnd[];
}

export interface LinkEnd {
  readonly host: HostId;
  readonly orderQueue: string;
}

export interface ListenOrder {
  readonly host: HostId;
  /** So long the door stays open at most. */
  readonly openMs: number;
}

export interface ProbeListener {
  readonly host: HostId;
  readonly address: string;
  readonly port: number;
  /** Whoever does not begin with it is turned away. */
  readonly token: string;
}

export interface ConnectOrder {
  readonly host: HostId;
  readonly listener: ProbeListener;
  /** Bytes in each direction at most. */
  readonly mostBytes: number;
  readonly withinMs: number;
}

export type ProbeReport =
  | {
      readonly kind: "through";
      readonly roundTripMs: number;
      /** From who knocked to who opened, and back. */
      readonly thereGbps: number;
      readonly backGbps: number;
      readonly bytes: number;
      /** Both ends have one address: they are one machine. */
      readonly isLocal: boolean;
    }
  | { readonly kind: "no-answer"; readonly message: string };
