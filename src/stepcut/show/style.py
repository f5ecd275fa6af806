"""The style of the report: plain, readable by day and by night, on a phone and on paper."""

REPORT_STYLE = """
:root { color-scheme: light dark; --ink: #1b2026; --soft: #56606c; --rule: #dde1e6; --page: #f4f5f7; --card: #fff; }
@media (prefers-color-scheme: dark) { @media screen {
  :root { --ink: #e6e9ed; --soft: #a3adb9; --rule: #343c46; --page: #14181d; --card: #1d232a; }
  .timelines rect:first-child { fill: #39424d; } .legend li:last-child span { background: #39424d !important; }
  section > svg:not(.curve) { background: #fff; border-radius: 8px; }
} }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: var(--ink);
  background: var(--page); -webkit-print-color-adjust: exact; print-color-adjust: exact; }
main { max-width: 72rem; margin: 0 auto; padding: 2.5rem 1.5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1.2rem; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; padding: 1.1rem 1.4rem 1.3rem;
  margin: 0 0 1.1rem; }
h2 { font-size: 1.15rem; margin: 0 0 .7rem; }
p { margin: .4rem 0; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem; }
.gallery article { border: 1px solid var(--rule); border-radius: 10px; overflow: hidden; break-inside: avoid; }
.gallery h3 { margin: 0; padding: .4rem .8rem; font-size: 1rem; overflow-wrap: anywhere; }
.gallery p { margin: .35rem .8rem; font-size: .85rem; color: var(--soft); }
.gallery div { display: grid; grid-template-columns: repeat(2, 1fr); gap: 2px; }
.gallery img { width: 100%; aspect-ratio: 4 / 3; object-fit: cover; display: block; background: #eceff3; }
.gallery img { cursor: zoom-in; }
.gallery img:focus { position: fixed; inset: 0; z-index: 9; width: 100vw; height: 100vh; object-fit: contain;
  background: #000d; outline: 0; aspect-ratio: auto; cursor: zoom-out; }
@media (max-width: 40rem) {
  main { padding: 1rem .6rem; } section { padding: .8rem; overflow-x: auto; } h1 { font-size: 1.4rem; }
  .timelines, .timelines tbody, .timelines tr, .timelines th, .timelines td { display: block; width: 100%; padding: 0; }
  .timelines th { white-space: normal; overflow-wrap: anywhere; }
}
table { border-collapse: collapse; font-size: .88rem; }
caption { text-align: left; color: var(--soft); padding: .2rem 0 .5rem; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; vertical-align: middle; font-variant-numeric: tabular-nums; }
thead th { border-bottom: 1px solid var(--rule); } tr { break-inside: avoid; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin: 0 0 .8rem; padding: 0;
  font-size: .88rem; }
.legend span { display: inline-block; width: .85em; height: .85em; border-radius: 4px; margin-right: .4em;
  vertical-align: -1px; }
.timelines { width: 100%; } .timelines th { width: 1%; white-space: nowrap; font-weight: 500; }
.timelines td { padding-right: 0; } .timelines svg { display: block; border-radius: 4px; overflow: hidden; }
.timelines svg + svg { margin-top: 2px; }
.axis text, .curve text { font-size: 11px; fill: var(--soft); }
.timelines rect:hover { filter: brightness(1.12); stroke: #000; stroke-width: 2; }
section > svg { max-width: 100%; height: auto; }
details { margin-top: .6rem; } summary { cursor: pointer; color: var(--soft); }
pre { overflow: auto; font-size: .8rem; background: var(--page); border-radius: 8px; padding: .9rem;
  white-space: pre-wrap; }
footer { margin-top: 1.5rem; font-size: .85rem; color: var(--soft); }
@page { margin: 14mm; }
@media print {
  body { background: #fff; font-size: 10pt; } main { max-width: none; padding: 0; }
  section { border: 0; padding: 0; margin: 0 0 1.2rem; }
  h2 { break-after: avoid; border-bottom: 1px solid var(--rule); }
  table { font-size: 8pt; } th, td { padding-right: .5rem; }
  details { display: none; } .gallery { grid-template-columns: repeat(3, 1fr); }
}
"""
