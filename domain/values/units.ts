/** @file Quantities with their unit in the type; brands do not stop `+` between units, names do. */

import type { Brand } from "./brand.ts";

export type Ms = Brand<number, "Ms">;
export type GiB = Brand<number, "GiB">;
export type Gbps = Brand<number, "Gbps">;
/** Collective bus bandwidth as nccl-tests prints it, in 10^9 bytes a second. */
export type GBs = Brand<number, "GBs">;
export type Watts = Brand<number, "Watts">;

export const ms = (value: number): Ms => value as Ms;
export const gib = (value: number): GiB => value as GiB;
export const gbps = (value: number): Gbps => value as Gbps;
export const gbs = (value: number): GBs => value as GBs;
export const watts = (value: number): Watts => value as Watts;
