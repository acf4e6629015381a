"""The command line, as a person types it."""

import importlib.metadata
import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import tacthmc
from tacthmc.cli._app import Figure, app
from tacthmc.cli._model_file import TEMPLATE, load_model
from tacthmc.cli._model_sampler import chosen_sampler
from tacthmc.paper.figures.catalog import STUDIES
from tacthmc.samplers import Untuned

pytestmark = pytest.mark.usefixtures("quick_compilation")


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return re.sub(r"\x1b\[[0-9;]*m", "", result.output)


def flat(text):
    """Without a box's borders and line breaks."""
    return " ".join(text.replace("│", " ").split())


COMMANDS = [
    "demo",
    "reproduce",
    "sample",
    "new",
    "report",
    "resume",
    "summary",
    "info",
    "data",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples_in_its_help(command):
    text = flat(call(command, "--help"))
    assert "Examples" in text
    assert f"tacthmc {command}" in text


def test_the_list_of_commands_is_whole():
    text = call("--help")
    for command in COMMANDS:
        assert re.search(rf"│ {command} ", text), command


@pytest.mark.parametrize(
    ("arguments", "wrong", "right"),
    [
        (["sample", "x.py", "--stepz", "3"], "--stepz", "--steps"),
        (["sample", "x.py", "--step-sise", "3"], "--step-sise", "--step-size"),
        (["report", "x", "--parametr", "y"], "--parametr", "--parameter"),
        (["reproduce", "fig1", "--fll"], "--fll", "--full"),
        (["reprduce", "fig1"], "reprduce", "reproduce"),
    ],
)
def test_a_mistyped_flag_is_named_with_the_nearest_good_one(arguments, wrong, right):
    text = flat(call(*arguments, code=2))
    assert wrong in text
    assert right in text.replace(wrong, "")


def test_an_unknown_figure_lists_the_known_ones():
    text = flat(call("reproduce", "fig4", code=2))
    assert "fig4" in text
    assert all(name in text for name in STUDIES)


def test_every_study_can_be_reproduced():
    assert [figure.value for figure in Figure] == list(STUDIES)


def test_info_names_versions_and_devices():
    text = call("info")
    assert tacthmc.__version__ in text
    assert "jax" in text
    assert "cpu" in text.lower()


@pytest.fixture(scope="module")
def model_run(tmp_path_factory):
    """The template as it is written, sampled."""
    folder = tmp_path_factory.mktemp("model")
    assert "wrote" in call("new", folder / "model.py")
    text = call(
        "sample",
        folder / "model.py",
        "--steps",
        40_000,
        "--chains",
        2,
        "--out",
        folder / "run",
        "--keep-every",
        20,
    )
    return folder, text


def test_the_template_runs_as_it_is(model_run):
    folder, text = model_run
    assert "step size" in text
    assert "round trips" in text
    assert (folder / "run" / "report.html").stat().st_size < 8e6
    run = tacthmc.load(folder / "run")
    assert run.num_chains == 2
    assert run.num_draws > 50
    # Two modes, mirror images: both orders of the means are seen, by each chain.
    below = np.asarray(run.draws)[..., 0] < np.asarray(run.draws)[..., 1]
    assert np.all((below.mean(axis=1) > 0.1) & (below.mean(axis=1) < 0.9))


def test_a_run_of_a_model_file_goes_on_without_the_file(model_run, tmp_path):
    folder, _ = model_run
    (folder / "model.py").rename(tmp_path / "gone.py")
    try:
        text = call("resume", folder / "run", "--steps", 44_000, "--no-report")
    finally:
        (tmp_path / "gone.py").rename(folder / "model.py")
    assert "44000 steps" in text
    assert "44000 steps" in call("summary", folder / "run")


MODEL = """
import jax.numpy as jnp
import tacthmc


def model():
    return tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), jnp.ones(2)


def diverging():
    return *model(), tacthmc.sgld(50.0)
"""


@pytest.mark.filterwarnings("ignore::tacthmc.run.DivergedWarning")
def test_exit_codes_say_how_a_run_went(tmp_path):
    file = tmp_path / "m.py"
    file.write_text(MODEL)
    options = ("--sampler", "sgnht", "--no-report")
    call("sample", file, *options, "--steps", 20_000, "--out", tmp_path / "good", "--strict")
    call("summary", tmp_path / "good", "--strict")
    short = ("sample", file, *options, "--steps", 400)
    call(*short, "--out", tmp_path / "warned")
    text = call(*short, "--out", tmp_path / "strict", "--strict", code=4)
    assert "(exit code 4)" in text
    call("summary", tmp_path / "warned", "--strict", code=4)
    call("summary", tmp_path / "warned")
    wrong = (f"{file}:diverging", "--steps", 400, "--no-report", "--out", tmp_path / "failed")
    assert "stopped being finite" in call("sample", *wrong, code=3)
    call("summary", tmp_path / "failed", code=3)


def test_the_version_is_printed():
    assert call("--version") == f"tacthmc {importlib.metadata.version('tacthmc')}\n"


def test_in_a_process_of_its_own(tmp_path):
    code = "from tacthmc.cli import main; main()"
    command = [sys.executable, "-c", code, "summary", str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "holds no run" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_report_of_a_run_and_of_a_parameter_it_does_not_have(model_run, tmp_path):
    folder, _ = model_run
    out = tmp_path / "some.html"
    text = call("report", folder / "run", "--out", out, "--parameter", "theta[1]")
    assert str(out) in text.replace("\n", "")
    assert "theta[1]" in out.read_text()
    text = call("report", folder / "run", "--parameter", "thta[1]", code=1)
    assert "thta[1]" in text
    assert "'theta[1]'" in text


def test_a_folder_that_holds_a_run_is_not_overwritten(model_run):
    folder, _ = model_run
    file, out = folder / "model.py", folder / "run"
    text = call("sample", file, "--step-size", 0.01, "--out", out, code=1)
    assert "already holds a run" in text
    assert "Traceback" not in text


def test_new_does_not_overwrite(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("precious")
    assert "--force" in call("new", file, code=1)
    assert file.read_text() == "precious"
    call("new", file, "--force")
    assert file.read_text() == TEMPLATE.format(name="mine.py", stem="mine")


BAD = """
import jax.numpy as jnp
import tacthmc


def energy(x):
    return jnp.sum(x @ jnp.ones(7))


def model():
    return tacthmc.potential(energy), jnp.zeros(3)


def breaks():
    return {}["missing"]


def wrong_argument():
    return tacthmc.potential(energy), jnp.zeros(3), tacthmc.tact(-1.0)


def one_value():
    return 7


def own_sampler():
    return tacthmc.potential(lambda x: jnp.sum(x**2)), jnp.zeros(2), tacthmc.sgnht(0.1)
"""


@pytest.fixture
def bad(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text(BAD)
    return file


@pytest.mark.parametrize(
    ("name", "line", "error"),
    [
        ("model", "jnp.sum(x @ jnp.ones(7))", "TypeError"),
        ("breaks", '{}["missing"]', "KeyError"),
        ("wrong_argument", "tacthmc.tact(-1.0)", "step_size must be"),
    ],
)
def test_an_error_in_a_users_file_shows_their_traceback_not_ours(bad, tmp_path, name, line, error):
    text = call("sample", f"{bad}:{name}", "--out", tmp_path / "run", code=1)
    assert line in text
    assert error in text
    files = set(re.findall(r'File "([^"]+)"', text))
    assert files == {str(bad)}


def test_a_syntax_error_is_shown_where_it_is(tmp_path):
    file = tmp_path / "odd.py"
    file.write_text("def model(:\n")
    text = call("sample", file, code=1)
    assert "line 1" in text
    assert "SyntaxError" in text


def test_what_a_users_function_returns_is_checked(bad):
    assert "returned int 7" in call("sample", f"{bad}:one_value", code=1)
    text = call("sample", f"{bad}:modl", code=1)
    assert "did you mean" in text
    assert "model" in text
    text = call("sample", bad.with_name("baad.py"), code=1)
    assert "bad.py" in text
    assert "tacthmc new" in text


def test_code_beside_the_file_travels_with_the_run(tmp_path):
    (tmp_path / "beside.py").write_text(
        "import jax.numpy as jnp\n\ndef energy(x):\n    return 0.5 * jnp.sum(x**2)\n"
    )
    file = tmp_path / "json.py"  # called like a module that others use
    file.write_text(
        "import jax.numpy as jnp\nimport tacthmc\n\ndef model():\n"
        "    from beside import energy\n"
        "    return tacthmc.potential(energy), jnp.zeros((2, 3))\n"
    )
    settings = ("--sampler", "sgnht", "--step-size", 0.1, "--steps", 1_000, "--chains", 2)
    call("sample", file, *settings, "--out", tmp_path / "run", "--no-report")
    sys.path.remove(str(tmp_path))
    del sys.modules["beside"]
    (tmp_path / "beside.py").unlink()
    call("resume", tmp_path / "run", "--steps", 2_000, "--no-report")
    assert sys.modules["json"].dumps


def test_a_run_until_it_is_good_enough(tmp_path):
    file, folder = tmp_path / "bowl.py", tmp_path / "run"
    file.write_text(
        "import jax.numpy as jnp\nimport tacthmc\n\ndef model():\n"
        "    return tacthmc.potential(lambda x: jnp.sum(x**2)), jnp.zeros(2), tacthmc.sgld(0.05)\n"
    )
    text = call("sample", file, "--until", 100, "--steps", 10**7, "--out", folder, "--no-report")
    assert "ended by `until` after" in text
    assert "interrupted" not in text
    first = tacthmc.load(folder).num_steps
    assert "(300 wanted)" in call("resume", folder, "--until", 300, "--no-report")
    assert first < tacthmc.load(folder).num_steps < 10**6
    assert "draws must be" in call("sample", file, "--until", 1, "--out", folder, code=1)


def test_options_of_reproduce_that_would_do_nothing_are_refused(tmp_path):
    assert "--seed" in call("reproduce", "fig3", "--seed", 5, "--out", tmp_path, code=1)
    arguments = ("--redraw", tmp_path / "results.json", "--full")
    assert "--redraw" in call("reproduce", "fig3", *arguments, code=1)
    call("demo", "--seed", 10**30, code=2)


def test_flags_that_would_do_nothing_are_refused(bad, tmp_path):
    text = call("sample", f"{bad}:own_sampler", "--noise", "0.2", "--out", tmp_path / "r", code=1)
    assert "--noise" in text

    text = call("sample", f"{bad}:own_sampler", "--tune", "--out", tmp_path / "r", code=1)
    assert "--tune" in text


WELLS = """
import jax.numpy as jnp
import tacthmc


def model():
    return tacthmc.potential(lambda x: 4.0 * jnp.sum((x**2 - 1.0) ** 2)), jnp.ones(2)


def untuned():
    return *model(), tacthmc.tact()
"""


def test_tuning_is_asked_for_by_a_flag_or_by_the_file(tmp_path):
    file = tmp_path / "wells.py"
    file.write_text(WELLS)
    model, key = load_model(file, None), jax.random.key(0)
    asked = chosen_sampler(key, model, None, {"noise": 0.2}, 2, True, print)
    assert repr(asked) == "Untuned(noise=0.2)"
    assert isinstance(load_model(file, "untuned").sampler, Untuned)
    assert "for tact" in call("sample", file, "--sampler", "sgnht", "--tune", code=1)


@pytest.mark.slow
def test_no_number_set_by_hand(tmp_path):
    file, folder = tmp_path / "wells.py", tmp_path / "run"
    file.write_text(WELLS)
    rest = ("--tune", "--steps", 4_000, "--chains", 2, "--no-report", "--out", folder)
    text = call("sample", file, "--keep-every", 20, *rest)
    run = tacthmc.load(folder)
    chosen = {choice["name"]: choice["value"] for choice in run.tuning.record()}
    assert chosen["step_size"] == pytest.approx(float(run.sampler.step_size), rel=1e-5)
    assert run.keep.every == 20
    assert "round trips" in text


def test_reproduce_writes_pictures_and_numbers_and_draws_them_again(tmp_path):
    text = call("reproduce", "fig3", "--out", tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"fig3.pdf", "fig3.png", "results.json"}
    assert "20%" in text
    first = (tmp_path / "fig3.pdf").read_bytes()
    call("reproduce", "fig3", "--redraw", tmp_path / "results.json", "--out", tmp_path / "again")
    assert (tmp_path / "again" / "fig3.pdf").read_bytes() == first
    call("reproduce", "fig2", "--redraw", tmp_path / "results.json", code=1)


def test_the_demo_says_which_file_to_open(tmp_path):
    text = call("demo", "--out", tmp_path / "demo", "--steps", 20_000)
    report = tmp_path / "demo" / "report.html"
    assert report.exists()
    assert str(report) in text.replace("\n", "")
    for name in ("TACT-HMC", "SGNHT", "SGHMC"):
        assert name in text
