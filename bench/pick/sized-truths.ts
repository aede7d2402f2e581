/**
 * @file Reads the truths of `--intra-at` and `--inter-at`: measurements of one cluster at several sizes of messages.
 */

import { parseMessageSize } from "../../domain/values/dimensions.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { USUAL_MESSAGES } from "../../domain/bandwidth/message-profile.ts";
import type { BenchRequest } from "../bench.ts";
import type { SizedTruth } from "./sizes.ts";
import { readTruthData } from "./truth-data.ts";
import { h100Truth } from "./truth.ts";

const FLAGS = ["intra-at", "inter-at"] as const;

/** Ascending by size; none where neither option is given and sizes are only a part among others. */
export function readSizedTruths(request: BenchRequest): readonly SizedTruth[] {
  const [intra, inter] = FLAGS.map((flag) => filesIn(request.text(flag), flag));
  if (intra === undefined || inter === undefined) {
    const isAsked = request.chosen("only").length === 1 && request.chosen("only")[0] === "sizes";
    if (!isAsked && intra === inter) return [];
    throw badInput(
      "picks at several sizes of messages need measurements of each. Give --intra-at 16MiB=FILE,2GiB=FILE and --inter-at with the same sizes.",
    );
  }
  const sizes = [...intra.keys()].sort((a, b) => a - b);
  if (sizes.length < 2 || sizes.length !== inter.size || sizes.some((size) => !inter.has(size)))
    throw badInput(
      "--intra-at and --inter-at name different sizes, or fewer than two. Give the same sizes in both.",
    );
  return sizes.map((bytes) => {
    const data = readTruthData({ intra: intra.get(bytes), inter: inter.get(bytes) });
    return { messages: { ...USUAL_MESSAGES, bytes }, truth: h100Truth(data) };
  });
}

function filesIn(text: string | undefined, flag: string): ReadonlyMap<number, string> | undefined {
  if (text === undefined) return undefined;
  return new Map(
    text.split(",").map((part) => {
      const at = part.indexOf("=");
      const size = parseMessageSize(part.slice(0, Math.max(0, at)).trim());
      if (at < 1 || size.kind === "refused" || size.value < 1) {
        const why = at < 1 || size.kind !== "refused" ? "it names no size" : size.message;
        throw badInput(`--${flag} ${part}: ${why}. Write SIZE=FILE, such as 2GiB=measured.csv.`);
      }
      return [size.value, part.slice(at + 1)];
    }),
  );
}

const badInput = (message: string): OrbweaverError => new OrbweaverError("BAD_INPUT", message);
