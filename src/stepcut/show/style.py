"""The style of the report: plain, readable, black on white, and made for paper too."""

REPORT_STYLE = """
:root { color-scheme: light; --ink: #1b1b1f; --rule: #d9d9de; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: #fff; }
main { max-width: 70rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.8rem; }
h2 { font-size: 1.2rem; border-bottom: 1px solid var(--rule); padding-bottom: .2rem; margin-top: 2.2rem; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem; }
.gallery article { border: 1px solid var(--rule); border-radius: 6px; overflow: hidden; break-inside: avoid; }
.gallery h3 { margin: 0; padding: .3rem .6rem; font-size: 1rem; } .gallery p { margin: .3rem .6rem; font-size: .85rem; }
.gallery div { display: grid; grid-template-columns: repeat(2, 1fr); gap: 2px; }
.gallery img { width: 100%; display: block; }
table { border-collapse: collapse; font-size: .9rem; } caption { text-align: left; font-weight: 600; padding: .4rem 0; }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; vertical-align: middle; }
thead th { border-bottom: 1px solid var(--rule); }
.timelines { width: 100%; } .timelines th { width: 1%; white-space: nowrap; font-weight: 500; }
.timelines svg { display: block; }
svg rect:hover { stroke: var(--ink); stroke-width: 2; }
pre { overflow: auto; font-size: .8rem; background: #f6f6f8; padding: .8rem; }
footer { margin-top: 3rem; font-size: .8rem; color: #55555c; }
@media print { main { max-width: none; padding: 0; } details { display: none; } section { break-inside: auto; } }
"""
