/** @file The training frameworks that a plan may be for. */

export const FRAMEWORKS = ["megatron", "deepspeed", "fsdp2"] as const;
export type FrameworkChoice = (typeof FRAMEWORKS)[number];
