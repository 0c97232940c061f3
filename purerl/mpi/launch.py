"""Start this program again under mpiexec, and exit with the exit code of that job."""

import ctypes
import importlib.util
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from purerl import checks, errors
from purerl.mpi import library, world
from purerl.mpi.signals import AGAIN, SAME_SIGNAL_SECONDS, write_note

# Variables that limit the threads of numerical libraries in a process.
THREADS = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Prefixes of the variables that launchers set for their processes. Other variables of launchers,
# such as OMPI_MCA_btl, are settings of the user and stay.
_LAUNCHER_VARIABLES = (
    *("PURERL_MPI_JOB", "PMI_", "HYDI_", "MPI_LOCAL"),
    *("OMPI_COMM_WORLD_", "OMPI_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_ARGV", "OMPI_COMMAND"),
    *("OMPI_FILE_LOCATION", "OMPI_FIRST_RANKS", "OMPI_APP_CTX", "OMPI_NUM_APP_CTX"),
    *("OMPI_MCA_initial_wdir", "OMPI_MCA_num_procs", "OMPI_MCA_ess_", "OMPI_MCA_orte_ess_"),
    *("OMPI_MCA_orte_hnp_uri", "OMPI_MCA_orte_local_daemon_uri", "OMPI_MCA_orte_jobfam_"),
    *("PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_", "PMIX_SECURITY_MODE", "PMIX_BFROP_"),
    *("PMIX_GDS_", "PMIX_PTL_", "PMIX_DSTORE_", "PMIX_HOSTNAME", "PMIX_VERSION"),
    *("PMIX_SYSTEM_TMPDIR", "PMIX_PARAM_FILE_PASSED", "PRTE_LAUNCHED", "PRTE_SHARED_FS"),
)
_PATIENCE = 2.0  # seconds until the launcher is killed after the second signal


def fork(ranks: int | None = None) -> None:
    """Run this program on several ranks: start it again under mpiexec, and exit with its code.

    Call it before the first JAX computation. In a process that mpiexec started, and for one rank,
    it only checks its argument and returns. Each rank gets its share of the cores.

    Args:
        ranks: Number of ranks. None means one, or as many as mpiexec launched.

    Raises:
        MPIUnavailable: if mpi4py or mpiexec is missing. The message names what to install.
        ValueError: if mpiexec launched another number of ranks.
    """
    if ranks is not None:
        checks.integer("ranks", ranks, 1)
    if library.find_launch() is not None or world.get_world().size > 1:
        if ranks not in (None, size := world.get_world().size):
            raise ValueError(
                f"the program asks for {ranks} ranks, but mpiexec launched {size}. Use one of the "
                f"two numbers in both places."
            )
        return
    if ranks is None or ranks == 1:
        return
    if "PURERL_MPI_JOB" in os.environ:
        raise errors.MPIUnavailable(
            f"{find_launcher()} set none of the environment variables by which purerl recognises "
            f"a rank. If it is an MPI launcher, set PURERL_MPI=1 and start the program with it "
            f"yourself."
        )
    sys.exit(_run_ranks(ranks))


def _run_ranks(ranks: int) -> int:
    """Run this program on `ranks` ranks; return the exit code of the job."""
    if importlib.util.find_spec("mpi4py") is None:
        raise errors.MPIUnavailable(
            f"{ranks} ranks need mpi4py, which is not installed. Type: {library.INSTALL}"
        )
    launcher = find_launcher()
    if launcher is None:
        raise errors.MPIUnavailable(
            f"{ranks} ranks need an MPI library, but there is no mpiexec next to {sys.executable} "
            f"or on the PATH. Type: {library.INSTALL}"
        )
    cores = len(world.list_cpus())
    if ranks > cores:
        warnings.warn(
            f"{ranks} ranks share {cores} cores. The program runs, but ranks that wait take time "
            f"from ranks that work. Start at most {cores} ranks.",
            stacklevel=3,
        )
    command, env = _make_command(launcher, ranks, cores)
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="purerl-mpi-") as name:
        folder = Path(name)
        process = subprocess.Popen(
            command,
            env=env | {"PURERL_MPI_JOB": name},
            stdin=subprocess.DEVNULL,  # a background process group may not read from a terminal
            process_group=0,  # a terminal's Ctrl-C reaches only this process, which passes it on
            preexec_fn=_prepare_launcher,
        )
        signals = _SignalRelay(process, folder)
        ended = _wait_for_launcher(process, folder, signals)
        if signals.number and _list_unfinished_ranks(folder):
            return 128 + signals.number
        return _decide_code(process.returncode, ranks, ended, folder)


