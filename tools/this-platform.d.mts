export function keepThisPlatform(
  root: string,
  machine?: { readonly arch: string; readonly platform: string },
): void;
