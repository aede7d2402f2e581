/** @file Figures of bandwidth models as text. */

export const percentText = (share: number): string =>
  Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–";
