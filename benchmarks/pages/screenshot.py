"""Make the README's picture of a report; needs Playwright and Chromium."""

import shutil
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

import jax
import jax.numpy as jnp

import tacthmc
from tacthmc.dynamics import ContinuousTempering

ROOT = Path(__file__).parents[2]
SEED, STEP_SIZE, CHAINS = 0, 0.01, 4


def arguments(parser: ArgumentParser) -> None:
    """How long the run is, and where the picture goes."""
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "img" / "report.png")


def main(args: Namespace) -> None:
    """Run, write the report, and photograph it."""
    from playwright.sync_api import sync_playwright

    potential = tacthmc.noisy(tacthmc.potential(tacthmc.targets.ring()), force=5.0, energy=1.0)
    run = tacthmc.sample(
        jax.random.key(SEED),
        tacthmc.tact(0.36 * STEP_SIZE, tempering=ContinuousTempering(step_size=STEP_SIZE)),
        potential,
        jnp.array([4.0, 0.0]),
        args.steps,
        CHAINS,
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        path = tacthmc.write_report(
            run, Path(folder) / "report.html", title="Eight Gaussians on a ring"
        )
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 900, "height": 1100})
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn=yes]", timeout=120_000)
        # The verdict at the top of the page, beside pictures from further down.
        page.screenshot(path=Path(folder) / "top.png")
        parts = []
        for key in ("pairs", "laws", "energy"):
            figure = page.locator(f"figure:has(#{key})")
            figure.scroll_into_view_if_needed()
            figure.screenshot(path=Path(folder) / f"{key}.png")
            parts.append(Path(folder) / f"{key}.png")
        browser.close()
        _beside(Path(folder) / "top.png", parts, args.to)
    print(args.to)


def _beside(left: Path, rights: list[Path], to: Path) -> None:
    """One picture of a tall one and, to the right of it, the others below each other."""
    from PIL import Image

    top, others = Image.open(left), [Image.open(path) for path in rights]
    both = Image.new("RGB", (2 * top.width, top.height), "white")
    both.paste(top, (0, 0))
    place = 20
    for other in others:
        both.paste(other, (top.width, place))
        place += other.height + 20
    size = (both.width * 3 // 4, both.height * 3 // 4)
    both.resize(size, Image.Resampling.LANCZOS).save(to, optimize=True)
