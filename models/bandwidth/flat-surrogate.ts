/**
 * @file The naive Transformer of BandPilot §5.5.1, as ablation: one token for each GPU, identified by raw ids only. Benches and tests use it.
 *
 * The same network and training as the surrogate, but a token is the one-hot host and the one-hot GPU: no lookup tables, no counts, no
 * memory, no clamp unless it is asked for. It has to learn the whole hierarchy from the samples. Cost: a step is dearer by the ratio of
 * GPUs to hosts.
 */

import type {
  BandwidthDomain,
  BandwidthPredictor,
  Candidate,
} from "../../domain/bandwidth/bandwidth-port.ts";
import type { RivalRequest } from "./boosted-trees.ts";
import { simdKernel } from "./dense-kernel.ts";
import type { Token } from "./features.ts";
import { forwardPass } from "./forward.ts";
import { tablesFirst, type PredictorOptions } from "./inside.ts";
import { trainInThread } from "./training-thread-port.ts";
import { transformerShape } from "./transformer.ts";
import { membersOf } from "../../lib/bits.ts";

const STEPS = 450;
const RATE = 2e-3;
const DECAY = 1;
const NO_LIMIT = 1e4;

export async function trainFlatSurrogate(
  { domain, samples, seed, steps = STEPS }: RivalRequest & { readonly steps?: number },
  options: PredictorOptions = {},
): Promise<BandwidthPredictor> {
  const spread = samples.filter(({ shares }) => shares.length > 1);
  const { tokenise, featureCount } = gpuTokens(domain);
  const logs = spread.map(({ gbs }) => Math.log(gbs));
  const mean = logs.reduce((sum, log) => sum + log, 0) / logs.length;
  const scale = Math.sqrt(logs.reduce((sum, log) => sum + (log - mean) ** 2, 0) / logs.length) || 1;
  const parameters = await trainInThread({
    featureCount,
    samples: spread.map(({ shares }, index) => ({
      tokens: tokenise(shares),
      target: ((logs[index] ?? mean) - mean) / scale,
      limit: NO_LIMIT,
      weight: 1,
    })),
    seed,
    steps,
    rate: RATE,
    decay: DECAY,
  });
  const forward = forwardPass(transformerShape(featureCount), parameters, simdKernel());
  return tablesFirst(
    domain,
    (candidates) =>
      [...forward(candidates.map(tokenise))].map((answer) => Math.exp(mean + scale * answer)),
    { version: "flat-transformer", clamp: false, ...options },
  );
}

function gpuTokens(domain: BandwidthDomain): {
  readonly tokenise: (candidate: Candidate) => readonly Token[];
  readonly featureCount: number;
} {
  const hosts = domain.hosts.length;
  const most = domain.hosts.reduce((count, { gpuCount }) => Math.max(count, gpuCount), 0);
  const tokenise = (candidate: Candidate): readonly Token[] =>
    candidate.flatMap(({ host, mask }) =>
      membersOf(mask).map((gpu) => {
        const features = new Array<number>(hosts + most).fill(0);
        features[host] = 1;
        features[hosts + gpu] = 1;
        return { features, count: 1 };
      }),
    );
  return { tokenise, featureCount: hosts + most };
}
