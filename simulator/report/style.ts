/** @file The report's style sheet. The colours of lines differ for most kinds of colour blindness, in light and in dark. */

import { COLOURS } from "./chart.ts";

export const STYLE = `
:root{--back:#ffffff;--card:#f7f8fa;--text:#1b1f24;--soft:#5b6470;--line:#d5dae0;--band:#eaeef4;
--s0:#0b6bb8;--s1:#cf5a00;--s2:#14805e;--s3:#a8488a;--s4:#8a6d00;--s5:#3e8fb0;--s6:#7a4fc0;--s7:#7a5c48}
@media (prefers-color-scheme:dark){:root{--back:#14171b;--card:#1c2026;--text:#e8ebef;--soft:#a3acb8;--line:#363d47;--band:#242a32;
--s0:#62b4f5;--s1:#ff9a52;--s2:#4fd0a2;--s3:#ea96cf;--s4:#e5c44b;--s5:#8fd6ee;--s6:#b79bff;--s7:#d0ae97}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1320px;margin:0 auto;padding:28px 24px 48px}
h1{font-size:24px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:16px;margin:0 0 8px}
header p,.note,figcaption{color:var(--soft);margin:0}
section{margin-top:28px}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,440px),1fr));gap:18px;margin-top:28px}
figure{margin:0;padding:14px 16px;background:var(--card);border:1px solid var(--line);border-radius:8px;display:flex;flex-direction:column}
figure>svg{width:100%;height:auto;display:block;margin-top:auto}
figcaption{font-size:13px;line-height:1.4;margin-top:6px}
.legend{list-style:none;margin:0 0 4px;padding:0;display:flex;flex-wrap:wrap;gap:2px 16px;font-size:13px}
.legend svg{width:24px;height:10px;margin-right:6px;vertical-align:middle}
svg text{font-size:12px;fill:var(--soft)}
svg .name{fill:var(--text)}
.grid{stroke:var(--line);stroke-width:1}
.axis{stroke:var(--soft);stroke-width:1}
.band{fill:var(--band)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.dashed{stroke-dasharray:5 4;stroke-width:1.5}
${Array.from({ length: COLOURS }, (_, at) => at)
  .map((at) => `.s${String(at)}{stroke:var(--s${String(at)})}`)
  .join("")}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:5px 14px 5px 0;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-weight:600;color:var(--soft)}
.word{text-align:left}
ul{padding-left:20px;margin:0}
@media print{figure{break-inside:avoid}}
`.trim();
