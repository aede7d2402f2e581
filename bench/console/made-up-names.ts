/** @file Names and numbers that all parts of a made-up fleet share. */

export const TENANTS = [
  "vision",
  "language",
  "robotics",
  "search",
  "biology",
  "speech",
  "ads",
  "maps",
  "chem",
];
/** Of a host, as a mask. */
export const ALL_GPUS = 0xff;