def _make_command(launcher: str, ranks: int, cores: int) -> tuple[list[str], dict[str, str]]:
    """Return the command that starts this program on `ranks` ranks, and its environment."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(_LAUNCHER_VARIABLES)}
    env.pop("PURERL_MPI", None)  # meant for this process, not for its ranks
    for name in THREADS:
        env.setdefault(name, str(max(1, cores // ranks)))
    command = [launcher, "-n", str(ranks)]
    # Open MPI pins ranks, refuses to run as root, and counts cores without hardware threads.
    if is_open_mpi(launcher):
        command += ["--bind-to", "none", "--oversubscribe"]
        if ranks > cores:
            env["OMPI_MCA_mpi_yield_when_idle"] = "1"
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return [*command, sys.executable, *sys.orig_argv[1:]], env


class _SignalRelay:
    """Handler that passes the first signal on to the ranks, and ends the job at the second.

    It writes the signals into files, which the watchers of the ranks read, because some launchers
    kill their ranks instead of forwarding a signal.
    """

    def __init__(self, process: Any, folder: Path) -> None:
        self.process, self.folder = process, folder
        self.number, self.since, self.until = 0, 0.0, float("inf")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # A signal that this process ignores, as under nohup, is not passed on.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self.handle)

    def handle(self, number: int, _: Any) -> None:
        """Pass on a first signal, or end the job at a second one."""
        now = time.monotonic()
        passed = signal.SIGINT if number == signal.SIGINT else signal.SIGTERM
        if not self.number:
            self.number, self.since = number, now
            write_note(str(self.folder), passed)
            if not any(self.folder.glob("pid-*")):  # no rank has started, so none can read it
                self.process.send_signal(passed)
        elif number != signal.SIGHUP and now - self.since > SAME_SIGNAL_SECONDS:
            # SIGHUP does not count as the second signal: a closing session sends it several times.
            write_note(str(self.folder), passed, AGAIN)
            self.until = min(self.until, now + _PATIENCE)

    def kill_if_overdue(self) -> None:
        """Kill the launcher if the ranks have not ended in time after the second signal."""
        if time.monotonic() > self.until:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.until = float("inf")


def find_launcher() -> str | None:
    """Return the mpiexec next to this Python, else the one on the PATH, else None."""
    for folder in (str(Path(sys.executable).parent), None):
        for name in ("mpiexec", "mpirun"):
            if found := shutil.which(name, path=folder):
                return found
    return None


def is_open_mpi(launcher: str) -> bool:
    """Return whether a launcher belongs to Open MPI, whose options differ."""
    done = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False)
    return "Open MPI" in done.stdout or "OpenRTE" in done.stdout


def _prepare_launcher() -> None:
    """Prepare the launcher's process: ignore SIGHUP, and end when the parent is killed."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    die_with_parent()


def die_with_parent() -> None:
    """Ask Linux to send SIGTERM to this process if its parent is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _wait_for_launcher(process: Any, folder: Path, signals: _SignalRelay) -> list[set[int]]:
    """Wait for the launcher; return the ranks in the order in which their processes ended.

    Ranks that had ended at the same check are in one set, because their order is unknown. A rank
    that had ended when it was first seen may also have ended before the check before.
    """
    watched: dict[int, int] = {}  # descriptor of a process -> its rank
    seen: set[int] = set()
    ended: list[set[int]] = []
    running = True
    while running:
        running = process.poll() is None
        if running:
            signals.kill_if_overdue()
        new, gone = set[int](), set[int]()  # ranks that are first seen, and that ended before
        for path in folder.glob("pid-*") if hasattr(os, "pidfd_open") else ():
            rank, text = int(path.name.removeprefix("pid-")), path.read_text()
            if rank not in seen and text:
                seen.add(rank)
                new.add(rank)
                try:
                    watched[os.pidfd_open(int(text))] = rank
                except ProcessLookupError:
                    gone.add(rank)
        ready = select.select(list(watched), [], [], 0.05 if running else 0.0)[0]
        now = gone | {watched.pop(descriptor) for descriptor in ready}
        if ended:
            ended[-1] |= now & new
        ended.append(now)
        for descriptor in ready:
            os.close(descriptor)
    for descriptor in watched:
        os.close(descriptor)
    return ended


def _list_unfinished_ranks(folder: Path) -> set[int]:
    """List the ranks of this host that started and did not finish, according to their notes."""
    began, done = (
        {int(path.name.removeprefix(f"{what}-")) for path in folder.glob(f"{what}-*")}
        for what in ("pid", "done")
    )
    return began - done


def _decide_code(code: int, ranks: int, ended: list[set[int]], folder: Path) -> int:
    """Return the exit code of the job; print which rank ended it without an error message."""
    if list(folder.glob("failed-*")):
        return code or 1
    unfinished = _list_unfinished_ranks(folder)
    if not unfinished:
        return code if code >= 0 else 128 - code
    first = next((some & unfinished for some in ended if some & unfinished), unfinished)
    number = code - 128 if code > 128 else abs(code)
    known = {x.value: f", as after {x.name}" for x in signal.Signals if x.value > 3}
    who = " or ".join(map(str, sorted(first)))
    sys.stderr.write(
        f"rank {who} of {ranks} ended without finishing and without an error message. The exit "
        f"code of the launcher is {code}{known.get(number, '')}.\n"
    )
    return (code if code > 0 else 128 - code) if code else 1
