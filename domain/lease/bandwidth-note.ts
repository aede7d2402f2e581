/**
 * @file The collective bandwidth of a grant: the prediction for its GPUs, for the best and for the compact choice, the model that
 * predicted them, and the reason when no model was asked. GB/s as nccl-tests prints bus bandwidth.
 */

export interface BandwidthNote {
  /** Of the GPUs that were granted; absent when nothing predicts it. */
  readonly predictedGbs?: number;
  /** Of the best set that was found, of all types and clusters that the job allows; also where it was not taken (`fallback`). */
  readonly bestGbs?: number;
  /** Of the set that the placement alone would have taken, by the model of its cluster. */
  readonly compactGbs?: number;
  /** The version of the surrogate, or `table` where the gang is on one host and was measured. */
  readonly model?: string;
  /** `searched`: the GPUs of the search; `compact`: those of the placement alone, which are as good or the only answer. */
  readonly method: "searched" | "compact";
  /** Why the best found was not taken; or why only the compact answer was there: no model, or it threw or overran its deadline. */
  readonly fallback?: string;
  /** Of a gang over several clusters. */
  readonly links?: LinksNote;
}

export interface LinksNote {
  readonly clusters: readonly string[];
  /** The gang's share of the narrowest link on the widest paths between them; 0 where no links join them. */
  readonly bottleneckGbs: number;
}

/** The predicted and measured collective bandwidth of a run. */
export interface RunBandwidth {
  /** Of one host, from its measured table. */
  readonly predictedGBs?: number;
  readonly bandwidth?: BandwidthNote;
  readonly measuredGbs?: number;
}

const expectedGbs = ({ predictedGBs, bandwidth }: RunBandwidth): number | undefined =>
  bandwidth?.predictedGbs ?? predictedGBs;

/** The prediction and the measurement as text; undefined when neither is known. */
export function runBandwidthText(run: RunBandwidth): string | undefined {
  const parts = [linksText(run), expectedText(run), measuredText(run)].filter(
    (text) => text !== undefined,
  );
  return parts.length === 0 ? undefined : parts.join("; ");
}

function linksText({ bandwidth }: RunBandwidth): string | undefined {
  if (bandwidth?.links === undefined) return undefined;
  const { clusters, bottleneckGbs } = bandwidth.links;
  const over = `over ${clusters.join(", ")}`;
  return bottleneckGbs > 0
    ? `${over} at ${bottleneckGbs.toPrecision(3)} GB/s, the narrowest link between them`
    : `${over}, which no known links join`;
}

function expectedText(run: RunBandwidth): string | undefined {
  const { bestGbs, compactGbs, model, fallback } = run.bandwidth ?? {};
  const predictedGbs = expectedGbs(run);
  if (predictedGbs === undefined)
    return fallback === undefined ? undefined : `no prediction: ${fallback}`;
  const others = [
    ...(bestGbs === undefined ? [] : [`best found ${figure(bestGbs)}`]),
    ...(compactGbs === undefined ? [] : [`compact ${figure(compactGbs)}`]),
    ...(model === undefined ? [] : [model === "table" ? "as measured there" : `by ${model}`]),
    ...(fallback === undefined ? [] : [fallback]),
  ];
  const rest = others.length > 0 ? ` (${others.join(", ")})` : "";
  return `${figure(predictedGbs)} GB/s expected${rest}`;
}

function measuredText(run: RunBandwidth): string | undefined {
  const { measuredGbs } = run;
  const predictedGbs = expectedGbs(run);
  if (measuredGbs === undefined) return undefined;
  const share =
    predictedGbs === undefined || predictedGbs <= 0
      ? ""
      : `, ${((100 * measuredGbs) / predictedGbs).toFixed(0)} % of what was expected`;
  return `${figure(measuredGbs)} GB/s measured${share}`;
}

const figure = (gbs: number): string => gbs.toFixed(1);
