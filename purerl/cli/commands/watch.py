"""`purerl watch`: show episodes of a policy in a window, or write them to a GIF or MP4 file."""

import dataclasses
from pathlib import Path

from purerl.cli import checkpoint_arguments as arguments
from purerl.runs.console import format_size, print_lines, print_warning


def main(words: list[str]) -> int:
    """Show episodes of a policy and print their returns."""
    text = "Show episodes of a policy in a window, or write them to a GIF or MP4 file."
    parser = arguments.make_parser("watch", text, f"{arguments.RUN} -n 3 --save film.mp4")
    arguments.add_episode_flags(parser, 1, "--max-steps", "--max_steps", "--len", "-l")
    # fmt: off
    parser.add_argument("--save", type=Path, metavar="FILE",
        help="new .gif or .mp4 file (default: a window, or a GIF if there is no display)")
    parser.add_argument("--fps", type=float, metavar="N",
        help="steps per second of the video (default: the environment's)")
    parser.add_argument("--width", type=int, metavar="PIXELS",
        help="maximum width of the video (default: 320 for a GIF, no limit for an MP4)")
    parser.add_argument("--norender", "-nr", action="store_true", help="play without drawing")
    # fmt: on
    args = parser.parse_args(words)
    run, how = arguments.load_run(args, args.run), arguments.choose_episodes(args)
    from purerl.runs.policy import video  # start-up time

    path = None
    if args.norender:
        found = run.evaluate(**how)
    elif args.save is None and video.has_display():
        make, _ = video.prepare_drawing(run, "human")
        found = dataclasses.replace(run, env_fn=make).evaluate(**how)
    else:
        if args.save is None and (name := video.get_display()):
            print_warning(f"display {name} does not respond: writing a GIF instead of a window")
        how["max_steps"] = how.pop("max_ep_len")
        path, found = video.record_video(run, args.save, args.fps, args.width, **how)
    for i, (value, length) in enumerate(zip(found.returns, found.lengths, strict=True), 1):
        print_lines(f"episode {i}: return {value:.1f}, length {length}")
    line = f"return {found.mean:.1f}, std {found.std:.1f}, length {found.mean_length:.0f}"
    print_lines(line + found.describe_success())
    if path:
        print_lines(f"written: {path} ({format_size(path.stat().st_size)})")
    return 0
