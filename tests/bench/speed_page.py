"""What people read of a race: a page of tables and a picture."""
import html
import math
import statistics

from contestants import ENGINES

TITLES = {"metac": "metac ms", "onnxruntime": "ONNX Runtime ms", "openvino": "OpenVINO ms"}
SHADES = ["#7fb2f0", "#2a7ae2", "#174a8c"]  # of batches, from the smallest


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def table(rows):
    lines = ["| network | " + " | ".join(TITLES[e] for e in ENGINES) + " | faster by (worst round) | of the bound | error | compiled in s | first answer ms, ONNX Runtime's |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for r in rows:
        ms = [f"{r['ms'][e]:.2f}" if e in r["ms"] else "cannot run it" for e in ENGINES]
        bound = f"{100 * r['bound_share']:.0f} %" if r.get("bound_share") else "-"
        lines.append(f"| {r['model']} | {' | '.join(ms)} | {r['ratio']:.2f} ({r['worst']:.2f}) | {bound} | {r['error']:.0e} | {r['compile_s']:.1f} | "
                     f"{r['first_ms']['metac']:.0f}, {r['first_ms']['onnxruntime']:.0f} |")
    return "\n".join(lines)


def means(rows):
    """The geometric means of the ratios, a row for each number of threads and a column for each batch."""
    batches, threads = sorted({r["batch"] for r in rows}), sorted({r["threads"] for r in rows}, reverse=True)
    lines = ["| threads | " + " | ".join(f"batch {b}" for b in batches) + " | all |", "|--:|" + "--:|" * (len(batches) + 1)]
    for t in threads:
        cells = [[r["ratio"] for r in rows if r["threads"] == t and r["batch"] in some] for some in [*([b] for b in batches), batches]]
        lines.append(f"| {t} | " + " | ".join(f"{geometric_mean(c):.2f}" if c else "-" for c in cells) + " |")
    return "\n".join(lines)


def page(rows, heading, command):
    parts = ["# Speed", heading,
             "A ratio is the faster peer's time over metac's, the median of the rounds: above 1, metac is faster. The bound of a network is the sum over its\n"
             "contractions of what the slower of two limits asks for: their operations at the measured peak of multiply-adds, their operands and results once\n"
             "at the measured bandwidth of memory; more than 100 % is possible where an algorithm needs fewer operations or a cache holds the operands. Libraries are compiled with whatever the\n"
             "kernel cache already holds.",
             "## Geometric means", means(rows), "![faster by, for each network](speed.svg)"]
    for threads in sorted({r["threads"] for r in rows}, reverse=True):
        for batch in sorted({r["batch"] for r in rows}):
            chosen = [r for r in rows if r["threads"] == threads and r["batch"] == batch]
            if chosen:
                parts += [f"## {threads} thread{'s' if threads > 1 else ''}, batch {batch}", table(chosen)]
    parts.append(f"Made by\n\n```\n{command}\n```\n\nwhich continues where it was stopped; how it measures is at the head of that script.")
    return "\n\n".join(parts) + "\n"


def picture(rows):
    """Bars: how much faster than the better peer, for each network and batch; a panel for each number of threads."""
    networks = list(dict.fromkeys(r["model"] for r in rows))
    batches, threads = sorted({r["batch"] for r in rows}), sorted({r["threads"] for r in rows}, reverse=True)
    ratio = {(r["model"], r["threads"], r["batch"]): r["ratio"] for r in rows}
    label, panel, bar, gap, head = 150, 330, 9, 8, 58
    most = max(2.0, math.ceil(2 * max(ratio.values())) / 2)
    scale = (panel - 50) / most
    heights = {n: max(bar, bar * sum(any((n, t, b) in ratio for t in threads) for b in batches)) + gap for n in networks}
    width, height = label + panel * len(threads) + 10, head + sum(heights.values()) + 24
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    out.append(f'<text x="{width - 12}" y="20" text-anchor="end">time of the faster of ONNX Runtime and OpenVINO over the time of metac</text>')
    for i, batch in enumerate(batches):
        x = 12 + 80 * i
        out.append(f'<rect x="{x}" y="10" width="12" height="12" fill="{SHADES[i % 3]}"/><text x="{x + 18}" y="20">batch {batch}</text>')
    for p, t in enumerate(threads):
        left = label + p * panel
        mean = geometric_mean([r["ratio"] for r in rows if r["threads"] == t])
        out.append(f'<text x="{left}" y="42" font-weight="bold">{t} thread{"s" if t > 1 else ""}, geometric mean {mean:.2f}</text>')
        for tick in range(int(most * 2) + 1):
            x = left + tick / 2 * scale
            out.append(f'<line x1="{x:.1f}" y1="{head - 6}" x2="{x:.1f}" y2="{height - 20}" stroke="{"#444444" if tick == 2 else "#dddddd"}"/>'
                       f'<text x="{x:.1f}" y="{height - 6}" text-anchor="middle" font-size="10" fill="#666666">{tick / 2:g}</text>')
        y = head
        for n in networks:
            if p == 0:
                out.append(f'<text x="{label - 8}" y="{y + (heights[n] - gap) / 2 + 4:.1f}" text-anchor="end">{html.escape(n)}</text>')
            row = y
            for i, b in enumerate(batches):
                if (n, t, b) in ratio:
                    value = ratio[n, t, b]
                    out.append(f'<rect x="{left}" y="{row}" width="{value * scale:.1f}" height="{bar - 1}" fill="{SHADES[i % 3]}"/>'
                               f'<text x="{left + value * scale + 3:.1f}" y="{row + bar - 1}" font-size="9" fill="#333333">{value:.2f}</text>')
                if any((n, u, b) in ratio for u in threads):
                    row += bar
            y += heights[n]
    return "\n".join([*out, "</svg>\n"])
