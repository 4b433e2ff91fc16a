"""Write ``results/README.md``, the measured figures as tables, from the JSON files beside it.

python benchmarks/table.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


def read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def ratio_rows(what: str, table: dict[str, Any]) -> Iterator[str]:
    for name, r in table.items():
        span = f"{r['ratio_low']:.2f} to {r['ratio_high']:.2f}"
        yield f"| {what}, {name} | {r['ours_per_s']:,.1f} | {r['plain_per_s']:,.1f} | {r['ratio']:.2f} | {span} |"


def private_steps(found: dict[str, Any] | None) -> Iterator[str]:
    """Yield the table of steps of DP-SGD."""
    if not found:
        return
    steps, c = {(r["module"], r["batch"], r["engine"]): r for r in found["steps"]}, found["config"]
    engines = list(dict.fromkeys(r["engine"] for r in found["steps"] if r["engine"] != "plain SGD"))
    yield f"\n| CPU time of a step over plain SGD's | {' | '.join(engines)} |\n|---|{'---|' * len(engines)}"
    for name in c["modules"]:
        for batch in c["batches"]:
            rows = [steps.get((name, batch, engine), {}) for engine in engines]
            cells = [f"{r['ratio']:.2f}" if "ratio" in r else r.get("failed", "") for r in rows]
            plain = steps[name, batch, "plain SGD"]["cpu_ms"]
            yield f"| {name}, batch {batch:,} ({plain:.1f} ms) | {' | '.join(cells)} |"
    p = found["parts"]
    yield (
        f"\nMedians of {c['n_repeats']} repeats, load {found['machine']['load_before']:.1f} before and "
        f"{found['load_after']:.1f} after; without noise and sampling. Noise for a million numbers: "
        f"{p['noise_ms_per_million']:.0f} ms (Opacus {p['opacus_noise_ms_per_million']:.0f}, its secure mode "
        f"{p['opacus_secure_noise_ms_per_million']:.0f}, both from torch's generator here); Poisson sampling of "
        f"{c['n_records']:,} records: {p['sampling_ms_per_step']:.1f} ms a step."
    )
    if found["memory"]:
        ends = min(c["batches"]), max(c["batches"])
        yield f"\n| memory beyond the records, MiB | batch {ends[0]:,} | batch {ends[1]:,} |"
        yield "|---|---|---|"
        grown = {(r["module"], r["engine"], r["batch"]): r["after"] - r["before"] for r in found["memory"]}
        for name, engine in dict.fromkeys((m, e) for m, e, _ in grown):
            cells = [f"{grown[name, engine, b]:.0f}" for b in ends]
            yield f"| {name}, {engine} | {' | '.join(cells)} |"


def institutions(found: dict[str, Any] | None) -> Iterator[str]:
    """Yield the table of secure sums and labels."""
    if not found:
        return
    c = found["config"]
    yield f"\n| {c['n_queries']} queries x {c['n_classes']} classes | way | s | range | MB a party sends | start, s |"
    yield "|---|---|---|---|---|---|"
    for r in found["rows"]:
        start = f"{r['start_s']:.1f}" if "start_s" in r else ""
        span = f"{r['s_low']:.2f} to {r['s_high']:.2f}"
        what = f"{r['what']}, {r['parties']} parties, t = {r['tolerate']}"
        yield f"| {what} | {r['way']} | {r['s']:.3g} | {span} | {r['bytes'] / 1e6:.2f} | {start} |"
    yield (
        f"\nMedians of {c['n_repeats']} repeats, all parties on {found['machine']['cores']} cores, load "
        f"{found['machine']['load_before']:.1f} before and {found['load_after']:.1f} after. Ours with mutual TLS, no "
        "pickles, K = 60 and comparisons that show no party what they compare, which MPyC's own do."
    )


def on_a_gpu(found: dict[str, Any] | None) -> Iterator[str]:
    """Yield the tables of what a GPU makes faster: milliseconds, and how many times as many the others take."""
    if not found:
        return
    c, parts = found["config"], {k: v for k, v in found.items() if isinstance(v, dict) and "machine" in v}
    stamp = parts["teachers"]["machine"]
    yield (
        f"\n## On a GPU\n\n{stamp['gpu']}, torch {stamp['versions']['torch']}, cuDNN {stamp['versions']['cudnn']}, "
        f"beside {stamp['cores']} cores; medians of {c['n_repeats']} repeats; how many times as long others took."
    )

    def table(head: str, ways: list[str], rows: dict[str, dict[str, Any]], own: str) -> Iterator[str]:
        yield f"\n| {head} | {' | '.join(ways)} |\n|---|{'---|' * len(ways)}"
        for name, table in rows.items():
            cells = [f"{table[way]['ratio']:.2f}" if way in table else "" for way in ways]
            yield f"| {name} ({1e3 * table[own]['seconds']:.1f} ms) | {' | '.join(cells)} |"

    made = {k: v for k, v in parts["teachers"].items() if k != "machine"}
    rows = {f"{name}, {what}": v[what] for name, v in made.items() for what in ("training", "voting")}
    head = f"a teacher of {c['n_teachers']}, grouped on the GPU; votes on {c['n_queries']:,} rows"
    yield from table(head, ["one by one", "plain loop", "cpu"], rows, "grouped")
    unlike = ", ".join(
        f"{name} {100 * max(v['votes_unlike_cpu']):.2f}%" for name, v in made.items() if v["votes_unlike_cpu"]
    )
    same = all(all(v["repeats_bit_for_bit"]) for v in made.values())
    yield (
        f"\nRepeats gave the same weights bit for bit: {'yes' if same else 'NO'}. Votes unlike those of the CPU's "
        f"teachers: {unlike}."
    )
    steps = {k: v["steps"] for k, v in parts["dpsgd"].items() if k != "machine"}
    ways = list(dict.fromkeys(way for v in steps.values() for way in v if way != "book-keeping"))
    yield from table("a step of DP-SGD, book-keeping on the GPU", ways, steps, "book-keeping")
    fits = {f"DP-SGD, {k}, a step of a whole fit": v["steps"] for k, v in parts["dpsgd fits"].items() if k != "machine"}
    fits |= {f"{k}, {c['n_images']:,} images": v["fits"] for k, v in parts["images"].items() if k != "machine"}
    yield from table("on the GPU", ["cpu"], fits, "gpu")


def pages() -> Iterator[str]:
    yield "# Measured\n\nBy `benchmarks/table.py` from the JSON files here, which hold commits, versions and loads."
    yield "\n| per second | ours | plain loop | ratio, median of repeats | range |\n|---|---|---|---|---|"
    plain, heads, networks = read("teachers"), read("heads"), read("torch_teachers")
    if plain:
        c = plain["config"]
        what = f"LogisticRegression, {plain['data']}, {c['n_teachers']} teachers, n_jobs={c['n_jobs']}"
        yield from ratio_rows(what, plain["summary"])
    if heads:
        c = heads["config"]
        what = f"ridge heads, {heads['data']}, {c['n_teachers']:,} on {c['n_features']} features, n_jobs={c['n_jobs']}"
        yield from ratio_rows(what, heads["summary"])
    if networks:
        c = networks["config"]
        for name, variant in networks["variants"].items():
            # Votes are float32 whatever the training was.
            table = {k: v for k, v in variant["summary"].items() if k == "teachers" or "bf16" not in name}
            job = f"{c['n_teachers']} teachers, {c['epochs']} epochs, {c['device']}, n_jobs={c['n_jobs']}"
            yield from ratio_rows(f"{name}, {networks['data']}, {job}", table)
        fits = {n: [r["ours_fit_s"] for r in v["repeats"]] for n, v in networks["variants"].items()}
        slowest = max(r["ours_vote_s"] for r in networks["variants"]["cnn float32"]["repeats"])
        yield (
            "\nWhole training, slowest of the repeats: "
            + ", ".join(f"{name} {max(seconds):.0f} s" for name, seconds in fits.items())
            + f"; the cnn's votes on {c['n_queries']:,} images {slowest:.0f} s. Ten teachers as one group need "
            f"{networks['group_memory']['extra_mib']:.0f} MiB."
        )
        if "accuracy" in networks:
            a = networks["accuracy"]
            yield (
                f"Mean accuracy of the {c['n_teachers']} cnn teachers: ours {a['ours']:.4f}, the plain loop's "
                f"{a['plain']:.4f} (standard error of the difference {a['standard_error']:.4f})."
            )
    if heads:
        c = heads["config"]
        jobs = ", ".join(f"{n} {r['fit_s']:.1f} s and {r['vote_s']:.1f} s" for n, r in heads["heads"].items())
        peak = max(r["peak_mib_so_far"] for r in heads["heads"].values())
        yield (
            f"\n{c['n_teachers']:,} heads on {c['n_records']:,} x {c['n_features']} features, training and votes on "
            f"{c['n_queries']:,} rows: {jobs}; all processes together at most {peak:,.0f} MiB "
            f"(load {heads['machine']['load_before']:.1f} before, {heads['load_after']:.1f} after)."
        )
    trees, million = read("hist_gradient_boosting"), read("million_rows")
    if found := read("small_teachers"):
        c = found["config"]
        head = f"{c['n_teachers']:,} teachers of {c['n_shard']} records each"
        yield f"\n| {head} | CPU s | plain loop | ratio | range |\n|---|---|---|---|---|"
        for name, r in found["table"].items():
            span = f"{r['ratio_low']:.2f} to {r['ratio_high']:.2f}"
            yield f"| {name} | {r['ours_cpu_s']:.2f} | {r['plain_cpu_s']:.2f} | {r['ratio']:.2f} | {span} |"
    if trees:
        yield "\n| HistGradientBoosting | CPU s per fit | OpenMP threads |\n|---|---|---|"
        for name, r in trees["summary"].items():
            yield f"| {name} | {r['cpu_s_per_fit']:.2f} | {r['openmp_threads']:.0f} |"
    if million:
        c = million["config"]
        what = f"{c['n_rows']:,} public rows, {c['n_teachers']} teachers, n_jobs={c['n_jobs']}"
        yield f"\n| {what} | s | peak, MiB |\n|---|---|---|"
        for name, r in million["summary"].items():
            yield f"| {name} | {r['seconds']:.1f} | {r['peak_mib']:.0f} |"
    voters = read("record_voters")
    if voters:
        c, r = voters["config"], voters["summary"]["records"]
        what = (
            f"{c['n_records']:,} x {c['n_features']} records vote, {c['n_public']:,} public rows, n_jobs={c['n_jobs']}"
        )
        yield f"\n| `pate label`, {what} | s | peak, MiB | labels right |\n|---|---|---|---|"
        for name, one in voters["commands"].items():
            yield f"| {name} | {one['seconds']:.1f} | {one['peak_mib']:.0f} | {one['accuracy']:.3f} |"
        one = voters["streamed"]
        yield (
            f"\n{c['n_streamed']:,} records in chunks, one round: {one['seconds']:.0f} s, at most "
            f"{one['peak_mib']:.0f} MiB. Cast per second {r['ours_per_s']:,.0f}, by plain floats "
            f"{r['plain_per_s']:,.0f}: ratio {r['ratio']:.2f} ({r['ratio_low']:.2f} to {r['ratio_high']:.2f}); "
            f"medians of {c['n_repeats']} repeats, load "
            f"{voters['machine']['load_before']:.1f} before, {voters['load_after']:.1f} after on "
            f"{voters['machine']['cores']} cores."
        )
        fit = voters["summary"].get("fit")
        if fit:
            yield (
                f"\nWhole fit, {c['n_fitted']:,} x {c['n_features']} records, {c['n_fitted_public']:,} public rows: "
                f"{fit['cpu_seconds']:.1f} CPU seconds, at most {fit['peak_mib']:.0f} MiB; {fit['ratio']:.2f} of what "
                f"scikit-learn's Nystroem and SGDClassifier take without privacy, of {fit['n_components']:.0f} "
                f"components and {fit['n_rounds']:.0f} passes each; right {fit['accuracy']:.3f} and "
                f"{fit['plain_accuracy']:.3f}."
            )
    yield from private_steps(read("dpsgd"))
    yield from institutions(read("federation"))
    installed = read("install")
    if installed:
        yield "\n| default installation | MB | of these torch and what comes with CUDA | s |\n|---|---|---|---|"
        for name, r in installed.items():
            yield f"| {name} | {r['megabytes']:,} | {r['torch_share']:.0%} | {r['seconds']:.0f} |"
        loads = ", ".join(f"{r['machine']['load_before']:.1f}" for r in installed.values())
        yield f"\nDownloads are in the seconds; load before each {loads}."
    classes = read("many_classes")
    if classes:
        head = ("probability", "divergence", "probability, before", "divergence, before")
        yield f"\n| classes, GNMax({classes['sigma']:g}) | {' | '.join(head)} |\n|---|---|---|---|---|"
        for m in sorted({r["n_classes"] for r in classes["rows"]}):
            rows = [r for r in classes["rows"] if r["n_classes"] == m]
            cells = [
                f"{max(r[key] for r in rows):.0e}" if all(key in r for r in rows) else ""
                for key in ("probability", "divergence", "probability_before", "divergence_before")
            ]
            yield f"| {m:,} | " + " | ".join(cells) + " |"
        yield (
            "\nLargest relative error of the exact law against an independent integration in 40 digits, over "
            f"{len({r['votes'] for r in classes['rows']})} shapes of votes."
        )
    yield from on_a_gpu(read("gpu"))


def main() -> None:
    out = RESULTS / "README.md"
    out.write_text("\n".join(pages()) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
