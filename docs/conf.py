"""Settings of the site: `make docs` builds it with Sphinx."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent)]

import purerl

project = "purerl"
author = "the purerl authors"
release = version = purerl.__version__
extensions = [
    "myst_parser",
    "sphinx_copybutton",
    "sphinx.ext.mathjax",
    "notebook_pages",
    "source_links",
    "api_pages",
    "fact_pages",
    "exercise_pages",
    "lab_pages",
    "layout",
    "snippet_pages",
]
exclude_patterns = ["extensions", "_static"]
include_patterns = ["**.md", "**.rst", "notebooks/*.py"]  # a Python file is a notebook
smartquotes = False  # `--flag` in text stays as it is
nitpicky = False  # annotations of docstrings name types of JAX, which has no offline index
add_module_names = False
toc_object_entries_show_parents = "hide"
html_copy_source = False
pygments_style = "friendly"

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# MathJax is a file of the site, because a site on disk cannot load fonts or scripts from a server.
# It draws equations as SVG, which needs no fonts and looks the same in every browser.
mathjax_path = "mathjax/tex-svg-full.js"
mathjax3_config = {
    "options": {"enableMenu": False, "enableAssistiveMml": True},
    "svg": {"fontCache": "global"},
}

html_theme = "furo"
html_title = "purerl"
html_static_path = ["_static"]
html_css_files = ["purerl.css"]
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# The pages below each page, in order. Patterns add the pages that are not listed.
purerl_tree = {
    "index": [
        "start/index",
        "learn/index",
        "algorithms/index",
        "guides/index",
        "notebooks/index",
        "reference/index",
        "measurements/index",
    ],
    "start/index": [
        "start/install",
        "start/first_run",
        "start/output",
        "start/plotting",
        "start/watching",
        "start/comparing",
        "start/where_to_go",
        "start/*",
    ],
    "learn/index": [
        "learn/rl*",
        "learn/from_equation_to_line",
        "learn/silent_failures",
        "learn/debugging_a_run",
        "learn/few_runs",
        "learn/exercises",
        "learn/bug_labs",
    ],
    "learn/exercises": ["learn/generated/exercise_*"],
    "learn/bug_labs": ["labs/*"],
    "algorithms/index": [
        *[f"algorithms/{name}" for name in ("reinforce", "vpg", "trpo", "ppo", "acer")],
        *[f"algorithms/{name}" for name in ("dqn", "pqn", "ddpg", "td3", "sac")],
        *[f"algorithms/{name}" for name in ("sac_discrete", "crossq", "xqc", "tqc", "redq", "her")],
        "algorithms/*",
    ],
    "guides/index": [
        "guides/custom_loop",
        "guides/custom_network",
        "guides/custom_loss",
        "guides/custom_optimizer",
        "guides/custom_exploration",
        "guides/custom_environment",
        "guides/testing_a_loss",
        "guides/runs",
        "guides/grids",
        "guides/plots",
        "guides/policies",
        "guides/many_seeds",
        "guides/seeds",
        "guides/jax",
        "guides/goals",
        "guides/returns",
        "guides/mpi",
        "guides/examples",
        "guides/from_*",
        "guides/*",
    ],
    "notebooks/index": [
        "notebooks/first_steps",
        "notebooks/custom_loop",
        "notebooks/broken_agent",
        "notebooks/*",
    ],
    "reference/index": [
        "reference/api/index",
        "reference/generated/command_line",
        "reference/settings",
        "reference/run_folder",
        "reference/generated/exit_codes",
        "reference/generated/error_messages",
        "reference/glossary",
        "reference/design",
        "reference/where",
    ],
    "reference/settings": ["reference/generated/settings_*"],
    "measurements/index": [
        "measurements/results",
        "measurements/performance",
        "measurements/performance_details",
        "measurements/reliability",
    ],
}
# A part without pages is not shown.
purerl_tree["index"] = [page for page in purerl_tree["index"] if (HERE / f"{page}.md").exists()]
