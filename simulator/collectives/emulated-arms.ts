/** @file The arms that the emulator prices: the five configurations of the paper's §3. */

import type { Arm } from "../../domain/bandwidth/collective-arm.ts";
import { PAPER_ARMS } from "../../tuning/arm.ts";

export const EMULATED_ARMS = [
  "auto",
  "tree/simple",
  "tree/ll128",
  "ring/simple",
  "ring/ll128",
] as const satisfies readonly Arm[];
export type EmulatedArm = (typeof EMULATED_ARMS)[number];

export const isEmulated = (arm: Arm): arm is EmulatedArm =>
  EMULATED_ARMS.some((own) => own === arm);

export const PAPER_CHOICES: readonly EmulatedArm[] = PAPER_ARMS.filter(isEmulated);
